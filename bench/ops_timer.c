#include "ops_timer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels.h"
#include "model/op_work.h"
#include "rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was measured of one op of one kind of layer in one pass, or of one vector op. */
struct row {
  const char *layer, *op, *pass;
  int64_t calls;
  double seconds, cpu, flops; /* cpu: seconds of all threads of the process */
  int64_t bytes;              /* moved, where that is what limits the op: 0 for products */
};

enum { MAX_ROWS = 64 };

struct ops_timer {
  struct device_ops ops; /* first: a device's table leads back to its timer */
  const struct device_ops *original;
  struct device *device;
  const struct model *model;
  int n_rows;
  struct row rows[MAX_ROWS];
};

static struct ops_timer *timer_of(struct device *device) { return (struct ops_timer *)(uintptr_t)device->ops; }

static struct row *find_row(struct ops_timer *timer, const char *layer, const char *op, const char *pass) {
  for (int i = 0; i < timer->n_rows; i++) {
    struct row *row = &timer->rows[i];
    if (row->layer == layer && !strcmp(row->op, op) && row->pass == pass) return row;
  }
  CHECK(timer->n_rows < MAX_ROWS, "more kinds of ops than the bench has rows");
  struct row *row = &timer->rows[timer->n_rows++];
  *row = (struct row){.layer = layer, .op = op, .pass = pass};
  return row;
}

/* When a call began. */
struct instant {
  double wall, cpu;
};

static struct instant get_instant(void) { return (struct instant){clock_now(), rate_get_cpu()}; }

static void note(struct row *row, struct instant start, double flops, int64_t bytes) {
  struct instant end = get_instant();
  row->seconds += end.wall - start.wall;
  row->cpu += end.cpu - start.cpu;
  row->calls++;
  row->flops += flops;
  row->bytes += bytes;
}

/* ---- the table that measures ---- */

static void run_timed(struct device *device, enum pass pass, const struct op_call *call) {
  static const char *const passes[PASS_COUNT] = {PASS_NAMES};
  struct ops_timer *timer = timer_of(device);
  struct instant start = get_instant();
  timer->original->run(device, pass, call);
  struct row *row = find_row(timer, layer_kind_get_name(call->layer->kind), call->op->name, passes[pass]);
  struct op_work work[PASS_COUNT];
  op_work_count(timer->model, call->layer, call->op, call->batch->shape, work);
  bool multiplies = op_kind_get_bound(call->op->kind) != BOUND_MEMORY;
  note(row, start, multiplies ? work[pass].flops : 0, multiplies ? 0 : (int64_t)work[pass].bytes);
}

static const char norm_group[] = "norm", update_group[] = "update";

static void note_vector(struct ops_timer *timer, const char *group, const char *op, struct instant start,
                        int64_t floats) {
  note(find_row(timer, group, op, ""), start, 0, floats * (int64_t)sizeof(float));
}

static void fill_timed(struct device *device, int64_t n, float value, float *x) {
  struct instant start = get_instant();
  timer_of(device)->original->fill(device, n, value, x);
  note_vector(timer_of(device), norm_group, "fill", start, n);
}

static void add_timed(struct device *device, int64_t n, const float *x, float *y) {
  struct instant start = get_instant();
  timer_of(device)->original->add(device, n, x, y);
  note_vector(timer_of(device), norm_group, "add", start, 3 * n);
}

static double sum_squares_timed(struct device *device, int64_t n, const float *g) {
  struct instant start = get_instant();
  double sum = timer_of(device)->original->sum_squares(device, n, g);
  note_vector(timer_of(device), norm_group, "sum_squares", start, n);
  return sum;
}

static void adamw_timed(struct device *device, const struct adamw *p, int64_t n, float *w, float *g, float *m,
                        float *v) {
  struct instant start = get_instant();
  timer_of(device)->original->adamw(device, p, n, w, g, m, v);
  note_vector(timer_of(device), update_group, "adamw", start, 8 * n);
}

