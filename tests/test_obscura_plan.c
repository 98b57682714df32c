/* Planner obscura: its plans through all checks and within their limits; by default no slower than the paper's procedure, 1F1B,
 * AdaPipe or BPipe under the same limits; what decks can force; blocks that leave; Algorithm 1. */
#include "base/mem.h"
#include "base/rng.h"
#include "cost_case.h"
#include "model/footprint.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"
#include "planner_cases.h"
#include "setup/request.h"
#include "tiny_model.h"

enum { MAX_RANKS = 8, MAX_MICRO = 64, LENGTH = 16 };

static int64_t draw(int64_t n) {
  static const struct rng_key key = {.seed = 5, .purpose = RNG_TEST};
  static uint64_t drawn;
  return (int64_t)(rng_bits(&key, drawn++) % (uint64_t)n);
}

static const char *const costs[] = {
    "cost: {source: preset}\n",
    "cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, recompute_ms: 0.5, evict_ms: 0.7}}\n",
    "cost: {source: preset}\ndevice: {rank_speeds: {0: 0.5}}\n",
    "cost: {source: preset, link: {gb_per_s: 100}, host_link: {gb_per_s: 0.1}}\n",
};

struct plan_case {
  struct model *model;
  struct cost *cost;
  struct micro_shape micro[MAX_MICRO];
  int64_t limits[MAX_RANKS];
  uint32_t *ops;
  struct params params;
  struct plan_request request;
};

static void open_case(struct plan_case *c, int blocks, int32_t p, int32_t m, int costs_of) {
  *c = (struct plan_case){.model = make_tiny_model(blocks, blocks % 2), .params = *get_test_params()};
  c->cost = make_cost_case(costs[costs_of], c->model, p);
  c->ops = MEM_NEW(uint32_t, c->model->n_layers);
  for (int32_t l = 0; l < c->model->n_layers; l++)
    c->ops[l] = recompute_get_ops(&c->model->layers[l], PARAMS_RECOMPUTE_FULL);
  for (int32_t i = 0; i < m; i++) c->micro[i] = micro_shape_make(2, LENGTH, 2 * LENGTH, 2 * LENGTH);
  for (int32_t r = 0; r < p; r++) c->limits[r] = INT64_MAX;
  c->request = (struct plan_request){.model = c->model,
                                     .cost = c->cost,
                                     .n_ranks = p,
                                     .n_stages = p,
                                     .n_micro = m,
                                     .micro = c->micro,
                                     .device_limit = c->limits,
                                     .clip = blocks % 3 == 0,
                                     .recompute_ops = c->ops,
                                     .n_recompute_stages = PLAN_ALL_STAGES,
                                     .recompute_as_needed = true,
                                     .recompute_early = true,
                                     .params = &c->params,
                                     .simulate = true};
}

static void close_case(struct plan_case *c) {
  mem_free(c->ops);
  cost_destroy(&c->cost);
  model_destroy(&c->model);
}

/* Seconds of the planner's plan; INFINITY when it declines or does not fit. Its peaks, where it has a plan. */
static double time_planner(struct plan_case *c, const char *planner, int64_t *peaks) {
  struct plan *plan = NULL;
  int64_t own[MAX_RANKS];
  double seconds = INFINITY;
  if (!planner_run(planner, &c->request, &plan)) seconds = planner_evaluate(&c->request, plan, peaks ? peaks : own);
  error_clear();
  plan_destroy(&plan);
  return seconds;
}

/* ---- by default ---- */

/* Limits between what 1F1B takes with all recomputed and with nothing. */
static void draw_limits(struct plan_case *c, int part) {
  int64_t least[MAX_RANKS], most[MAX_RANKS];
  c->request.n_recompute_stages = 0;
  time_planner(c, "1f1b", most);
  c->request.n_recompute_stages = PLAN_ALL_STAGES;
  time_planner(c, "1f1b", least);
  bool alike = draw(2);
  int64_t low = 0, high = 0;
  for (int32_t r = 0; r < c->request.n_ranks; r++) {
    low = least[r] > low ? least[r] : low;
    high = most[r] > high ? most[r] : high;
  }
  for (int32_t r = 0; r < c->request.n_ranks; r++)
    c->limits[r] = alike ? low + (high - low) * part / 10 : least[r] + (most[r] - least[r]) * part / 10;
}

