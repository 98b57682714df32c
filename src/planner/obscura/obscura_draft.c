/* Drafts: the pipeline that planner obscura changes step by step, its time and memory, and the plan made of it. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"
#include "planner/one_f_one_b.h"

/* ---- life ---- */

static struct obscura_draft *allocate(const struct obscura *x) {
  struct obscura_draft *d = MEM_NEW(struct obscura_draft, 1);
  d->n_micro = x->n_micro;
  d->stages = MEM_NEW(struct plan_stage, x->n_stages);
  d->needs = MEM_NEW(struct stage_need, x->n_stages);
  d->warm_up = MEM_NEW(int32_t, x->n_stages);
  d->steady = MEM_NEW(int32_t, x->n_stages);
  d->lambda = MEM_NEW(int32_t, x->n_stages);
  d->ops = MEM_NEW(uint32_t, x->n_layers);
  d->discarded = MEM_NEW(int64_t, x->n_stages);
  d->recompute = MEM_NEW(double, x->n_stages);
  d->n_recompute = MEM_NEW(int32_t, x->n_stages);
  d->margin = MEM_NEW(int64_t, x->n_stages);
  return d;
}

struct obscura_draft *obscura_draft_create(const struct obscura *x, const struct plan_stage *stages) {
  struct obscura_draft *d = allocate(x);
  for (int32_t s = 0; s < x->n_stages; s++) d->n_recompute[s] = x->n_micro;
  d->early = x->early;
  d->tier = x->tier;
  d->seconds = INFINITY;
  obscura_draft_order(x, d, 0, PARAMS_OBSCURA_STEPS_REFINED);
  obscura_draft_cut(x, d, stages);
  return d;
}

struct obscura_draft *obscura_draft_dup(const struct obscura *x, const struct obscura_draft *draft) {
  struct obscura_draft *d = allocate(x), fresh = *d;
  size_t n = (size_t)x->n_stages;
  *d = *draft;
  d->stages = memcpy(fresh.stages, draft->stages, sizeof *d->stages * n);
  d->needs = memcpy(fresh.needs, draft->needs, sizeof *d->needs * n);
  d->warm_up = memcpy(fresh.warm_up, draft->warm_up, sizeof *d->warm_up * n);
  d->steady = memcpy(fresh.steady, draft->steady, sizeof *d->steady * n);
  d->lambda = memcpy(fresh.lambda, draft->lambda, sizeof *d->lambda * n);
  d->ops = memcpy(fresh.ops, draft->ops, sizeof *d->ops * (size_t)x->n_layers);
  d->discarded = memcpy(fresh.discarded, draft->discarded, sizeof *d->discarded * n);
  d->recompute = memcpy(fresh.recompute, draft->recompute, sizeof *d->recompute * n);
  d->n_recompute = memcpy(fresh.n_recompute, draft->n_recompute, sizeof *d->n_recompute * n);
  d->margin = memcpy(fresh.margin, draft->margin, sizeof *d->margin * n);
  return d;
}

void obscura_draft_destroy(struct obscura_draft **draft) {
  struct obscura_draft *d = *draft;
  if (!d) return;
  mem_free(d->stages);
  mem_free(d->needs);
  mem_free(d->warm_up);
  mem_free(d->steady);
  mem_free(d->lambda);
  mem_free(d->ops);
  mem_free(d->discarded);
  mem_free(d->recompute);
  mem_free(d->n_recompute);
  mem_free(d->margin);
  mem_free(d);
  *draft = NULL;
}

bool obscura_draft_keep(struct obscura_draft **draft, struct obscura_draft **best) {
  bool better = !*best || (*draft)->seconds < (*best)->seconds;
  obscura_draft_destroy(better ? best : draft);
  if (better) *best = *draft;
  *draft = NULL;
  return better;
}

/* ---- changes ---- */

