/* What a report says of blocks that moved, from the times of nodes alone: a worked example, and random plans with
 * random moves, whose waits are those that the simulator knows from the graph itself. */
#include "base/error.h"
#include "random_moves.h"
#include "record/trace_rows.h"
#include "report/report_step.h"
#include "sim/sim.h"

static int compare_rows(const void *left, const void *right) {
  const struct node_row *a = left, *b = right;
  if (a->rank != b->rank) return a->rank - b->rank;
  if (a->stream != b->stream) return a->stream - b->stream;
  return a->position - b->position;
}

struct sums {
  double blocks, bytes, seconds, exposed;
};

/* By ranks and by stages it must be the same. */
static struct sums add_up(struct node_row *rows, int64_t n_rows, int32_t n_ranks, double seconds, bool recompute_early,
                          struct report *report) {
  struct step_view view;
  struct sums ranks = {0}, stages = {0};
  qsort(rows, (size_t)n_rows, sizeof *rows, compare_rows);
  *report = (struct report){.n_ranks = n_ranks, .ranks = MEM_NEW(struct report_rank, n_ranks)};
  step_view_init(&view, rows, n_rows, seconds);
  view.recompute_early = recompute_early;
  step_view_add(&view, report);
  step_view_fini(&view);
  for (int32_t r = 0; r < n_ranks; r++) {
    ranks.blocks += report->ranks[r].blocks;
    ranks.bytes += report->ranks[r].block_bytes;
    ranks.seconds += report->ranks[r].block_seconds;
    ranks.exposed += report->ranks[r].block_exposed;
  }
  for (int32_t s = 0; s < report->n_stages; s++) {
    stages.blocks += report->stages[s].blocks;
    stages.bytes += report->stages[s].bytes;
    stages.seconds += report->stages[s].seconds;
    stages.exposed += report->stages[s].exposed;
  }
  T_CHECK(ranks.blocks == stages.blocks && ranks.bytes == stages.bytes &&
              fabs(ranks.seconds - stages.seconds) <= 1e-9 * ranks.seconds &&
              fabs(ranks.exposed - stages.exposed) <= 1e-9 * ranks.seconds,
          "%g blocks %g bytes %g s %g s exposed by ranks, %g %g %g %g by stages", ranks.blocks, ranks.bytes,
          ranks.seconds, ranks.exposed, stages.blocks, stages.bytes, stages.seconds, stages.exposed);
  return ranks;
}

static void free_report(struct report *report) {
  mem_free(report->ranks);
  mem_free(report->stages);
}

/* ---- by hand ---- */

static struct node_row make_row(enum node_kind kind, int32_t position, int32_t micro, double start, double end) {
  return (struct node_row){.step = 1,
                           .stream = (int8_t)node_kind_get_stream(kind),
                           .kind = (int8_t)kind,
                           .position = position,
                           .microbatch = micro,
                           .layer = -1,
                           .peer = -1,
                           .bytes = node_kind_get_stream(kind) == STREAM_COMPUTE ? 0 : 1000,
                           .start_s = start,
                           .end_s = end};
}

/* One rank. The first block leaves while the second forward runs (hidden) and is back late (2 of its 3 s exposed); the
 * second must leave before the backward may start (1 of 2 s exposed) and is back in time. */
