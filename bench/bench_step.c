/* A whole training step against the matrix rate of the machine: GPT-2 124M, 4 rows of 256 random tokens, fp32, AdamW with
 * clipping, on as many ranks as the launcher starts. Around every step the library's best 2048^3 product is measured with
 * the same threads, all ranks at once, so that a machine whose speed changes does not change the ratio.
 *
 *   bench_step [--threads N] [--micro-batch ROWS] [--stages BLOCKS,BLOCKS,...] [--pairs N] [--ops] [--tiny] [--ask]
 *
 * --stages cuts the model as pipeline.partition does, --ops prints where the time of a step goes, --tiny takes a model so
 * small that ranks mostly wait and measures no product, --ask runs one pair for each line on standard input. The last
 * line is for scripts: key=value.
 */
#include "ops_timer.h"
#include "rate.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "comm/topo.h"
#include "exec/setup.h"
#include "exec/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STAGES = 64 };

static const struct workload {
  const char *name, *json;
  int64_t rows, length;
} workloads[] = {
    {"GPT-2 124M", "{\"model_type\": \"gpt2\"}", 4, 256},
    {"tiny Llama",
     "{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 64, \"intermediate_size\": 172, "
     "\"num_hidden_layers\": 8, \"num_attention_heads\": 4, \"max_position_embeddings\": 64}",
     16, 64},
};

struct options {
  const struct workload *workload;
  int threads, pairs;
  int64_t micro_batch;
  double stages[MAX_STAGES];
  int32_t n_stages; /* 0: even */
  bool ops, tiny, ask;
};

/* What one rank measured of one step and the products before and after it. */
struct measure {
  double step, step_cpu, busy;  /* seconds; busy: compute nodes and the norm's sums */
  double product, product_cpu; /* seconds of one product */
};

struct bench {
  struct options options;
  struct comm *comm;
  struct topo topo;
  struct model *model;
  struct plan *plan;
  struct trainer *trainer;
  struct ops_timer *timer;
  struct rate *rate; /* NULL: no products */
  struct batch batch;
  int64_t step;
  double flops; /* of the model a step */
};

/* ---- options ---- */

static bool read_number(const char *text, double *value) {
  char *end;
  *value = text ? strtod(text, &end) : 0;
  return text && end != text && *end == '\0';
}

static bool read_stages(const char *text, struct options *o) {
  for (o->n_stages = 0; text && *text && o->n_stages < MAX_STAGES; text++) {
    char *end;
    o->stages[o->n_stages++] = strtod(text, &end);
    if (end == text || (*end && *end != ',')) return false;
    text = end;
    if (!*end) break;
  }
  return o->n_stages > 0;
}

static int read_options(int argc, char **argv, struct options *o) {
  double threads = 1, rows = 0, pairs = 5;
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    bool known = true;
    if (!strcmp(argv[i], "--ops")) o->ops = true;
    else if (!strcmp(argv[i], "--tiny")) o->tiny = true;
    else if (!strcmp(argv[i], "--ask")) o->ask = true;
    else if (!strcmp(argv[i], "--threads")) known = read_number(value, &threads), i++;
    else if (!strcmp(argv[i], "--micro-batch")) known = read_number(value, &rows), i++;
    else if (!strcmp(argv[i], "--pairs")) known = read_number(value, &pairs), i++;
    else if (!strcmp(argv[i], "--stages")) known = read_stages(value, o), i++;
    else known = false;
    if (!known || threads < 1 || pairs < 1 || rows < 0)
      return error_raise(STATUS_MISTAKE, "bench_step: %s is not an option or lacks its value: --threads N, --micro-batch "
                         "ROWS, --stages BLOCKS,BLOCKS,..., --pairs N, --ops, --tiny, --ask", argv[i < argc ? i : argc - 1]);
  }
  o->workload = &workloads[o->tiny];
  o->threads = (int)threads;
  o->pairs = (int)pairs;
  o->micro_batch = rows > 0 ? (int64_t)rows : o->workload->rows;
  return STATUS_OK;
}

/* ---- the training ---- */

static int make_plan_all(struct bench *b) {
  const struct workload *w = b->options.workload;
  struct plan_micro *micro;
  int32_t n_micro = setup_make_worst(w->rows, b->options.micro_batch, w->length, &micro);
  struct plan_request request = {.model = b->model,
                                 .n_ranks = comm_get_size(b->comm),
                                 .n_stages = comm_get_size(b->comm),
                                 .partition = b->options.n_stages ? PARTITION_LIST : PARTITION_EVEN,
                                 .partition_list = b->options.stages,
                                 .n_partition = b->options.n_stages,
                                 .n_micro = n_micro,
                                 .micro = micro,
                                 .clip = true};
  int status = setup_plan_all(b->comm, "1f1b", &request, &b->plan);
  mem_free(micro);
  return status;
}

