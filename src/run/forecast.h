/* Sums of a step by kind of node and by op, predicted and measured in the same places. Serial. */
#ifndef PENSTOCK_RUN_FORECAST_H
#define PENSTOCK_RUN_FORECAST_H

#include "cost/cost.h"
#include "dag/dag.h"
#include "exec/op_times.h"
#include "record/comparison.h"
#include "record/trace.h"

/* Seconds of one step; kinds of receives, which last as long as their senders let them, are 0. */
struct forecast {
  double step;
  double copy_cpu; /* that copies of blocks and their files keep cores busy; measured alone */
  double kinds[NODE_KIND_COUNT];
  double ops[OP_TIMES];
};
/* How many of each a step has on all ranks. */
struct forecast_counts {
  int64_t kinds[NODE_KIND_COUNT];
  int64_t ops[OP_TIMES];
};

/* Simulates the graph of a plan: sums over all ranks, all times divided by time_scale. Ops are NaN where the cost knows
 * whole layers only. */
void forecast_make(const struct plan *plan, const struct dag *dag, const struct model *model, const struct cost *cost,
                   double time_scale, struct forecast *forecast, struct forecast_counts *counts);

/* Adds the measurements of one rank: spans as exec_step has them, ops[OP_TIMES] its sums. */
void forecast_measure(const struct dag *dag, int32_t rank, const struct trace_span *spans, const double *ops,
                      double seconds, struct forecast *measured);

/* Idle compute of all ranks / (ranks x step). */
double forecast_get_bubble(const struct forecast *forecast, int32_t n_ranks);

#endif
