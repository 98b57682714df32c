/* Plans of other planners for the same request: AdaPipe, and those that follow a rule with recomputation on as few
 * stages as fit. */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"

/* Returns what the planner makes with n_recompute stages that recompute; NULL when it makes nothing. */
static struct plan *run(const struct obscura *x, const char *name, int32_t n_recompute, int32_t n_chunks) {
  struct plan_request request = *x->request;
  struct plan *plan;
  request.notes = NULL;
  request.n_recompute_stages = n_recompute;
  request.n_chunks = n_chunks;
  if (!planner_run(name, &request, &plan)) return plan;
  error_clear();
  return NULL;
}

/* Returns a plan like `base`, which discards nothing, with n_recompute stages that recompute. */
static struct plan *add_recompute(const struct obscura *x, const struct plan *base, int32_t n_recompute) {
  struct plan *plan = plan_dup(base);
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t s = 0; s < n_recompute; s++) stages[s] = true;
  if (n_recompute > 0) recompute_put(plan, x->request->recompute_ops, stages);
  plan->recompute_early = plan->n_recompute > 0 && x->early;
  mem_free(stages);
  return plan;
}

/* Where the plans of a rule come from: the planner is asked for each, or its order and cut stay the same. */
struct source {
  const char *name;
  const struct plan *base; /* NULL: the planner is asked */
};

static bool try_number(const struct obscura *x, const struct source *from, int32_t n, struct obscura_choice *choice) {
  struct plan *plan = from->base ? add_recompute(x, from->base, n) : run(x, from->name, n, 0);
  return plan && isfinite(obscura_choice_offer(choice, x, plan, NULL));
}

/* More recomputation takes less memory and more time: finds the fewest stages with which the plan fits. */
static void try_fewest(const struct obscura *x, const struct source *from, struct obscura_choice *choice) {
  int32_t low = 0, high = from->base ? from->base->n_stages : x->n_stages;
  if (try_number(x, from, 0, choice)) return;
  if (!x->request->recompute_ops || !try_number(x, from, high, choice)) return;
  while (high - low > 1) {
    int32_t middle = low + (high - low) / 2;
    if (try_number(x, from, middle, choice))
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

/* Offers what a planner makes: with recomputation on the fewest stages, and with as much on every rank as it lacks,
 * with split and with whole backwards. */
static void try_rule(struct obscura *x, const char *name, int32_t n_chunks, struct obscura_choice *choice) {
  struct plan *plan = run(x, name, 0, n_chunks), *joined;
  if (!plan) return;
  try_fewest(x, &(struct source){name, plan}, choice);
  obscura_fit_order(x, plan, choice);
  joined = join_backwards(plan);
  if (joined) obscura_fit_order(x, joined, choice);
  plan_destroy(&joined);
  plan_destroy(&plan);
}

void obscura_find_rival(struct obscura *x, struct obscura_choice *choice) {
  enum { MOST_CHUNKS = 4 };
  if (!x->request->simulate) return;
  struct plan *plan = run(x, "adapipe", PLAN_ALL_STAGES, 0);
  if (plan) obscura_choice_offer(choice, x, plan, NULL);
  try_fewest(x, &(struct source){"1f1b", NULL}, choice);
  try_fewest(x, &(struct source){"bpipe", NULL}, choice);
  for (int32_t n = 2; n <= MOST_CHUNKS; n++) try_rule(x, "interleaved", n, choice);
  try_rule(x, "zb-h1", 0, choice);
  try_rule(x, "zb-v", 0, choice);
}
