/* Beyond the paper, by time alone. Recomputation need not wait for its gradient, and what looks best by the quick time
 * of a draft is judged by the request's evaluation.
 *
 * More memory or a faster link must not make a plan slower, but a search that knows the limit ends up somewhere else
 * with every limit. Drafts are therefore looked for at fixed limits, so many to a doubling, and with fixed times of
 * copies; what is found there for the limits around the request's is fitted to fixed limits just below the request's
 * and judged: a plan that fits into less fits, and a higher limit has no fewer plans to choose among but those found
 * far below it.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "planner/obscura/obscura.h"

/* Fixed limits: drafts are looked for at PER_DOUBLING to a doubling, from BELOW below the request's to ABOVE above it,
 * and fitted to FITS of FITS_PER_DOUBLING to a doubling. Times of copies: two to a doubling. LARGE: actions of a step
 * from which on a look takes too long to be taken often; then there is one, with the request's own limits. */
enum {
  PER_DOUBLING = 32,
  BELOW = 4,
  ABOVE = 1,
  FITS_PER_DOUBLING = 96,
  FITS = 3,
  COPIES_PER_DOUBLING = 2,
  LARGE = 16000
};

/* ---- pools ---- */

/* True when both drafts follow the same rules, whatever they discard. */
static bool is_alike(const struct obscura *x, const struct obscura_draft *a, const struct obscura_draft *b) {
  size_t n = (size_t)x->n_stages;
  return a->beta == b->beta && a->rest == b->rest && a->tier == b->tier &&
         !memcmp(a->stages, b->stages, sizeof *a->stages * n) &&
         !memcmp(a->warm_up, b->warm_up, sizeof *a->warm_up * n);
}

void obscura_pool_add(struct obscura_pool *pool, const struct obscura *x, struct obscura_draft *draft) {
  bool known = isinf(draft->seconds);
  for (int32_t i = 0; i < pool->n && !known; i++) known = is_alike(x, pool->drafts[i], draft);
  if (known) {
    obscura_draft_destroy(&draft);
    return;
  }
  if (pool->n == pool->room) {
    pool->room = 2 * pool->room + 16;
    pool->drafts = mem_resize(pool->drafts, sizeof *pool->drafts * (size_t)pool->room);
  }
  pool->drafts[pool->n++] = draft;
}

/* ---- fixed limits ---- */

/* Returns the least limit of a rank, INT64_MAX: there is none. */
static int64_t get_least_limit(const struct obscura *x) {
  int64_t least = INT64_MAX;
  for (int32_t r = 0; r < x->request->n_ranks; r++) {
    int64_t limit = planner_get_limit(x->request, r);
    if (limit < least) least = limit;
  }
  return least;
}

/* The planning with all limits and all times of copies multiplied. */
struct supposed {
  struct obscura x;
  struct plan_request request;
  int64_t *limits; /* [n_ranks] */
};

static void suppose(const struct obscura *x, double limits, double copies, struct supposed *s) {
  *s = (struct supposed){.x = *x, .request = *x->request, .limits = MEM_NEW(int64_t, x->request->n_ranks)};
  for (int32_t r = 0; r < x->request->n_ranks; r++) {
    int64_t limit = planner_get_limit(x->request, r);
    s->limits[r] = limit == INT64_MAX ? limit : (int64_t)(limits * (double)limit);
  }
  s->request.device_limit = s->limits;
  s->x.request = &s->request;
  s->x.copy_factor = copies;
}

static void look_at(const struct obscura *x, const struct plan_stage *base, bool swaps, double limits, double copies,
                    struct obscura_pool *pool) {
  struct supposed s;
  int32_t before = pool->n;
  suppose(x, limits, copies, &s);
  obscura_look(&s.x, base, swaps, pool);
  for (int32_t i = before; i < pool->n; i++) pool->drafts[i]->limits = limits;
  mem_free(s.limits);
}

/* Returns the seconds of the copy of a whole block of the first stage; 0: none leaves. */
static double get_copy(const struct obscura *x, const struct plan_stage *base) {
  struct obscura_draft *d = obscura_draft_create(x, base);
  d->beta = 1;
  double seconds = obscura_get_transfer(x, d, 0);
  obscura_draft_destroy(&d);
  return seconds;
}

static void look_around(const struct obscura *x, const struct plan_stage *base, bool swaps, struct obscura_pool *pool) {
  int64_t limit = get_least_limit(x);
  double copy = swaps ? get_copy(x, base) : 0, slower = 1;
  if (limit == INT64_MAX || limit <= 0 || 3 * (int64_t)x->n_stages * x->n_micro > LARGE) {
    look_at(x, base, swaps, 1, 1, pool);
    return;
  }
  int first = (int)floor(log2((double)limit) * PER_DOUBLING);
  if (copy > 0) slower = exp2(ceil(log2(copy) * COPIES_PER_DOUBLING) / COPIES_PER_DOUBLING) / copy;
  for (int k = -BELOW; k <= ABOVE; k++)
    look_at(x, base, swaps, exp2((double)(first + k) / PER_DOUBLING) / (double)limit, slower, pool);
}

/* ---- judging ---- */

static void settle(struct obscura *x, struct obscura_draft *d) {
  bool fits = true;
  for (int32_t s = 0; s < x->n_stages; s++) fits = obscura_settle_stage(x, d, s, d->beta > 0) && fits;
  d->seconds = fits ? obscura_draft_time(x, d) : INFINITY;
}

