/* AdaPipe: its knapsack against every choice there is; its plans through all checks at the limit they were made for;
 * never slower than 1F1B that recomputes everything under the same limits; how far the partition is from the best there
 * is; and the bits of a training without recomputation. */
#include "plan/recompute.h"
#include "train_case.h"

#include <math.h>

#include "cost_case.h"
#include "dag/dag_price.h"
#include "model/footprint.h"
#include "planner/knapsack.h"
#include "planner/stage_need.h"
#include "sim/sim.h"
#include "tiny_model.h"

enum { MAX_KINDS = 5, MAX_COUNT = 3, MAX_RANKS = 8, LENGTH = 16 };

static int64_t draw(int64_t n) {
  static const struct rng_key key = {.seed = 21, .purpose = RNG_TEST};
  static uint64_t drawn;
  return (int64_t)(rng_bits(&key, drawn++) % (uint64_t)n);
}

/* ---- knapsack ---- */

static double search_items(const struct knapsack_item *items, int32_t n, int64_t need) {
  if (need <= 0) return 0;
  if (n == 0) return INFINITY;
  double best = INFINITY;
  for (int32_t c = 0; c <= items[0].count; c++)
    best = fmin(best, c * items[0].seconds + search_items(items + 1, n - 1, need - c * items[0].bytes));
  return best;
}

static void test_knapsack(void) {
  for (int k = 0; k < 3000; k++) {
    struct knapsack_item items[MAX_KINDS];
    int32_t n = 1 + (int32_t)draw(MAX_KINDS), counts[MAX_KINDS];
    int64_t all = 0, freed = 0;
    double seconds, spent = 0;
    for (int32_t i = 0; i < n; i++) {
      items[i] = (struct knapsack_item){1 + draw(40), (double)draw(draw(2) ? 30 : 4), (int32_t)draw(MAX_COUNT + 1)};
      all += items[i].bytes * items[i].count;
    }
    int64_t need = k % 50 ? draw(all + 4) - 1 : INT64_MAX;
    double best = search_items(items, n, need);
    bool found = knapsack_cover(items, n, need, counts, &seconds);
    T_CHECK(found == (best < INFINITY), "case %d: need %lld of %lld", k, (long long)need, (long long)all);
    if (!found) continue;
    for (int32_t i = 0; i < n; i++) {
      T_CHECK(counts[i] >= 0 && counts[i] <= items[i].count, "case %d: %d of %d", k, counts[i], items[i].count);
      freed += items[i].bytes * counts[i];
      spent += items[i].seconds * counts[i];
    }
    T_CHECK(freed >= need && spent == seconds && seconds == best, "case %d: frees %lld of %lld in %g, best %g", k,
            (long long)freed, (long long)need, seconds, best);
  }
}

/* ---- plans ---- */

struct adapipe_case {
  struct model *model;
  struct cost *cost;
  struct micro_shape micro[64];
  int64_t limits[MAX_RANKS];
  uint32_t *ops;
  struct plan_request request;
};

static const char *const costs[] = {
    "cost: {source: preset}\n",
    "cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, recompute_ms: 1}}\n",
    "cost: {source: preset}\ndevice: {rank_speeds: {0: 0.5}}\n",
};

static void open_case(struct adapipe_case *c, int blocks, int32_t p, int32_t m, int costs_of) {
  *c = (struct adapipe_case){.model = make_tiny_model(blocks, blocks % 2)};
  c->cost = make_cost_case(costs[costs_of], c->model, p);
  for (int32_t i = 0; i < m; i++) c->micro[i] = micro_shape_make(2, LENGTH, 2 * LENGTH, 2 * LENGTH);
  for (int32_t r = 0; r < p; r++) c->limits[r] = INT64_MAX;
  c->ops = MEM_NEW(uint32_t, c->model->n_layers);
  for (int32_t l = 0; l < c->model->n_layers; l++)
    c->ops[l] = recompute_get_ops(&c->model->layers[l], PARAMS_RECOMPUTE_FULL);
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
                                     .recompute_as_needed = true};
}

static void close_case(struct adapipe_case *c) {
  mem_free(c->ops);
  cost_destroy(&c->cost);
  model_destroy(&c->model);
}

struct outcome {
  double step;
  int64_t peaks[MAX_RANKS];
  int32_t n_recompute;
};

