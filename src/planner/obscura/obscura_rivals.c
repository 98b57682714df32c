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

/* Makes whole backwards of those that are split: I becomes B, W goes. What W keeps until it runs is then not kept. */
static struct plan *join_backwards(const struct plan *plan) {
  int64_t n = 0;
  for (int64_t k = 0; k < plan->n_actions; k++) n += plan->order[k].kind != NODE_W;
  if (n == plan->n_actions) return NULL;
  struct plan *joined = plan_dup(plan);
  n = 0;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    joined->order_offset[r] = n;
    for (int64_t k = plan->order_offset[r]; k < plan->order_offset[r + 1]; k++) {
      if (plan->order[k].kind == NODE_W) continue;
      joined->order[n] = plan->order[k];
      if (plan->order[k].kind == NODE_I) joined->order[n].kind = NODE_B;
      n++;
    }
  }
  joined->order_offset[plan->n_ranks] = joined->n_actions = n;
  return joined;
}

/* Fits what a planner makes without recomputation, and the same with whole backwards. */
static void try_fitted(struct obscura *x, const char *name, int32_t n_chunks, struct obscura_choice *choice) {
  struct plan_request request = *x->request;
  struct plan *plan;
  request.notes = NULL;
  request.recompute_ops = NULL;
  request.n_chunks = n_chunks;
  if (planner_run(name, &request, &plan)) {
    error_clear();
    return;
  }
  struct plan *joined = join_backwards(plan);
  obscura_fit_order(x, plan, choice);
  if (joined) obscura_fit_order(x, joined, choice);
  plan_destroy(&joined);
  plan_destroy(&plan);
}

void obscura_find_rival(struct obscura *x, struct obscura_choice *choice) {
  static const char *const by_rule[] = {"1f1b", "bpipe", "interleaved", "zb-h1", "zb-v"};
  enum { MOST_CHUNKS = 4 };
  if (!x->request->simulate) return;
  try_planner(x, "adapipe", PLAN_ALL_STAGES, choice);
  for (size_t i = 0; i < sizeof by_rule / sizeof *by_rule; i++) try_fewest(x, by_rule[i], choice);
  for (int32_t n = 2; n <= MOST_CHUNKS; n++) try_fitted(x, "interleaved", n, choice);
  try_fitted(x, "zb-h1", 0, choice);
  try_fitted(x, "zb-v", 0, choice);
}