void obscura_draft_order(const struct obscura *x, struct obscura_draft *d, int32_t n, enum params_obscura_steps step) {
  struct obscura_model model = {.n_stages = x->n_stages, .n_micro = x->n_micro, .n_adjusted = n};
  d->n_adjusted = n;
  for (int32_t s = 0; s < x->n_stages; s++) {
    int32_t moved = obscura_model_get_moved(&model, s), refined = obscura_model_get_refined(&model, s);
    d->warm_up[s] = step >= PARAMS_OBSCURA_STEPS_REFINED ? refined : moved;
    d->steady[s] = step == PARAMS_OBSCURA_STEPS_STRAWMAN ? obscura_model_get_plain(&model, s) : d->warm_up[s];
    d->needs[s].copies = d->warm_up[s];
  }
}

/* Returns the seconds of a stage's recomputation of one micro-batch. */
static double price(const struct obscura *x, const struct obscura_draft *d, int32_t stage) {
  const struct cost *cost = x->request->cost;
  const struct micro_shape *micro = stage_needs_get_micro(x->needs);
  const struct plan_stage *s = &d->stages[stage];
  int32_t rank = planner_get_rank(x->request, stage);
  double sum = 0;
  int64_t n_body = 0;
  bool any = false, whole = cost && cost_recomputes_whole(cost);
  for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++) {
    any = any || d->ops[l];
    n_body += x->request->model->layers[l].block >= 0;
    if (cost) sum += cost_get_recompute(cost, rank, l, whole ? UINT32_MAX : d->ops[l], *micro);
  }
  if (!any) return 0;
  return cost ? sum * cost_get_recompute_share_factor(cost, n_body) : 1;
}

static int64_t count_kept(const struct obscura *x, int32_t l, uint32_t ops) {
  const struct micro_shape *micro = stage_needs_get_micro(x->needs);
  struct footprint f;
  footprint_layer(x->request->model, &x->request->model->layers[l], *micro, ops, 0, &f);
  return f.bytes[REGION_KEEP_INPUT] + f.bytes[REGION_KEEP_WEIGHT];
}

/* Returns the bytes of a micro-batch that a layer discards. The last answer is kept, as most calls repeat it. */
static int64_t count_discarded(const struct obscura *x, int32_t l, uint32_t ops) {
  struct obscura_memo *memo = &x->memos[l];
  if (ops == 0) return 0;
  if (memo->ops != ops) *memo = (struct obscura_memo){ops, count_kept(x, l, 0) - count_kept(x, l, ops)};
  return memo->bytes;
}

static void measure_discarded(const struct obscura *x, struct obscura_draft *d, int32_t s) {
  d->discarded[s] = 0;
  for (int32_t l = d->stages[s].first_layer; l < d->stages[s].first_layer + d->stages[s].n_layers; l++)
    d->discarded[s] += count_discarded(x, l, d->ops[l]);
  d->recompute[s] = price(x, d, s);
}

void obscura_draft_cut(const struct obscura *x, struct obscura_draft *d, const struct plan_stage *stages) {
  for (int32_t s = 0; s < x->n_stages; s++) {
    if (d->stages[s].first_layer == stages[s].first_layer && d->stages[s].n_layers == stages[s].n_layers) continue;
    d->stages[s] = stages[s];
    d->needs[s] =
        stage_needs_get(x->needs, s, planner_get_rank(x->request, s), stages[s].first_layer, stages[s].n_layers);
    d->needs[s].copies = d->warm_up[s];
    if (!x->request->cost) d->needs[s].forward = 1, d->needs[s].backward = 2;
    measure_discarded(x, d, s);
  }
}

void obscura_draft_discard(const struct obscura *x, struct obscura_draft *d, int32_t stage, const uint32_t *ops) {
  const struct plan_stage *s = &d->stages[stage];
  for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++) d->ops[l] = ops ? ops[l] : 0;
  measure_discarded(x, d, stage);
}

/* ---- what it takes ---- */