/* Simulates a plan and frees it. */
static struct outcome run_plan(const struct adapipe_case *c, struct plan *plan, bool must_fit) {
  struct outcome out = {.n_recompute = plan->n_recompute};
  struct dag *dag = NULL;
  int status = dag_build(plan, c->model, &dag);
  if (!status && must_fit) status = dag_check(dag, plan);
  T_CHECK(!status, "p %d m %d: %s", plan->n_ranks, plan->n_micro, error_text());
  double *seconds = MEM_NEW(double, dag->n_nodes);
  dag_price(dag, plan, c->model, c->cost, seconds);
  for (int32_t v = 0; v < dag->n_nodes; v++) /* the update is no part of what is planned */
    if (dag->nodes[v].kind == NODE_U || dag->nodes[v].kind == NODE_N) seconds[v] = 0;
  struct sim *sim = sim_create(dag, plan->n_stages);
  struct sim_times times = {seconds, INT64_MAX};
  out.step = sim_run(sim, &times, 1)->step;
  for (int32_t r = 0; r < plan->n_ranks; r++) out.peaks[r] = dag_get_peak(dag, r, NULL);
  sim_destroy(&sim);
  mem_free(seconds);
  dag_destroy(&dag);
  plan_destroy(&plan);
  return out;
}

/* 1F1B of the even partition that recomputes everything, or nothing. */
static struct outcome run_1f1b(const struct adapipe_case *c, enum params_recompute set) {
  struct plan_request request = c->request;
  int64_t none[MAX_RANKS];
  for (int r = 0; r < MAX_RANKS; r++) none[r] = INT64_MAX;
  request.device_limit = none;
  request.recompute_ops = NULL;
  request.partition.kind = PARAMS_CUT_EVEN;
  struct plan *plan = NULL;
  T_CHECK(!planner_run("1f1b", &request, &plan), "%s", error_text());
  uint32_t *ops = MEM_NEW(uint32_t, c->model->n_layers);
  bool *all = MEM_NEW(bool, MAX_RANKS);
  for (int32_t l = 0; l < c->model->n_layers; l++) ops[l] = recompute_get_ops(&c->model->layers[l], set);
  for (int r = 0; r < MAX_RANKS; r++) all[r] = true;
  recompute_put(plan, ops, all);
  mem_free(ops);
  mem_free(all);
  return run_plan(c, plan, false);
}

/* How much more than the graph's peaks adapipe takes a stage for: what it gives away at the limit. */
static void test_estimate(void) {
  for (int blocks = 4; blocks <= 9; blocks++)
    for (int32_t p = 1; p <= 8 && p <= blocks; p++)
      for (int32_t m = 1; m <= 20; m += 1 + m / 3) {
        struct adapipe_case c;
        open_case(&c, blocks, p, m, 0);
        struct plan *plan = NULL;
        T_CHECK(!planner_run("adapipe", &c.request, &plan) && !plan->n_recompute, "%s", error_text());
        struct stage_needs *needs = stage_needs_create(&c.request);
        int64_t boundary = footprint_boundary(c.model, micro_shape_fill(2, LENGTH));
        struct stage_need need[MAX_RANKS];
        for (int32_t s = 0; s < p; s++)
          need[s] = stage_needs_get(needs, s, s, plan->stages[s].first_layer, plan->stages[s].n_layers);
        struct outcome out = run_plan(&c, plan, true);
        for (int32_t s = 0; s < p; s++) {
          int64_t over = stage_need_get_peak(&need[s], 0) - out.peaks[s];
          T_CHECK(over >= 0 && over <= 2 * boundary, "p %d m %d stage %d: %g boundaries", p, m, s,
                  (double)over / (double)boundary);
        }
        stage_needs_destroy(&needs);
        close_case(&c);
      }
}

/* What may be discarded, and where, is all that is; where that is not enough the planner declines. */
static void test_allowed(void) {
  static const int32_t listed[] = {0, 2};
  int n_plans = 0, n_rows = 0;
  for (int k = 0; k < 60; k++) {
    struct adapipe_case c;
    open_case(&c, 8, 4, 8, k % 3);
    struct outcome none = run_1f1b(&c, PARAMS_RECOMPUTE_NONE), full = run_1f1b(&c, PARAMS_RECOMPUTE_FULL);
    for (int32_t r = 0; r < 4; r++) {
      int64_t span = none.peaks[r] - full.peaks[r];
      c.limits[r] = none.peaks[r] - (span > 0 ? draw(span) : 0) / 2;
    }
    for (int32_t l = 0; l < c.model->n_layers && k % 2; l++)
      c.ops[l] = recompute_get_ops(&c.model->layers[l], PARAMS_RECOMPUTE_MLP);
    c.request.recompute_stages = k % 4 < 2 ? listed : NULL;
    if (k % 4 < 2) c.request.n_recompute_stages = 2;
    struct plan *plan = NULL;
    n_plans += planner_run("adapipe", &c.request, &plan) == STATUS_OK;
    error_clear();
    for (int32_t i = 0; plan && i < plan->n_recompute; i++) {
      int32_t l = plan->recompute[i].layer, s = 0;
      while (l >= plan->stages[s].first_layer + plan->stages[s].n_layers) s++;
      n_rows++;
      T_CHECK(!(plan->recompute[i].ops & ~c.ops[l]), "case %d layer %d: %x", k, l, (unsigned)plan->recompute[i].ops);
      T_CHECK(k % 4 >= 2 || s == 0 || s == 2, "case %d: stage %d", k, s);
    }
    plan_destroy(&plan);
    close_case(&c);
  }
  T_CHECK(n_plans > 10 && n_plans < 60 && n_rows > 30, "%d plans, %d rows", n_plans, n_rows);
}

