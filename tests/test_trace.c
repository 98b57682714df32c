/* trace.h5 and plan.h5: every row of every rank and step arrives with its columns and times; a resume cuts later steps;
 * a full disk costs the rows of that flush and nothing else; a broken file is set aside; a bound is kept, and what
 * stays within it is whole.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "record/comparison.h"
#include "record/plan_file.h"
#include "record/trace.h"
#include "record/trace_read.h"
#include "record/trace_rows.h"
#include "record/trace_thin.h"
#include "scratch.h"
#include "store/disk.h"
#include "store/h5.h"
#include "store/rows.h"
#include "t.h"
#include "trace_case.h"

static struct comm *comm;
static int rank, size;
static int64_t budget = -1; /* bytes that may still be written; -1: no limit */

static ssize_t write_limited(int descriptor, const void *data, size_t bytes, off_t offset) {
  if (budget >= 0 && (int64_t)bytes > budget) {
    errno = ENOSPC;
    return -1;
  }
  if (budget >= 0) budget -= (int64_t)bytes;
  return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
  return write_limited(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
  return write_limited(descriptor, data, bytes, offset);
}

/* ---- reading back, on rank 0 ---- */

/* Of a rank's nodes the later ones end later here, so the last of those that a node waits for has the highest number.
 */
static int32_t find_last_before(const struct dag *dag, int32_t v) {
  const struct dag_node *n = &dag->nodes[v];
  int32_t last = -1;
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    int32_t u = dag->edge_from[e];
    if (dag->nodes[u].rank == n->rank && u != dag->match[v] && u > last) last = u;
  }
  for (int32_t u = dag->rank_offset[n->rank]; u < dag->rank_offset[n->rank + 1]; u++)
    if (dag->nodes[u].stream == n->stream && dag->nodes[u].position == n->position - 1 && u > last) last = u;
  return last;
}

/* A receive is there when its send began after it was posted; all norms come after what the last of them waited for. */
static int32_t expect_after(const struct dag *dag, int32_t v) {
  if (dag_is_receive(&dag->nodes[v]) && dag->match[v] > v) return dag->match[v];
  if (dag->nodes[v].kind == NODE_N)
    for (int32_t u = 0; u < dag->n_nodes; u++)
      if (dag->nodes[u].kind == NODE_N && u > v) v = u;
  return find_last_before(dag, v);
}

static bool is_row_right(const struct node_row *row, const struct dag *dag, int64_t step) {
  const struct dag_node *node = &dag->nodes[row->node];
  return row->step == step && row->rank == node->rank && row->position == node->position &&
         row->stream == node->stream && row->kind == node->kind && row->stage == node->stage &&
         row->microbatch == node->micro && row->layer == node->layer && row->peer == node->peer &&
         row->bytes == node->bytes && row->device_alloc == node->device_alloc &&
         row->device_free == node->device_free && fabs(row->start_s - start_of(step, row->node)) < 1e-9 &&
         fabs(row->end_s - end_of(step, row->node)) < 1e-9 && row->after == expect_after(dag, row->node);
}

/* The trace has exactly these steps, ascending, with all rows right. */
static void check_trace(const char *path, const struct trace_case *c, const int64_t *steps, int64_t n_steps) {
  struct h5_file *file;
  struct node_row *rows;
  struct step_row *lines;
  struct peak_row *peaks;
  int64_t n_rows, n_lines, n_peaks, wrong = 0, text_value;
  T_CHECK(!h5_open(path, false, &file), "%s", error_text());
  T_CHECK(!rows_read_all(file, trace_rows_get_nodes(), (void **)&rows, &n_rows), "%s", error_text());
  T_CHECK(!rows_read_all(file, trace_rows_get_steps(), (void **)&lines, &n_lines), "%s", error_text());
  T_CHECK(!rows_read_all(file, trace_rows_get_peaks(), (void **)&peaks, &n_peaks), "%s", error_text());
  T_CHECK(!h5_read_int(file, "/", "n_ranks", &text_value) && text_value == size, "%" PRId64 " ranks", text_value);
  T_CHECK(n_rows == n_steps * c->dag->n_nodes && n_lines == n_steps && n_peaks == n_steps * size,
          "%" PRId64 " nodes, %" PRId64 " steps, %" PRId64 " peaks of %" PRId64 " steps", n_rows, n_lines, n_peaks,
          n_steps);
  for (int64_t i = 0; i < n_rows && n_rows == n_steps * c->dag->n_nodes; i++)
    wrong += rows[i].node != i % c->dag->n_nodes || !is_row_right(&rows[i], c->dag, steps[i / c->dag->n_nodes]);
  T_CHECK(wrong == 0, "%" PRId64 " rows are wrong", wrong);
  for (int64_t i = 0; i < n_lines && n_lines == n_steps; i++)
    T_CHECK(lines[i].step == steps[i] && lines[i].loss == 3.0 / (double)steps[i] && lines[i].tokens == steps[i] * 100 &&
                lines[i].seconds == (double)steps[i] * 0.125 && lines[i].predicted_seconds == (double)steps[i] * 0.25 &&
                lines[i].plan_hash == (int64_t)c->plan->hash,
            "step %" PRId64, steps[i]);
  for (int64_t i = 0; i < n_peaks && n_peaks == n_steps * size; i++)
    T_CHECK(peaks[i].rank == i % size && peaks[i].device_bytes == peak_of(steps[i / size], peaks[i].rank) &&
                peaks[i].host_bytes == 2 * peaks[i].device_bytes && peaks[i].disk_bytes == 3 * peaks[i].device_bytes &&
                peaks[i].device_static_bytes == 77,
            "peak %" PRId64, i);
  mem_free(rows);
  mem_free(lines);
  mem_free(peaks);
  h5_close(&file);
}