/* Plans in which a late micro-batch keeps what earlier ones discard, and in which blocks leave. */
static int n_spared, n_moving;

static void count_kinds(const struct plan *plan) {
  bool spared = false;
  for (int32_t k = 0; k < plan->n_recompute; k++) spared = spared || plan->recompute[k].last_micro < plan->n_micro - 1;
  n_spared += spared;
  n_moving += plan->n_moves > 0;
}

static void check_plan(struct plan_case *c) {
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  int status = planner_run("obscura", &c->request, &plan);
  if (!status) status = dag_build(plan, c->model, &dag);
  if (!status) status = dag_check(dag, plan);
  T_CHECK(!status, "p %d m %d: %s", (int)c->request.n_ranks, (int)c->request.n_micro, error_text());
  if (!status) count_kinds(plan);
  for (int32_t k = 0; !status && k < plan->n_moves; k++) {
    int64_t parts[DAG_BLOCK_PARTS];
    const struct plan_move *move = &plan->moves[k];
    T_CHECK(dag_measure_block(plan, c->model, move->stage, move->micro, parts) > 0, "stage %d moves nothing",
            (int)move->stage);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
}

static void check_never_slower(struct plan_case *c, int trial) {
  static const char *const others[] = {"1f1b", "adapipe", "bpipe"};
  double own = time_planner(c, "obscura", NULL), best = INFINITY;
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) best = fmin(best, time_planner(c, others[k], NULL));
  c->params.obscura.faithful = true;
  c->request.recompute_early = false;
  best = fmin(best, time_planner(c, "obscura", NULL));
  c->params.obscura.faithful = false;
  c->request.recompute_early = true;
  T_CHECK(own <= best * (1 + 1e-9), "trial %d p %d m %d: %g, another takes %g", trial, (int)c->request.n_ranks,
          (int)c->request.n_micro, own, best);
  if (own < INFINITY) check_plan(c);
}

static void test_never_slower(void) {
  for (int trial = 0; trial < 60; trial++) {
    struct plan_case c;
    int32_t p = 2 + (int32_t)draw(5), m = 1 + (int32_t)draw(20);
    open_case(&c, p + (int)draw(p + 3), p, m, trial % 3);
    draw_limits(&c, (int)draw(11));
    c.params.pipeline.swap = draw(2) ? PARAMS_SWAP_AUTO : PARAMS_SWAP_OFF;
    if (draw(4) == 0) c.request.partition.kind = PARAMS_CUT_EVEN;
    if (trial % 5 == 4) c.micro[m - 1] = micro_shape_make(1, LENGTH, LENGTH, LENGTH);
    check_never_slower(&c, trial);
    close_case(&c);
  }
  T_CHECK(n_spared > 0 && n_moving > 0, "%d plans spare micro-batches, blocks leave in %d", n_spared, n_moving);
}

/* All stages have the memory that 1F1B takes of a late one: recomputation on all before it does not hide, blocks
 * that leave do. */
static void test_swap_helps(void) {
  for (int32_t p = 7; p <= 8; p++) {
    struct plan_case c;
    int64_t plain[MAX_RANKS];
    open_case(&c, 2 * p, p, 60, 1);
    c.request.partition.kind = PARAMS_CUT_EVEN;
    c.request.n_recompute_stages = 0;
    double ideal = time_planner(&c, "1f1b", plain);
    c.request.n_recompute_stages = PLAN_ALL_STAGES;
    for (int32_t r = 0; r < p; r++) c.limits[r] = plain[p - 4] + (plain[p - 4] - plain[p - 3]) / 2;
    double with = time_planner(&c, "obscura", NULL);
    c.params.pipeline.swap = PARAMS_SWAP_OFF;
    double without = time_planner(&c, "obscura", NULL);
    T_CHECK(with < without * 0.98, "p %d: %g, without %g, without limits %g", (int)p, with, without, ideal);
    close_case(&c);
  }
}

/* A note says what was taken. */
static void test_notes(void) {
  struct plan_case c;
  char *notes = NULL;
  struct plan *plan = NULL;
  open_case(&c, 8, 4, 8, 0);
  draw_limits(&c, 4);
  c.request.notes = &notes;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  T_CHECK(notes && strstr(notes, "obscura: ") && strstr(notes, " plan is taken, ") &&
              strstr(notes, "by the paper's procedure"),
          "%s", notes ? notes : "");
  mem_free(notes);
  plan_destroy(&plan);
  close_case(&c);
}

