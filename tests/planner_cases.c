#include "planner_cases.h"

const struct params *get_test_params(void) {
  static struct params defaults;
  struct params parsed;
  T_CHECK(!params_parse(NULL, NULL, 0, &parsed), "%s", error_text());
  defaults.pipeline = parsed.pipeline;
  defaults.obscura = parsed.obscura;
  params_fini(&parsed);
  return &defaults;
}

int32_t get_test_chunks(const char *planner) {
  const struct planner *found = planner_find(planner);
  if (found->takes_file) return 0;
  return found->n_chunks ? found->n_chunks : 1;
}
