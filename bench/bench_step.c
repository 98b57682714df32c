/* A whole training step against the matrix rate of the machine: GPT-2 124M, 4 rows of 256 random tokens, fp32, AdamW
 * with clipping, on as many ranks as the launcher starts. Around every step the library's best 2048^3 product is
 * measured with the same threads, all ranks at once, so that a machine whose speed changes does not change the ratio.
 *
 * --stages cuts the model as pipeline.partition does, --ops prints where the time of a step goes, --tiny takes a model
 * so small that ranks mostly wait and measures no product, --ask runs one pair for each line on standard input (one
 * rank). The last line is for scripts: key=value.
 */
#include "ops_timer.h"
#include "rate.h"
#include "training.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STAGES = 64, MAX_PAIRS = 1000 };

static const char usage[] =
    "[--threads N] [--micro-batch ROWS] [--stages BLOCKS,BLOCKS,...] [--pairs N] [--ops] [--tiny] "
    "[--ask]";

struct options {
  double threads, pairs, micro_batch;
  double stages[MAX_STAGES];
  int32_t n_stages; /* 0: even */
  bool ops, tiny, ask;
};

/* What one rank measured of one step and the products before and after it, seconds. */
struct measure {
  double step, step_cpu, busy; /* busy: compute nodes and the norm's sums */
  double product, product_cpu; /* of one product */
};

/* A pair as all ranks saw it. */
struct pair {
  double step_ms, rate; /* rate: FLOP/s of the product, all ranks together */
  double ratio;         /* model FLOP/s over the rate */
  double busy_ratio;    /* the same over the ranks' busy times */
  double cpu_ratio;     /* the same over the CPU seconds of step and product */
  double cpu_s;         /* CPU seconds of the step */
  double got;           /* the same over the time of its threads */
};

struct bench {
  struct options options;
  struct comm *comm;
  struct training training;
  struct ops_timer *timer;
  struct rate *rate; /* NULL: no products */
  int64_t step;
  int n_pairs;
  struct pair pairs[MAX_PAIRS];
};

/* ---- options ---- */

static bool read_number(const char *text, double *value) {
  char *end;
  *value = text ? strtod(text, &end) : 0;
  return text && end != text && *end == '\0' && *value >= 1;
}

static bool read_stages(const char *text, struct options *o) {
  for (o->n_stages = 0; text && o->n_stages < MAX_STAGES;) {
    char *end;
    o->stages[o->n_stages++] = strtod(text, &end);
    if (end == text || (*end && *end != ',')) return false;
    if (!*end) return true;
    text = end + 1;
  }
  return false;
}

static int read_options(int argc, char **argv, struct options *o) {
  *o = (struct options){.threads = 1, .pairs = 5};
  struct {
    const char *name;
    bool *flag;
    double *number;
  } known[] = {{"--ops", &o->ops, NULL},     {"--tiny", &o->tiny, NULL},
               {"--ask", &o->ask, NULL},     {"--threads", NULL, &o->threads},
               {"--pairs", NULL, &o->pairs}, {"--micro-batch", NULL, &o->micro_batch}};
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    bool good = !strcmp(argv[i], "--stages") && read_stages(value, o);
    int skip = good;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
      if (strcmp(argv[i], known[k].name)) continue;
      if (known[k].flag) *known[k].flag = true;
      good = known[k].flag || read_number(value, known[k].number);
      skip = !known[k].flag;
    }
    if (!good)
      return error_raise(STATUS_MISTAKE, "bench_step: %s %s is not understood: %s", argv[i], value ? value : "", usage);
    i += skip;
  }
  if (o->pairs > MAX_PAIRS) o->pairs = MAX_PAIRS;
  return STATUS_OK;
}

static struct training_config make_config(const struct options *o) {
  const struct workload *workload = training_get_workload(o->tiny ? TRAINING_TINY : TRAINING_GPT2);
  return (struct training_config){.workload = workload,
                                  .threads = (int)o->threads,
                                  .micro_batch = o->micro_batch > 0 ? (int64_t)o->micro_batch : workload->rows,
                                  .stages = o->n_stages ? o->stages : NULL,
                                  .n_stages = o->n_stages};
}

/* ---- measuring ---- */

