/* The critical path of a simulated step: why it is as long as it is. Serial. */
#ifndef PENSTOCK_SIM_SIM_PATH_H
#define PENSTOCK_SIM_SIM_PATH_H

#include "sim/sim.h"

/* Consecutive nodes of the path on one stream of one rank. */
struct sim_path_run {
  int32_t first, last; /* nodes */
  int64_t n_nodes;
  double from, until; /* seconds of the step that they hold up; a norm, or a receive, begins before what ends it */
};

struct sim_path {
  int64_t n_nodes; /* of the whole path */
  int64_t n_runs;
  struct sim_path_run *runs; /* from the step's start to its end, without gaps: each begins when the one before ends */
  double seconds[NODE_KIND_COUNT]; /* of each kind; they sum to the end of the first iteration */
};

/* From the node of the first iteration that ends last back to the one whose end let it start, and so on. */
struct sim_path sim_path_find(const struct dag *dag, const struct sim_result *result);
void sim_path_fini(struct sim_path *path);

#endif
