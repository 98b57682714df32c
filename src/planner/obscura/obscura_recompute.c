/* Chooses what stages discard: each stage by itself, as its limit demands, or all adjusted stages alike together with
 * the blocks that leave (Eq. 4).
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"

int64_t obscura_get_limit(const struct obscura *x, const struct obscura_draft *d, int32_t stage) {
  int64_t limit = planner_get_limit(x->request, planner_get_rank(x->request, stage));
  if (limit == INT64_MAX) return limit;
  return limit > d->margin[stage] ? limit - d->margin[stage] : 0;
}

int64_t obscura_get_discard(const struct obscura *x, const struct obscura_draft *d, int32_t s) {
  const struct stage_need *need = &d->needs[s];
  int64_t limit = obscura_get_limit(x, d, s);
  if (d->lambda[s] <= 2 || limit == INT64_MAX) return stage_need_get_discarded(need, limit);
  double away = d->beta * (d->lambda[s] - 2), copies = need->copies - away;
  double leaves = s + 1 < x->n_stages ? (double)footprint_output(x->request->model, d->stages[s + 1].first_layer - 1,
                                                                 *stage_needs_get_micro(x->needs))
                                      : 0;
  double over = (double)need->fixed + copies * (double)need->keep + away * leaves - (double)limit;
  double backward = stage_need_share(over + (double)need->work_backward, copies, need->part);
  double forward = fmin(stage_need_share(over + (double)need->work_forward, copies, INT64_MAX),
                        stage_need_share(over + (double)need->work_discarding, copies, 0));
  double most = fmax(backward, forward);
  return most > (double)need->keep ? -1 : (int64_t)most;
}

uint32_t *obscura_list_ops(const struct obscura *x) {
  uint32_t *ops = MEM_NEW(uint32_t, x->n_layers);
  if (x->request->recompute_ops) memcpy(ops, x->request->recompute_ops, sizeof *ops * (size_t)x->n_layers);
  return ops;
}

bool obscura_chooses_ops(const struct obscura *x) {
  return x->options.adjusted_stages == PARAMS_AUTO && x->options.steps >= PARAMS_OBSCURA_STEPS_SWAP;
}

/* The stage discards `need` bytes of each micro-batch. When it cannot, it discards all it can and the function returns
 * false. */
static bool discard_bytes(const struct obscura *x, struct obscura_draft *d, int32_t s, int64_t need) {
  const struct plan_stage *stage = &d->stages[s];
  uint32_t *ops = MEM_NEW(uint32_t, x->n_layers);
  double seconds;
  int64_t freed;
  bool enough =
      need >= 0 && stage_menu_cover(x->menus[s], stage->first_layer, stage->n_layers, need, &seconds, &freed, ops);
  obscura_draft_discard(x, d, s, enough ? ops : x->request->recompute_ops);
  mem_free(ops);
  return enough;
}

bool obscura_fit_stages(struct obscura *x, struct obscura_draft *d, int32_t first, int32_t end) {
  bool fits = true;
  for (int32_t s = first; s < end; s++) fits = discard_bytes(x, d, s, obscura_get_discard(x, d, s)) && fits;
  return fits;
}

/* ---- the integer programme ---- */

enum { SURVIVORS = 4, BETA_STEPS = 8, FRONT_POINTS = 64 };

struct choice {
  int32_t lambda;
  double beta, seconds; /* by Eq. 3 */
  int64_t discard;
};

struct programme {
  struct obscura *x;
  struct obscura_draft *draft; /* the draft with the choice that is tried */
  bool chooses;                /* it may choose what is discarded */
  bool lenient;                /* limits are left to the evaluation */
  struct choice best[SURVIVORS];
  int n;
};