/* A number of blocks by hand: none leaves with 0, and no other planner's plan is taken with more; where there are no such
 * blocks, that is said. */
static void check_by_hand(int32_t lambda, double beta, const char *note) {
  struct plan_case c;
  char *notes = NULL;
  struct plan *plan = NULL;
  open_case(&c, 8, 4, 24, 0);
  for (int32_t l = 0; l < c.model->n_layers; l++) c.ops[l] = 0;
  c.request.n_recompute_stages = 0;
  int64_t peaks[MAX_RANKS];
  time_planner(&c, "1f1b", peaks);
  c.limits[0] = peaks[0] - peaks[0] / 50;
  c.params.obscura.lambda = lambda;
  c.params.obscura.beta = beta;
  c.request.n_recompute_stages = PLAN_ALL_STAGES;
  c.request.notes = &notes;
  bool moves = lambda != 0 && beta != 0 && !note;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  T_CHECK(plan && ((lambda > 0 && !note) || (plan->n_moves > 0) == moves), "lambda %d beta %g: %d moves", (int)lambda,
          beta, plan ? (int)plan->n_moves : -1);
  T_CHECK(lambda <= 0 || !notes || !strstr(notes, "plan is taken"), "lambda %d: %s", (int)lambda, notes);
  T_CHECK(!note || (notes && strstr(notes, note)), "lambda %d: %s", (int)lambda, notes ? notes : "no note");
  mem_free(notes);
  plan_destroy(&plan);
  close_case(&c);
}

static void test_by_hand(void) {
  check_by_hand(PARAMS_AUTO, PARAMS_AUTO, NULL);
  check_by_hand(0, PARAMS_AUTO, NULL);
  check_by_hand(PARAMS_AUTO, 0, NULL);
  check_by_hand(4, 1, NULL);
  check_by_hand(1000000, 1, "obscura.lambda is 1000000, but no activations leave");
}

/* A part of a block that has room for nothing of it does not leave. */
static void test_small_part(void) {
  struct plan_case c;
  struct plan *plan = NULL;
  open_case(&c, 8, 4, 16, 0);
  c.params.obscura.adjusted_stages = 2;
  c.params.obscura.lambda = 3;
  c.params.obscura.beta = 1e-6;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  T_CHECK(plan && plan->n_moves == 0, "%d moves", plan ? (int)plan->n_moves : -1);
  plan_destroy(&plan);
  close_case(&c);
}

/* Nothing is known of times: plans all the same. */
static void test_without_costs(void) {
  struct plan_case c;
  open_case(&c, 8, 4, 8, 0);
  draw_limits(&c, 5);
  c.request.cost = NULL;
  c.request.simulate = false;
  c.params.pipeline.swap = PARAMS_SWAP_OFF;
  check_plan(&c);
  c.params.obscura.faithful = true;
  check_plan(&c);
  close_case(&c);
}

/* What the deck names may be discarded, and nothing else; so may it in adapipe, which is never faster. */
static void test_named(void) {
  static const enum params_recompute sets[] = {PARAMS_RECOMPUTE_MLP, PARAMS_RECOMPUTE_NONE, PARAMS_RECOMPUTE_CMB};
  int n_parts = 0;
  for (int trial = 0; trial < 18; trial++) {
    struct plan_case c;
    struct plan *plan = NULL;
    enum params_recompute set = sets[trial % 3];
    open_case(&c, 12, 4, 12, 0);
    draw_limits(&c, 5 + trial / 6);
    for (int32_t l = 0; l < c.model->n_layers; l++) c.ops[l] = recompute_get_ops(&c.model->layers[l], set);
    c.request.recompute_as_needed = false;
    if (set == PARAMS_RECOMPUTE_NONE) c.request.recompute_ops = NULL;
    T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
    for (int32_t k = 0; plan && k < plan->n_recompute; k++) {
      const struct plan_recompute *r = &plan->recompute[k];
      T_CHECK(set != PARAMS_RECOMPUTE_NONE && !(r->ops & ~c.ops[r->layer]), "trial %d layer %d: %x", trial,
              (int)r->layer, (unsigned)r->ops);
      n_parts += r->ops != c.ops[r->layer];
    }
    plan_destroy(&plan);
    double own = time_planner(&c, "obscura", NULL), other = time_planner(&c, "adapipe", NULL);
    T_CHECK(own <= other * (1 + 1e-9), "trial %d: %g, adapipe %g", trial, own, other);
    close_case(&c);
  }
  T_CHECK(n_parts > 0, "always all of what is named");
}

