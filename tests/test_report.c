/* The report on traces made by hand: every part of every rank as computed by hand, sums exact on random traces, late
 * nodes found, and folders that have no trace, no step, or were left by a killed run or by two lives on unlike numbers
 * of ranks.
 */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "planner/planner.h"
#include "record/plan_file.h"
#include "record/trace_rows.h"
#include "report/report.h"
#include "store/disk.h"
#include "store/h5.h"
#include "store/rows.h"
#include "t.h"
#include "tiny_model.h"

static char folder[] = "/tmp/penstock-test-report-XXXXXX";

static char *path_of(const char *name) { return mem_format("%s/%s", folder, name); }

static void remove_file(const char *name) {
  char *path = path_of(name);
  unlink(path);
  mem_free(path);
}

/* ---- traces ---- */

static struct h5_file *create_trace(int n_ranks) {
  struct h5_file *file = NULL;
  char *path = path_of("trace.h5");
  int status = h5_create(path, &file);
  if (!status) status = rows_create(file, trace_rows_get_nodes());
  if (!status) status = rows_create(file, trace_rows_get_steps());
  if (!status) status = rows_create(file, trace_rows_get_peaks());
  if (!status) status = h5_write_int(file, "/", "n_ranks", n_ranks);
  T_CHECK(!status, "%s", error_text());
  mem_free(path);
  return file;
}

/* Milliseconds here, so that the numbers can be read. */
static struct node_row make_row(int rank, enum node_kind kind, int stage, int micro, int layer, double start,
                                double end) {
  return (struct node_row){.rank = rank,
                           .stream = (int8_t)node_kind_get_stream(kind),
                           .kind = (int8_t)kind,
                           .stage = stage,
                           .microbatch = micro,
                           .layer = layer,
                           .peer = -1,
                           .start_s = start / 1e3,
                           .end_s = end / 1e3,
                           .after = -1};
}

static void append(struct h5_file *file, int32_t step, double seconds, const struct node_row *rows, int64_t n) {
  struct node_row *copy = MEM_NEW(struct node_row, n);
  int32_t n_ranks = 0;
  for (int64_t i = 0; i < n; i++) {
    copy[i] = rows[i];
    copy[i].step = step;
    copy[i].node = (int32_t)i;
    if (rows[i].rank >= n_ranks) n_ranks = rows[i].rank + 1;
  }
  T_CHECK(!rows_append(file, trace_rows_get_nodes(), copy, n), "%s", error_text());
  struct step_row line = {.step = step, .loss = 6.0 - step, .tokens = 100, .seconds = seconds};
  T_CHECK(!rows_append(file, trace_rows_get_steps(), &line, 1), "%s", error_text());
  for (int32_t r = 0; r < n_ranks; r++) {
    struct peak_row peak = {.step = step, .rank = r, .device_bytes = 1000 * (r + 1) + step};
    T_CHECK(!rows_append(file, trace_rows_get_peaks(), &peak, 1), "%s", error_text());
  }
  mem_free(copy);
}

/* Two stages, two micro-batches, 1F1B, with the norm: worked out on paper. */
static const struct {
  int rank;
  enum node_kind kind;
  int stage, micro;
  double start, end;
  int after; /* row */
} paper[] = {
    {0, NODE_F, 0, 0, 0, 10, -1},     {0, NODE_F, 0, 1, 10, 20, 0},    {0, NODE_B, 0, 0, 50, 70, 7},
    {0, NODE_B, 0, 1, 90, 110, 8},    {0, NODE_U, 0, -1, 115, 120, 9}, {0, NODE_SF, 0, 0, 10, 12, 0},
    {0, NODE_SF, 0, 1, 20, 22, 1},    {0, NODE_RB, 0, 0, 20, 48, 17},  {0, NODE_RB, 0, 1, 70, 88, 18},
    {0, NODE_N, -1, -1, 110, 114, 3}, {1, NODE_F, 1, 0, 12, 22, 15},   {1, NODE_B, 1, 0, 22, 42, 10},
    {1, NODE_F, 1, 1, 42, 52, 11},    {1, NODE_B, 1, 1, 52, 82, 12},   {1, NODE_U, 1, -1, 115, 118, 19},
    {1, NODE_RF, 1, 0, 0, 12, 5},     {1, NODE_RF, 1, 1, 21, 22, 15},  {1, NODE_SB, 1, 0, 42, 48, 11},
    {1, NODE_SB, 1, 1, 84, 88, 13},   {1, NODE_N, -1, -1, 82, 114, 3},
};
enum { N_PAPER = sizeof paper / sizeof *paper };