/* Limits between what 1F1B takes with and without recomputation: plans pass all checks (run_plan), and are no slower
 * than it is with all recomputed, as they keep the even cut if that is best. The estimate's slack is given on top. */
static void test_limits(void) {
  int declined = 0, recomputed = 0, faster = 0;
  for (int k = 0; k < 150; k++) {
    int32_t p = 2 + (int32_t)draw(4), m = 1 + (int32_t)draw(12);
    struct adapipe_case c;
    open_case(&c, p + (int)draw(6), p, m, k % 3);
    struct outcome none = run_1f1b(&c, PARAMS_RECOMPUTE_NONE), full = run_1f1b(&c, PARAMS_RECOMPUTE_FULL);
    int64_t slack = 3 * footprint_boundary(c.model, micro_shape_fill(2, LENGTH)), most = 0;
    bool each = draw(2);
    for (int32_t r = 0; r < p; r++) {
      int64_t span = none.peaks[r] - full.peaks[r];
      c.limits[r] = full.peaks[r] + slack + (span > 0 ? draw(span) : 0);
      if (c.limits[r] > most) most = c.limits[r];
    }
    for (int32_t r = 0; r < p && !each; r++) c.limits[r] = most;
    struct plan *plan = NULL;
    int status = planner_run("adapipe", &c.request, &plan);
    T_CHECK(!status, "case %d: p %d m %d: %s", k, p, m, error_text());
    declined += status != 0;
    if (!status) {
      struct outcome out = run_plan(&c, plan, true);
      T_CHECK(out.step <= full.step * (1 + 1e-9), "case %d: p %d m %d: %g, 1f1b with all recomputed %g", k, p, m,
              out.step, full.step);
      recomputed += out.n_recompute > 0;
      faster += out.step < 0.99 * full.step;
    }
    close_case(&c);
  }
  T_CHECK(recomputed > 50 && faster > 50, "%d recompute, %d are faster", recomputed, faster);
}

/* Below what all recomputation needs. */
static void test_declining(void) {
  struct adapipe_case c;
  open_case(&c, 6, 3, 6, 0);
  for (int r = 0; r < 3; r++) c.limits[r] = r == 1 ? 20000 : 10000000;
  struct plan *plan = NULL;
  T_CHECK(planner_run("adapipe", &c.request, &plan) == STATUS_MISTAKE && !plan, "a plan for a rank of 20 kB");
  T_CHECK(strstr(error_text(), "stage 1") && strstr(error_text(), "20000") && strstr(error_text(), "device_limit"),
          "%s", error_text());
  c.request.n_chunks = 2;
  T_CHECK(planner_run("adapipe", &c.request, &plan) == STATUS_MISTAKE && strstr(error_text(), "pipeline.chunks"), "%s",
          error_text());
  close_case(&c);
}

/* ---- partition ---- */

/* All cuts into stages from `stage` on; the fastest plan's step. */
static double search_cuts(struct adapipe_case *c, double *list, int32_t stage, int32_t halves) {
  int32_t p = c->request.n_stages;
  if (stage == p - 1) {
    struct plan *plan = NULL;
    list[stage] = halves / 2.0;
    struct plan_request r = c->request;
    r.partition.kind = PARAMS_CUT_LIST;
    r.partition.blocks = list;
    r.partition.n = p;
    if (!planner_run("adapipe", &r, &plan)) return run_plan(c, plan, true).step;
    error_clear();
    return INFINITY;
  }
  double best = INFINITY;
  for (int32_t n = stage == 0 ? 0 : 1; n <= halves; n++) {
    list[stage] = n / 2.0;
    best = fmin(best, search_cuts(c, list, stage + 1, halves - n));
  }
  return best;
}

