/* Which requests a planner of the registry is tested with. */
#ifndef PENSTOCK_TESTS_PLANNER_CASES_H
#define PENSTOCK_TESTS_PLANNER_CASES_H

#include <string.h>

#include "planner/planner.h"

/* Stages a rank; 0: the planner takes its plan from a file. */
static inline int32_t get_test_chunks(const char *planner) {
  if (!strcmp(planner, "file")) return 0;
  return !strcmp(planner, "interleaved") || !strcmp(planner, "zb-v") ? 2 : 1;
}

#endif