/* ---- what is forced ---- */

static int32_t count_ahead(const struct plan *plan, int32_t rank) {
  int32_t n = 0;
  while (plan->order[plan->order_offset[rank] + n].kind == NODE_F) n++;
  return n;
}

/* So many stages, with or without a limit, recompute what is named and run ahead; the others do neither. */
static void check_forced(int32_t p, int32_t m, int32_t n, bool faithful) {
  struct plan_case c;
  struct plan *plan = NULL;
  open_case(&c, p, p, m, 0);
  c.params.obscura.adjusted_stages = n;
  c.params.obscura.faithful = faithful;
  c.params.obscura.steps = PARAMS_OBSCURA_STEPS_REFINED;
  c.request.partition.kind = PARAMS_CUT_EVEN;
  if (n % 2) draw_limits(&c, 2);
  struct obscura_model model = {.n_stages = p, .n_micro = m, .n_adjusted = n};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "p %d m %d n %d: %s", p, m, n, error_text());
  for (int32_t s = 0; plan && s < p; s++) {
    T_CHECK(count_ahead(plan, s) == obscura_model_get_refined(&model, s), "p %d m %d n %d stage %d: %d", p, m, n,
            (int)s, (int)count_ahead(plan, s));
    char *set = recompute_describe(plan, c.model, s);
    T_CHECK(!strcmp(set, s < n ? "full" : ""), "p %d n %d stage %d: '%s'", p, n, (int)s, set);
    mem_free(set);
  }
  plan_destroy(&plan);
  close_case(&c);
}

static void test_forced(void) {
  for (int32_t p = 2; p <= 6; p++)
    for (int32_t n = 0; n <= p; n++) check_forced(p, 3 * p, n, n % 3 == 0);
  struct plan_case c;
  struct plan *plan = NULL;
  open_case(&c, 4, 4, 8, 0);
  c.params.obscura.adjusted_stages = 5;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_MISTAKE && strstr(error_text(), "there are 4 stages"),
          "%s", error_text());
  error_clear();
  c.params.obscura.adjusted_stages = PARAMS_AUTO;
  c.request.n_recompute_stages = 2;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_MISTAKE && strstr(error_text(), "recompute_stages"), "%s",
          error_text());
  error_clear();
  close_case(&c);
}

