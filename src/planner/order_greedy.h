/* Orders for any placement of stages, made by running the pipeline in unit times: F, I and W of a stage take one unit
 * each, messages none. Serial.
 */
#ifndef PENSTOCK_PLANNER_ORDER_GREEDY_H
#define PENSTOCK_PLANNER_ORDER_GREEDY_H

#include "plan/plan.h"

struct order_greedy {
  int32_t n_stages, n_ranks, n_micro;
  const int32_t *rank_of; /* [n_stages] */
  int32_t limit;          /* stages' micro-batches that a rank keeps at a time: forward begun, weight pass not ended */
  bool oldest_first;      /* of input passes the oldest micro-batch's comes first, else the latest stage's */
  /* Passes that a rank begins with, whatever the limit: those of rank r from lead_offset[r] on. NULL: none. */
  const struct plan_action *lead;
  const int64_t *lead_offset; /* [n_ranks+1] */
};

/* Each free rank takes its next leading pass; after those an input pass that is ready, else a forward if the limit
 * leaves room (one place is kept for the rank's last stage, so that its oldest micro-batch can always come to its end),
 * else a weight pass. order[3 x n_stages x n_micro] and order_offset[n_ranks+1] are filled in, *makespan in units.
 * STATUS_FAILED when no rank can go on: a limit too small for the placement, leading passes that wait for one another.
 */
int order_make_greedy(const struct order_greedy *rule, struct plan_action *order, int64_t *order_offset,
                      int64_t *makespan);

#endif
