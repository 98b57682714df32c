/* Beyond the paper, by time alone. Every stage discards just what its own limit asks for, recomputation need not wait
 * for its gradient, any number of stages may run any number of forwards further ahead, and layers move between any two
 * stages as long as that helps; where blocks may leave, they leave instead of being discarded. What looks best by the
 * quick time of a draft is then judged by the request's evaluation.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "planner/obscura/obscura.h"
#include "planner/partition_auto.h"

enum { SHORTLIST = 4, MOST_REST = 3 };

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

/* ---- the whole ---- */

/* Evaluates the draft on the simulator. When it needs more memory than estimated, discards or evicts more and tries
 * again. */
static void judge(struct obscura *x, struct obscura_draft *draft, struct obscura_draft **best) {
  enum { TRIES = 4 };
  int tries = 0;
  while (obscura_draft_evaluate(x, draft) && ++tries < TRIES) settle(x, draft, draft->beta > 0);
  obscura_draft_keep(&draft, best);
}

static void judge_list(struct obscura *x, struct list *list, struct obscura_draft **best) {
  for (int i = 0; i < list->n; i++) {
    if (i < 2) balance(x, &list->drafts[i]);
    if (list->drafts[i]->seconds < (*best)->seconds)
      judge(x, list->drafts[i], best);
    else /* its blocks and updates only take more */
      obscura_draft_destroy(&list->drafts[i]);
  }
  list->n = 0;
}

/* Halves the range of each stage's number of micro-batches that recompute, by the peak of its rank with the number
 * tried. */
static void halve(const struct obscura *x, const int32_t *tried, const int64_t *peaks, int32_t *low, int32_t *high) {
  for (int32_t s = 0; s < x->n_stages; s++) {
    int32_t rank = planner_get_rank(x->request, s);
    if (high[s] - low[s] <= 1) continue;
    if (peaks[rank] <= planner_get_limit(x->request, rank) && peaks[rank] < INT64_MAX)
      high[s] = tried[s];
    else
      low[s] = tried[s];
  }
}

/* Finds the least number of micro-batches that recompute on each stage, by the memory of its own rank. All stages are
 * tried at once, as their memory does not depend on each other. high[s] is enough. */
static void count_needed(const struct obscura *x, const struct obscura_draft *draft, int32_t *high) {
  struct obscura_draft *d = obscura_draft_dup(x, draft);
  int32_t *low = MEM_NEW(int32_t, x->n_stages);
  int64_t *peaks = MEM_NEW(int64_t, x->request->n_ranks);
  for (int32_t s = 0; s < x->n_stages; s++) low[s] = d->recompute[s] > 0 ? -1 : high[s] - 1;
  for (int32_t left = x->n_micro + 1; left > 1; left -= left / 2) {
    for (int32_t s = 0; s < x->n_stages; s++) d->n_recompute[s] = high[s] - (high[s] - low[s]) / 2;
    obscura_draft_measure(x, d, peaks);
    halve(x, d->n_recompute, peaks, low, high);
  }
  mem_free(peaks);
  mem_free(low);
  obscura_draft_destroy(&d);
}

/* Lets only as many micro-batches recompute, the first ones, as the memory of their stage demands, where that costs
 * no time. */
static void spare_micro(struct obscura *x, struct obscura_draft **best) {
  bool any = false;
  for (int32_t s = 0; s < x->n_stages; s++) any = any || (*best)->recompute[s] > 0;
  if (isinf((*best)->seconds) || !any || !x->request->simulate) return;
  struct obscura_draft *d = obscura_draft_dup(x, *best);
  count_needed(x, *best, d->n_recompute);
  obscura_draft_evaluate(x, d);
  bool takes = d->seconds <= (*best)->seconds * (1 + 1e-12);
  obscura_draft_destroy(takes ? best : &d);
  if (takes) *best = d;
}

/* Partitions to begin with. */
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

/* Lists the paper's partition, the one by cost, the rival's, and the one that fits if any does. */
static void list_seeds(const struct obscura *x, const struct plan_stage *paper, const struct plan_stage *rival,
                       struct seeds *seeds) {
  struct plan_stage *cut = MEM_NEW(struct plan_stage, x->n_stages);
  add_seed(x, paper, seeds);
  if (x->request->partition.kind == PARAMS_CUT_AUTO) {
    if (partition_make_auto(x->request, cut))
      error_clear();
    else
      add_seed(x, cut, seeds);
    if (rival) add_seed(x, rival, seeds);
    if (obscura_cut_least(x, cut)) add_seed(x, cut, seeds);
  }
  mem_free(cut);
}

