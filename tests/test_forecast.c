/* Sums of steps, as a run compares them: medians of the last steps without the first; of random plans the forecast's
 * kinds of nodes, ops and bubble against what the simulator says of the same graph and costs. */
#include "cost_case.h"

#include "dag/dag_price.h"
#include "planner/planner.h"
#include "run/forecast.h"
#include "run/tally.h"
#include "sim/sim.h"
#include "tiny_model.h"

static bool is_close(double a, double b) { return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) + 1e-15; }

static int compare_values(const void *left, const void *right) {
  const double *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

/* n steps with values of any order: the medians are those of the last TALLY_STEPS but for the first. */
static void test_tally(int n) {
  double medians[2], *values = MEM_NEW(double, n + 1);
  struct tally *tally = tally_create(2);
  for (int i = 0; i < n; i++) {
    values[i] = (double)((i * 7919 + 13) % 1009) + (i == 0 ? 1e6 : 0);
    tally_add(tally, (double[]){values[i], -values[i]});
  }
  int first = n > 1 ? 1 : 0;
  if (n - first > TALLY_STEPS) first = n - TALLY_STEPS;
  int count = n - first;
  qsort(values + first, (size_t)count, sizeof *values, compare_values);
  double want = count ? (values[first + (count - 1) / 2] + values[first + count / 2]) / 2 : 0;
  tally_get_medians(tally, medians);
  T_CHECK(tally_count(tally) == count, "%d steps count %d", n, (int)tally_count(tally));
  T_CHECK(medians[0] == want && medians[1] == -want, "of %d steps the medians are %g and %g, not %g", n, medians[0],
          medians[1], want);
  tally_destroy(&tally);
  mem_free(values);
}

static struct plan *make_case(const struct model *model, const char *planner, int32_t p, uint32_t recompute) {
  struct micro_shape micro[5] = {micro_shape_make(2, 8, 16, 16), micro_shape_make(2, 8, 16, 16),
                                 micro_shape_make(2, 8, 16, 16), micro_shape_make(2, 4, 8, 8),
                                 micro_shape_make(1, 8, 8, 8)};
  micro[2].pairs = 20; /* as long as the one before, and takes less */
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) ops[l] = recompute & ((1u << model->layers[l].n_ops) - 1);
  struct plan_request request = {.model = model,
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .n_chunks = 1,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = 5,
                                 .micro = micro,
                                 .recompute_ops = recompute ? ops : NULL,
                                 .n_recompute_stages = PLAN_ALL_STAGES,
                                 .clip = true};
  struct plan *plan = NULL;
  T_CHECK(planner_run(planner, &request, &plan) == STATUS_OK, "%s", error_text());
  if (!plan) exit(1);
  mem_free(ops);
  return plan;
}

/* What a kind of pass takes is what its ops take: F is the forward pass, B (or I and W) the others, R the forward
 * again. */
static double sum_ops(const struct forecast *f, enum pass pass) {
  double sum = 0;
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
    for (int o = 0; o < LAYER_MAX_OPS; o++) sum += f->ops[op_times_slot((enum layer_kind)kind, o, pass)];
  return sum;
}

