/* Looks for drafts that are fast by their quick time: on several partitions, any number of stages run any number of
 * forwards further ahead, every stage discards just what its own limit asks for, and where blocks may leave, they leave
 * instead of being discarded; the best get better by layers that move between stages. The fastest are judged by the
 * request's evaluation, and the fastest of those is climbed from.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "planner/obscura/obscura.h"
#include "planner/partition_auto.h"

enum { SHORTLIST = 3, MOST_REST = 3 };

struct list {
  struct obscura_draft *drafts[SHORTLIST]; /* ascending by seconds */
  int n;
};

/* Takes the draft over. Among drafts of equal time the first stays: it runs less far ahead. */
static void add(struct list *list, struct obscura_draft *draft) {
  int at = list->n;
  while (at > 0 && list->drafts[at - 1]->seconds > draft->seconds) at--;
  bool known = at > 0 && list->drafts[at - 1]->seconds >= draft->seconds * (1 - 1e-9);
  if (at == SHORTLIST || known || isinf(draft->seconds)) {
    obscura_draft_destroy(&draft);
    return;
  }
  if (list->n == SHORTLIST)
    obscura_draft_destroy(&list->drafts[SHORTLIST - 1]);
  else
    list->n++;
  memmove(&list->drafts[at + 1], &list->drafts[at], sizeof draft * (size_t)(list->n - 1 - at));
  list->drafts[at] = draft;
}

/* ---- what a draft discards or evicts ---- */

/* Lets as few blocks of the stage leave as possible so that nothing need be discarded; all that may leave do when
 * that is not enough. */
static void choose_evicted(const struct obscura *x, struct obscura_draft *d, int32_t s) {
  int32_t most = d->warm_up[s] - d->rest;
  for (d->lambda[s] = 0; d->lambda[s] < most; d->lambda[s] += d->lambda[s] ? 1 : 3)
    if (obscura_get_discard(x, d, s) == 0) return;
  if (obscura_get_discard(x, d, s) != 0 && most > 2) d->lambda[s] = most;
  if (most <= 2) d->lambda[s] = 0;
}

bool obscura_settle_stage(struct obscura *x, struct obscura_draft *d, int32_t s, bool swaps) {
  d->lambda[s] = 0;
  if (swaps && obscura_may_leave(x, s)) choose_evicted(x, d, s);
  return obscura_fit_stages(x, d, s, s + 1);
}

/* Chooses what the draft evicts and discards for its limits, and sets its quick time; INFINITY when it does not fit. */
static void settle(struct obscura *x, struct obscura_draft *d, bool swaps) {
  bool fits = true;
  for (int32_t s = 0; s < x->n_stages; s++) fits = obscura_settle_stage(x, d, s, swaps) && fits;
  d->seconds = fits ? obscura_draft_time(x, d) : INFINITY;
}

/* Returns the part of a block of activations, 0 to 1, whose transfer is hidden by the work on a micro-batch, on the
 * stage where that part is least. */
static double get_hidden_part(const struct obscura *x, struct obscura_draft *d) {
  double part = 1;
  d->beta = 1;
  for (int32_t s = 0; s < x->n_stages; s++) {
    double transfer = obscura_get_transfer(x, d, s), pass = d->needs[s].forward + d->needs[s].backward;
    if (transfer > pass) part = fmin(part, pass / transfer);
  }
  return part;
}

/* ---- how far stages run ahead ---- */

static void run_ahead(const struct obscura *x, struct obscura_draft *d, int32_t n, int32_t more) {
  obscura_draft_order(x, d, 0, PARAMS_OBSCURA_STEPS_REFINED);
  d->n_adjusted = more > 0 ? n : 0;
  for (int32_t s = 0; s < d->n_adjusted; s++) {
    int32_t ahead = x->n_stages - s + more;
    d->warm_up[s] = d->steady[s] = d->needs[s].copies = ahead < x->n_micro ? ahead : x->n_micro;
  }
}

/* Returns the next number to try, of stages or of forwards ahead: every number in a short pipeline, at growing
 * distances in a long one. */
static int32_t step_on(const struct obscura *x, int32_t value) {
  return value < 8 ? value + 1 : x->n_stages <= 64 ? value + value / 4 : 2 * value;
}

static void try_orders(struct obscura *x, const struct plan_stage *stages, double beta, int32_t rest,
                       struct list *list) {
  for (int32_t n = 0; n < x->n_stages; n = step_on(x, n)) {
    int32_t most = 2 * (x->n_stages - n);
    for (int32_t more = n ? 1 : 0; more <= (n ? most : 0); more = step_on(x, more)) {
      struct obscura_draft *d = obscura_draft_create(x, stages);
      d->beta = beta;
      d->rest = rest;
      run_ahead(x, d, n, more);
      settle(x, d, beta > 0);
      add(list, d);
    }
  }
}

/* ---- layers ---- */

static double get_pass(const struct obscura_draft *d, int32_t s) {
  return d->needs[s].forward + d->needs[s].backward + d->recompute[s];
}

static int32_t find_slowest(const struct obscura *x, const struct obscura_draft *d) {
  int32_t slowest = 0;
  for (int32_t s = 1; s < x->n_stages; s++)
    if (get_pass(d, s) > get_pass(d, slowest)) slowest = s;
  return slowest;
}

/* Returns the stage with the shortest pass among those not yet asked; -1: none is shorter than `most`. */
static int32_t find_fastest(const struct obscura *x, const struct obscura_draft *d, double most, const bool *asked) {
  int32_t fastest = -1;
  for (int32_t s = 0; s < x->n_stages; s++)
    if (!asked[s] && get_pass(d, s) < (fastest < 0 ? most : get_pass(d, fastest))) fastest = s;
  return fastest;
}