/* rest: blocks that stay at least where some leave, the fewer the less time there is for those on their way. */
static void search_seeds(struct obscura *x, const struct seeds *seeds, bool swaps, int32_t rest,
                         struct obscura_draft **best) {
  struct list list = {.n = 0};
  for (int i = 0; i < seeds->n; i++) {
    double part = 0;
    if (swaps) {
      struct obscura_draft *d = obscura_draft_create(x, seeds->stages[i]);
      part = x->options.beta == PARAMS_AUTO ? get_hidden_part(x, d) : x->options.beta;
      obscura_draft_destroy(&d);
    }
    try_orders(x, seeds->stages[i], part, rest, &list);
  }
  judge_list(x, &list, best);
}

/* Searches with blocks that leave to one tier. */
static void search_blocks(struct obscura *x, const struct seeds *seeds, enum plan_tier tier,
                          struct obscura_draft **best) {
  enum plan_tier before = x->tier;
  x->tier = tier;
  for (int32_t rest = 0; rest <= MOST_REST && obscura_may_swap(x); rest++) search_seeds(x, seeds, true, rest, best);
  x->tier = before;
}

/* Makes a draft of 1F1B that discards and evicts all it can, for the message of a refusal when nothing fits. */
static struct obscura_draft *make_least(struct obscura *x, const struct plan_stage *stages) {
  struct obscura_draft *d = obscura_draft_create(x, stages);
  uint32_t *ops = obscura_list_ops(x);
  d->beta = x->options.beta == PARAMS_AUTO ? 1 : x->options.beta;
  for (int32_t s = 0; s < x->n_stages; s++) {
    obscura_draft_discard(x, d, s, ops);
    d->lambda[s] = obscura_may_leave(x, s) && d->warm_up[s] > 2 ? d->warm_up[s] : 0;
  }
  mem_free(ops);
  return d;
}

static bool leaves(const struct obscura *x, const struct obscura_draft *d) {
  for (int32_t s = 0; s < x->n_stages; s++)
    if (d->lambda[s] > 0) return true;
  return false;
}

/* Climbs from the draft, and judges what is found. */
static void climb(struct obscura *x, bool swaps, struct obscura_draft **best) {
  if (isinf((*best)->seconds) || (swaps && !leaves(x, *best))) return;
  struct obscura_draft *found = obscura_climb(x, *best, swaps);
  judge(x, found, best);
}

/* Refines the draft where it is faster than the one before. */
static void refine(struct obscura *x, const struct obscura_draft *best, double *before, struct obscura_choice *choice) {
  if (best->seconds < *before) obscura_refine(x, best, choice);
  *before = best->seconds;
}

/* Each means is searched after those before it and what they find stays a candidate: with one more means allowed no
 * plan is slower. */
struct obscura_draft *obscura_search(struct obscura *x, struct obscura_draft *paper, const struct plan_stage *rival,
                                     struct obscura_choice *choice) {
  struct obscura_draft *best = paper;
  double before = INFINITY;
  struct seeds seeds = {.n = 0};
  list_seeds(x, paper->stages, rival, &seeds);
  search_seeds(x, &seeds, false, 0, &best);
  climb(x, false, &best);
  refine(x, best, &before, choice);
  search_blocks(x, &seeds, x->tier, &best);
  climb(x, true, &best);
  refine(x, best, &before, choice);
  if (x->request->params->pipeline.swap_tier == PARAMS_SWAP_TIER_AUTO && obscura_links_are_faster(x, seeds.stages[0]))
    search_blocks(x, &seeds, PLAN_TIER_RANK, &best);
  refine(x, best, &before, choice);
  obscura_refine_cuts(x, choice);
  if (x->request->recompute_ops) spare_micro(x, &best);
  if (isinf(best->seconds)) {
    obscura_draft_destroy(&best);
    best = make_least(x, seeds.stages[seeds.n - 1]);
  }
  for (int i = 0; i < seeds.n; i++) mem_free(seeds.stages[i]);
  return best;
}
