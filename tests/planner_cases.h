/* Which requests a planner of the registry is tested with. */
#ifndef PENSTOCK_TESTS_PLANNER_CASES_H
#define PENSTOCK_TESTS_PLANNER_CASES_H

#include "base/error.h"
#include "planner/planner.h"
#include "t.h"

/* The sections of an empty deck that planners read. A request that wants something else points to a copy; neither owns
 * anything. */
static inline const struct params *get_test_params(void) {
  static struct params defaults;
  struct params parsed;
  T_CHECK(!params_parse(NULL, NULL, 0, &parsed), "%s", error_text());
  defaults.pipeline = parsed.pipeline;
  defaults.obscura = parsed.obscura;
  params_fini(&parsed);
  return &defaults;
}

/* Stages a rank; 0: the planner takes its plan from a file. */
static inline int32_t get_test_chunks(const char *planner) {
  const struct planner *found = planner_find(planner);
  if (found->takes_file) return 0;
  return found->n_chunks ? found->n_chunks : 1;
}

#endif