static void append_paper(struct h5_file *file, int32_t step, bool knows_after) {
  struct node_row rows[N_PAPER];
  for (int i = 0; i < N_PAPER; i++) {
    rows[i] = make_row(paper[i].rank, paper[i].kind, paper[i].stage, paper[i].micro,
                       paper[i].kind == NODE_U ? paper[i].stage : -1, paper[i].start, paper[i].end);
    rows[i].after = knows_after ? paper[i].after : -1;
  }
  append(file, step, 0.121, rows, N_PAPER);
}

/* plan.h5 of two ranks with limits on the second. */
static void write_plan(void) {
  struct model *model = make_tiny_model(2, false);
  struct micro_shape micro[2] = {micro_shape_make(1, 8, 8, 8), micro_shape_make(1, 8, 8, 8)};
  int64_t limits[2] = {INT64_MAX, 1 << 30};
  struct plan_request request = {.model = model,
                                 .n_ranks = 2,
                                 .n_stages = 2,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = 2,
                                 .micro = micro,
                                 .device_limit = limits,
                                 .clip = true};
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  char *path = path_of("plan.h5");
  int status = planner_run("1f1b", &request, &plan);
  if (!status) status = dag_build(plan, model, &dag);
  if (!status) status = plan_file_write(path, &(struct plan_file_content){plan, dag, model, "deck", NULL, NULL});
  T_CHECK(!status, "%s", error_text());
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
  mem_free(path);
}

/* ---- checks ---- */

static bool near(double a, double b) { return fabs(a - b) < 1e-9; }

static void check_rank(const struct report *r, int rank, double busy, double bubble, double wait, double other) {
  const struct report_rank *p = &r->ranks[rank];
  T_CHECK(near(p->busy, busy / 1e3), "rank %d busy %.9f", rank, p->busy);
  T_CHECK(near(p->bubble, bubble / 1e3), "rank %d bubble %.9f", rank, p->bubble);
  T_CHECK(near(p->wait, wait / 1e3), "rank %d wait %.9f", rank, p->wait);
  T_CHECK(near(p->other, other / 1e3), "rank %d other %.9f", rank, p->other);
}

static void check_sums(const struct report *r) {
  for (int32_t i = 0; i < r->n_ranks; i++) {
    const struct report_rank *p = &r->ranks[i];
    double sum = p->busy + p->bubble + p->wait + p->other + p->offload, words = p->busy;
#define X(name, ...) words += p->idle.name;
    STEP_IDLE_WORDS(X)
#undef X
    T_CHECK(near(words, r->step_seconds), "rank %d: words sum to %.12f of %.12f", i, words, r->step_seconds);
    T_CHECK(near(sum, r->step_seconds), "rank %d: parts sum to %.12f of %.12f", i, sum, r->step_seconds);
    T_CHECK(p->busy >= 0 && p->bubble >= 0 && p->wait >= 0 && p->other >= 0 && p->offload >= 0,
            "rank %d has a negative part", i);
  }
}

/* The idle time of the paper's ranks in the words of a prediction. */
static void check_words(const struct report *r) {
  const struct step_idle *first = &r->ranks[0].idle, *second = &r->ranks[1].idle;
  T_CHECK(near(first->fill, 0) && near(first->data, 0.034) && near(first->message, 0.012) &&
              near(first->other, 0.004) && near(first->drain, 0.006),
          "rank 0: %g %g %g %g %g", first->fill, first->data, first->message, first->other, first->drain);
  T_CHECK(near(second->fill, 0.012) && near(second->data, 0) && near(second->message, 0) && near(second->other, 0) &&
              near(second->drain, 0.036),
          "rank 1: %g %g %g %g %g", second->fill, second->data, second->message, second->other, second->drain);
}

