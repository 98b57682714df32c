/* Prices the nodes of a plan's graph by the costs and simulates them. Serial. */
#ifndef PENSTOCK_SIM_SIM_PLAN_H
#define PENSTOCK_SIM_SIM_PLAN_H

#include "sim/sim.h"

struct cost;
struct model;
struct plan;

struct sim_plan {
  struct sim_times times; /* its seconds are owned */
  struct sim *sim;
  const struct sim_result *result; /* of `sim` */
};

/* Prices the graph of a plan, divides all times by time_scale and simulates n_iterations steps back to back. The graph
 * is borrowed until sim_plan_close. */
void sim_plan_open(const struct dag *dag, const struct plan *plan, const struct model *model, const struct cost *cost,
                   double time_scale, int32_t n_iterations, struct sim_plan *sim_plan);
/* Harmless on one that is all zeros. */
void sim_plan_close(struct sim_plan *sim_plan);

#endif
