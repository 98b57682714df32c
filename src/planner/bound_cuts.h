/* The lower bound over all cuts of the layers into one stage a rank: for bound.h. Serial. */
#ifndef PENSTOCK_PLANNER_BOUND_CUTS_H
#define PENSTOCK_PLANNER_BOUND_CUTS_H

#include "planner/bound_sums.h"

/* Returns the seconds that no cut takes less than; `limited`: within limits, without activations that leave. Stage s
 * stands where that of the plan does. */
double bound_cuts_find(const struct bound_sums *sums, bool limited, double low);

#endif
