/* The integer programme of planner obscura (Eq. 4) as a whole against every choice that there is: each number of
 * blocks, each part of them in eighths, each set of ops that a layer may discard, the same on all adjusted stages. What
 * a choice takes (bytes and Eq. 2 and 3) is reckoned here anew; the planner's own evaluation is left out. */
#include "base/mem.h"
#include "base/rng.h"
#include "cost_case.h"
#include "model/footprint.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"
#include "planner_cases.h"
#include "tiny_model.h"

enum { MAX_STAGES = 6, MAX_MICRO = 40, ROWS = 2, LENGTH = 16, EIGHTHS = 8, MAX_CHOICES = 1 << 16 };

static uint64_t draw(uint64_t n) {
  static const struct rng_key key = {.seed = 17, .purpose = RNG_TEST};
  static uint64_t drawn;
  return rng_bits(&key, drawn++) % n;
}

/* A deck's costs, and a copy's seconds by them: latency, bytes a second, or so many whatever the bytes. */
struct costs {
  const char *yaml;
  double latency, speed, whole;
};

#define COPIES(speed, latency) "cost: {source: preset, host_link: {gb_per_s: " #speed ", latency_us: " #latency "}}\n"
static const struct costs all_costs[] = {
    {COPIES(1, 0), 0, 1e9, 0},
    {COPIES(0.15, 0), 0, 0.15e9, 0},
    {COPIES(0.1, 2), 2e-6, 0.1e9, 0},
    {COPIES(0.08, 0), 0, 0.08e9, 0},
    {COPIES(0.06, 1), 1e-6, 0.06e9, 0},
    {COPIES(0.05, 0), 0, 0.05e9, 0},
    {"cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, recompute_ms: 0.4, evict_ms: 0.2}}\n",
     0, 0, 0.2e-3},
    {"cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, recompute_ms: 1, evict_ms: 3.5}}\n",
     0, 0, 3.5e-3},
};
enum { N_COSTS = sizeof all_costs / sizeof *all_costs };

struct programme_case {
  struct model *model;
  const struct costs *costs;
  struct micro_shape micro[MAX_MICRO];
  struct plan_stage stages[MAX_STAGES];
  struct params params;
  struct plan_request request;
  uint32_t *ops; /* [n_layers] what may be discarded */
  int64_t limits[MAX_STAGES];
  int32_t n_adjusted;
  struct obscura x;
  struct stage_need needs[MAX_STAGES];
  int32_t ahead[MAX_STAGES]; /* mu */
  int64_t leaves[MAX_STAGES];
};

/* ---- what may be discarded ---- */

/* Bytes that a stage's micro-batch does not keep, and seconds to make them again. */
struct discard {
  int64_t bytes;
  double seconds;
};

static int64_t count_kept(const struct programme_case *c, int32_t l, uint32_t ops) {
  struct footprint f;
  footprint_layer(c->model, &c->model->layers[l], micro_shape_fill(ROWS, LENGTH), ops, 0, &f);
  return f.bytes[REGION_KEEP_INPUT] + f.bytes[REGION_KEEP_WEIGHT];
}

/* Of n, those of which none has as many bytes in less time; in place. Returns how many. */
static int keep_best(struct discard *all, int n) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    bool beaten = false;
    for (int k = 0; k < kept && !beaten; k++) beaten = all[k].bytes >= all[i].bytes && all[k].seconds <= all[i].seconds;
    if (beaten) continue;
    struct discard own = all[i];
    int rest = 0;
    for (int k = 0; k < kept; k++)
      if (all[k].bytes > own.bytes || all[k].seconds < own.seconds) all[rest++] = all[k];
    all[rest++] = own;
    kept = rest;
  }
  return kept;
}

/* All that one layer may discard. */
static int list_layer(const struct programme_case *c, int32_t l, struct discard *out) {
  uint32_t may = c->ops[l];
  int n = 0;
  for (uint32_t ops = may;; ops = (ops - 1) & may) {
    double seconds = ops ? cost_get_recompute(c->request.cost, 0, l, ops, micro_shape_fill(ROWS, LENGTH)) : 0;
    out[n++] = (struct discard){count_kept(c, l, 0) - count_kept(c, l, ops), seconds};
    if (ops == 0) return keep_best(out, n);
  }
}

/* All that a stage may discard, layer beside layer. Costs of whole stages are those of all its layers as soon as there
 * is something. */