static void test_example(void) {
  struct node_row rows[] = {
      make_row(NODE_F, 0, 0, 0, 1),   make_row(NODE_F, 1, 1, 1, 3),    make_row(NODE_EV, 0, 0, 1, 2.5),
      make_row(NODE_EV, 1, 1, 3, 5),  make_row(NODE_SW, 0, 0, 2.5, 4), make_row(NODE_SR, 1, 0, 4, 5),
      make_row(NODE_F, 2, 2, 4, 4.5), make_row(NODE_B, 3, 2, 5, 6),    make_row(NODE_LD, 0, 0, 5, 8),
      make_row(NODE_B, 4, 0, 8, 9),   make_row(NODE_LD, 1, 1, 8, 8.5), make_row(NODE_B, 5, 1, 9, 10),
  };
  struct report report;
  /* Before F 2 (3 to 4): block 0 goes to disk until 4. Before B 2 (4.5 to 5): block 1 goes out until 5. Before B 0 (6
   * to 8). */
  struct sums sums = add_up(rows, (int64_t)(sizeof rows / sizeof *rows), 1, 10, true, &report);
  T_CHECK(sums.blocks == 2 && sums.bytes == 2000, "%g blocks of %g bytes", sums.blocks, sums.bytes);
  T_CHECK(fabs(sums.seconds - (1.5 + 2 + 1.5 + 1 + 3 + 0.5)) < 1e-12, "%g s", sums.seconds);
  T_CHECK(fabs(sums.exposed - (1 + 0.5 + 2)) < 1e-12, "%g s exposed", sums.exposed);
  const struct report_rank *rank = &report.ranks[0];
  T_CHECK(fabs(rank->offload - 3.5) < 1e-12 && fabs(rank->busy - 6.5) < 1e-12, "%g s idle for blocks, %g busy",
          rank->offload, rank->busy);
  T_CHECK(rank->other == 0 && rank->wait == 0 && rank->bubble == 0, "%g, %g, %g s idle otherwise", rank->other,
          rank->wait, rank->bubble);
  T_CHECK(report.n_late == 3 && report.worst[0].cause == REPORT_BLOCK && fabs(report.worst[0].seconds - 2) < 1e-12,
          "%lld late, the worst by %g s", (long long)report.n_late, report.worst[0].seconds);
  free_report(&report);
}

/* ---- beside the simulator ---- */

static int n_waits;

static void check_plan(const struct plan *plan, const struct model *model) {
  struct dag *dag = NULL;
  T_CHECK(!dag_build(plan, model, &dag), "%s", error_text());
  double *seconds = MEM_NEW(double, dag->n_nodes), left = 0, bytes = 0, most = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    seconds[v] = dag_is_receive(n) || n->kind == NODE_N ? 0 : 0.5 + draw(1 << 30) * 0x1p-30;
    left += n->kind == NODE_EV || n->kind == NODE_ES;
    bytes += n->kind == NODE_EV || n->kind == NODE_ES ? (double)n->bytes : 0;
    most += seconds[v];
  }
  struct sim *sim = sim_create(dag, plan->n_stages);
  struct sim_times times = {seconds, draw(2) ? INT64_MAX : -1};
  const struct sim_result *result = sim_run(sim, &times, 1);
  struct node_row *rows = MEM_NEW(struct node_row, dag->n_nodes);
  for (int32_t v = 0; v < dag->n_nodes; v++)
    rows[v] = trace_rows_make_node(dag, v, 1, result->start[v], result->end[v], result->binder[v]);
  struct report report;
  struct sums sums = add_up(rows, dag->n_nodes, dag->n_ranks, result->makespan, plan->recompute_early, &report);
  T_CHECK(sums.blocks == left && sums.bytes == bytes, "%g blocks of %g bytes, not %g of %g", sums.blocks, sums.bytes,
          left, bytes);
  T_CHECK(fabs(sums.seconds - result->block_seconds) < 1e-9 * most, "%g s, not %g", sums.seconds,
          result->block_seconds);
  T_CHECK(fabs(sums.exposed - result->block_exposed_seconds) < 1e-9 * most, "%s: %g s exposed, not %g", plan->planner,
          sums.exposed, result->block_exposed_seconds);
  for (int32_t k = 0; k < dag->n_ranks; k++)
    T_CHECK(fabs(report.ranks[k].offload - result->ranks[k].idle.offload) < 1e-9 * most, "%s: rank %d: %g s, not %g",
            plan->planner, k, report.ranks[k].offload, result->ranks[k].idle.offload);
  n_waits += sums.exposed > 0;
  free_report(&report);
  mem_free(rows);
  mem_free(seconds);
  sim_destroy(&sim);
  dag_destroy(&dag);
}

int main(void) {
  struct model *model = make_tiny_model(8, true);
  test_example();
  for (int trial = 0; trial < 300; trial++) {
    struct plan *plan = make_random_plan(model);
    put_possible_tiers(plan, model, 1 + draw(3), 1u << draw(PLAN_TIER_COUNT));
    plan_freeze(plan);
    check_plan(plan, model);
    plan_destroy(&plan);
  }
  T_CHECK(n_waits > 50, "compute waited for blocks in %d plans only", n_waits);
  model_destroy(&model);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
