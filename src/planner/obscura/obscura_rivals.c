/* Plans of other planners for the same request: AdaPipe, and those that follow a rule with recomputation on as few
 * stages as fit. */
#include <math.h>

#include "base/error.h"
#include "planner/obscura/obscura.h"

/* Keeps the plan if it is the fastest. Returns true when it fits. */
static bool judge(const struct obscura *x, struct plan *plan, struct plan **best, double *seconds) {
  double found = planner_evaluate(x->request, plan, NULL);
  bool fits = !isinf(found);
  if (!fits || found >= *seconds) {
    plan_destroy(&plan);
    return fits;
  }
  plan_destroy(best);
  *best = plan;
  *seconds = found;
  return true;
}

/* Returns true when the planner makes a plan with n_recompute stages that recompute, and it fits. */
static bool try_planner(const struct obscura *x, const char *name, int32_t n_recompute, struct plan **best,
                        double *seconds) {
  struct plan_request request = *x->request;
  struct plan *plan;
  request.notes = NULL;
  request.n_recompute_stages = n_recompute;
  request.n_chunks = 0;
  if (planner_run(name, &request, &plan)) {
    error_clear();
    return false;
  }
  return judge(x, plan, best, seconds);
}

/* More recomputation takes less memory and more time: finds the fewest stages with which the plan fits. */
static void try_fewest(const struct obscura *x, const char *name, struct plan **best, double *seconds) {
  int32_t low = -1, chunks = planner_find(name)->n_chunks, high = x->n_stages * (chunks > 1 ? chunks : 1);
  if (try_planner(x, name, 0, best, seconds)) return;
  if (!x->request->recompute_ops || !try_planner(x, name, high, best, seconds)) return;
  for (low = 0; high - low > 1;) {
    int32_t middle = low + (high - low) / 2;
    if (try_planner(x, name, middle, best, seconds))
      high = middle;
    else
      low = middle;
  }
}

struct plan *obscura_find_rival(const struct obscura *x, double *seconds) {
  struct plan *best = NULL;
  *seconds = INFINITY;
  if (!x->request->simulate) return NULL;
  static const char *const by_rule[] = {"1f1b", "bpipe", "interleaved", "zb-h1", "zb-v"};
  try_planner(x, "adapipe", PLAN_ALL_STAGES, &best, seconds);
  for (size_t i = 0; i < sizeof by_rule / sizeof *by_rule; i++) try_fewest(x, by_rule[i], &best, seconds);
  return best;
}