static int list_stage(const struct programme_case *c, int32_t s, struct discard *out) {
  static struct discard layer[MAX_CHOICES], sums[MAX_CHOICES];
  const struct plan_stage *stage = &c->stages[s];
  double whole = 0;
  int n = 1;
  out[0] = (struct discard){0, 0};
  for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
    int n_layer = list_layer(c, l, layer), n_sums = 0;
    whole += cost_get_recompute(c->request.cost, 0, l, UINT32_MAX, micro_shape_fill(ROWS, LENGTH));
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n_layer; k++)
        sums[n_sums++] = (struct discard){out[i].bytes + layer[k].bytes, out[i].seconds + layer[k].seconds};
    n = keep_best(sums, n_sums);
    memcpy(out, sums, sizeof *out * (size_t)n);
  }
  if (cost_recomputes_whole(c->request.cost))
    for (int i = 0; i < n; i++)
      if (out[i].bytes > 0) out[i].seconds = whole;
  return n;
}

/* ---- what a choice takes ---- */

struct choice {
  int32_t lambda;
  double beta;
  struct discard discard;
};

static int32_t get_lambda(const struct programme_case *c, const struct choice *choice, int32_t s) {
  return choice->lambda ? choice->lambda + c->n_adjusted - 1 - s : 0;
}

/* Eq. 1 with the two blocks that are on their way, and what else a stage has. */
static double get_bytes(const struct programme_case *c, const struct choice *choice, int32_t s) {
  const struct stage_need *need = &c->needs[s];
  int64_t bytes = choice->discard.bytes, forward = bytes + need->work_forward, work = bytes + need->work_backward;
  if (forward > need->work_discarding) forward = need->work_discarding;
  if (forward > work) work = forward;
  int32_t lambda = get_lambda(c, choice, s), away = lambda > 2 ? lambda - 2 : 0;
  double adjusted = (double)(need->keep - bytes), moved = adjusted - (double)c->leaves[s];
  return (double)need->fixed + c->ahead[s] * adjusted - away * choice->beta * moved + (double)work;
}

static double get_transfer(const struct programme_case *c, const struct choice *choice) {
  int32_t k = c->n_adjusted - 1;
  if (choice->lambda == 0) return 0;
  if (c->costs->speed == 0) return c->costs->whole * choice->beta;
  double bytes = floor(choice->beta * (double)(c->needs[k].keep - choice->discard.bytes - c->leaves[k]));
  return c->costs->latency + bytes / c->costs->speed;
}

/* Eq. 3 of stage 0 with the slowest stages of Eq. 5, and Eq. 2. */
static double get_seconds(const struct programme_case *c, const struct choice *choice) {
  int32_t p = c->request.n_stages, m = c->request.n_micro, k = c->n_adjusted - 1;
  double other = 0, adjusted = 0, r = choice->discard.seconds, f = c->needs[k].forward, b = c->needs[k].backward;
  for (int32_t s = 0; s < p; s++) {
    double pass = c->needs[s].forward + c->needs[s].backward;
    if (s > k && pass > other) other = pass;
    if (s <= k && pass + r > adjusted) adjusted = pass + r;
  }
  double transfer = get_transfer(c, choice), after = k + 1 < p ? (m + p - k - 2) * other : 0, time = after;
  for (int32_t s = k; s >= 0; s--) {
    int32_t lambda = get_lambda(c, choice, s);
    double lost = fmax(lambda * (transfer - f) - (k - s) * (b + r), 0) + fmax(lambda * (transfer - b - r), 0);
    if (lambda) lost += c->x.options.epsilon * (f + b + r);
    double busy = (m + k - s) * adjusted + lost;
    time = s == p - 1 ? busy : fmax(time + adjusted, busy);
  }
  return time;
}

static bool is_allowed(const struct programme_case *c, const struct choice *choice) {
  int32_t k = c->n_adjusted - 1;
  double steady = c->needs[k].forward + c->needs[k].backward + choice->discard.seconds;
  if (choice->lambda && get_transfer(c, choice) > steady * (1 + 1e-12)) return false;
  for (int32_t s = 0; s <= k; s++)
    if (get_bytes(c, choice, s) > (double)c->limits[s]) return false;
  return true;
}

/* ---- all of them ---- */

static bool may_swap(const struct programme_case *c) { return c->params.pipeline.swap != PARAMS_SWAP_OFF; }

static bool may_take_blocks(const struct programme_case *c, int32_t lambda) {
  const struct params_obscura *o = &c->x.options;
  int32_t k = c->n_adjusted - 1, p = c->request.n_stages;
  if (o->lambda != PARAMS_AUTO) return lambda == (may_swap(c) ? o->lambda : 0);
  if (lambda == 0) return true;
  return may_swap(c) && (!o->faithful || (lambda >= 2 && lambda <= p - k - 2));
}

