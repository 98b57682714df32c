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

#endif
