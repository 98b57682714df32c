/* Plans of other planners for the same request: AdaPipe, and those that follow a rule with recomputation on as few
 * stages as fit. */
#include <math.h>

#include "base/error.h"
#include "planner/obscura/obscura.h"

/* Returns true when the planner makes a plan with n_recompute stages that recompute, and it fits. */
static bool try_planner(const struct obscura *x, const char *name, int32_t n_recompute, struct obscura_choice *choice) {
  struct plan_request request = *x->request;
  struct plan *plan;
  request.notes = NULL;
  request.n_recompute_stages = n_recompute;
  request.n_chunks = 0;
  if (planner_run(name, &request, &plan)) {
    error_clear();
    return false;
  }
  return isfinite(obscura_choice_offer(choice, x, plan, NULL));
}

/* More recomputation takes less memory and more time: finds the fewest stages with which the plan fits. */
static void try_fewest(const struct obscura *x, const char *name, struct obscura_choice *choice) {
  int32_t low = -1, chunks = planner_find(name)->n_chunks, high = x->n_stages * (chunks > 1 ? chunks : 1);
  if (try_planner(x, name, 0, choice)) return;
  if (!x->request->recompute_ops || !try_planner(x, name, high, choice)) return;
  for (low = 0; high - low > 1;) {
    int32_t middle = low + (high - low) / 2;
    if (try_planner(x, name, middle, choice))
      high = middle;
    else
      low = middle;
  }
}

void obscura_find_rival(const struct obscura *x, struct obscura_choice *choice) {
  static const char *const by_rule[] = {"1f1b", "bpipe", "interleaved", "zb-h1", "zb-v"};
  if (!x->request->simulate) return;
  try_planner(x, "adapipe", PLAN_ALL_STAGES, choice);
  for (size_t i = 0; i < sizeof by_rule / sizeof *by_rule; i++) try_fewest(x, by_rule[i], choice);
}