static void test_paper(void) {
  struct report r;
  struct h5_file *file = create_trace(2);
  for (int32_t step = 1; step <= 3; step++) append_paper(file, step, true);
  T_CHECK(!h5_close(&file), "%s", error_text());
  write_plan();
  int status = report_read(folder, 0, &r);
  T_CHECK(!status, "%s", error_text());
  if (status) return;
  T_CHECK(r.n_ranks == 2 && r.n_stages == 2 && r.n_micro == 2, "shape %d %d %d", r.n_ranks, r.n_stages, r.n_micro);
  T_CHECK(r.first_step == 2 && r.last_step == 3 && r.n_steps == 2, "the first step warms up");
  T_CHECK(near(r.step_seconds, 0.121) && near(r.median_seconds, 0.121), "step %.6f", r.step_seconds);
  T_CHECK(near(r.tokens_per_s, 200 / 0.242) && r.loss_first == 4 && r.loss_last == 3, "tokens/s %.3f", r.tokens_per_s);
  T_CHECK(r.planner && !strcmp(r.planner, "1f1b") && !strcmp(r.status, "killed: it left no STATUS"),
          "planner and status");
  check_rank(&r, 0, 65, 34, 12, 10);
  check_rank(&r, 1, 73, 40, 2, 6);
  check_words(&r);
  check_sums(&r);
  T_CHECK(r.ranks[0].peak_bytes == 1003 && r.ranks[1].peak_bytes == 2003, "peaks");
  T_CHECK(r.ranks[0].limit_bytes == INT64_MAX && r.ranks[1].limit_bytes == 1 << 30, "limits");
  /* B of both micro-batches begins 2 ms after its message, and the message of the second was sent 2 ms late. */
  T_CHECK(r.n_late == 6, "%d late", (int)r.n_late);
  int n_message = 0;
  for (int i = 0; i < REPORT_WORST; i++) {
    T_CHECK(near(r.worst[i].seconds, 2e-3) && r.worst[i].rank == 0 && r.worst[i].kind == NODE_B, "late node %d", i);
    n_message += r.worst[i].cause == REPORT_MESSAGE && r.worst[i].micro == 1;
  }
  T_CHECK(n_message >= 1, "a message that is sent late is told");
  const char *drawn = r.picture, *second = r.picture + REPORT_PICTURE_COLUMNS + 1;
  T_CHECK(drawn[0] == 'F' && drawn[20] == '.' && drawn[50] == 'B' && drawn[97] == 'U', "picture %s", drawn);
  T_CHECK(second[0] == '.' && second[12] == 'F' && second[25] == 'B' && second[99] == '.', "picture %s", second);
  report_fini(&r);
}

/* A trace of before the column: what a node's kind waits for tells the rest. */
static void test_older(void) {
  struct report r;
  struct h5_file *file = create_trace(2);
  append_paper(file, 1, false);
  T_CHECK(!h5_remove(file, "/nodes/after") && !h5_close(&file), "%s", error_text());
  T_CHECK(!report_read(folder, 0, &r), "%s", error_text());
  check_rank(&r, 0, 65, 34, 12, 10);
  check_rank(&r, 1, 73, 40, 2, 6);
  check_words(&r);
  report_fini(&r);
}

static void test_steps_option(void) {
  struct report r;
  T_CHECK(!report_read(folder, 1, &r), "%s", error_text());
  T_CHECK(r.first_step == 3 && r.n_steps == 1, "--steps 1");
  report_fini(&r);
  T_CHECK(!report_read(folder, 50, &r), "%s", error_text());
  T_CHECK(r.first_step == 1 && r.n_steps == 3, "--steps 50 takes the first too");
  report_fini(&r);
}

/* Steps that take 121 ms but for the last one, which takes a second, as one with an evaluation: what is drawn is one of
 * the others. Then one fast, one slow, and one between. */