static void test_forecast(const struct model *model, const char *planner, int32_t p, uint32_t recompute) {
  struct cost *cost = make_cost_case("cost: {source: preset}\ndevice: {rank_speeds: {0: 0.5}}\n", model, p);
  struct plan *plan = make_case(model, planner, p, recompute);
  struct dag *dag;
  struct forecast f;
  struct forecast_counts counts;
  const double scale = 4;
  int status = dag_build(plan, model, &dag);
  T_CHECK(!status, "%s", error_text());
  if (status) exit(1);
  forecast_make(plan, dag, model, cost, scale, &f, &counts);
  double *seconds = MEM_NEW(double, dag->n_nodes), kinds[NODE_KIND_COUNT] = {0}, busy = 0;
  dag_price(dag, plan, model, cost, seconds);
  struct sim *sim = sim_create(dag, plan->n_stages);
  const struct sim_result *result = sim_run(sim, &(struct sim_times){seconds, cost_get_eager_bytes(cost)}, 1);
  for (int32_t v = 0; v < dag->n_nodes; v++) kinds[dag->nodes[v].kind] += seconds[v] / scale;
  for (int32_t r = 0; r < p; r++) busy += result->ranks[r].busy;
  T_CHECK(is_close(f.step, result->step / scale), "%s on %d: step %g", planner, (int)p, f.step);
  T_CHECK(is_close(forecast_get_bubble(&f, p), 1 - busy / (p * result->step)), "%s: bubble %g", planner,
          forecast_get_bubble(&f, p));
  static const enum node_kind passes[] = {NODE_F, NODE_R, NODE_B, NODE_I, NODE_W, NODE_U};
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
    T_CHECK(is_close(f.kinds[passes[i]], kinds[passes[i]]), "%s: %s takes %g, not %g", planner,
            node_kind_get_name(passes[i]), f.kinds[passes[i]], kinds[passes[i]]);
  T_CHECK(f.kinds[NODE_RF] == 0 && counts.kinds[NODE_RB] == 0, "%s: receives are counted", planner);
  T_CHECK(counts.kinds[NODE_F] == 5 * p && is_close(sum_ops(&f, PASS_FORWARD), kinds[NODE_F]), "%s: forward ops",
          planner);
  T_CHECK(is_close(sum_ops(&f, PASS_INPUT) + sum_ops(&f, PASS_WEIGHT), kinds[NODE_B] + kinds[NODE_I] + kinds[NODE_W]),
          "%s: backward ops", planner);
  T_CHECK(is_close(sum_ops(&f, PASS_RECOMPUTE), kinds[NODE_R]) && (kinds[NODE_R] > 0) == (recompute > 0),
          "%s: ops of R", planner);
  sim_destroy(&sim);
  mem_free(seconds);
  dag_destroy(&dag);
  plan_destroy(&plan);
  cost_destroy(&cost);
}

/* Two ranks' spans, ops beside them. */
static void test_measure(const struct model *model) {
  struct plan *plan = make_case(model, "1f1b", 2, 0);
  struct dag *dag;
  T_CHECK(!dag_build(plan, model, &dag), "%s", error_text());
  double ops[OP_TIMES] = {0};
  ops[op_times_slot(LAYER_MLP, 1, PASS_WEIGHT)] = 0.25;
  for (int32_t rank = 0; rank < 2; rank++) {
    int32_t first = dag->rank_offset[rank], n = dag->rank_offset[rank + 1] - first, n_forward = 0;
    struct trace_span *spans = MEM_NEW(struct trace_span, n);
    for (int32_t i = 0; i < n; i++) {
      spans[i] = (struct trace_span){100 + i, 100 + i + 0.5};
      n_forward += dag->nodes[first + i].kind == NODE_F;
    }
    struct forecast measured;
    forecast_measure(dag, rank, spans, ops, 40, &measured);
    T_CHECK(measured.step == 40 && measured.kinds[NODE_F] == 0.5 * n_forward && measured.kinds[NODE_RF] == 0,
            "rank %d: F %g", (int)rank, measured.kinds[NODE_F]);
    T_CHECK(measured.ops[op_times_slot(LAYER_MLP, 1, PASS_WEIGHT)] == 0.25, "ops are lost");
    mem_free(spans);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
}

int main(void) {
  for (int n = 0; n < 6; n++) test_tally(n);
  test_tally(TALLY_STEPS);
  test_tally(TALLY_STEPS + 1);
  test_tally(3 * TALLY_STEPS + 5);
  struct model *model = make_tiny_model(4, true);
  for (int32_t p = 1; p <= 4; p++) {
    test_forecast(model, "1f1b", p, 0);
    test_forecast(model, "gpipe", p, 0x6);
    test_forecast(model, "zb-h1", p, 0);
    test_forecast(model, "1f1b", p, UINT32_MAX);
  }
  test_measure(model);
  model_destroy(&model);
  return t_end();
}