static double find_best(const struct programme_case *c, struct choice *best) {
  static struct discard discards[MAX_CHOICES];
  int32_t k = c->n_adjusted - 1;
  int n = list_stage(c, k, discards);
  double least = INFINITY;
  for (int32_t lambda = 0; lambda < c->ahead[k]; lambda++)
    for (int b = lambda ? 1 : 0; b <= (lambda ? EIGHTHS : 0) && may_take_blocks(c, lambda); b++)
      for (int i = 0; i < n; i++) {
        struct choice choice = {lambda, (double)b / EIGHTHS, discards[i]};
        if (c->x.options.beta != PARAMS_AUTO && lambda) choice.beta = c->x.options.beta;
        if (!is_allowed(c, &choice)) continue;
        double seconds = get_seconds(c, &choice);
        if (seconds < least) *best = choice;
        if (seconds < least) least = seconds;
      }
  return least;
}

/* ---- cases ---- */

static void open_programme(struct programme_case *c, int32_t p, int32_t n_adjusted, int32_t m,
                           const struct costs *costs) {
  int blocks = (int)draw(2) + 1;
  *c = (struct programme_case){.model = make_tiny_model(blocks * p, false), .costs = costs, .n_adjusted = n_adjusted};
  struct model *model = c->model;
  c->ops = MEM_NEW(uint32_t, model->n_layers);
  uint64_t kind = draw(3);
  uint32_t some = (uint32_t)draw(UINT32_MAX);
  for (int32_t l = 0; l < model->n_layers; l++)
    c->ops[l] = recompute_get_ops(&model->layers[l], PARAMS_RECOMPUTE_FULL) & (kind ? UINT32_MAX : some);
  for (int32_t i = 0; i < m; i++) c->micro[i] = micro_shape_make(ROWS, LENGTH, ROWS * LENGTH, ROWS * LENGTH);
  for (int32_t s = 0; s < p; s++) c->limits[s] = INT64_MAX;
  c->request = (struct plan_request){.model = model,
                                     .cost = make_cost_case(costs->yaml, model, p),
                                     .n_ranks = p,
                                     .n_stages = p,
                                     .partition.kind = PARAMS_CUT_EVEN,
                                     .n_micro = m,
                                     .micro = c->micro,
                                     .device_limit = c->limits,
                                     .recompute_ops = c->ops,
                                     .n_recompute_stages = PLAN_ALL_STAGES,
                                     .recompute_as_needed = true,
                                     .params = &c->params};
  c->params = *get_test_params();
  c->params.pipeline.swap = draw(8) > 0 ? PARAMS_SWAP_AUTO : PARAMS_SWAP_OFF;
  c->params.pipeline.swap_tier = PARAMS_SWAP_TIER_HOST;
  T_CHECK(!partition_make(&c->request, c->stages), "%s", error_text());
  c->x = (struct obscura){.request = &c->request,
                          .options = c->params.obscura,
                          .tier = PLAN_TIER_HOST,
                          .n_stages = p,
                          .n_micro = m,
                          .n_layers = model->n_layers,
                          .copy_factor = 1,
                          .needs = stage_needs_create(&c->request),
                          .menus = MEM_NEW(struct stage_menu *, p),
                          .memos = MEM_NEW(struct obscura_memo, model->n_layers)};
  for (int32_t s = 0; s < p; s++) {
    const struct plan_stage *stage = &c->stages[s];
    c->x.menus[s] = stage_menu_create(&c->request, c->x.needs, s);
    c->needs[s] = stage_needs_get(c->x.needs, s, s, stage->first_layer, stage->n_layers);
    int32_t most = s < n_adjusted ? p - s + 2 * (p - n_adjusted) : p - s;
    c->ahead[s] = most < m ? most : m;
    if (s + 1 < p)
      c->leaves[s] = footprint_output(model, stage->first_layer + stage->n_layers - 1, micro_shape_fill(ROWS, LENGTH));
  }
}

static void close_programme(struct programme_case *c) {
  for (int32_t s = 0; s < c->request.n_stages; s++) stage_menu_destroy(&c->x.menus[s]);
  mem_free(c->x.menus);
  mem_free(c->x.memos);
  stage_needs_destroy(&c->x.needs);
  struct cost *cost = (struct cost *)c->request.cost;
  cost_destroy(&cost);
  mem_free(c->ops);
  model_destroy(&c->model);
}