static void check_on_root(const char *path, const struct trace_case *c, const int64_t *steps, int64_t n_steps) {
  if (rank == 0) check_trace(path, c, steps, n_steps);
  comm_barrier_all(comm);
}

static const int64_t counting[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static void test_steps(const char *path, const struct trace_case *c) {
  struct trace *trace;
  T_CHECK(!trace_open_all(comm, path, 0, &trace), "%s", error_text());
  check_on_root(path, c, counting, 0);
  for (int64_t step = 1; step <= 10; step++) {
    add_step(trace, comm, c, step);
    if (step % 4 == 0) {
      T_CHECK(!trace_flush_all(trace), "%s", error_text());
      check_on_root(path, c, counting, step); /* while it is being written */
    }
  }
  T_CHECK(!trace_close_all(&trace) && !trace, "%s", error_text());
  check_on_root(path, c, counting, 10);
  /* A resume from step 7 replaces later rows. */
  T_CHECK(!trace_open_all(comm, path, 7, &trace), "%s", error_text());
  check_on_root(path, c, counting, 7);
  add_step(trace, comm, c, 8);
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  check_on_root(path, c, counting, 8);
  T_CHECK(!trace_open_all(comm, path, 8, &trace) && !trace_close_all(&trace), "nothing to add: %s", error_text());
  check_on_root(path, c, counting, 8);
}

/* A trace of a program that did not know `after` is read, as -1, and continued. */
static void test_older(const char *path, const struct trace_case *c) {
  struct trace *trace;
  if (rank == 0) {
    struct h5_file *file;
    struct node_row *rows;
    int64_t n;
    T_CHECK(!h5_open(path, true, &file) && !h5_remove(file, "/nodes/after") && !h5_close(&file), "%s", error_text());
    T_CHECK(!trace_read_nodes(path, 8, &rows, &n) && n == c->dag->n_nodes, "%s", error_text());
    for (int64_t i = 0; i < n; i++) T_CHECK(rows[i].after == -1, "row %d comes after %d", (int)i, (int)rows[i].after);
    mem_free(rows);
  }
  comm_barrier_all(comm);
  T_CHECK(!trace_open_all(comm, path, 8, &trace), "%s", error_text());
  add_step(trace, comm, c, 9);
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  if (rank == 0) {
    struct node_row *rows;
    int64_t n;
    T_CHECK(!trace_read_nodes(path, 9, &rows, &n) && n == c->dag->n_nodes, "%s", error_text());
    for (int64_t i = 0; i < n; i++) T_CHECK(is_row_right(&rows[i], c->dag, 9), "row %d of a continued trace", (int)i);
    mem_free(rows);
  }
}

/* What a run ends with stands in the trace, in the place of an earlier one, until the run goes on. */
static void test_comparison(const char *path, const struct trace_case *c) {
  struct kind_row kinds[] = {{NODE_F, 8, 0.25, 0.5}, {NODE_U, 3, 1e-3, NAN}};
  struct op_row ops[] = {{LAYER_MLP, 1, OP_MATMUL, PASS_RECOMPUTE, 5, 0.125, 0.375}};
  char names[] = "{\"mlp\": [\"norm\", \"up\"]}";
  struct comparison given = {"a source", true, 0.75, 1.5, 0.25, 0.375, 0.5, 7, 2, 1, kinds, ops, names}, back;
  struct trace *trace;
  for (int i = 0; i < 2; i++) {
    T_CHECK(!trace_open_all(comm, path, 4 + i, &trace), "%s", error_text());
    if (rank == 0) {
      T_CHECK(!comparison_read(path, &back) && back.n_steps == 0 && back.n_ops == 0, "%d steps are left",
              (int)back.n_steps);
      comparison_fini(&back);
      given.n_steps = 7 + i;
      T_CHECK(!trace_put_comparison(trace, &given), "%s", error_text());
    }
    add_step(trace, comm, c, 5 + i);
    if (i == 1) trace_set_limit(trace, 1); /* also in a trace that is written anew */
    T_CHECK(!trace_close_all(&trace), "%s", error_text());
    if (rank > 0) continue;
    T_CHECK(!comparison_read(path, &back), "%s", error_text());
    T_CHECK(back.n_steps == 7 + i && back.n_kinds == 2 && back.n_ops == 1 && back.cost_is_measured &&
                !strcmp(back.cost_source, "a source") && back.predicted_step_s == 0.75 &&
                back.measured_bubble == 0.375 && back.copy_cpu_s == 0.5,
            "another comparison: %d steps, %d kinds", (int)back.n_steps, (int)back.n_kinds);
    T_CHECK(back.kinds[0].kind == NODE_F && back.kinds[0].count == 8 && back.kinds[0].measured_s == 0.5 &&
                isnan(back.kinds[1].measured_s) && back.ops[0].layer == LAYER_MLP && back.ops[0].op == 1 &&
                back.ops[0].pass == PASS_RECOMPUTE && back.ops[0].measured_s == 0.375,
            "other rows");
    T_CHECK(back.op_names && !strcmp(back.op_names, names), "names %s", back.op_names);
    comparison_fini(&back);
  }
}

static void test_full_disk(const char *path, const struct trace_case *c) {
  struct trace *trace;
  const int64_t steps[] = {1, 2, 5, 6, 9};
  int64_t room = 0;
  T_CHECK(!trace_open_all(comm, path, 0, &trace), "%s", error_text());
  for (int64_t step = 1; step <= 9; step++) {
    add_step(trace, comm, c, step);
    if (step % 2) continue;
    budget = step % 4 == 0 ? room : -1;
    int status = trace_flush_all(trace);
    budget = -1;
    room += 20000;
    if (step % 4 == 0) {
      T_CHECK(status == STATUS_FAILED && strstr(error_text(), "No space") && strstr(error_text(), path), "%s",
              error_text());
      T_CHECK(strstr(error_text(), step == 4 ? "steps 3 to 4" : "steps 7 to 8"), "%s", error_text());
    } else {
      T_CHECK(!status, "%s", error_text());
    }
    if (step == 4) check_on_root(path, c, steps, 2);
  }
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  check_on_root(path, c, steps, 5);
}

static void test_broken_file(const char *path, const struct trace_case *c) {
  struct trace *trace;
  char *old = mem_format("%s.old", path);
  if (rank == 0) disk_write_text(path, "no HDF5");
  comm_barrier_all(comm);
  T_CHECK(!trace_open_all(comm, path, 3, &trace), "%s", error_text());
  add_step(trace, comm, c, 4);
  if (rank == 0 && size == 1) trace_flush_alone(trace);
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  check_on_root(path, c, counting + 3, 1);
  if (rank == 0) T_CHECK(access(old, F_OK) == 0, "the broken file is kept");
  char *none = mem_format("%s/none/trace.h5", path);
  T_CHECK(trace_open_all(comm, none, 0, &trace) == STATUS_FAILED && !trace && strstr(error_text(), none), "%s",
          error_text());
  mem_free(none);
  mem_free(old);
}

/* ---- a bound ---- */

/* Some first steps, the last ones, and between them as many as there is room for, evenly. */
static void test_choice(void) {
  enum { N = 5000 };
  int32_t steps[N], n = 0;
  for (int64_t most = 0; most <= 700; most += most < 20 ? 1 : 97) {
    int64_t every = 1;
    n = 0;
    for (int32_t step = 1; step <= 100000; step++) {
      steps[n++] = step;
      if (n < N) continue;
      struct trace_choice choice = trace_choose(steps, n, most, every);
      int32_t kept = 0, widest = 0;
      for (int32_t i = 0; i < n; i++)
        if (trace_choice_keeps(&choice, steps[i])) steps[kept++] = steps[i];
      for (int32_t i = 1; i < kept; i++) widest = steps[i] - steps[i - 1] > widest ? steps[i] - steps[i - 1] : widest;
      int32_t last = (int32_t)(most < 1 ? 1 : most > 2 * TRACE_LAST_STEPS ? TRACE_LAST_STEPS : (most + 1) / 2);
      T_CHECK(kept <= (most ? most : 1) && kept >= last, "%d steps of at most %" PRId64, kept, most);
      for (int32_t i = 0; i < last; i++)
        T_CHECK(kept > i && steps[kept - 1 - i] == step - i, "step %d is not kept", step - i);
      T_CHECK(most < 8 || steps[0] == 1, "step 1 is not kept, but %d", steps[0]);
      T_CHECK(choice.every >= 2 && choice.every >= every && widest <= choice.every,
              "%d steps are missing, one in %" PRId64 " stays", widest, choice.every);
      n = kept;
      every = choice.every;
    }
  }
  struct trace_choice all = trace_choose(steps, 3, 3, 64);
  T_CHECK(trace_choice_keeps(&all, steps[0]) && trace_choice_keeps(&all, 77), "with room for all, all stay");
}

static int64_t measure_file(const char *path) {
  struct stat status;
  return stat(path, &status) ? -1 : (int64_t)status.st_size;
}

/* The steps of /peaks, ascending, and whether /nodes has exactly these, all with all rows. */
static int64_t check_kept(const char *path, const struct trace_case *c, int32_t *kept, int64_t most) {
  struct h5_file *file;
  struct node_row *rows;
  struct peak_row *peaks;
  int64_t n_rows, n_peaks, n = 0, wrong = 0;
  T_CHECK(!h5_open(path, false, &file), "%s", error_text());
  T_CHECK(!rows_read_all(file, trace_rows_get_nodes(), (void **)&rows, &n_rows), "%s", error_text());
  T_CHECK(!rows_read_all(file, trace_rows_get_peaks(), (void **)&peaks, &n_peaks), "%s", error_text());
  h5_close(&file);
  for (int64_t i = 0; i < n_peaks; i++) {
    wrong += peaks[i].rank != i % size || peaks[i].device_bytes != peak_of(peaks[i].step, peaks[i].rank);
    if (i % size == 0 && n < most) kept[n++] = peaks[i].step;
  }
  T_CHECK(n_peaks == n * size && n_rows == n * c->dag->n_nodes && wrong == 0,
          "%" PRId64 " steps, %" PRId64 " nodes, %" PRId64 " peaks, %" PRId64 " wrong", n, n_rows, n_peaks, wrong);
  for (int64_t i = 0; i < n_rows && n_rows == n * c->dag->n_nodes; i++)
    wrong += rows[i].node != i % c->dag->n_nodes || !is_row_right(&rows[i], c->dag, kept[i / c->dag->n_nodes]);
  T_CHECK(wrong == 0, "%" PRId64 " rows of /nodes are wrong", wrong);
  mem_free(rows);
  mem_free(peaks);
  return n;
}

/* The last ones without a gap, step 1 where there is room for it, multiples of a power of two between. */
static void check_spread(const int32_t *kept, int64_t n, int64_t last_step) {
  int64_t tail = 1;
  while (tail < n && kept[n - 1 - tail] == last_step - tail) tail++;
  T_CHECK(n > 0 && kept[n - 1] == last_step && tail >= 2, "the last %" PRId64 " of %" PRId64 " steps are there", tail,
          n);
  T_CHECK(n < 16 || kept[0] == 1, "the first of %" PRId64 " is step %d", n, kept[0]);
  int32_t every = 1 << 20;
  for (int64_t i = 0; i < n - tail; i++)
    while (kept[i] > 8 && kept[i] % every) every /= 2;
  T_CHECK(n == last_step || every >= 2, "one in %d stays", every);
}

enum { BOUND_STEPS = 900, BOUND_FLUSH = 15 };

static void test_bound(const char *path, const struct trace_case *c) {
  struct trace *trace;
  int64_t limit = 48000 + 24000 * size, failures = 0, most = 0, first_flush = 0;
  int32_t *kept = MEM_NEW(int32_t, BOUND_STEPS + 100);
  T_CHECK(!trace_open_all(comm, path, 0, &trace), "%s", error_text());
  trace_set_limit(trace, limit);
  for (int64_t step = 1; step <= BOUND_STEPS; step++) {
    add_step(trace, comm, c, step);
    if (step % BOUND_FLUSH) continue;
    T_CHECK(!trace_flush_all(trace), "%s", error_text());
    int64_t bytes = rank == 0 ? measure_file(path) : 0;
    failures += bytes > limit;
    if (step == BOUND_FLUSH) first_flush = bytes;
    most = bytes > most ? bytes : most;
  }
  /* Packed: one row of /nodes is 89 bytes. */
  T_CHECK(rank > 0 || first_flush < 40000 + 40 * (int64_t)BOUND_FLUSH * c->dag->n_nodes,
          "%" PRId64 " bytes for %d nodes", first_flush, BOUND_FLUSH * c->dag->n_nodes);
  T_CHECK(failures == 0, "%" PRId64 " bytes, the limit is %" PRId64, most, limit);
  if (rank == 0) {
    int64_t n = check_kept(path, c, kept, BOUND_STEPS);
    T_CHECK(n < BOUND_STEPS, "all steps are there: the bound was not met, %" PRId64 " bytes", most);
    check_spread(kept, n, BOUND_STEPS);
  }
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  /* A larger file of before is brought within the bound when its run goes on. */
  T_CHECK(!trace_open_all(comm, path, BOUND_STEPS - 5, &trace), "%s", error_text());
  for (int64_t step = BOUND_STEPS - 4; step < BOUND_STEPS + 10; step++) add_step(trace, comm, c, step);
  trace_set_limit(trace, limit * 3 / 4);
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  if (rank == 0) {
    check_spread(kept, check_kept(path, c, kept, BOUND_STEPS + 100), BOUND_STEPS + 9);
    T_CHECK(measure_file(path) <= limit * 3 / 4, "%" PRId64 " bytes of %" PRId64, measure_file(path), limit);
  }
  mem_free(kept);
}

/* What does not fit on the disk while the file is written anew is lost like any flush; the file stays as it was. */
static void test_bound_on_full_disk(const char *path, const struct trace_case *c) {
  struct trace *trace;
  int32_t kept[64];
  char *left = mem_format("%s.thin", path);
  T_CHECK(!trace_open_all(comm, path, 0, &trace), "%s", error_text());
  for (int64_t step = 1; step <= 40; step++) add_step(trace, comm, c, step);
  T_CHECK(!trace_flush_all(trace), "%s", error_text());
  trace_set_limit(trace, 1);
  add_step(trace, comm, c, 41);
  budget = 100;
  T_CHECK(trace_flush_all(trace) == STATUS_FAILED && strstr(error_text(), "step 41 is missing"), "%s", error_text());
  budget = -1;
  error_clear();
  if (rank == 0) {
    T_CHECK(check_kept(path, c, kept, 64) == 40 && kept[39] == 40, "the steps of before are not all there");
    T_CHECK(access(left, F_OK) != 0, "%s is left", left);
  }
  mem_free(left);
  add_step(trace, comm, c, 42);
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  /* One step alone is more than this limit: the last one stays. */
  if (rank == 0) T_CHECK(check_kept(path, c, kept, 64) == 1 && kept[0] == 42, "not step 42 alone");
}

/* ---- plan.h5 ---- */

static void test_plan(const char *folder, const struct trace_case *c) {
  char *path = mem_format("%s/plan.h5", folder);
  c->plan->device_limit[0] = 123456789;
  struct plan_file_content content = {c->plan, c->dag, c->model, "run:\n", "{}", NULL};
  T_CHECK(!plan_file_write(path, &content), "%s", error_text());
  /* Some ten kilobytes of rows in eighty columns. */
  T_CHECK(measure_file(path) < 128 << 10, "plan.h5 has %" PRId64 " bytes", measure_file(path));
  struct plan_file file;
  T_CHECK(!plan_file_read(path, &file), "%s", error_text());
  T_CHECK(!strcmp(file.planner, "1f1b") && !strcmp(file.deck, "run:\n") && file.hash == c->plan->hash &&
              file.n_ranks == size,
          "attributes");
  T_CHECK(file.n_stages == size && file.n_replicas == size && file.n_micro == 3 &&
              file.n_layers == c->model->n_layers && file.n_limits == size && file.n_peaks == size,
          "sizes");
  int64_t parameters = 0;
  for (int s = 0; s < size; s++) {
    T_CHECK(file.stages[s].first_layer == c->plan->stages[s].first_layer &&
                file.stages[s].n_layers == c->plan->stages[s].n_layers,
            "stage %d", s);
    T_CHECK(file.replicas[s].stage == s && file.replicas[s].rank == plan_get_holder(c->plan, s), "replica of stage %d",
            s);
    T_CHECK(file.limits[s].device_bytes == (s == 0 ? 123456789 : -1) && file.limits[s].host_bytes == -1, "limit of %d",
            s);
    T_CHECK(file.peaks[s].rank == s && file.peaks[s].device_bytes == dag_get_peak(c->dag, s, NULL) &&
                file.peaks[s].device_static_bytes == c->dag->device_static[s],
            "peak of %d", s);
  }
  for (int64_t l = 0; l < file.n_layers; l++) {
    parameters += file.layers[l].parameters;
    T_CHECK(file.layers[l].kind == (int8_t)c->model->layers[l].kind &&
                file.layers[l].stage == plan_get_stage(c->plan, (int32_t)l),
            "layer %" PRId64, l);
    T_CHECK(file.layers[l].activation_bytes > 0 || l == 0, "layer %" PRId64 " keeps nothing", l);
  }
  T_CHECK(parameters == c->model->n_parameters, "%" PRId64 " parameters", parameters);
  T_CHECK(file.micro[2].rows == 1 && file.micro[2].length == 6 && file.micro[2].tokens == 6, "micro-batch");
  plan_file_fini(&file);
  struct h5_file *h5;
  int64_t n = 0;
  T_CHECK(!h5_open(path, false, &h5), "%s", error_text());
  int32_t *from = MEM_NEW(int32_t, c->dag->n_edges);
  T_CHECK(!h5_table_get_rows(h5, "/edges", "to", &n) && n == c->dag->n_edges &&
              !h5_table_read(h5, "/edges", "from", H5_INT32, 0, n, from) &&
              !memcmp(from, c->dag->edge_from, sizeof *from * (size_t)n),
          "edges");
  static const char *const named[][2] = {{"/costs/op", "\"attention\": [\"norm\", \"qkv\", "},
                                         {"/recompute/op", "\"mlp\": [\"norm\", "},
                                         {"/moved/act", "\"attention\": [\"input\", "}};
  for (size_t k = 0; k < sizeof named / sizeof *named; k++) {
    char *names = NULL;
    T_CHECK(!h5_read_text(h5, named[k][0], "names", &names) && strstr(names, named[k][1]), "names of %s: %s",
            named[k][0], names);
    mem_free(names);
  }
  T_CHECK(!h5_table_get_rows(h5, "/nodes", "start_s", &n) && n == c->dag->n_nodes, "nodes");
  h5_close(&h5);
  mem_free(from);
  char *trace = mem_format("%s/trace.h5", folder);
  T_CHECK(plan_file_read(trace, &file) == STATUS_MISTAKE && strstr(error_text(), "no plan"), "%s", error_text());
  plan_file_fini(&file);
  mem_free(trace);
  mem_free(path);
}

static void end_all(void) {
  int64_t counts[2] = {t_failures, t_checks}, *all = MEM_NEW(int64_t, 2 * size), *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(comm, counts, sizeof counts, all, offsets);
  for (int r = 0; r < size; r++)
    if (r != rank) t_failures += (int)all[2 * r], t_checks += (int)all[2 * r + 1];
  mem_free(all);
  mem_free(offsets);
}

int main(int argc, char **argv) {
  if (comm_open_all(&argc, &argv, false, &comm)) return 1;
  rank = comm_get_rank(comm);
  size = comm_get_size(comm);
  log_init(rank);
  const char *folder = scratch_make_all(comm);
  char *path = mem_format("%s/trace.h5", folder);
  struct trace_case c = make_trace_case(size);
  test_steps(path, &c);
  if (rank == 0) test_plan(folder, &c);
  test_older(path, &c);
  test_comparison(path, &c);
  if (rank == 0) test_choice();
  test_bound(path, &c);
  test_bound_on_full_disk(path, &c);
  test_full_disk(path, &c);
  test_broken_file(path, &c);
  free_trace_case(&c);
  T_CHECK(h5_balance() == 0, "%" PRId64 " HDF5 objects open", h5_balance());
  scratch_remove_all(comm);
  mem_free(path);
  end_all();
  comm_close_all(&comm);
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations live", mem_balance());
  return t_end();
}
