/* The critical path that a timeline finds from the rows alone is the one that the simulator has from the graph. */
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "planner/planner.h"
#include "planner_cases.h"
#include "report/timeline.h"
#include "sim/sim.h"
#include "tiny_model.h"

/* Times of which no two are equal, messages included; every message leaves at once. */
static double *make_times(const struct dag *dag, uint32_t trial) {
  struct rng_key key = {.seed = 8, .purpose = RNG_TEST, .a = trial};
  double *seconds = MEM_NEW(double, dag->n_nodes);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    if (n->kind != NODE_N && !dag_is_receive(n)) seconds[v] = 0.01 + rng_uniform(&key, (uint64_t)v);
  }
  return seconds;
}

/* Owned by the caller. */
static struct node_row *make_rows(const struct dag *dag, const struct sim_result *r, bool knows_after) {
  struct node_row *rows = MEM_NEW(struct node_row, dag->n_nodes);
  for (int32_t u = 0; u < dag->n_nodes; u++)
    rows[u] = trace_rows_make_node(dag, u, 0, r->start[u], r->end[u], knows_after ? r->binder[u] : -1);
  return rows;
}

/* Rows of an older file do not say what they came after: the path that is found from their times leads from the end of
 * the step to its start all the same. */
static void check_older(const char *name, const struct dag *dag, const struct sim_result *r) {
  struct timeline t;
  struct node_row *rows = make_rows(dag, r, false);
  int status = timeline_init(&t, "measured", 1, r->makespan, rows, dag->n_nodes, &(struct timeline_memory){0});
  T_CHECK(!status, "%s: %s", name, error_text());
  double first = r->makespan, last = 0;
  int32_t n_passes = 0;
  for (int64_t i = 0; i < t.n_rows; i++) {
    if (!t.on_path[i]) continue;
    first = fmin(first, t.rows[i].start_s);
    last = fmax(last, t.rows[i].end_s);
    n_passes += t.rows[i].stream == STREAM_COMPUTE;
  }
  T_CHECK(first == 0 && last == r->makespan && n_passes > 1, "%s: a path from %g to %g of %g, %d passes", name, first,
          last, r->makespan, n_passes);
  timeline_fini(&t);
}

static void check_path(const char *name, const struct dag *dag, const struct sim_result *r) {
  bool *chain = MEM_NEW(bool, dag->n_nodes);
  int32_t v = -1, n_chain = 0, n_marked = 0;
  for (int32_t u = 0; u < dag->n_nodes; u++)
    if (v < 0 || r->end[u] > r->end[v]) v = u;
  for (; v >= 0; v = r->binder[v]) chain[v] = true;
  struct node_row *rows = make_rows(dag, r, true);
  struct timeline t;
  int status = timeline_init(&t, "predicted", 0, r->makespan, rows, dag->n_nodes, &(struct timeline_memory){0});
  T_CHECK(!status && t.n_rows == dag->n_nodes, "%s: %lld rows", name, (long long)t.n_rows);
  for (int64_t i = 0; i < t.n_rows; i++) {
    int32_t u = t.rows[i].node;
    n_chain += chain[u];
    n_marked += t.on_path[i];
    T_CHECK(t.on_path[i] == chain[u], "%s: node %d (%s) is marked %d", name, u,
            node_kind_get_name((enum node_kind)t.rows[i].kind), t.on_path[i]);
  }
  T_CHECK(n_chain > 1 && n_chain == n_marked, "%s: a path of %d nodes, %d marked", name, n_chain, n_marked);
  int64_t bars = 0;
  for (int64_t k = 0; k < t.n_bars; k++) bars += t.bars[k].on_path;
  T_CHECK(bars == n_marked, "%s: %lld bars of %d rows", name, (long long)bars, n_marked);
  timeline_fini(&t);
  mem_free(chain);
}

static void run_case(const char *planner, int32_t p, int32_t m, uint32_t trial) {
  struct model *model = make_tiny_model(2 * p, false);
  struct micro_shape *micro = MEM_NEW(struct micro_shape, m);
  for (int32_t i = 0; i < m; i++) micro[i] = micro_shape_make(1, 4, 4, 4);
  struct plan_request request = {.model = model,
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .n_chunks = get_test_chunks(planner),
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = m,
                                 .micro = micro};
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  int status = planner_run(planner, &request, &plan);
  if (!status) status = dag_build(plan, model, &dag);
  T_CHECK(!status, "%s p %d m %d: %s", planner, p, m, error_text());
  if (!status) {
    double *seconds = make_times(dag, trial);
    struct sim *sim = sim_create(dag, plan->n_stages);
    struct sim_times times = {seconds, INT64_MAX};
    const struct sim_result *result = sim_run(sim, &times, 1);
    check_path(planner, dag, result);
    check_older(planner, dag, result);
    sim_destroy(&sim);
    mem_free(seconds);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
  mem_free(micro);
}

int main(void) {
  static const char *const planners[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"};
  for (uint32_t trial = 0; trial < 60; trial++)
    run_case(planners[trial % 6], 1 + (int32_t)(trial % 5), 1 + (int32_t)(trial % 11), trial);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