/* Stages over their limit are adjusted, and all before them; with cmb those that cheap recomputation helps are not. */
static void test_identify(void) {
  struct plan_case c;
  open_case(&c, 8, 4, 16, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura.faithful = true;
  c.request.recompute_early = false;
  c.params.pipeline.swap = PARAMS_SWAP_OFF;
  int64_t plain[MAX_RANKS];
  c.request.n_recompute_stages = 0;
  time_planner(&c, "1f1b", plain);
  c.request.n_recompute_stages = PLAN_ALL_STAGES;
  for (int32_t k = 0; k < 3; k++) {
    struct plan *plan = NULL;
    for (int32_t r = 0; r < 4; r++) c.limits[r] = r == k ? plain[r] - plain[r] / 20 : INT64_MAX;
    for (int cmb = 0; cmb < 2; cmb++) {
      c.params.obscura.steps = cmb ? PARAMS_OBSCURA_STEPS_CMB : PARAMS_OBSCURA_STEPS_REFINED;
      T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
      int32_t ahead = plan ? count_ahead(plan, 0) : 0;
      T_CHECK(cmb ? ahead == 4 : ahead > 4, "stage %d over its limit, cmb %d: %d ahead", (int)k, cmb, (int)ahead);
      char *set = plan ? recompute_describe(plan, c.model, k) : mem_strdup("");
      T_CHECK(!strcmp(set, cmb ? "cmb" : "full"), "stage %d: '%s'", (int)k, set);
      mem_free(set);
      plan_destroy(&plan);
    }
  }
  close_case(&c);
}

/* ---- blocks that leave ---- */

/* Most blocks of a stage that have memory at a time. */
static int32_t count_held(const struct plan *plan, int32_t s) {
  int32_t rank = plan_get_holder(plan, s), held = 0, most = 0;
  int64_t first = plan->order_offset[rank], n = plan->order_offset[rank + 1] - first;
  int32_t *change = MEM_NEW(int32_t, n + 1);
  for (int64_t k = 0; k < n; k++) {
    change[k] += plan->order[first + k].kind == NODE_F;
    change[k + 1] -= plan->order[first + k].kind == NODE_B;
  }
  for (int32_t k = 0; k < plan->n_moves; k++) {
    if (plan->moves[k].stage != s) continue;
    change[plan->moves[k].out_end + 1]--;
    change[plan->moves[k].in_start]++;
  }
  for (int64_t k = 0; k < n; k++) {
    held += change[k];
    if (held > most) most = held;
  }
  mem_free(change);
  return most;
}

/* 8 stages, 3 adjusted: 18, 17, 16 run ahead, 6, 5, 4 leave; 12 stay on each, and two are on their way. */
static void check_blocks(bool eager, double beta) {
  struct plan_case c;
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  open_case(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura.adjusted_stages = 3;
  c.params.obscura.steps = PARAMS_OBSCURA_STEPS_SWAP;
  c.params.obscura.lambda = 4;
  c.params.obscura.beta = beta;
  c.params.obscura.eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY;
  int status = planner_run("obscura", &c.request, &plan);
  if (!status) status = dag_build(plan, c.model, &dag);
  if (!status) status = dag_check(dag, plan);
  T_CHECK(!status && plan->n_moves > 0, "eager %d beta %g: %s", eager, beta, error_text());
  for (int32_t s = 0; s < 3 && !status; s++)
    T_CHECK(count_held(plan, s) == 14, "eager %d stage %d: %d", eager, (int)s, (int)count_held(plan, s));
  for (int32_t k = 0; k < plan->n_moves && !status; k++) {
    int64_t parts[DAG_BLOCK_PARTS], moved = dag_measure_block(plan, c.model, plan->moves[k].stage, 0, parts);
    int64_t kept = plan_measure_kept(plan, c.model, plan->moves[k].stage, 0);
    T_CHECK(plan->moves[k].stage < 3 && plan->moves[k].tier == PLAN_TIER_HOST, "move %d", (int)k);
    T_CHECK((double)moved <= beta * (double)kept && (double)moved > 0.5 * beta * (double)kept, "beta %g: %lld of %lld",
            beta, (long long)moved, (long long)kept);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
  close_case(&c);
}

static int32_t count_moves(bool eager) {
  struct plan_case c;
  struct plan *plan = NULL;
  open_case(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                             .adjusted_stages = 3,
                                             .lambda = 4,
                                             .beta = 1,
                                             .eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  int32_t n = plan ? plan->n_moves : 0;
  plan_destroy(&plan);
  close_case(&c);
  return n;
}

static void test_blocks(void) {
  for (int eager = 0; eager < 2; eager++) {
    check_blocks(eager, 1);
    check_blocks(eager, 0.5);
  }
  T_CHECK(count_moves(true) > count_moves(false), "%d, %d", (int)count_moves(true), (int)count_moves(false));
}

/* Where host memory has room for few blocks of a stage, the others go on to disk; without a disk the plan does not fit. */
static void check_spill(bool eager, int32_t room) {
  struct plan_case c;
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  int64_t host[MAX_RANKS], disk[MAX_RANKS], parts[DAG_BLOCK_PARTS], most = 0;
  open_case(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                             .adjusted_stages = 3,
                                             .lambda = 8,
                                             .beta = 1,
                                             .eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++) {
    int64_t bytes = dag_measure_block(plan, c.model, plan->moves[k].stage, 0, parts);
    most = bytes > most ? bytes : most;
    T_CHECK(plan->moves[k].tier == PLAN_TIER_HOST, "move %d", (int)k);
  }
  plan_destroy(&plan);
  for (int32_t r = 0; r < 8; r++) host[r] = room * most;
  for (int32_t r = 0; r < 8; r++) disk[r] = INT64_MAX;
  c.request.host_limit = host;
  T_CHECK(isinf(time_planner(&c, "obscura", NULL)), "host memory is enough");
  c.request.disk_limit = disk;
  int status = planner_run("obscura", &c.request, &plan), n_disk = 0;
  if (!status) status = dag_build(plan, c.model, &dag);
  if (!status) status = dag_check(dag, plan);
  T_CHECK(!status, "eager %d: %s", eager, error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++) n_disk += plan->moves[k].tier == PLAN_TIER_DISK;
  T_CHECK(n_disk > 3, "eager %d: %d on disk", eager, n_disk);
  dag_destroy(&dag);
  plan_destroy(&plan);
  close_case(&c);
}

/* Host memory that is asked for where there is next to none is enough where there is a disk: nothing more is asked for then. */
static void check_least_host(int32_t lambda, bool eager) {
  struct plan_case c;
  int64_t host[MAX_RANKS], disk[MAX_RANKS];
  open_case(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                             .adjusted_stages = 2,
                                             .lambda = lambda,
                                             .beta = 1,
                                             .eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
  for (int32_t r = 0; r < 8; r++) host[r] = 1;
  for (int32_t r = 0; r < 8; r++) disk[r] = INT64_MAX;
  c.request.host_limit = host;
  c.request.disk_limit = disk;
  for (int t = 0; t < 2; t++) {
    struct plan *plan = NULL;
    struct dag *dag = NULL;
    int status = planner_run("obscura", &c.request, &plan);
    if (!status) status = dag_build(plan, c.model, &dag);
    T_CHECK(!status, "lambda %d: %s", (int)lambda, error_text());
    for (int32_t r = 0; dag && r < 8; r++) {
      int64_t peak = dag_get_pool_peak(dag, POOL_HOST, r, NULL);
      T_CHECK(t == 0 || peak <= host[r], "lambda %d eager %d rank %d: %lld of %lld bytes", (int)lambda, eager, (int)r,
              (long long)peak, (long long)host[r]);
      if (t == 0 && peak > 0) host[r] = peak;
    }
    dag_destroy(&dag);
    plan_destroy(&plan);
  }
  close_case(&c);
}

static void test_spill(void) {
  for (int32_t lambda = 4; lambda <= 12; lambda++) check_least_host(lambda, lambda % 3 == 0);
  check_spill(false, 5);
  check_spill(true, 14); /* what comes back early keeps its place until it is used */
}

/* The tier and the one stage (-1: any) that the deck names: nothing on disk with host; with disk all that have the time; no block of a stage
 * that is not named, forced or found out. */
static void check_where(enum params_swap_tier tier, int64_t only, bool forced) {
  struct plan_case c;
  struct plan *plan = NULL;
  int64_t host[MAX_RANKS], disk[MAX_RANKS];
  int32_t count[PLAN_TIER_COUNT] = {0};
  open_case(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  if (forced)
    c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                               .adjusted_stages = 3,
                                               .lambda = 8,
                                               .beta = 1,
                                               .eviction = PARAMS_EVICTION_LAZY};
  else
    draw_limits(&c, 4);
  for (int32_t r = 0; r < 8; r++) host[r] = tier == PARAMS_SWAP_TIER_HOST ? 1 : INT64_MAX;
  for (int32_t r = 0; r < 8; r++) disk[r] = INT64_MAX;
  c.request.host_limit = host;
  c.request.disk_limit = disk;
  c.params.pipeline.swap_tier = tier;
  if (only >= 0) c.params.pipeline.swap_stages = (struct params_stages){PARAMS_STAGES_LIST, &only, 1};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++) {
    count[plan->moves[k].tier]++;
    T_CHECK(only < 0 || only == plan->moves[k].stage, "tier %d: a block of stage %d leaves", (int)tier,
            (int)plan->moves[k].stage);
  }
  if (forced) {
    T_CHECK(plan && plan->n_moves > 0, "tier %d: none leaves", (int)tier);
    T_CHECK(tier == PARAMS_SWAP_TIER_DISK ? count[PLAN_TIER_DISK] > count[PLAN_TIER_HOST] : count[PLAN_TIER_DISK] == 0,
            "tier %d: %d in host memory, %d on disk", (int)tier, (int)count[PLAN_TIER_HOST],
            (int)count[PLAN_TIER_DISK]);
  }
  plan_destroy(&plan);
  close_case(&c);
}

/* Blocks of forced stages go to other ranks, each stage's to one; the first's to the rank that takes least. */
static void test_peers(void) {
  struct plan_case c;
  struct plan *plan = NULL;
  open_case(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura =
      (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP, .adjusted_stages = 3, .lambda = 4, .beta = 1};
  int64_t peaks[MAX_RANKS];
  int32_t least = 1;
  time_planner(&c, "obscura", peaks);
  for (int32_t r = 2; r < 8; r++) least = peaks[r] < peaks[least] ? r : least;
  c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_RANK;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK && plan->n_moves > 0, "%s", error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++)
    T_CHECK(plan->moves[k].tier == PLAN_TIER_RANK && plan->moves[k].peer >= 3 &&
                plan->moves[k].peer == plan_find_move(plan, plan->moves[k].stage, plan->moves[k].micro)->peer,
            "stage %d: tier %d peer %d", (int)plan->moves[k].stage, (int)plan->moves[k].tier, (int)plan->moves[k].peer);
  T_CHECK(plan && plan->moves[0].peer == least, "not on rank %d", (int)least);
  if (plan) check_plan(&c);
  T_CHECK(time_planner(&c, "obscura", NULL) < INFINITY, "it does not run");
  plan_destroy(&plan);
  close_case(&c);
}

/* With other ranks to go to no plan is slower than with host memory alone, and some are faster; no rank takes more than its
 * limit (planner_evaluate says so); with tier rank none goes elsewhere. */
static void test_ranks_help(void) {
  int n_rank = 0, n_faster = 0;
  for (int trial = 0; trial < 30; trial++) {
    struct plan_case c;
    struct plan *plan = NULL;
    int32_t p = 3 + (int32_t)draw(5), m = p + (int32_t)draw(30);
    open_case(&c, p + (int)draw(p + 3), p, m, trial % 2 ? 3 : trial % 3);
    draw_limits(&c, 1 + (int)draw(9));
    if (draw(2)) c.limits[p - 1] = c.limits[p - 2] = INT64_MAX;
    c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_AUTO;
    double with = time_planner(&c, "obscura", NULL);
    c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_HOST;
    double without = time_planner(&c, "obscura", NULL);
    c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_RANK;
    double only = time_planner(&c, "obscura", NULL);
    c.params.pipeline.swap = PARAMS_SWAP_OFF;
    double none = time_planner(&c, "obscura", NULL);
    c.params.pipeline.swap = PARAMS_SWAP_AUTO;
    T_CHECK(with <= without * (1 + 1e-9) && only <= none * (1 + 1e-9), "trial %d: %g, host %g, rank %g, none %g", trial,
            with, without, only, none);
    n_faster += with < without * (1 - 1e-9);
    if (only < INFINITY) check_plan(&c);
    if (!planner_run("obscura", &c.request, &plan))
      for (int32_t k = 0; k < plan->n_moves; k++) {
        n_rank += plan->moves[k].tier == PLAN_TIER_RANK;
        T_CHECK(plan->moves[k].tier == PLAN_TIER_RANK, "trial %d: tier %d", trial, (int)plan->moves[k].tier);
      }
    error_clear();
    plan_destroy(&plan);
    close_case(&c);
  }
  T_CHECK(n_rank > 0 && n_faster > 0, "%d blocks on other ranks, %d plans faster", n_rank, n_faster);
}

static void test_where(void) {
  for (int forced = 0; forced < 2; forced++) {
    check_where(PARAMS_SWAP_TIER_HOST, -1, forced);
    check_where(PARAMS_SWAP_TIER_DISK, -1, forced);
    check_where(PARAMS_SWAP_TIER_AUTO, 1, forced);
  }
}

/* ---- Algorithm 1 ---- */

static void test_partition(void) {
  int n_moved = 0;
  for (int trial = 0; trial < 20; trial++) {
    struct plan_case c;
    int32_t p = 3 + (int32_t)draw(4), n = 1 + (int32_t)draw(p - 1);
    struct plan *plan[2] = {NULL, NULL};
    double seconds[2];
    open_case(&c, 10 * p, p, 6 * p, 1);
    c.params.obscura.adjusted_stages = n;
    c.params.obscura.faithful = true;
    c.request.recompute_early = false;
    c.params.pipeline.swap = PARAMS_SWAP_OFF;
    for (int k = 0; k < 2; k++) {
      c.params.obscura.steps = k ? PARAMS_OBSCURA_STEPS_PARTITION : PARAMS_OBSCURA_STEPS_SWAP;
      T_CHECK(planner_run("obscura", &c.request, &plan[k]) == STATUS_OK, "%s", error_text());
      seconds[k] = planner_evaluate(&c.request, plan[k], NULL);
    }
    T_CHECK(seconds[1] <= seconds[0] + 1e-12, "p %d n %d: %g, %g", p, n, seconds[0], seconds[1]);
    for (int32_t s = 0; s < p; s++) {
      T_CHECK(s < n ? plan[1]->stages[s].n_layers <= plan[0]->stages[s].n_layers
                    : plan[1]->stages[s].n_layers >= plan[0]->stages[s].n_layers,
              "p %d n %d stage %d: %d layers, were %d", p, n, (int)s, (int)plan[1]->stages[s].n_layers,
              (int)plan[0]->stages[s].n_layers);
      n_moved += plan[1]->stages[s].n_layers > plan[0]->stages[s].n_layers;
    }
    for (int k = 0; k < 2; k++) plan_destroy(&plan[k]);
    close_case(&c);
  }
  T_CHECK(n_moved > 5, "%d stages grew", n_moved);
}

static void test_move_layer(void) {
  for (int trial = 0; trial < 500; trial++) {
    struct plan_stage stages[MAX_RANKS], before[MAX_RANKS];
    int32_t p = 2 + (int32_t)draw(MAX_RANKS - 1), from = (int32_t)draw(p), to = (int32_t)draw(p), at = 0;
    for (int32_t s = 0; s < p; s++) {
      stages[s] = before[s] = (struct plan_stage){at, 1 + (int32_t)draw(3)};
      at += stages[s].n_layers;
    }
    bool moved = obscura_move_layer(stages, from, to);
    T_CHECK(moved == (from != to && before[from].n_layers > 1), "trial %d", trial);
    at = 0;
    for (int32_t s = 0; s < p; s++) {
      T_CHECK(stages[s].first_layer == at, "trial %d stage %d", trial, (int)s);
      T_CHECK(stages[s].n_layers == before[s].n_layers + (moved ? (s == to) - (s == from) : 0), "trial %d stage %d",
              trial, (int)s);
      at += stages[s].n_layers;
    }
  }
}

/* Blocks by hand are kept to under a limit that their plan just fits, and one byte less is no reason for another plan. */
static void test_at_the_limit(void) {
  int n_away = 0;
  for (int trial = 0; trial < 16; trial++) {
    struct plan_case c;
    struct plan *plan = NULL;
    int64_t peaks[MAX_RANKS], again[MAX_RANKS];
    open_case(&c, 8, 4, 16, trial % 4 < 2 ? 0 : 1);
    c.request.partition.kind = PARAMS_CUT_EVEN;
    c.params.obscura =
        (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                .adjusted_stages = 1 + trial % 2,
                                .lambda = 2 + trial / 4,
                                .beta = 1,
                                .eviction = trial % 3 == 0 ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
    double free = time_planner(&c, "obscura", peaks);
    memcpy(c.limits, peaks, sizeof c.limits);
    double held = time_planner(&c, "obscura", again);
    T_CHECK(isfinite(free) && held <= free * (1 + 1e-12), "trial %d: %g s within its own peak, %g without a limit",
            trial, held, free);
    for (int32_t r = 0; r < 4; r++) T_CHECK(again[r] == peaks[r], "trial %d rank %d: another plan", trial, (int)r);
    c.limits[0]--;
    T_CHECK(isinf(time_planner(&c, "obscura", again)) && again[0] == peaks[0], "trial %d: %lld bytes", trial,
            (long long)again[0]);
    if (!planner_run("obscura", &c.request, &plan)) n_away += plan->n_moves > 0;
    error_clear();
    plan_destroy(&plan);
    close_case(&c);
  }
  T_CHECK(n_away > 8, "%d of 16 plans move blocks", n_away);
}

int main(void) {
  test_move_layer();
  test_forced();
  test_identify();
  test_blocks();
  test_spill();
  test_where();
  test_partition();
  test_never_slower();
  test_swap_helps();
  test_named();
  test_notes();
  test_by_hand();
  test_at_the_limit();
  test_small_part();
  test_without_costs();
  test_peers();
  test_ranks_help();
  return t_end();
}