static void add_choice(struct programme *ip, struct choice choice) {
  int at = ip->n;
  while (at > 0 && ip->best[at - 1].seconds > choice.seconds) at--;
  if (at == SURVIVORS) return;
  if (ip->n < SURVIVORS) ip->n++;
  memmove(&ip->best[at + 1], &ip->best[at], sizeof choice * (size_t)(ip->n - 1 - at));
  ip->best[at] = choice;
}

/* False when no block leaves though some should: their stages may not let them. */
static bool set_blocks(const struct obscura *x, struct obscura_draft *d, int32_t lambda, double beta) {
  bool any = lambda == 0;
  for (int32_t s = 0; s < d->n_adjusted; s++) {
    d->lambda[s] = lambda && obscura_may_leave(x, s) ? lambda + d->n_adjusted - 1 - s : 0;
    any = any || d->lambda[s];
  }
  d->beta = lambda ? beta : 0;
  return any;
}

/* Finds the adjusted stage that must discard most. Returns those bytes of each micro-batch, -1 when a stage cannot fit.
 */
static int64_t find_tightest(const struct programme *ip, int32_t *stage) {
  int64_t most = 0;
  *stage = 0;
  for (int32_t s = 0; s < ip->draft->n_adjusted; s++) {
    int64_t need = obscura_get_discard(ip->x, ip->draft, s);
    if (need < 0) return -1;
    if (need > most) *stage = s;
    if (need > most) most = need;
  }
  return most;
}

/* Makes all adjusted stages discard what stage s would. */
static bool suppose(struct programme *ip, int32_t s, int64_t need, int64_t *freed) {
  struct obscura_draft *d = ip->draft;
  double seconds;
  if (!stage_menu_cover(ip->x->menus[s], d->stages[s].first_layer, d->stages[s].n_layers, need, &seconds, freed, NULL))
    return false;
  for (int32_t a = 0; a < d->n_adjusted; a++) {
    d->discarded[a] = *freed;
    d->recompute[a] = seconds;
  }
  return true;
}

/* Tries blocks that leave when what is discarded is given. */
static void try_given(struct programme *ip, int32_t lambda, double beta) {
  struct obscura_draft *d = ip->draft;
  struct obscura_model model = obscura_draft_get_model(ip->x, d);
  if (lambda && !obscura_model_allows(&model)) return;
  for (int32_t s = 0; s < d->n_adjusted; s++)
    if (obscura_draft_get_peak(ip->x, d, s) > obscura_get_limit(ip->x, d, s)) return;
  add_choice(ip, (struct choice){lambda, beta, obscura_model_get_time(&model, 0), -1});
}

/* Used where no choice fits by the estimate, which is a little high, as blocks on their way need not all be there at
 * once: keeps the choices that take the least memory, with everything discarded. */
static void try_lenient(struct programme *ip, int32_t lambda, double beta) {
  struct obscura_draft *d = ip->draft;
  const struct params_obscura *o = &ip->x->options;
  bool by_hand = o->lambda != PARAMS_AUTO && o->beta != PARAMS_AUTO;
  double most = 0;
  for (int32_t s = 0; s < d->n_adjusted && ip->chooses; s++)
    obscura_draft_discard(ip->x, d, s, ip->x->request->recompute_ops);
  struct obscura_model model = obscura_draft_get_model(ip->x, d);
  if (lambda && !by_hand && !obscura_model_allows(&model)) return;
  for (int32_t s = 0; s < d->n_adjusted; s++)
    most = fmax(most, (double)obscura_draft_get_peak(ip->x, d, s) / (double)obscura_get_limit(ip->x, d, s));
  add_choice(ip, (struct choice){lambda, beta, most, INT64_MAX});
}

