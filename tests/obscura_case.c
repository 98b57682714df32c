#include "obscura_case.h"

#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "plan/recompute.h"
#include "tiny_model.h"

int64_t obscura_case_draw(int64_t n) {
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

void obscura_case_open(struct obscura_case *c, int blocks, int32_t p, int32_t m, int costs_of) {
  *c = (struct obscura_case){.model = make_tiny_model(blocks, blocks % 2), .params = *get_test_params()};
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

void obscura_case_close(struct obscura_case *c) {
  mem_free(c->ops);
  cost_destroy(&c->cost);
  model_destroy(&c->model);
}

double obscura_case_time(struct obscura_case *c, const char *planner, int64_t *peaks) {
  struct plan *plan = NULL;
  int64_t own[MAX_RANKS];
  double seconds = INFINITY;
  if (!planner_run(planner, &c->request, &plan)) seconds = planner_evaluate(&c->request, plan, peaks ? peaks : own);
  error_clear();
  plan_destroy(&plan);
  return seconds;
}

void obscura_case_draw_limits(struct obscura_case *c, int part) {
  int64_t least[MAX_RANKS], most[MAX_RANKS];
  c->request.n_recompute_stages = 0;
  T_CHECK(obscura_case_time(c, "1f1b", most) < INFINITY, "1f1b has no plan of the case");
  c->request.n_recompute_stages = PLAN_ALL_STAGES;
  T_CHECK(obscura_case_time(c, "1f1b", least) < INFINITY, "1f1b has no plan of the case");
  bool alike = obscura_case_draw(2);
  int64_t low = 0, high = 0;
  for (int32_t r = 0; r < c->request.n_ranks; r++) {
    low = least[r] > low ? least[r] : low;
    high = most[r] > high ? most[r] : high;
  }
  for (int32_t r = 0; r < c->request.n_ranks; r++)
    c->limits[r] = alike ? low + (high - low) * part / 10 : least[r] + (most[r] - least[r]) * part / 10;
}

void obscura_case_check(struct obscura_case *c, void (*look)(const struct plan *plan)) {
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  int status = planner_run("obscura", &c->request, &plan);
  if (!status) status = dag_build(plan, c->model, &dag);
  if (!status) status = dag_check(dag, plan);
  T_CHECK(!status, "p %d m %d: %s", (int)c->request.n_ranks, (int)c->request.n_micro, error_text());
  if (!status && look) look(plan);
  for (int32_t k = 0; !status && k < plan->n_moves; k++) {
    int64_t parts[DAG_BLOCK_PARTS];
    const struct plan_move *move = &plan->moves[k];
    T_CHECK(dag_measure_block(plan, c->model, move->stage, move->micro, parts) > 0, "stage %d moves nothing",
            (int)move->stage);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
}