static int64_t get_leaving(const struct obscura *x, const struct obscura_draft *d, int32_t s) {
  const struct micro_shape *micro = stage_needs_get_micro(x->needs);
  int32_t last = d->stages[s].first_layer + d->stages[s].n_layers - 1;
  return s + 1 < x->n_stages ? footprint_output(x->request->model, last, *micro) : 0;
}

void obscura_draft_get_messages(const struct obscura *x, const struct obscura_draft *d, int32_t s, double *send,
                                double *send_back) {
  const struct cost *cost = x->request->cost;
  *send = *send_back = 0;
  if (!cost) return;
  int64_t bytes =
      cost_get_output_bytes(cost, d->stages[s].first_layer + d->stages[s].n_layers - 1, get_leaving(x, d, s));
  int32_t here = planner_get_rank(x->request, s), next = planner_get_rank(x->request, s + 1);
  *send = cost_get_message(cost, here, next, bytes);
  *send_back = cost_get_message(cost, next, here, bytes);
}

double obscura_draft_time(const struct obscura *x, const struct obscura_draft *d) {
  struct one_f_one_b times = one_f_one_b_create(x->n_stages, x->n_micro);
  times.early = d->early;
  for (int32_t s = 0; s < x->n_stages; s++) {
    times.warm_up[s] = d->warm_up[s];
    times.steady[s] = d->steady[s];
    times.forward[s] = d->needs[s].forward;
    times.backward[s] = d->needs[s].backward;
    times.recompute[s] = d->recompute[s];
    if (s + 1 < x->n_stages) obscura_draft_get_messages(x, d, s, &times.send[s], &times.send_back[s]);
    if (d->lambda[s] > 0) times.copy[s] = obscura_get_transfer(x, d, s);
    times.capacity[s] = d->warm_up[s] - d->lambda[s] + 2;
  }
  double seconds = one_f_one_b_time(&times);
  one_f_one_b_free(&times);
  return seconds;
}

int64_t obscura_draft_get_peak(const struct obscura *x, const struct obscura_draft *d, int32_t s) {
  const struct stage_need *need = &d->needs[s];
  int64_t kept = need->keep - d->discarded[s], away = d->lambda[s] > 2 ? d->lambda[s] - 2 : 0;
  int64_t gone = (int64_t)((double)away * d->beta * (double)(kept - get_leaving(x, d, s)));
  return stage_need_get_peak(need, d->discarded[s]) - gone;
}

/* ---- the plan ---- */

static void put_orders(const struct obscura *x, const struct obscura_draft *d, struct plan *plan) {
  int64_t n = 0;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    int32_t s = planner_get_first_stage(x->request, r);
    plan->order_offset[r] = n;
    n += order_make_ahead(s, x->n_micro, d->warm_up[s], d->steady[s], plan->order + n);
  }
}

static int32_t count_units(double seconds, double unit) { return unit > 0 ? (int32_t)lround(seconds / unit) : 0; }

/* Stages that run ahead have sends that wait for their receivers. The lengths of passes put messages into the order in
 * which they are needed. */
static void put_pace(const struct obscura *x, const struct obscura_draft *d, struct plan *plan) {
  enum { MOST = 400 }; /* units of the longest micro-batch */
  double longest = 0;
  for (int32_t s = 0; s < x->n_stages; s++)
    longest = fmax(longest, d->needs[s].forward + d->needs[s].backward + d->recompute[s]);
  for (int32_t s = 0; s < x->n_stages; s++)
    plan->pace[s] = (struct plan_pace){.forward = count_units(d->needs[s].forward, longest / MOST),
                                       .rebuild = count_units(d->recompute[s], longest / MOST),
                                       .input = count_units(d->needs[s].backward, longest / MOST)};
}

void obscura_draft_put_stages(const struct obscura *x, const struct obscura_draft *d, struct plan *plan) {
  planner_fill(x->request, "obscura", plan);
  memcpy(plan->stages, d->stages, sizeof *plan->stages * (size_t)x->n_stages);
  for (int32_t s = 0; s < x->n_stages; s++) plan->replica_rank[s] = planner_get_rank(x->request, s);
  put_pace(x, d, plan);
}