static void test_typical(void) {
  static const struct {
    double seconds[5];
    int64_t typical;
  } cases[] = {{{9, 0.121, 0.121, 0.121, 1}, 3}, {{9, 0.5, 0.2, 0.3, 0.4}, 4}, {{9, 0.121, 0.8, 0.7, 0.75}, 4}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    struct report r;
    struct h5_file *file = create_trace(2);
    for (int32_t step = 1; step <= 5; step++) {
      struct node_row row = make_row(0, NODE_F, 0, 0, -1, 0, 10), other = make_row(1, NODE_F, 1, 0, -1, 10, 20);
      struct node_row rows[] = {row, other};
      append(file, step, cases[k].seconds[step - 1], rows, 2);
    }
    T_CHECK(!h5_close(&file), "%s", error_text());
    T_CHECK(!report_read(folder, 0, &r), "%s", error_text());
    T_CHECK(r.typical_step == cases[k].typical, "case %zu: step %d", k, (int)r.typical_step);
    T_CHECK(r.picture[0] == 'F', "picture %s", r.picture);
    report_fini(&r);
  }
}

static void test_outputs(void) {
  struct report r;
  char *status_path = path_of("STATUS"), *report_path = path_of("report.txt"), *text = NULL;
  T_CHECK(!disk_write_text(status_path, "CHECKPOINTED step 3\n"), "%s", error_text());
  T_CHECK(!report_save(folder, NULL), "%s", error_text());
  T_CHECK(!disk_read_text(report_path, &text) && text, "%s", error_text());
  T_CHECK(text && strstr(text, "CHECKPOINTED step 3") && strstr(text, "   0 |FFFF"), "report.txt:\n%s", text);
  T_CHECK(text && strstr(text, "65.00  53.7") && strstr(text, "1024.00"), "report.txt:\n%s", text);
  mem_free(text);
  T_CHECK(!report_read(folder, 0, &r), "%s", error_text());
  text = report_format_json(&r);
  json_t *root = json_loads(text, 0, NULL);
  T_CHECK(root, "%s", text);
  json_t *ranks = json_object_get(root, "ranks"), *rank = json_array_get(ranks, 0);
  double sum = 0, shares = 0, value;
  const char *key;
  json_t *share;
  json_object_foreach(json_object_get(rank, "shares"), key, share) shares += json_real_value(share);
  for (const char *const *name =
           (const char *const[]){"busy_ms", "bubble_ms", "wait_ms", "other_ms", "offload_ms", NULL};
       *name; name++)
    sum += json_real_value(json_object_get(rank, *name));
  value = json_real_value(json_object_get(root, "step_ms"));
  T_CHECK(fabs(json_real_value(json_object_get(root, "step_s")) * 1e3 - value) < 1e-6, "%s", text);
  T_CHECK(fabs(json_real_value(json_object_get(rank, "busy_s")) * 1e3 -
               json_real_value(json_object_get(rank, "busy_ms"))) < 1e-6 &&
              json_object_get(json_object_get(rank, "busy_by_kind_s"), "F") &&
              json_is_null(json_object_get(root, "predicted_step_s")),
          "seconds beside milliseconds: %s", text);
  T_CHECK(json_array_size(ranks) == 2 && fabs(sum - value) < 1e-6 && fabs(shares - 1) < 1e-6, "%s", text);
  T_CHECK(json_is_null(json_object_get(rank, "limit_bytes")), "no limit is null");
  json_decref(root);
  mem_free(text);
  report_fini(&r);
  remove_file("STATUS");
  char *page_path = path_of("report.html"), *page = NULL;
  T_CHECK(!disk_read_text(page_path, &page) && page, "%s", error_text());
  T_CHECK(page && strstr(page, "timeline, measured in step 2"), "report.html draws a typical step");
  mem_free(page);
  mem_free(page_path);
  remove_file("report.txt");
  remove_file("report.html");
  mem_free(status_path);
  mem_free(report_path);
}