void obscura_judge(struct obscura *x, struct obscura_draft *draft, struct obscura_draft **best) {
  enum { TRIES = 4 };
  int tries = 0;
  while (obscura_draft_evaluate(x, draft) && ++tries < TRIES) settle(x, draft);
  obscura_draft_keep(&draft, best);
}

/* Fits the drafts to limits, the part `limits` of the request's, and judges them. */
static void judge_at(struct obscura *x, const struct obscura_pool *pool, double limits, struct obscura_draft **best) {
  struct supposed s;
  suppose(x, limits, 1, &s);
  for (int32_t i = 0; i < pool->n; i++) {
    struct obscura_draft *d = obscura_draft_dup(x, pool->drafts[i]);
    settle(&s.x, d);
    if (d->seconds < (*best)->seconds) /* its blocks and updates only take more */
      obscura_judge(&s.x, d, best);
    else
      obscura_draft_destroy(&d);
  }
  mem_free(s.limits);
}

/* Judges the drafts at the fixed limits next below the request's. What fits into less has been evaluated. The pool is
 * empty then. */
static void judge_pool(struct obscura *x, struct obscura_pool *pool, struct obscura_draft **best) {
  int64_t limit = get_least_limit(x);
  int first = limit == INT64_MAX || limit <= 0 ? 0 : (int)floor(log2((double)limit) * FITS_PER_DOUBLING);
  for (int32_t i = 0; i < pool->n; i++) {
    struct obscura_draft *same = obscura_draft_dup(x, pool->drafts[i]);
    if (same->limits > 1) same->seconds = INFINITY;
    obscura_draft_keep(&same, best);
  }
  for (int k = 0; k > -FITS && first > 0; k--)
    judge_at(x, pool, exp2((double)(first + k) / FITS_PER_DOUBLING) / (double)limit, best);
  for (int32_t i = 0; i < pool->n; i++) obscura_draft_destroy(&pool->drafts[i]);
  mem_free(pool->drafts);
  *pool = (struct obscura_pool){.n = 0};
}

/* Searches with one means; by the request's own limits where nothing fits otherwise. */
static void search_with(struct obscura *x, const struct plan_stage *base, bool swaps, enum plan_tier tier,
                        struct obscura_draft **best) {
  struct obscura_pool pool = {.n = 0};
  enum plan_tier before = x->tier;
  x->tier = tier;
  look_around(x, base, swaps, &pool);
  judge_pool(x, &pool, best);
  if (isinf((*best)->seconds)) {
    look_at(x, base, swaps, 1, 1, &pool);
    judge_pool(x, &pool, best);
  }
  x->tier = before;
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

/* Returns the least part of the limits within which there is a cut, 0: not even within all. */
static double find_least_part(const struct obscura *x, struct plan_stage *stages) {
  enum { HALVINGS = 10 };
  double low = 0, high = 1;
  if (!obscura_cut_within(x, 1, stages)) return 0;
  for (int k = 0; k < HALVINGS; k++) {
    double middle = low + (high - low) / 2;
    *(obscura_cut_within(x, middle, stages) ? &high : &low) = middle;
  }
  return high;
}

/* Makes a draft that takes as little memory as can be. A cut that is estimated to fit may take a little more than its
 * limits: then those within less are tried, to the least that any cut takes, so that what fits with less memory does
 * with more. */
static struct obscura_draft *find_any(struct obscura *x, const struct plan_stage *base) {
  static const double PARTS[] = {1, 1 - 1 / 256.0, 1 - 1 / 64.0, 1 - 1 / 32.0, 1 - 1 / 16.0, 0};
  struct plan_stage *stages = MEM_NEW(struct plan_stage, x->n_stages);
  struct obscura_draft *found = NULL;
  bool cuts = x->request->partition.kind == PARAMS_CUT_AUTO;
  double least = cuts && x->request->simulate ? find_least_part(x, stages) : 0;
  for (int k = 0; least > 0 && (!found || isinf(found->seconds)); k++) {
    if (PARTS[k] <= least && k > 0 && PARTS[k - 1] <= least) break;
    obscura_cut_within(x, fmax(PARTS[k], least), stages);
    obscura_draft_destroy(&found);
    found = make_least(x, stages);
    obscura_draft_evaluate(x, found);
  }
  if (!found) {
    memcpy(stages, base, sizeof *stages * (size_t)x->n_stages);
    if (cuts) obscura_cut_nearest(x, stages);
    found = make_least(x, stages);
  }
  mem_free(stages);
  return found;
}

/* Each means is searched after those before it and what they find stays a candidate: with one more means allowed no
 * plan is slower. */
struct obscura_draft *obscura_search(struct obscura *x, struct obscura_draft *paper, const struct plan_stage *base,
                                     struct obscura_choice *choice) {
  struct obscura_draft *best = paper;
  bool swaps = obscura_may_swap(x);
  search_with(x, base, false, x->tier, &best);
  obscura_refine(x, best, false, choice);
  obscura_refine_cuts(x, false, choice);
  if (swaps) {
    search_with(x, base, true, x->tier, &best);
    obscura_refine(x, best, true, choice);
    obscura_refine_cuts(x, true, choice);
  }
  double before = best->seconds;
  if (swaps && x->request->params->pipeline.swap_tier == PARAMS_SWAP_TIER_AUTO && obscura_links_are_faster(x, base))
    search_with(x, base, true, PLAN_TIER_RANK, &best);
  if (best->seconds < before) obscura_refine(x, best, true, choice);
  if (x->request->recompute_ops) spare_micro(x, &best);
  if (isinf(best->seconds)) {
    obscura_draft_destroy(&best);
    best = find_any(x, base);
  }
  return best;
}
