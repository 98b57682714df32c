/* Which requests a planner of the registry is tested with. */
#ifndef PENSTOCK_TESTS_PLANNER_CASES_H
#define PENSTOCK_TESTS_PLANNER_CASES_H

#include "base/error.h"
#include "planner/planner.h"
#include "t.h"

/* The sections of an empty deck that planners read. A request that wants something else points to a copy; neither owns
 * anything. */
const struct params *get_test_params(void);

/* Stages a rank; 0: the planner takes its plan from a file. */
int32_t get_test_chunks(const char *planner);

#endif