/* A tied weight without the norm: the update waits for the other use's sum. */
static void test_tie(void) {
  struct report r;
  struct node_row rows[] = {
      make_row(0, NODE_F, 0, 0, -1, 0, 10),    make_row(1, NODE_F, 1, 0, -1, 14, 20),
      make_row(1, NODE_B, 1, 0, -1, 20, 40),   make_row(0, NODE_B, 0, 0, -1, 44, 60),
      make_row(0, NODE_SF, 0, 0, -1, 10, 14),  make_row(1, NODE_RF, 1, 0, -1, 0, 14),
      make_row(1, NODE_SB, 1, 0, -1, 40, 44),  make_row(0, NODE_RB, 0, 0, -1, 10, 44),
      make_row(1, NODE_ST, 1, -1, 5, 44, 65),  make_row(0, NODE_RT, 0, -1, 0, 44, 65),
      make_row(0, NODE_ST, 0, -1, 0, 60, 70),  make_row(1, NODE_RT, 1, -1, 5, 60, 70),
      make_row(0, NODE_U, 0, -1, 0, 70, 80),   make_row(1, NODE_U, 1, -1, 5, 70, 90),
      make_row(0, NODE_N, -1, -1, -1, 80, 92), make_row(1, NODE_N, -1, -1, -1, 90, 92),
  };
  enum { N = sizeof rows / sizeof *rows };
  static const int8_t after[N] = {-1, 5, 1, 7, 0, 4, 2, 6, 2, 8, 3, 10, 10, 11, 12, 13};
  for (int i = 0; i < N; i++) rows[i].after = after[i];
  struct h5_file *file = create_trace(2);
  append(file, 5, 0.085, rows, N);
  T_CHECK(!h5_close(&file), "%s", error_text());
  T_CHECK(!report_read(folder, 0, &r), "%s", error_text());
  T_CHECK(near(r.step_seconds, 0.092), "the step ends with the last node of any rank");
  check_sums(&r);
  /* Rank 0: F 10, idle 34 (30 made, 4 under way), B 16, waits 10 for the exchange, U 10, 10 till rank 1 is done, 2. */
  check_rank(&r, 0, 36, 40, 14, 2);
  /* Rank 1: 14 (10, 4), F 6, B 20, 30 (20 until rank 0's part is sent, 10 under way), U 20, 2. */
  check_rank(&r, 1, 46, 30, 14, 2);
  report_fini(&r);
}

/* The graph of 1F1B run in ideal time: F takes 10 ms, B 20 ms, all else nothing. */
static void time_ideally(const struct dag *dag, double *start, double *end, int32_t *after) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (int32_t v = 0; v < dag->n_nodes; v++) {
      const struct dag_node *node = &dag->nodes[v];
      double ready = 0, length = node->kind == NODE_F ? 0.01 : node->kind == NODE_B ? 0.02 : 0;
      int32_t stream = dag->stream_offset[node->rank * STREAM_COUNT + node->stream];
      after[v] = node->position > 0 ? dag->stream_nodes[stream + node->position - 1] : -1;
      if (after[v] >= 0) ready = end[after[v]];
      for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++)
        if (end[dag->edge_from[e]] > ready) ready = end[after[v] = dag->edge_from[e]];
      changed |= end[v] != ready + length;
      start[v] = ready;
      end[v] = ready + length;
    }
  }
}

/* Equal stages leave the textbook's bubble, (p-1)/(m+p-1) of the step on every rank, and nothing else. */
static void test_ideal(void) {
  enum { P = 4, M = 8 };
  struct model *model = make_tiny_model(4, false);
  struct micro_shape micro[M];
  for (int i = 0; i < M; i++) micro[i] = micro_shape_make(1, 8, 8, 8);
  struct plan_request request = {.model = model,
                                 .n_ranks = P,
                                 .n_stages = P,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = M,
                                 .micro = micro,
                                 .clip = true};
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  int status = planner_run("1f1b", &request, &plan);
  if (!status) status = dag_build(plan, model, &dag);
  T_CHECK(!status, "%s", error_text());
  double *start = MEM_NEW(double, dag->n_nodes), *end = MEM_NEW(double, dag->n_nodes);
  struct node_row *rows = MEM_NEW(struct node_row, dag->n_nodes);
  int32_t *after = MEM_NEW(int32_t, dag->n_nodes);
  time_ideally(dag, start, end, after);
  for (int32_t v = 0; v < dag->n_nodes; v++) rows[v] = trace_rows_make_node(dag, v, 1, start[v], end[v], after[v]);
  struct h5_file *file = create_trace(P);
  append(file, 1, 0, rows, dag->n_nodes);
  T_CHECK(!h5_close(&file), "%s", error_text());
  struct report r;
  T_CHECK(!report_read(folder, 0, &r), "%s", error_text());
  T_CHECK(near(r.step_seconds, 0.03 * (M + P - 1)), "step %.6f", r.step_seconds);
  check_sums(&r);
  for (int i = 0; i < P; i++) {
    T_CHECK(near(r.ranks[i].bubble, r.step_seconds * (P - 1) / (M + P - 1)), "rank %d bubble %.6f", i,
            r.ranks[i].bubble);
    T_CHECK(near(r.ranks[i].wait, 0) && near(r.ranks[i].other, 0), "rank %d waits", i);
  }
  T_CHECK(r.n_late == 0, "%d late", (int)r.n_late);
  report_fini(&r);
  mem_free(start);
  mem_free(end);
  mem_free(after);
  mem_free(rows);
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
}