struct ops_timer *ops_timer_create(struct device *device, const struct model *model) {
  struct ops_timer *timer = MEM_NEW(struct ops_timer, 1);
  timer->device = device;
  timer->model = model;
  timer->original = device->ops;
  timer->ops = *device->ops;
  timer->ops.run = run_timed;
  timer->ops.fill = fill_timed;
  timer->ops.add = add_timed;
  timer->ops.sum_squares = sum_squares_timed;
  timer->ops.adamw = adamw_timed;
  device->ops = &timer->ops;
  return timer;
}

void ops_timer_destroy(struct ops_timer **timer) {
  if (!*timer) return;
  (*timer)->device->ops = (*timer)->original;
  mem_free(*timer);
  *timer = NULL;
}

void ops_timer_clear(struct ops_timer *timer) { timer->n_rows = 0; }

struct ops_timer_sums ops_timer_get_sums(const struct ops_timer *timer) {
  struct ops_timer_sums sums = {0};
  for (int i = 0; i < timer->n_rows; i++) {
    const struct row *row = &timer->rows[i];
    double *sum = row->layer == norm_group ? &sums.norm : row->layer == update_group ? &sums.update : &sums.layers;
    *sum += row->seconds;
  }
  return sums;
}

/* ---- the table for people ---- */

static int compare_rows(const void *a, const void *b) {
  double x = ((const struct row *)a)->seconds, y = ((const struct row *)b)->seconds;
  return (x < y) - (x > y);
}

/* "cpu" is the CPU time of the call's threads, each counted for its share: less than the time where the system gave
 * them less than their cores, or where threads waited. */
static void print_time(FILE *out, const char *name, const char *pass, double calls, double seconds, double cpu,
                       double step) {
  fprintf(out, "  %-22s %-8s %6.0f %9.2f %5.1f%% %9.2f", name, pass, calls, 1e3 * seconds, 100 * seconds / step,
          1e3 * cpu);
}

static void print_row(struct ops_timer *timer, FILE *out, const struct row *row, int n_steps, double step,
                      double flops_rate) {
  struct pool *pool = timer->original->get_pool(timer->device);
  char name[48];
  snprintf(name, sizeof name, "%s.%s", row->layer, row->op);
  print_time(out, name, row->pass, (double)row->calls / n_steps, row->seconds / n_steps,
             row->cpu / n_steps / pool_threads(pool), step);
  double rate = (row->flops > 0 ? row->flops : (double)row->bytes) / row->seconds;
  if (row->flops == 0)
    fprintf(out, " %7.1f GB/s    %5.2f of a triad", 1e-9 * rate,
            rate / rate_measure_triad(pool, row->bytes / row->calls));
  else
    fprintf(out, " %7.1f GFLOP/s", 1e-9 * rate);
  if (row->flops > 0 && flops_rate > 0) fprintf(out, " %5.2f of the matrix rate", rate / flops_rate);
  fputc('\n', out);
}

void ops_timer_print(struct ops_timer *timer, FILE *out, int n_steps, double step, double flops_rate) {
  qsort(timer->rows, (size_t)timer->n_rows, sizeof *timer->rows, compare_rows);
  fprintf(out, "  %-22s %-8s %6s %9s %6s %9s\n", "op", "pass", "calls", "ms", "share", "cpu ms");
  double sum = 0, cpu = 0;
  for (int i = 0; i < timer->n_rows; i++) {
    const struct row *row = &timer->rows[i];
    if (row->flops > 0 || row->bytes > 0) print_row(timer, out, row, n_steps, step, flops_rate);
    sum += row->seconds / n_steps;
    cpu += row->cpu / n_steps / pool_threads(timer->original->get_pool(timer->device));
  }
  print_time(out, "all ops", "", 0, sum, cpu, step);
  fputc('\n', out);
  print_time(out, "outside ops", "", 0, step - sum, 0, step);
  fputc('\n', out);
}
