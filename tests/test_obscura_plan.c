/* Planner obscura by default: its plans through all checks and within their limits, no slower than the paper's
 * procedure, 1F1B, AdaPipe or BPipe under the same limits; what notes say; what a deck names. */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "model/footprint.h"
#include "obscura_case.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"

/* Plans in which a late micro-batch keeps what earlier ones discard, and in which blocks leave. */
static int n_spared, n_moving;

static void count_kinds(const struct plan *plan) {
  bool spared = false;
  for (int32_t k = 0; k < plan->n_recompute; k++) spared = spared || plan->recompute[k].last_micro < plan->n_micro - 1;
  n_spared += spared;
  n_moving += plan->n_moves > 0;
}

static void check_never_slower(struct obscura_case *c, int trial) {
  static const char *const others[] = {"1f1b", "adapipe", "bpipe"};
  double own = obscura_case_time(c, "obscura", NULL), best = INFINITY;
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) best = fmin(best, obscura_case_time(c, others[k], NULL));
  c->params.obscura.faithful = true;
  c->request.recompute_early = false;
  best = fmin(best, obscura_case_time(c, "obscura", NULL));
  c->params.obscura.faithful = false;
  c->request.recompute_early = true;
  T_CHECK(own <= best * (1 + 1e-9), "trial %d p %d m %d: %g, another takes %g", trial, (int)c->request.n_ranks,
          (int)c->request.n_micro, own, best);
  if (own < INFINITY) obscura_case_check(c, count_kinds);
}

static void test_never_slower(void) {
  for (int trial = 0; trial < 24; trial++) {
    struct obscura_case c;
    int32_t p = 2 + (int32_t)obscura_case_draw(5), m = 1 + (int32_t)obscura_case_draw(20);
    obscura_case_open(&c, p + (int)obscura_case_draw(p + 3), p, m, trial % 3);
    obscura_case_draw_limits(&c, (int)obscura_case_draw(11));
    c.params.pipeline.swap = obscura_case_draw(2) ? PARAMS_SWAP_AUTO : PARAMS_SWAP_OFF;
    if (obscura_case_draw(4) == 0) c.request.partition.kind = PARAMS_CUT_EVEN;
    if (trial % 5 == 4) c.micro[m - 1] = micro_shape_make(1, LENGTH, LENGTH, LENGTH);
    check_never_slower(&c, trial);
    obscura_case_close(&c);
  }
  T_CHECK(n_spared > 0 && n_moving > 0, "%d plans spare micro-batches, blocks leave in %d", n_spared, n_moving);
}

/* All stages have the memory that 1F1B takes of a late one: recomputation on all before it does not hide, blocks
 * that leave do. */
static void test_swap_helps(void) {
  for (int32_t p = 7; p <= 8; p++) {
    struct obscura_case c;
    int64_t plain[MAX_RANKS];
    obscura_case_open(&c, 2 * p, p, 60, 1);
    c.request.partition.kind = PARAMS_CUT_EVEN;
    c.request.n_recompute_stages = 0;
    double ideal = obscura_case_time(&c, "1f1b", plain);
    c.request.n_recompute_stages = PLAN_ALL_STAGES;
    for (int32_t r = 0; r < p; r++) c.limits[r] = plain[p - 4] + (plain[p - 4] - plain[p - 3]) / 2;
    double with = obscura_case_time(&c, "obscura", NULL);
    c.params.pipeline.swap = PARAMS_SWAP_OFF;
    double without = obscura_case_time(&c, "obscura", NULL);
    T_CHECK(with < without * 0.98, "p %d: %g, without %g, without limits %g", (int)p, with, without, ideal);
    obscura_case_close(&c);
  }
}

/* A note says what was taken. */
static void test_notes(void) {
  struct obscura_case c;
  char *notes = NULL;
  struct plan *plan = NULL;
  obscura_case_open(&c, 8, 4, 8, 0);
  obscura_case_draw_limits(&c, 4);
  c.request.notes = &notes;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  T_CHECK(notes && strstr(notes, "obscura: ") && strstr(notes, " plan is taken, ") &&
              strstr(notes, "by the paper's procedure"),
          "%s", notes ? notes : "");
  mem_free(notes);
  plan_destroy(&plan);
  obscura_case_close(&c);
}