static int open_trainer(struct bench *b) {
  struct trainer_config config = {.comm = b->comm,
                                  .model = b->model,
                                  .plan = b->plan,
                                  .backend = "cpu",
                                  .device = {.threads = b->options.threads,
                                             .cores = b->topo.cores,
                                             .n_cores = b->topo.n_cores,
                                             .limit = INT64_MAX},
                                  .optimizer = {.lr = 1e-4,
                                                .schedule = LR_CONSTANT,
                                                .beta1 = 0.9,
                                                .beta2 = 0.95,
                                                .eps = 1e-8,
                                                .weight_decay = 0.1,
                                                .clip = 1}};
  int status = trainer_create(&config, &b->trainer);
  if (status) return status;
  trainer_init(b->trainer, 1);
  b->timer = ops_timer_create(b->trainer->device);
  if (b->rate) rate_set_pool(b->rate, b->trainer->device->ops->get_pool(b->trainer->device));
  return STATUS_OK;
}

/* Random tokens; the label of a token is the one after it. */
static int make_batch(struct bench *b) {
  const struct workload *w = b->options.workload;
  int64_t vocab = b->model->config.vocab_size, n = w->rows * (w->length + 1);
  struct rng_key key = {.seed = 1, .purpose = RNG_TEST};
  int32_t *token = MEM_NEW(int32_t, n), *label = MEM_NEW(int32_t, n), *lengths = MEM_NEW(int32_t, w->rows);
  for (int64_t r = 0; r < w->rows; r++) {
    lengths[r] = (int32_t)w->length;
    for (int64_t t = 0; t < w->length; t++) {
      int64_t at = r * (w->length + 1) + t;
      token[r * w->length + t] = (int32_t)(rng_bits(&key, (uint64_t)at) % (uint64_t)vocab);
      label[r * w->length + t] = (int32_t)(rng_bits(&key, (uint64_t)at + 1) % (uint64_t)vocab);
    }
  }
  int status = batch_build_from_arrays(w->rows, w->length, token, label, NULL, vocab, b->options.micro_batch, &b->batch);
  b->flops = model_get_flops(b->model, w->rows, lengths);
  mem_free(token);
  mem_free(label);
  mem_free(lengths);
  return status;
}

/* Before anything binds this thread to cores. */
static void open_rate(struct bench *b) {
  struct pool *pool = pool_create(b->options.threads, NULL, 0);
  b->rate = rate_create(pool);
  pool_destroy(&pool);
}

static int open_bench_all(struct bench *b) {
  int status = comm_agree_all(b->comm, model_create(b->options.workload->json, "bench", -1, &b->model, NULL));
  if (!status) status = topo_init_all(b->comm, &b->topo);
  if (!status) status = make_plan_all(b);
  if (!status && !b->options.tiny) open_rate(b);
  if (!status) status = open_trainer(b);
  if (!status) status = make_batch(b);
  return comm_agree_all(b->comm, status);
}

static void close_bench(struct bench *b) {
  ops_timer_destroy(&b->timer);
  trainer_destroy(&b->trainer);
  batch_fini(&b->batch);
  rate_destroy(&b->rate);
  plan_destroy(&b->plan);
  topo_fini(&b->topo);
  model_destroy(&b->model);
}

/* ---- measuring ---- */

static double sum_compute(const struct trainer *t) {
  const struct dag *dag = t->train.dag;
  int32_t rank = comm_get_rank(t->config.comm), first = dag->rank_offset[rank];
  double sum = 0;
  for (int32_t i = 0; i < dag->rank_offset[rank + 1] - first; i++)
    if (dag->nodes[first + i].stream == STREAM_COMPUTE) sum += t->spans[i].end - t->spans[i].start;
  return sum;
}

static void add_product(struct bench *b, struct measure *m) {
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
  add_product(b, m);
  comm_barrier_all(b->comm);
  double norm = ops_timer_get_sums(b->timer).norm, cpu = rate_get_cpu();
  if (trainer_step(b->trainer, &b->batch, ++b->step, &result)) {
    log_error("%s", error_text());
    comm_abort(b->comm, STATUS_FAILED);
  }
  m->step = result.seconds;
  m->step_cpu = rate_get_cpu() - cpu;
  m->busy = sum_compute(b->trainer) + ops_timer_get_sums(b->timer).norm - norm;
  add_product(b, m);
}

/* A pair as all ranks saw it. */
struct pair {
  double step_ms, flops, rate, ratio;
  double busy_ratio; /* FLOPs over what the matrix rates would do in the ranks' busy times */
  double cpu_ratio;  /* the same over the CPU seconds of step and product */
  double got;        /* share of the threads' time that the system gave them */
};

static struct pair judge_pair(const struct bench *b, const struct measure *m) {
  int size = comm_get_size(b->comm);
  struct pair pair = {0};
  double step = 0, cpu = 0, busy_flops = 0, cpu_flops = 0;
  for (int r = 0; r < size; r++) {
    if (m[r].step > step) step = m[r].step;
    cpu += m[r].step_cpu;
    if (!b->rate) continue;
    pair.rate += rate_get_flops() / m[r].product;
    busy_flops += m[r].busy * rate_get_flops() / m[r].product;
    cpu_flops += m[r].step_cpu * rate_get_flops() / m[r].product_cpu;
  }
  pair.step_ms = 1e3 * step;
  pair.flops = b->flops / step;
  pair.got = cpu / (step * size * b->options.threads);
  if (!b->rate) return pair;
  pair.ratio = pair.flops / pair.rate;
  pair.busy_ratio = b->flops / busy_flops;
  pair.cpu_ratio = b->flops / cpu_flops * b->options.threads;
  return pair;
}