/* Between what the least and the greatest choice take, so that some have none. Odd: no choice meets it exactly. */
static void draw_limits(struct programme_case *c) {
  static struct discard discards[MAX_CHOICES];
  int32_t k = c->n_adjusted - 1;
  int n = list_stage(c, k, discards);
  double part = (double)draw(101) / 100;
  bool alike = draw(2);
  for (int32_t s = 0; s <= k; s++) {
    struct choice most = {0}, least = {.lambda = may_swap(c) ? c->ahead[k] - 1 : 0, .beta = 1};
    for (int i = 0; i < n; i++)
      if (discards[i].bytes > least.discard.bytes) least.discard = discards[i];
    double low = get_bytes(c, &least, s), high = get_bytes(c, &most, s);
    if (draw(4)) low = (low + high) / 2;
    c->limits[s] = (int64_t)(low + part * (high - low)) | 1;
    if (alike && s > 0) c->limits[s] = c->limits[0];
    part = alike ? part : (double)draw(101) / 100;
  }
}

static int n_moving, n_discarding, n_both, n_none;

static void count_choice(const struct choice *best, double seconds) {
  n_none += isinf(seconds);
  if (isinf(seconds)) return;
  n_moving += best->lambda > 0;
  n_discarding += best->discard.bytes > 0;
  n_both += best->lambda > 0 && best->discard.bytes > 0;
}

/* The planner's choice is as good as the best, within all limits, and takes what it says. */
static void check_case(struct programme_case *c, const char *name) {
  struct choice best = {0}, own;
  double seconds = find_best(c, &best);
  struct obscura_draft *d = obscura_draft_create(&c->x, c->stages);
  obscura_draft_order(&c->x, d, c->n_adjusted, PARAMS_OBSCURA_STEPS_REFINED);
  obscura_solve(&c->x, &d);
  int32_t k = c->n_adjusted - 1;
  own = (struct choice){d->lambda[k], d->beta, {d->discarded[k], d->recompute[k]}};
  count_choice(&best, seconds);
  T_CHECK(isinf(seconds) == isinf(d->seconds) && (isinf(seconds) || fabs(d->seconds - seconds) <= 1e-9 * seconds),
          "%s: %.12g (lambda %d beta %g, %lld bytes, r %g), best %.12g (lambda %d beta %g, %lld bytes, r %g)", name,
          d->seconds, (int)own.lambda, own.beta, (long long)own.discard.bytes, own.discard.seconds, seconds,
          (int)best.lambda, best.beta, (long long)best.discard.bytes, best.discard.seconds);
  if (!isinf(d->seconds)) {
    T_CHECK(is_allowed(c, &own), "%s: what is chosen is not allowed", name);
    T_CHECK(fabs(get_seconds(c, &own) - d->seconds) <= 1e-9 * seconds, "%s: it takes %.12g, not %.12g", name,
            get_seconds(c, &own), d->seconds);
  }
  obscura_draft_destroy(&d);
}

static void try_case(int trial, int32_t p, int32_t n_adjusted) {
  struct programme_case c;
  char name[128];
  int32_t m = p + (int32_t)draw((uint64_t)(5 * p));
  open_programme(&c, p, n_adjusted, m, &all_costs[draw(N_COSTS)]);
  struct params_obscura *o = &c.x.options;
  o->faithful = draw(2);
  if (draw(4) == 0) o->epsilon = 0.3;
  if (draw(6) == 0) o->lambda = (int32_t)draw((uint64_t)c.ahead[n_adjusted - 1]);
  if (draw(6) == 0) o->beta = 0.6;
  draw_limits(&c);
  snprintf(name, sizeof name, "trial %d p %d adjusted %d m %d %s%s lambda %d beta %g", trial, (int)p, (int)n_adjusted,
           (int)m, o->faithful ? "faithful" : "", may_swap(&c) ? "" : " no swap", (int)o->lambda, o->beta);
  check_case(&c, name);
  close_programme(&c);
}

int main(void) {
  int trial = 0;
  for (int round = 0; round < 120; round++)
    for (int32_t p = 3; p <= MAX_STAGES; p++)
      for (int32_t n = 1; n <= p; n++) try_case(trial++, p, n);
  T_CHECK(n_moving > 20 && n_discarding > 20 && n_both > 10 && n_none > 5,
          "%d move, %d discard, %d both, %d have no choice", n_moving, n_discarding, n_both, n_none);
  return t_end();
}