/* A number of blocks by hand: none leaves with 0, and no other planner's plan is taken with more; where there are no
 * such blocks, that is said. */
static void check_by_hand(int32_t lambda, double beta, const char *note) {
  struct obscura_case c;
  char *notes = NULL;
  struct plan *plan = NULL;
  obscura_case_open(&c, 8, 4, 24, 0);
  for (int32_t l = 0; l < c.model->n_layers; l++) c.ops[l] = 0;
  c.request.n_recompute_stages = 0;
  int64_t peaks[MAX_RANKS];
  obscura_case_time(&c, "1f1b", peaks);
  c.limits[0] = peaks[0] - peaks[0] / 50;
  c.params.obscura.lambda = lambda;
  c.params.obscura.beta = beta;
  c.request.n_recompute_stages = PLAN_ALL_STAGES;
  c.request.notes = &notes;
  bool moves = lambda != 0 && beta != 0 && !note;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  bool other = notes && strstr(notes, "'s plan is taken"); /* it may be faster with none */
  T_CHECK(plan && ((lambda > 0 && !note) || (plan->n_moves > 0) == moves || (other && !plan->n_moves)),
          "lambda %d beta %g: %d moves", (int)lambda, beta, plan ? (int)plan->n_moves : -1);
  T_CHECK(lambda <= 0 || !notes || !strstr(notes, "plan is taken"), "lambda %d: %s", (int)lambda, notes);
  T_CHECK(!note || (notes && strstr(notes, note)), "lambda %d: %s", (int)lambda, notes ? notes : "no note");
  mem_free(notes);
  plan_destroy(&plan);
  obscura_case_close(&c);
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
  struct obscura_case c;
  struct plan *plan = NULL;
  obscura_case_open(&c, 8, 4, 16, 0);
  c.params.obscura.adjusted_stages = 2;
  c.params.obscura.lambda = 3;
  c.params.obscura.beta = 1e-6;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  T_CHECK(plan && plan->n_moves == 0, "%d moves", plan ? (int)plan->n_moves : -1);
  plan_destroy(&plan);
  obscura_case_close(&c);
}

/* Nothing is known of times: plans all the same. */
static void test_without_costs(void) {
  struct obscura_case c;
  obscura_case_open(&c, 8, 4, 8, 0);
  obscura_case_draw_limits(&c, 5);
  for (int r = 0; r < 4; r++) /* the estimate alone may be some buffers too low for the last ranks */
    if (c.limits[r] < c.limits[0]) c.limits[r] = c.limits[0];
  c.request.cost = NULL;
  c.request.simulate = false;
  c.params.pipeline.swap = PARAMS_SWAP_OFF;
  obscura_case_check(&c, count_kinds);
  c.params.obscura.faithful = true;
  obscura_case_check(&c, count_kinds);
  obscura_case_close(&c);
}

/* What the deck names may be discarded, and nothing else; so may it in adapipe, which is never faster. */
static void test_named(void) {
  static const enum params_recompute sets[] = {PARAMS_RECOMPUTE_MLP, PARAMS_RECOMPUTE_NONE, PARAMS_RECOMPUTE_CMB};
  int n_parts = 0;
  for (int trial = 0; trial < 18; trial++) {
    struct obscura_case c;
    struct plan *plan = NULL;
    enum params_recompute set = sets[trial % 3];
    obscura_case_open(&c, 12, 4, 12, 0);
    obscura_case_draw_limits(&c, 5 + trial / 6);
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
    double own = obscura_case_time(&c, "obscura", NULL), other = obscura_case_time(&c, "adapipe", NULL);
    T_CHECK(own <= other * (1 + 1e-9), "trial %d: %g, adapipe %g", trial, own, other);
    obscura_case_close(&c);
  }
  T_CHECK(n_parts > 0, "always all of what is named");
}

