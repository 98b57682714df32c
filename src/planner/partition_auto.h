/* Partition by cost. Serial. */
#ifndef PENSTOCK_PLANNER_PARTITION_AUTO_H
#define PENSTOCK_PLANNER_PARTITION_AUTO_H

#include "planner/stage_need.h"

/* Cuts anywhere between layers (so between mixer and feed-forward too), each stage at least one, so that the stage that
 * takes longest takes least, by the request's costs; of such cuts the evenest one. Where that is possible, each stage
 * also fits into its rank's limit without recomputation, else with all the recomputation that the request allows.
 * STATUS_MISTAKE when there are fewer layers than stages. */
int partition_make_auto(const struct plan_request *request, struct plan_stage *stages);

/* Cuts in the same way so that each stage fits into its rank's limit by the bytes that a function says it takes at
 * least. need: of the stage with the layers tried. False when no cut fits; stages are then not touched. */
typedef int64_t partition_least(const void *context, int32_t stage, const struct stage_need *need);
bool partition_make_within(const struct plan_request *request, partition_least *least, const void *context,
                           struct plan_stage *stages);

/* Cuts in the same way so that the limit is least that all ranks whose own is less must have for their stages to fit.
 * Returns it, 0 when all fit into their own; INT64_MAX, and stages are not touched, when there are fewer layers than
 * stages. */
int64_t partition_make_nearest(const struct plan_request *request, partition_least *least, const void *context,
                               struct plan_stage *stages);
/* That limit of the request's own cut, where that is not auto, by 1F1B's need with all recomputed that may be.
 * INT64_MAX: not known. */
int64_t partition_find_limit(const struct plan_request *request);

#endif
