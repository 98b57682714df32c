/* Partition by cost. Serial. */
#ifndef PENSTOCK_PLANNER_PARTITION_AUTO_H
#define PENSTOCK_PLANNER_PARTITION_AUTO_H

#include "planner/planner.h"

/* Cuts anywhere between layers (so between mixer and feed-forward too), each stage at least one, so that the stage that
 * takes longest takes least, by the request's costs; of such cuts the evenest one. Where that is possible, each stage
 * also fits into its rank's limit without recomputation. STATUS_MISTAKE when there are fewer layers than stages. */
int partition_make_auto(const struct plan_request *request, struct plan_stage *stages);

#endif
