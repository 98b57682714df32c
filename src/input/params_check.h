/* Checks of several keys together: keys that contradict each other. */
#ifndef PENSTOCK_INPUT_PARAMS_CHECK_H
#define PENSTOCK_INPUT_PARAMS_CHECK_H

#include "input/mistakes.h"
#include "input/params.h"

/* Adds every contradiction to `mistakes`. `broken[id]`: a mistake in that key has been told already, so nothing is said
 * of it here. */
void params_check(const struct params *params, const bool broken[PARAM_COUNT], struct mistakes *mistakes);

#endif
