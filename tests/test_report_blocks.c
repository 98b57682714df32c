/* What a report says of blocks that moved: a worked example, and random plans with random moves, of which report and
 * simulator say, rank by rank and word by word, what the graph's own edges say. */
#include "base/error.h"
#include "random_moves.h"
#include "record/step_parts.h"
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
  step_view_init_rows(&view, rows, n_rows, seconds, recompute_early);
  report_step_add(&view, report);
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
                           .end_s = end,
                           .after = -1};
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
  enum { N = sizeof rows / sizeof *rows };
  static const int8_t after[N] = {-1, 0, 0, 1, 2, 4, 4, 3, 5, 8, 8, 9};
  for (int i = 0; i < N; i++) {
    rows[i].node = i;
    rows[i].after = after[i];
  }
  struct report report;
  /* Before F 2 (3 to 4): block 0 goes to disk until 4. Before B 2 (4.5 to 5): block 1 goes out until 5. Before B 0 (6
   * to 8). */
  struct sums sums = add_up(rows, N, 1, 10, true, &report);
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

/* ---- beside the graph ---- */

/* The latest end of those of a node's edges that this stream range has; -1: none. */
static int32_t find_last(const struct dag *dag, const struct sim_result *r, int32_t v, int first, int end) {
  int32_t last = -1;
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    int32_t u = dag->edge_from[e];
    if (dag->nodes[u].stream < first || dag->nodes[u].stream >= end) continue;
    if (last < 0 || r->end[u] > r->end[last]) last = u;
  }
  return last;
}

/* Idle time that node u closes (-1: none), by what the edges say. */
static void add_wait(const struct dag *dag, const struct sim_result *r, int32_t u, double from, double until,
                     struct step_idle *idle) {
  int stream = u < 0 ? STREAM_COMPUTE : dag->nodes[u].stream;
  double gap = until - from;
  if (u >= 0 && dag->nodes[u].kind == NODE_N) {
    idle->drain += gap;
  } else if (stream == STREAM_RECEIVE) {
    int32_t maker = find_last(dag, r, dag->match[u], STREAM_COMPUTE, STREAM_COMPUTE + 1);
    double message = until - fmax(r->end[maker], from);
    idle->message += message;
    idle->data += gap - message;
  } else if (stream == STREAM_COMPUTE) {
    idle->data += gap;
  } else {
    idle->other += gap;
  }
}

static struct step_idle cut_by_edges(const struct dag *dag, const struct sim_result *r, int32_t rank) {
  const int32_t *offset = &dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  struct step_idle idle = {0};
  double step_end = 0, at = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++) step_end = fmax(step_end, r->end[v]);
  for (int32_t k = offset[0]; k < offset[1]; k++) {
    int32_t v = dag->stream_nodes[k], u = r->binder[v];
    double from = at, start = r->start[v];
    at = r->end[v];
    if (k == offset[0]) {
      idle.fill = start;
    } else if (start > from && u >= 0 && dag->nodes[u].stream >= STREAM_COPY_OUT) {
      int32_t need = find_last(dag, r, v, STREAM_COMPUTE, STREAM_COPY_OUT);
      double ready = need >= 0 ? fmax(r->end[need], from) : from;
      if (ready > from) add_wait(dag, r, need, from, ready, &idle);
      idle.offload += start - ready;
    } else if (start > from) {
      add_wait(dag, r, u, from, start, &idle);
    }
  }
  if (offset[0] == offset[1])
    idle.fill = step_end;
  else
    idle.drain += step_end - at;
  return idle;
}

/* Of the way of each block that let a compute node start, what lies in the idle time before. */
static double expose_by_edges(const struct dag *dag, const struct sim_result *r) {
  double sum = 0;
  for (int32_t k = 0; k < dag->n_ranks; k++) {
    const int32_t *offset = &dag->stream_offset[k * STREAM_COUNT + STREAM_COMPUTE];
    for (int32_t i = offset[0]; i < offset[1]; i++) {
      int32_t v = dag->stream_nodes[i], u = r->binder[v];
      double from = i > offset[0] ? r->end[dag->stream_nodes[i - 1]] : 0;
      if (u < 0 || dag->nodes[u].stream < STREAM_COPY_OUT || r->start[v] <= from) continue;
      sum += r->start[v] - fmax(r->start[dag_is_receive(&dag->nodes[u]) ? dag->match[u] : u], from);
    }
  }
  return sum;
}

static double add_way_by_edges(const struct dag *dag, const struct sim_result *r) {
  double sum = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (dag_is_block(&dag->nodes[v]) && !dag_is_receive(&dag->nodes[v])) sum += r->end[v] - r->start[v];
  return sum;
}

static int n_waits;

static void check_rank(const struct dag *dag, const struct sim_result *r, int32_t k, const struct step_idle *reported,
                       double error) {
  struct step_idle idle = cut_by_edges(dag, r, k);
  const struct step_idle *simulated = &r->ranks[k].idle;
#define X(name, ...)                                                                                                   \
  T_CHECK(fabs(reported->name - idle.name) < error && fabs(simulated->name - idle.name) < error,                       \
          "rank %d, " #name ": %g s in a report, %g simulated, %g by the edges", k, reported->name, simulated->name,   \
          idle.name);
  STEP_IDLE_WORDS(X)
#undef X
}

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
  T_CHECK(fabs(sums.seconds - add_way_by_edges(dag, result)) < 1e-9 * most, "%g s, not %g", sums.seconds,
          add_way_by_edges(dag, result));
  T_CHECK(fabs(sums.exposed - expose_by_edges(dag, result)) < 1e-9 * most, "%s: %g s exposed, not %g", plan->planner,
          sums.exposed, expose_by_edges(dag, result));
  for (int32_t k = 0; k < dag->n_ranks; k++) check_rank(dag, result, k, &report.ranks[k].idle, 1e-9 * most);
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