static void add_product_all(struct bench *b, struct measure *m) {
  if (!b->rate) return;
  double cpu;
  comm_barrier_all(b->comm);
  m->product += 0.5 * rate_measure(b->rate, &cpu);
  m->product_cpu += 0.5 * cpu;
}

/* A product, a step, a product. */
static void run_pair_all(struct bench *b, struct measure *m) {
  struct trainer_result result;
  *m = (struct measure){0};
  add_product_all(b, m);
  comm_barrier_all(b->comm);
  double norm = ops_timer_get_sums(b->timer).norm, cpu = rate_get_cpu();
  if (trainer_step(b->training.trainer, &b->training.batch, ++b->step, &result)) {
    log_error("%s", error_text());
    comm_abort(b->comm, STATUS_FAILED);
  }
  m->step = result.seconds;
  m->step_cpu = rate_get_cpu() - cpu;
  m->busy = training_sum_compute(&b->training) + ops_timer_get_sums(b->timer).norm - norm;
  add_product_all(b, m);
}

static struct pair judge_pair(const struct bench *b, const struct measure *m) {
  int size = comm_get_size(b->comm);
  struct pair pair = {0};
  double step = 0, cpu = 0, busy_flops = 0, cpu_flops = 0, flops = b->training.flops;
  for (int r = 0; r < size; r++) {
    if (m[r].step > step) step = m[r].step;
    cpu += m[r].step_cpu;
    if (!b->rate) continue;
    pair.rate += rate_get_flops() / m[r].product;
    busy_flops += m[r].busy * rate_get_flops() / m[r].product;
    cpu_flops += m[r].step_cpu * rate_get_flops() / m[r].product_cpu;
  }
  pair.step_ms = 1e3 * step;
  pair.cpu_s = cpu;
  pair.got = cpu / (step * size * b->options.threads);
  if (!b->rate) return pair;
  pair.ratio = flops / step / pair.rate;
  pair.busy_ratio = flops / busy_flops;
  pair.cpu_ratio = flops / cpu_flops;
  return pair;
}

static void print_pair(const struct bench *b, const struct pair *p) {
  printf("  step %9.2f ms  %7.1f GFLOP/s  rate %7.1f GFLOP/s  ratio %.3f  busy %.3f  cpu %.3f  cores got %.2f\n",
         p->step_ms, 1e-6 * b->training.flops / p->step_ms, 1e-9 * p->rate, p->ratio, p->busy_ratio, p->cpu_ratio,
         p->got);
  fflush(stdout);
}

static void measure_pair_all(struct bench *b) {
  struct measure own, *all = MEM_NEW(struct measure, comm_get_size(b->comm));
  run_pair_all(b, &own);
  comm_gather_root_all(b->comm, 0, &own, sizeof own, all, NULL);
  if (comm_get_rank(b->comm) == 0) {
    b->pairs[b->n_pairs] = judge_pair(b, all);
    if (b->rate || b->options.ask) print_pair(b, &b->pairs[b->n_pairs]);
  }
  b->n_pairs++;
  mem_free(all);
}

/* True when a line came. */
static bool await_line(void) {
  char line[64];
  return fgets(line, sizeof line, stdin) != NULL;
}

static void measure_all(struct bench *b) {
  struct measure unused;
  run_pair_all(b, &unused); /* pages are touched for the first time */
  ops_timer_clear(b->timer);
  if (b->options.ask) {
    printf("ready\n");
    fflush(stdout);
    while (b->n_pairs < MAX_PAIRS && await_line()) measure_pair_all(b);
  } else {
    while (b->n_pairs < b->options.pairs) measure_pair_all(b);
  }
}

/* ---- results ---- */

static double get_median(const struct bench *b, size_t field) {
  double values[MAX_PAIRS];
  for (int i = 0; i < b->n_pairs; i++) memcpy(&values[i], (const char *)&b->pairs[i] + field, sizeof *values);
  return rate_get_median(values, b->n_pairs);
}

#define MEDIAN(b, field) get_median(b, offsetof(struct pair, field))