/* Whatever the times are, also messages that overlap, end late or are missing, and whatever rows are said to come after
 * (some of them nothing that is there): the parts sum to the step. */
static void test_random(void) {
  static const enum node_kind kinds[] = {NODE_F,  NODE_B,  NODE_I,  NODE_W,  NODE_U,
                                         NODE_SF, NODE_RF, NODE_SB, NODE_RB, NODE_N};
  struct h5_file *file = create_trace(3);
  double busy[3] = {0};
  const struct rng_key key = {.seed = 99, .purpose = RNG_TEST};
  uint64_t counter = 0;
  enum { N_STEPS = 30, N_ROWS = 120 };
  for (int32_t step = 1; step <= N_STEPS; step++) {
    struct node_row rows[N_ROWS];
    double now[3] = {0};
    for (int i = 0; i < N_ROWS; i++) {
      uint64_t x = rng_bits(&key, counter++), y = rng_bits(&key, counter++);
      int rank = i < 3 ? i : (int)(x % 3);
      enum node_kind kind = i < 3 ? NODE_F : kinds[x / 3 % 10];
      double gap = (double)(y % 7) - 1, length = (double)(y / 7 % 9);
      double start = gap > 0 ? now[rank] + gap : now[rank];
      if (node_kind_get_stream(kind) == STREAM_COMPUTE) {
        now[rank] = start + length;
        busy[rank] += length;
      } else {
        start = (double)(y / 63 % 200) - 20;
      }
      rows[i] = make_row(rank, kind, (int)(x / 30 % 4), (int)(x / 120 % 4), -1, start, start + length);
      rows[i].after = (int32_t)(x / 480 % (N_ROWS + 10)) - 5;
    }
    append(file, step, (double)(counter % 100) / 1e3, rows, N_ROWS);
  }
  T_CHECK(!h5_close(&file), "%s", error_text());
  struct report r;
  T_CHECK(!report_read(folder, N_STEPS, &r), "%s", error_text());
  T_CHECK(r.n_steps == N_STEPS && r.n_ranks == 3, "%d steps", (int)r.n_steps);
  check_sums(&r);
  for (int i = 0; i < 3; i++)
    T_CHECK(near(r.ranks[i].busy, busy[i] / 1e3 / N_STEPS), "busy of rank %d: %.9f", i, r.ranks[i].busy);
  report_fini(&r);
}

/* A step of very many micro-batches: the time of a report grows with the rows, not with their square, which would be
 * far beyond the test's limit. */