/* Where nothing fits stage by stage the planner recomputes block by block by itself, which the deck may forbid; the
 * deck may ask for it too, and with every planner that recomputes it takes no more memory. */
static void test_by_block(void) {
  struct obscura_case c;
  struct plan *plan = NULL;
  obscura_case_open(&c, 12, 2, 8, 0);
  c.params.pipeline.swap = PARAMS_SWAP_OFF;
  int64_t peaks[MAX_RANKS], by_block[MAX_RANKS];
  obscura_case_time(&c, "1f1b", peaks);
  c.request.recompute_by = PARAMS_RECOMPUTE_BY_BLOCK;
  obscura_case_time(&c, "1f1b", by_block);
  for (int r = 0; r < 2; r++)
    T_CHECK(by_block[r] < peaks[r], "rank %d: %lld, %lld", r, (long long)by_block[r], (long long)peaks[r]);
  c.request.recompute_by = PARAMS_RECOMPUTE_BY_STAGE;
  for (int r = 0; r < 2; r++) c.limits[r] = 2 * peaks[r];
  while (obscura_case_time(&c, "obscura", NULL) < INFINITY)
    for (int r = 0; r < 2; r++) c.limits[r] -= c.limits[r] / 64;
  c.request.recompute_by = PARAMS_RECOMPUTE_BY_AUTO;
  T_CHECK(!planner_run("obscura", &c.request, &plan) && plan->n_parts > 0, "%s", error_text());
  plan_destroy(&plan);
  obscura_case_check(&c, NULL);
  obscura_case_close(&c);
}

/* Block by block a stage takes no more than is estimated, wherever it begins and ends between layers. */
static void test_block_estimate(void) {
  for (int trial = 0; trial < 60; trial++) {
    struct obscura_case c;
    struct plan *plan = NULL;
    struct dag *dag = NULL;
    double blocks[MAX_RANKS];
    int32_t p = 2 + trial % 4;
    int halves = 0;
    for (int32_t s = 0; s < p; s++) {
      int n = s + 1 < p ? 1 + (int)obscura_case_draw(7) : 1 + (halves + 1) % 2 + 2 * (int)obscura_case_draw(2);
      blocks[s] = n / 2.0;
      halves += n;
    }
    if (halves % 2) blocks[p - 1] += 0.5, halves++;
    obscura_case_open(&c, halves / 2, p, 1 + (int32_t)obscura_case_draw(9), 0);
    c.request.partition = (struct params_partition){.kind = PARAMS_CUT_LIST, .n = p, .blocks = blocks};
    c.request.recompute_by = PARAMS_RECOMPUTE_BY_BLOCK;
    T_CHECK(!planner_run("1f1b", &c.request, &plan) && !dag_build(plan, c.model, &dag), "%s", error_text());
    struct stage_needs *needs = stage_needs_create(&c.request);
    for (int32_t s = 0; plan && s < p; s++) {
      const struct plan_stage *stage = &plan->stages[s];
      struct stage_need need = stage_needs_get(needs, s, s, stage->first_layer, stage->n_layers);
      int64_t estimate = stage_need_get_peak(&need, need.discardable), peak = dag_get_peak(dag, s, NULL);
      T_CHECK(estimate >= peak, "trial %d p %d stage %d of layers %d to %d: %lld, estimated %lld", trial, (int)p,
              (int)s, (int)stage->first_layer, (int)(stage->first_layer + stage->n_layers - 1), (long long)peak,
              (long long)estimate);
    }
    stage_needs_destroy(&needs);
    dag_destroy(&dag);
    plan_destroy(&plan);
    obscura_case_close(&c);
  }
}

int main(void) {
  test_never_slower();
  test_swap_helps();
  test_named();
  test_notes();
  test_by_hand();
  test_small_part();
  test_without_costs();
  test_by_block();
  test_block_estimate();
  return t_end();
}