/* Returns the best of the drafts in which stage `from` gives a layer to one of the fastest stages. */
static struct obscura_draft *move_best(struct obscura *x, const struct obscura_draft *d, int32_t from) {
  enum { ASKED = 4 };
  struct obscura_draft *best = NULL;
  struct plan_stage *stages = MEM_NEW(struct plan_stage, x->n_stages);
  bool *asked = MEM_NEW(bool, x->n_stages);
  for (int k = 0; k < ASKED; k++) {
    int32_t to = find_fastest(x, d, get_pass(d, from), asked);
    if (to < 0) break;
    asked[to] = true;
    memcpy(stages, d->stages, sizeof *stages * (size_t)x->n_stages);
    if (!obscura_move_layer(stages, from, to)) break;
    struct obscura_draft *moved = obscura_draft_dup(x, d);
    obscura_draft_cut(x, moved, stages);
    settle(x, moved, d->beta > 0);
    obscura_draft_keep(&moved, &best);
  }
  mem_free(asked);
  mem_free(stages);
  return best;
}

/* Moves layers from the slowest stage as long as that helps. */
static void balance(struct obscura *x, struct obscura_draft **draft) {
  if (x->request->partition.kind != PARAMS_CUT_AUTO) return;
  for (int32_t moves = 0; moves < x->n_stages; moves++) {
    struct obscura_draft *moved = move_best(x, *draft, find_slowest(x, *draft));
    if (!moved) return;
    if (moved->seconds >= (*draft)->seconds * (1 - 1e-9)) {
      obscura_draft_destroy(&moved);
      return;
    }
    obscura_draft_destroy(draft);
    *draft = moved;
  }
}

/* ---- partitions to begin with ---- */

enum { MOST_SEEDS = 4 };
struct seeds {
  struct plan_stage *stages[MOST_SEEDS];
  int n;
};

static void add_seed(const struct obscura *x, const struct plan_stage *stages, struct seeds *seeds) {
  size_t bytes = sizeof *stages * (size_t)x->n_stages;
  for (int i = 0; i < seeds->n; i++)
    if (!memcmp(seeds->stages[i], stages, bytes)) return;
  seeds->stages[seeds->n] = MEM_NEW(struct plan_stage, x->n_stages);
  memcpy(seeds->stages[seeds->n++], stages, bytes);
}

/* Lists the given partition, the one by cost, and the one that fits if any does. */
static void list_seeds(const struct obscura *x, const struct plan_stage *base, struct seeds *seeds) {
  struct plan_stage *cut = MEM_NEW(struct plan_stage, x->n_stages);
  add_seed(x, base, seeds);
  if (x->request->partition.kind == PARAMS_CUT_AUTO) {
    if (partition_make_auto(x->request, cut))
      error_clear();
    else
      add_seed(x, cut, seeds);
    if (obscura_cut_least(x, cut)) add_seed(x, cut, seeds);
  }
  mem_free(cut);
}

/* ---- the whole ---- */

static double choose_part(const struct obscura *x, const struct plan_stage *stages) {
  if (x->options.beta != PARAMS_AUTO) return x->options.beta;
  struct obscura_draft *d = obscura_draft_create(x, stages);
  double part = get_hidden_part(x, d);
  obscura_draft_destroy(&d);
  return part;
}

static void judge_list(struct obscura *x, struct list *list, struct obscura_draft **best) {
  enum { BALANCED = 2 };
  for (int i = 0; i < list->n; i++) {
    if (i < BALANCED) balance(x, &list->drafts[i]);
    if (!*best || list->drafts[i]->seconds < (*best)->seconds)
      obscura_judge(x, list->drafts[i], best);
    else /* its blocks and updates only take more */
      obscura_draft_destroy(&list->drafts[i]);
  }
  list->n = 0;
}

/* Tries what was found for lower limits: as it is, and fitted to these. */
static void try_pool(struct obscura *x, const struct obscura_pool *pool, struct list *list,
                     struct obscura_draft **best) {
  for (int32_t i = 0; i < pool->n; i++) {
    struct obscura_draft *same = obscura_draft_dup(x, pool->drafts[i]), *d = obscura_draft_dup(x, same);
    obscura_draft_keep(&same, best);
    settle(x, d, d->beta > 0);
    add(list, d);
  }
}

void obscura_look(struct obscura *x, const struct plan_stage *base, bool swaps, struct obscura_pool *pool) {
  struct seeds seeds = {.n = 0};
  struct list list = {.n = 0};
  struct obscura_draft *best = NULL;
  list_seeds(x, base, &seeds);
  try_pool(x, pool, &list, &best);
  judge_list(x, &list, &best);
  for (int32_t rest = 0; rest <= (swaps ? MOST_REST : 0); rest++) {
    for (int i = 0; i < seeds.n; i++)
      try_orders(x, seeds.stages[i], swaps ? choose_part(x, seeds.stages[i]) : 0, rest, &list);
    judge_list(x, &list, &best);
  }
  if (best && isfinite(best->seconds)) {
    struct obscura_draft *climbed = obscura_climb(x, best, swaps);
    obscura_pool_add(pool, x, obscura_draft_dup(x, best));
    obscura_judge(x, climbed, &best);
    obscura_pool_add(pool, x, best);
    best = NULL;
  }
  obscura_draft_destroy(&best);
  for (int i = 0; i < seeds.n; i++) mem_free(seeds.stages[i]);
}
