/* When the actions of a plan's orders run, each as soon as it can: what planners need to know of time before there is a
 * graph. Messages take their time but do not wait for one another, blocks do not move. No action takes less than a
 * millionth of the mean, so that times rise strictly along every chain. Serial. */
#ifndef PENSTOCK_PLANNER_ORDER_TIME_H
#define PENSTOCK_PLANNER_ORDER_TIME_H

#include "planner/planner.h"

struct order_time {
  double *start, *end; /* [actions] in the places of plan->order; seconds */
  double makespan;
};

/* The plan's own micro-batches, and the costs of the request (NULL: forward, recomputation, input and weight pass take
 * 1 each, messages nothing). STATUS_FAILED when the orders wait for one another. Freed by order_time_fini, harmless
 * after a failure. */
int order_time_make(const struct plan_request *request, const struct plan *plan, struct order_time *times);
void order_time_fini(struct order_time *times);

/* How many actions of a rank have ended by a time: the place of the one that runs then, or comes next. */
int32_t order_time_count_ended(const struct plan *plan, const struct order_time *times, int32_t rank, double at);

#endif