static void test_partition(void) {
  double worst = 1;
  for (int k = 0; k < 8; k++) {
    int32_t p = 2 + k % 2, blocks = 4 + k % 3;
    struct adapipe_case c;
    open_case(&c, blocks, p, 2 + 3 * (k % 3), k % 3);
    struct outcome none = run_1f1b(&c, PARAMS_RECOMPUTE_NONE), full = run_1f1b(&c, PARAMS_RECOMPUTE_FULL);
    for (int32_t r = 0; r < p; r++)
      c.limits[r] = (none.peaks[0] + full.peaks[0]) / 2 + (r == p - 1 ? none.peaks[r] : 0);
    struct plan *plan = NULL;
    double list[MAX_RANKS], best = search_cuts(&c, list, 0, 2 * blocks);
    int status = planner_run("adapipe", &c.request, &plan);
    T_CHECK((status != 0) == (best == INFINITY), "case %d: %s", k, error_text());
    double step = status ? best : run_plan(&c, plan, true).step;
    if (best < INFINITY) worst = fmax(worst, step / best);
    T_CHECK(best == INFINITY || step <= 1.05 * best, "case %d: %g, the best cut takes %g", k, step, best);
    close_case(&c);
  }
  T_CHECK(worst >= 1 - 1e-9, "%g", worst);
}

/* ---- training ---- */

/* Each rank's limit lets it keep half of what it could. */
static void test_training(const struct train_job *job, const char *json) {
  struct model *model = train_make_model(json);
  struct cost *cost = make_cost_case(costs[0], model, job->size);
  struct train_rows rows = train_create_rows(3, 9, 12, model->config.vocab_size);
  train_draw_lengths(&rows, 4);
  struct batch batch = train_make_batch(&rows, model->config.vocab_size, 2);
  struct micro_shape *micro = train_list_shapes(&batch);
  int64_t limits[MAX_RANKS];
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) ops[l] = recompute_get_ops(&model->layers[l], PARAMS_RECOMPUTE_FULL);
  for (int r = 0; r < job->size; r++) limits[r] = INT64_MAX;
  struct plan_request request = {.model = model,
                                 .cost = cost,
                                 .n_ranks = job->size,
                                 .n_stages = job->size,
                                 .n_micro = batch.n_micro,
                                 .micro = micro,
                                 .device_limit = limits,
                                 .clip = true,
                                 .recompute_ops = ops,
                                 .n_recompute_stages = PLAN_ALL_STAGES};
  struct plan *plan = NULL;
  T_CHECK(!planner_run("adapipe", &request, &plan), "%s", error_text());
  struct stage_needs *needs = stage_needs_create(&request);
  for (int s = 0; s < job->size; s++) {
    struct stage_need need = stage_needs_get(needs, s, s, plan->stages[s].first_layer, plan->stages[s].n_layers);
    limits[s] = stage_need_get_peak(&need, need.copies > 1 ? need.keep / 2 : 0);
  }
  stage_needs_destroy(&needs);
  plan_destroy(&plan);
  train_must(job->comm, planner_run("adapipe", &request, &plan));
  T_CHECK(plan->n_recompute > 0 || job->size == 1, "nothing is recomputed");
  struct train_setup setup = {.optimizer = train_make_optimizer(1), .limit = limits[job->rank]};
  struct train_setup free_setup = {.optimizer = train_make_optimizer(1)};
  struct train_side side = train_open_plan(job->comm, model, &setup, plan);
  struct train_side alone = train_open(job->self, model, &free_setup, &batch);
  for (int64_t step = 1; step <= 3; step++) {
    struct trainer_result a = train_step(&side, &batch, step), b = train_step(&alone, &batch, step);
    train_compare_results("adapipe", step, &a, &b);
  }
  train_compare_weights("adapipe", &side, &alone);
  train_close(&side);
  train_close(&alone);
  mem_free(ops);
  mem_free(micro);
  batch_fini(&batch);
  train_free_rows(&rows);
  cost_destroy(&cost);
  model_destroy(&model);
}

int main(int argc, char **argv) {
  struct train_job job = train_job_open(&argc, &argv);
  if (job.rank == 0) {
    test_knapsack();
    test_estimate();
    test_limits();
    test_allowed();
    test_declining();
    test_partition();
  }
  test_training(&job, TRAIN_LLAMA(4, "false"));
  test_training(&job, TRAIN_GPT2(4, "true"));
  return train_job_close(&job);
}