static void print_result(const struct bench *b) {
  double step_ms = MEDIAN(b, step_ms);
  printf(
      "result pairs=%d step_ms=%.3f gflops=%.2f rate_gflops=%.2f ratio=%.4f busy_ratio=%.4f cpu_ratio=%.4f got=%.3f\n",
      b->n_pairs, step_ms, 1e-6 * b->training.flops / step_ms, 1e-9 * MEDIAN(b, rate), MEDIAN(b, ratio),
      MEDIAN(b, busy_ratio), MEDIAN(b, cpu_ratio), MEDIAN(b, got));
  fflush(stdout);
}

/* Ops are means over the steps, and so must be what they are a share of. */
static double get_mean_step(const struct bench *b) {
  double sum = 0;
  for (int i = 0; i < b->n_pairs; i++) sum += 1e-3 * b->pairs[i].step_ms;
  return sum / b->n_pairs;
}

/* One rank after the other measures its yardsticks; rank 0 prints all. */
static void print_ops_all(struct bench *b) {
  int size = comm_get_size(b->comm), rank = comm_get_rank(b->comm);
  double known[2] = {get_mean_step(b), MEDIAN(b, rate) / size}; /* of rank 0 */
  char *text = NULL, *all = NULL;
  size_t bytes = 0;
  comm_broadcast_all(b->comm, 0, known, sizeof known);
  for (int r = 0; r < size; r++) {
    comm_barrier_all(b->comm);
    if (r != rank) continue;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for a text");
    fprintf(out, "rank %d, a step of %.2f ms on average:\n", r, 1e3 * known[0]);
    ops_timer_print(b->timer, out, b->n_pairs, known[0], known[1]);
    fclose(out);
  }
  int64_t *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(b->comm, text, (int64_t)bytes, NULL, offsets);
  all = MEM_NEW(char, offsets[size]);
  comm_gather_root_all(b->comm, 0, text, (int64_t)bytes, all, NULL);
  if (rank == 0) fwrite(all, 1, (size_t)offsets[size], stdout);
  free(text);
  mem_free(all);
  mem_free(offsets);
}

static void print_head(const struct bench *b, const struct training_config *c) {
  printf("%s, %lld rows of %lld tokens, %lld rows a micro-batch, ranks %d, threads %d: %.1f GFLOP a step\n",
         c->workload->name, (long long)c->workload->rows, (long long)c->workload->length, (long long)c->micro_batch,
         comm_get_size(b->comm), c->threads, 1e-9 * b->training.flops);
  if (b->rate) printf("matrix rate: %s\n", rate_describe(b->rate));
  fflush(stdout);
}

/* ---- the program ---- */

/* Before anything binds this thread to cores. */
static void open_rate(struct bench *b) {
  struct pool *pool = pool_create((int)b->options.threads, NULL, 0);
  comm_barrier_all(b->comm);
  b->rate = rate_create(pool);
  pool_destroy(&pool);
}

static int run_bench_all(struct bench *b) {
  struct training_config config = make_config(&b->options);
  int status = training_open_all(b->comm, &config, &b->training);
  if (!status && b->options.ask && comm_get_size(b->comm) > 1)
    status = error_raise(STATUS_MISTAKE, "bench_step: --ask is for one rank");
  if (status) return status;
  if (!b->options.tiny) open_rate(b);
  status = training_start_all(&b->training, &config);
  if (status) return status;
  struct device *device = b->training.trainer->device;
  b->timer = ops_timer_create(device, b->training.model);
  if (b->rate) rate_set_pool(b->rate, device->ops->get_pool(device));
  if (comm_get_rank(b->comm) == 0) print_head(b, &config);
  measure_all(b);
  if (b->options.ops && b->n_pairs) print_ops_all(b);
  if (comm_get_rank(b->comm) == 0 && b->n_pairs) print_result(b);
  return STATUS_OK;
}

int main(int argc, char **argv) {
  struct bench *b = MEM_NEW(struct bench, 1);
  int status = comm_open_all(&argc, &argv, true, &b->comm);
  if (!status) status = comm_agree_all(b->comm, read_options(argc, argv, &b->options));
  if (!status) status = run_bench_all(b);
  if (status && comm_get_rank(b->comm) == 0) log_error("%s", error_text());
  ops_timer_destroy(&b->timer);
  training_close(&b->training);
  rate_destroy(&b->rate);
  comm_close_all(&b->comm);
  mem_free(b);
  return status;
}