int obscura_draft_build(const struct obscura *x, const struct obscura_draft *d, struct plan **plan) {
  int32_t p = x->n_stages;
  struct plan *made = plan_create(x->n_layers, p, p, x->n_micro, 2 * (int64_t)p * x->n_micro);
  obscura_draft_put_stages(x, d, made);
  put_orders(x, d, made);
  recompute_put_first(made, d->ops, d->n_recompute);
  made->recompute_early = made->n_recompute > 0 && d->early;
  int status = obscura_put_moves(x, d, made);
  if (!status) planner_cut(x->request, made);
  if (status) plan_destroy(&made);
  *plan = made;
  return status;
}

static bool fits(const struct obscura *x, const struct obscura_draft *d) {
  for (int32_t s = 0; s < x->n_stages; s++)
    if (obscura_draft_get_peak(x, d, s) > obscura_get_limit(x, d, s)) return false;
  return true;
}

/* Raises the margin of each stage whose rank is over its limit, by the bytes that the plan takes beyond the draft's
 * estimate. Returns true when a margin was raised. */
static bool learn(const struct obscura *x, struct obscura_draft *d, const int64_t *peaks) {
  bool more = false;
  for (int32_t s = 0; s < x->n_stages; s++) {
    int32_t rank = planner_get_rank(x->request, s);
    int64_t limit = planner_get_limit(x->request, rank);
    if (peaks[rank] == INT64_MAX || peaks[rank] <= limit) continue;
    int64_t margin = peaks[rank] - obscura_draft_get_peak(x, d, s);
    if (margin <= d->margin[s]) continue;
    d->margin[s] = margin;
    more = true;
  }
  return more;
}

void obscura_draft_measure(const struct obscura *x, struct obscura_draft *d, int64_t *peaks) {
  struct plan *plan;
  d->seconds = INFINITY;
  for (int32_t r = 0; r < x->request->n_ranks; r++) peaks[r] = INT64_MAX;
  if (obscura_draft_build(x, d, &plan)) {
    error_clear();
    return;
  }
  d->seconds = planner_evaluate(x->request, plan, peaks);
  plan_destroy(&plan);
}

bool obscura_draft_evaluate(const struct obscura *x, struct obscura_draft *d) {
  if (!x->request->simulate) {
    d->seconds = fits(x, d) ? obscura_draft_time(x, d) : INFINITY;
    return false;
  }
  int64_t *peaks = MEM_NEW(int64_t, x->request->n_ranks);
  obscura_draft_measure(x, d, peaks);
  bool more = isinf(d->seconds) && learn(x, d, peaks);
  mem_free(peaks);
  return more;
}

struct obscura_model obscura_draft_get_model(const struct obscura *x, const struct obscura_draft *d) {
  int32_t k = d->n_adjusted - 1;
  struct obscura_model model = {
      .n_stages = x->n_stages, .n_micro = x->n_micro, .n_adjusted = d->n_adjusted, .epsilon = x->options.epsilon};
  for (int32_t s = 0; s < x->n_stages; s++) {
    double pass = d->needs[s].forward + d->needs[s].backward + d->recompute[s];
    double *slowest = s <= k ? &model.slowest_adjusted : &model.slowest;
    *slowest = fmax(*slowest, pass);
    if (s <= k) model.recompute = fmax(model.recompute, d->recompute[s]);
  }
  int32_t at = k > 0 ? k : 0;
  model.forward = d->needs[at].forward;
  model.backward = d->needs[at].backward;
  if (k < 0) return model;
  while (at > 0 && d->lambda[at] == 0) at--; /* the last whose blocks leave */
  model.lambda = d->lambda[at] ? d->lambda[at] - (k - at) : 0;
  model.transfer = d->lambda[at] ? obscura_get_transfer(x, d, at) : 0;
  return model;
}