static void test_long_step(void) {
  enum { M = 100000 };
  struct node_row *rows = MEM_NEW(struct node_row, 4 * M);
  for (int i = 0; i < M; i++) {
    double at = 4 * i;
    rows[4 * i] = make_row(0, NODE_F, 0, i, -1, at, at + 1);
    rows[4 * i + 1] = make_row(0, NODE_SF, 0, i, -1, at + 1, at + 3);
    rows[4 * i + 2] = make_row(1, NODE_RF, 1, i, -1, at, at + 3);
    rows[4 * i + 3] = make_row(1, NODE_F, 1, i, -1, at + 3, at + 4);
    rows[4 * i].after = 4 * i - 3; /* the send before it; of the first none */
    rows[4 * i + 1].after = 4 * i;
    rows[4 * i + 2].after = 4 * i + 1;
    rows[4 * i + 3].after = 4 * i + 2;
  }
  struct h5_file *file = create_trace(2);
  append(file, 1, 4 * M / 1e3, rows, 4 * M);
  T_CHECK(!h5_close(&file), "%s", error_text());
  struct report r;
  T_CHECK(!report_read(folder, 1, &r), "%s", error_text());
  T_CHECK(fabs(r.ranks[1].busy - M / 1e3) < 1e-6 && fabs(r.ranks[1].wait - 2 * M / 1e3) < 1e-6, "busy %.9f, wait %.9f",
          r.ranks[1].busy, r.ranks[1].wait);
  T_CHECK(fabs(r.ranks[0].wait - 2 * (M - 1) / 1e3) < 1e-6, "rank 0 waits %.9f for its sends", r.ranks[0].wait);
  report_fini(&r);
  mem_free(rows);
}

/* Two lives on 2 and 3 ranks, and a last step of which only rank 0's rows were saved. */
static void test_lives(void) {
  struct h5_file *file = create_trace(3);
  struct report r;
  struct node_row third = make_row(2, NODE_F, 2, 0, -1, 5, 6), alone = make_row(0, NODE_F, 0, 0, -1, 0, 500);
  for (int32_t step = 1; step <= 3; step++) append_paper(file, step, true);
  for (int32_t step = 4; step <= 5; step++) {
    append_paper(file, step, true);
    third.step = step;
    T_CHECK(!rows_append(file, trace_rows_get_nodes(), &third, 1), "%s", error_text());
  }
  append(file, 6, 0.5, &alone, 1);
  T_CHECK(!h5_close(&file), "%s", error_text());
  T_CHECK(!report_read(folder, 0, &r), "%s", error_text());
  T_CHECK(r.n_ranks == 3 && r.first_step == 4 && r.last_step == 5, "steps %d to %d on %d ranks", (int)r.first_step,
          (int)r.last_step, r.n_ranks);
  check_rank(&r, 0, 65, 34, 12, 10);
  check_sums(&r);
  report_fini(&r);
  /* Killed at once after it went on with two ranks: what the first life left. */
  file = create_trace(4);
  for (int32_t step = 1; step <= 3; step++) append_paper(file, step, true);
  T_CHECK(!h5_close(&file), "%s", error_text());
  T_CHECK(!report_read(folder, 0, &r), "%s", error_text());
  T_CHECK(r.n_ranks == 2 && r.n_steps == 2, "the steps of the earlier life");
  report_fini(&r);
}

static void check_refused(const char *run, const char *word) {
  struct report r;
  int status = report_read(run, 0, &r);
  T_CHECK(status == STATUS_MISTAKE && strstr(error_text(), word), "%s: status %d, %s", run, status, error_text());
  error_clear();
}

static void test_nothing(void) {
  struct h5_file *file = create_trace(2);
  T_CHECK(!h5_close(&file), "%s", error_text());
  check_refused(folder, "no step yet");
  char *trace = path_of("trace.h5"), *none = path_of("none");
  T_CHECK(!disk_write_text(trace, "not a trace"), "%s", error_text());
  check_refused(folder, "trace.h5");
  remove_file("trace.h5");
  check_refused(folder, "run.trace_every");
  check_refused(none, "no such folder");
  T_CHECK(!report_save(folder, NULL), "a run without a trace ends without a report");
  mem_free(trace);
  mem_free(none);
}

int main(void) {
  T_CHECK(mkdtemp(folder), "no folder in /tmp");
  test_paper();
  test_steps_option();
  test_outputs();
  test_typical();
  test_older();
  test_tie();
  test_ideal();
  test_random();
  test_long_step();
  test_lives();
  test_nothing();
  remove_file("plan.h5");
  T_CHECK(!rmdir(folder), "files are left in %s", folder);
  T_CHECK(h5_balance() == 0, "%d HDF5 objects are open", (int)h5_balance());
  T_CHECK(mem_balance() == 0, "%d allocations are left", (int)mem_balance());
  return t_end();
}
