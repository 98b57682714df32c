/* Does a plan fit its memory limits, and if not, what would? */
#ifndef PENSTOCK_PLANNER_FIT_H
#define PENSTOCK_PLANNER_FIT_H

#include "dag/dag.h"
#include "planner/planner.h"

/* STATUS_OK, or STATUS_MISTAKE with rank, node, bytes over, and the smallest changes that would fit: the limits that
 * suffice, and the largest micro-batch. `planner` and `request` are what made the plan, to try others like it. */
int fit_check(const char *planner, const struct plan_request *request, const struct plan *plan, const struct dag *dag);

#endif
