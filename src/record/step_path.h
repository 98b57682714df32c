/* The critical path of a step, simulated or measured: why it is as long as it is. Serial. */
#ifndef PENSTOCK_RECORD_STEP_PATH_H
#define PENSTOCK_RECORD_STEP_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "record/step_view.h"

/* Consecutive nodes of the path on one stream of one rank. */
struct step_path_run {
  int32_t first, last; /* nodes of the view */
  int64_t n_nodes;
  double from, until; /* seconds of the step that they hold up; a norm, or a receive, begins before what ends it */
};

struct step_path {
  int64_t n_nodes; /* of the whole path */
  int64_t n_runs;
  struct step_path_run *runs;      /* in the order of time; each begins when the one before ends, where that is known */
  double seconds[NODE_KIND_COUNT]; /* of each kind; of a simulated step they sum to its end */
};

/* From the node that ends last back to the one whose end let it start (view->after), and so on. on_path[i] (may be
 * NULL, [n_nodes]): node i is on it. */
struct step_path step_path_find(const struct step_view *view, bool *on_path);
void step_path_fini(struct step_path *path);

#endif
