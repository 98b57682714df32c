/* Keys that are given and have no effect, as another key is not what they act with (ACTS of params.def). */
#ifndef PENSTOCK_INPUT_PARAMS_IDLE_H
#define PENSTOCK_INPUT_PARAMS_IDLE_H

#include "input/params.h"

/* When a key acts, in words ("with device.backend timed"); NULL: always. Static. */
const char *params_get_condition(enum param_id id);

/* A line for each key that deck or -D gave, with another value than its default, and that cannot act: place, key, and
 * what it acts with. Owned by the caller, "" when there is none. */
char *params_list_idle(const struct params *params);

#endif