static void try_blocks(struct programme *ip, int32_t lambda, double beta) {
  int32_t tightest;
  int64_t freed;
  if (!set_blocks(ip->x, ip->draft, lambda, beta)) return;
  if (ip->lenient) {
    try_lenient(ip, lambda, beta);
    return;
  }
  if (!ip->chooses) {
    try_given(ip, lambda, beta);
    return;
  }
  int64_t need = find_tightest(ip, &tightest);
  for (int point = 0; point < FRONT_POINTS && need >= 0; point++, need = freed + 1) {
    if (!suppose(ip, tightest, need, &freed)) return;
    struct obscura_model model = obscura_draft_get_model(ip->x, ip->draft);
    if (lambda && !obscura_model_allows(&model)) continue;
    add_choice(ip, (struct choice){lambda, beta, obscura_model_get_time(&model, 0), need});
    model.epsilon = 0;
    if (obscura_model_get_transfer(&model, 0) == 0) return;
  }
}

/* Tries lambda of Eq. 4: 0, or 2 to p - k - 2; beyond the paper as many as there are blocks. */
static void try_all_blocks(struct programme *ip) {
  const struct params_obscura *o = &ip->x->options;
  int32_t k = ip->draft->n_adjusted - 1, most = ip->x->n_stages - k - 2, least = 2;
  if (!o->faithful) most = ip->draft->warm_up[k] - 1;
  if (o->lambda != PARAMS_AUTO) least = most = o->lambda;
  if (o->lambda == PARAMS_AUTO || o->lambda == 0 || !obscura_may_swap(ip->x)) try_blocks(ip, 0, 0);
  for (int32_t lambda = least; lambda <= most && obscura_may_swap(ip->x); lambda++) {
    if (lambda == 0 || lambda >= ip->draft->warm_up[k]) continue;
    for (int b = 1; b <= BETA_STEPS && o->beta == PARAMS_AUTO; b++) try_blocks(ip, lambda, (double)b / BETA_STEPS);
    if (o->beta != PARAMS_AUTO) try_blocks(ip, lambda, o->beta);
  }
}

/* Makes all adjusted stages discard `need` bytes each, and more where the evaluated plan is over its limit. */
static void discard_alike(struct obscura *x, struct obscura_draft *d, int64_t need) {
  enum { TRIES = 4 };
  for (int t = 0; t < TRIES; t++) {
    for (int32_t s = 0; s < d->n_adjusted; s++) discard_bytes(x, d, s, need);
    if (!obscura_draft_evaluate(x, d)) return;
    for (int32_t s = 0; s < d->n_adjusted; s++) {
      int64_t more = obscura_get_discard(x, d, s);
      if (more > need || more < 0) need = more < 0 ? INT64_MAX : more;
    }
  }
}

/* Returns the draft with a choice. Without an evaluation its time is that of Eq. 3. */
static struct obscura_draft *make_choice(struct obscura *x, const struct obscura_draft *from,
                                         const struct choice *choice) {
  struct obscura_draft *d = obscura_draft_dup(x, from);
  set_blocks(x, d, choice->lambda, choice->beta);
  if (obscura_chooses_ops(x))
    discard_alike(x, d, choice->discard);
  else
    obscura_draft_evaluate(x, d);
  if (!x->request->simulate && !isinf(d->seconds)) d->seconds = choice->seconds;
  return d;
}

void obscura_solve(struct obscura *x, struct obscura_draft **draft) {
  if ((*draft)->n_adjusted == 0) return;
  struct programme ip = {.x = x, .draft = obscura_draft_dup(x, *draft), .chooses = obscura_chooses_ops(x)};
  struct obscura_draft *best = NULL;
  try_all_blocks(&ip);
  ip.lenient = ip.n == 0 && x->request->simulate;
  if (ip.lenient) try_all_blocks(&ip);
  obscura_draft_destroy(&ip.draft);
  if (ip.n == 0)
    add_choice(&ip, (struct choice){.discard = INT64_MAX}); /* none fits: the choice that takes the least memory */
  for (int i = 0; i < ip.n; i++) {
    struct obscura_draft *made = make_choice(x, *draft, &ip.best[i]);
    obscura_draft_keep(&made, &best);
  }
  obscura_draft_destroy(draft);
  *draft = best;
}
