/* Time of every kernel of a GPT-2 124M training step, next to what the machine can do: the matrix rate (the best
 * float32 product of 2048^3 with the same threads) and the memory rate (a triad), both measured again beside every
 * kernel, since a machine's speed changes while one looks. A product stands beside the matrix library's own call of the
 * same shape, on as many threads of its own. Ends with what the kernels of a whole step come to.
 *
 * bench_kernels [THREADS [ROWS [TIMES]]]: without arguments, 2 threads with 4 rows of 256 tokens, then 1 thread with 1
 * row. TIMES (5): what each figure is the median of.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels.h"
#include "library_threads.h"
#include "rate.h"

enum {
  LENGTH = 256,
  WIDTH = 768,
  FFN = 3072,
  QKV = 2304,
  HEADS = 12,
  HEAD_DIM = 64,
  LAYERS = 12,
  VOCAB = 50257,
  CHUNK = 256
};
enum { MAX_TIMES = 101, SAMPLE = 16 * 1024 * 1024 };

/* The optimizer's passes run over a sample of the parameters and count in proportion. */
#define PARAMETERS 124439808.0

struct bench {
  struct pool *pool;
  struct rate *rate;
  int times;
  int64_t rows, tokens; /* tokens = rows * LENGTH */
  int32_t *ids, *lengths;
  struct attention_shape shape;
  float *x, *wide, *wide2, *qkv, *d_qkv, *y, *out, *lse, *stats, *scratch; /* activations */
  float *weight, *d_weight, *vector, *d_vector, *table, *d_table, *m, *v;
};

/* ---- kernels, in the order of a step ---- */

static void embed_forward(struct bench *b) {
  embed_forward_cpu(b->pool, b->rows, LENGTH, WIDTH, b->ids, b->table, b->weight, b->x);
}
static void embed_weight(struct bench *b) {
  embed_weight_cpu(b->pool, b->rows, LENGTH, WIDTH, b->ids, b->lengths, b->x, b->d_table, b->d_weight);
}
static void norm_forward(struct bench *b) {
  norm_forward_cpu(b->pool, true, b->tokens, WIDTH, 1e-5f, b->x, b->vector, b->vector, b->y, b->stats);
}
static void norm_input(struct bench *b) {
  norm_input_cpu(b->pool, true, b->tokens, WIDTH, b->x, b->vector, b->stats, b->y, b->out, b->out);
}
static void norm_weight(struct bench *b) {
  norm_weight_cpu(b->pool, true, b->tokens, WIDTH, b->x, b->stats, b->y, b->d_vector, b->d_vector + FFN);
}
static void prepare(struct bench *b) { matmul_prepare_cpu(b->pool, b->tokens, WIDTH, b->x, b->vector, b->out); }
static void prepare_wide(struct bench *b) { matmul_prepare_cpu(b->pool, b->tokens, FFN, NULL, b->vector, b->wide); }
static void bias_weight(struct bench *b) { matmul_bias_weight_cpu(b->pool, b->tokens, WIDTH, b->x, b->d_vector); }
static void bias_weight_wide(struct bench *b) { matmul_bias_weight_cpu(b->pool, b->tokens, FFN, b->wide, b->d_vector); }

static void attention_forward(struct bench *b) { attention_forward_cpu(b->pool, &b->shape, b->qkv, b->out, b->lse); }
static void attention_input(struct bench *b) {
  attention_input_cpu(b->pool, &b->shape, b->qkv, b->out, b->lse, b->x, b->d_qkv, b->stats);
}
static void activation_forward(struct bench *b) {
  activation_forward_cpu(b->pool, ACTIVATION_GELU_TANH, b->tokens, FFN, b->wide, b->wide2);
}
static void activation_input(struct bench *b) {
  activation_input_cpu(b->pool, ACTIVATION_GELU_TANH, b->tokens, FFN, b->wide, b->wide2, b->wide2);
}
static void head(struct bench *b) {
  head_forward_cpu(b->pool, b->tokens, WIDTH, VOCAB, b->x, b->table, b->ids, 1e-3f, b->y, b->d_table, b->scratch, NULL);
}
static void sum_squares(struct bench *b) { b->stats[0] = (float)sum_squares_cpu(b->pool, SAMPLE, b->d_table); }
static void adamw(struct bench *b) {
  struct adamw p = {.lr = 1e-6f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .grad_scale = 1, .step = 2};
  adamw_cpu(b->pool, &p, SAMPLE, b->table, b->d_table, b->m, b->v);
}

/* ---- products: sizes, TOKENS for as many as there are ---- */

enum { TOKENS = -1 };

struct product {
  bool trans_a, trans_b;
  int m, n, k;
  float beta;
};

/* Weights are [in, out], as in GPT-2: y += x W, d_x = d_y W^T, d_W += x^T d_y; those of the head are [out, in]. */
#define FORWARD(in, out)                                                                                               \
  { false, false, TOKENS, out, in, 1 }
#define INPUT(in, out)                                                                                                 \
  { false, true, TOKENS, in, out, 0 }
#define WEIGHT(in, out)                                                                                                \
  { true, false, in, out, TOKENS, 1 }

static struct matmul_call make_call(const struct bench *b, const struct product *p) {
  int64_t m = p->m == TOKENS ? b->tokens : p->m, k = p->k == TOKENS ? b->tokens : p->k;
  return (struct matmul_call){p->trans_a, p->trans_b, m, p->n, k, p->trans_a ? m : k, p->trans_b ? k : p->n};
}

/* The largest arrays are the head's: the table, its gradient and the logits. */
struct operands {
  const float *a, *b;
  float *c;
};

static struct operands get_operands(const struct bench *b, const struct product *p) {
  if (p->n == VOCAB) return (struct operands){b->x, b->table, b->scratch};
  if (p->k == VOCAB) return (struct operands){b->scratch, b->table, b->y};
  if (p->m == VOCAB) return (struct operands){b->scratch, b->x, b->d_table};
  return p->trans_a ? (struct operands){b->wide, b->wide2, b->d_weight}
                    : (struct operands){b->wide, b->weight, b->wide2};
}

static void multiply(struct bench *b, const struct product *p) {
  struct matmul_call call = make_call(b, p);
  struct operands o = get_operands(b, p);
  matmul_cpu(b->pool, call.trans_a, call.trans_b, call.m, call.n, call.k, o.a, call.lda, o.b, call.ldb, p->beta, o.c,
             call.n);
}

/* Afterwards the library's threads spin for a while, in the way of ours. */
static double measure_library(const struct bench *b, const struct product *p) {
  struct matmul_call call = make_call(b, p);
  struct operands o = get_operands(b, p);
  double start = clock_now();
  library_threads_multiply(pool_threads(b->pool), &call, o.a, o.b, p->beta, o.c);
  double seconds = clock_now() - start;
  nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  return seconds;
}

/* ---- the list ---- */

/* flops and bytes of a call: of the model (attention's real pairs), and moved at least; for one token where `by_token`.
 * A product has no function of its own. */
struct kernel {
  const char *name;
  double count; /* calls a step; 0: part of another kernel */
  double flops, bytes;
  bool by_token;
  void (*run)(struct bench *bench);
  struct product product;
};

#define PAIRS ((LENGTH + 1) / 2.0 * HEADS * HEAD_DIM)
#define PRODUCT(name, count, in, out, ...)                                                                             \
  { name, count, 2.0 * (in) * (out), 0, true, NULL, __VA_ARGS__ }
#define PRODUCTS(name, in, out)                                                                                        \
  PRODUCT(name " forward", LAYERS, in, out, FORWARD(in, out)),                                                         \
      PRODUCT(name " input", LAYERS, in, out, INPUT(in, out)),                                                         \
      PRODUCT(name " weight", LAYERS, in, out, WEIGHT(in, out))

static const struct kernel kernels[] = {
    {"embed forward", 1, 0, 4.0 * 3 * WIDTH, true, embed_forward, {0}},
    {"embed weight", 1, 0, 4.0 * 5 * WIDTH, true, embed_weight, {0}},
    {"norm forward", 2 * LAYERS + 1, 0, 4.0 * 2 * WIDTH, true, norm_forward, {0}},
    {"norm input", 2 * LAYERS + 1, 0, 4.0 * 4 * WIDTH, true, norm_input, {0}},
    {"norm weight", 2 * LAYERS + 1, 0, 4.0 * 2 * WIDTH, true, norm_weight, {0}},
    {"prepare", 2 * LAYERS, 0, 4.0 * 2 * WIDTH, true, prepare, {0}},
    {"prepare wide", 1.75 * LAYERS, 0, 4.0 * FFN, true, prepare_wide, {0}},
    {"bias weight", 2 * LAYERS, 0, 4.0 * WIDTH, true, bias_weight, {0}},
    {"bias weight wide", 1.75 * LAYERS, 0, 4.0 * FFN, true, bias_weight_wide, {0}},
    PRODUCTS("qkv", WIDTH, QKV),
    PRODUCTS("projection", WIDTH, WIDTH),
    PRODUCTS("up", WIDTH, FFN),
    PRODUCTS("down", FFN, WIDTH),
    {"attention forward", LAYERS, 4 * PAIRS, 0, true, attention_forward, {0}},
    {"attention input", LAYERS, 8 * PAIRS, 0, true, attention_input, {0}},
    {"activation forward", LAYERS, 0, 4.0 * 2 * FFN, true, activation_forward, {0}},
    {"activation input", LAYERS, 0, 4.0 * 3 * FFN, true, activation_input, {0}},
    {"head", 1, 6.0 * WIDTH *VOCAB, 0, true, head, {0}},
    {"- head logits", 0, 2.0 * WIDTH *VOCAB *CHUNK, 0, false, NULL, {false, true, CHUNK, VOCAB, WIDTH, 0}},
    {"- head input", 0, 2.0 * WIDTH *VOCAB *CHUNK, 0, false, NULL, {false, false, CHUNK, WIDTH, VOCAB, 0}},
    {"- head weight", 0, 2.0 * WIDTH *VOCAB *CHUNK, 0, false, NULL, {true, false, VOCAB, WIDTH, CHUNK, 1}},
    {"sum of squares", PARAMETERS / SAMPLE, 0, 4.0 * SAMPLE, false, sum_squares, {0}},
    {"adamw", PARAMETERS / SAMPLE, 0, 4.0 * 8 * SAMPLE, false, adamw, {0}},
};

/* ---- what the machine can do ---- */

static void run_triad_block(void *context, int64_t i) {
  const struct bench *b = context;
  enum { BLOCK = SAMPLE / 256 };
  const float *x = b->m + i * BLOCK, *y = b->v + i * BLOCK;
  float *z = b->table + i * BLOCK;
  for (int64_t j = 0; j < BLOCK; j++) z[j] = x[j] + 0.5f * y[j];
}

static void run_triad(struct bench *b) { pool_run(b->pool, 256, run_triad_block, b); }

static double measure_triad(struct bench *b) {
  double start = clock_now();
  run_triad(b);
  return 4.0 * 3 * SAMPLE / (clock_now() - start);
}

/* ---- the table ---- */

static void run_kernel(struct bench *b, const struct kernel *k) {
  if (k->run)
    k->run(b);
  else
    multiply(b, &k->product);
}

static double measure_calls(struct bench *b, const struct kernel *k, int calls) {
  double start = clock_now();
  for (int i = 0; i < calls; i++) run_kernel(b, k);
  return (clock_now() - start) / calls;
}

struct result {
  double seconds, ratio, rate; /* of a call; to the machine's rate beside it; that rate */
  double library;              /* speed over that of the library's own call */
};

/* Alternates the kernel with the machine's rate, and a product with the library's own call; takes medians. A short
 * kernel runs several times a sample. */
static struct result measure_kernel(struct bench *b, const struct kernel *k) {
  double work = (k->flops > 0 ? k->flops : k->bytes) * (k->by_token ? (double)b->tokens : 1.0);
  double seconds[MAX_TIMES], ratio[MAX_TIMES], rate[MAX_TIMES], library[MAX_TIMES];
  int calls = 1 + (int)(0.02 / (measure_calls(b, k, 1) + 1e-6));
  for (int i = 0; i < b->times; i++) {
    rate[i] = k->flops > 0 ? rate_get_flops() / rate_measure(b->rate, NULL) : measure_triad(b);
    seconds[i] = measure_calls(b, k, calls);
    library[i] = k->run ? 0 : measure_library(b, &k->product) / seconds[i];
    ratio[i] = work / seconds[i] / rate[i];
  }
  return (struct result){rate_get_median(seconds, b->times), rate_get_median(ratio, b->times),
                         rate_get_median(rate, b->times), rate_get_median(library, b->times)};
}

static void print_result(const struct kernel *k, const struct result *r, double work) {
  printf("%-20s %8.2f %9.1f %9.1f %7.2f ", k->name, r->seconds * 1e3, r->seconds * k->count * 1e3,
         work / r->seconds * 1e-9, r->ratio);
  if (k->run)
    printf("%8s", "");
  else
    printf("%8.2f", r->library);
  printf(" %7.1f %s\n", r->rate * 1e-9, k->flops > 0 ? "GFLOP/s" : "GB/s");
  fflush(stdout);
}

static void print_table(struct bench *b) {
  double step = 0, flops = 0, ideal = 0;
  printf("%d threads, %d rows of %d tokens; machine: %s\n", pool_threads(b->pool), (int)b->rows, LENGTH,
         rate_describe(b->rate));
  printf("%-20s %8s %9s %9s %7s %8s %12s\n", "kernel", "ms", "ms a step", "G../s", "ratio", "library", "machine");
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    const struct kernel *k = &kernels[i];
    struct result r = measure_kernel(b, k);
    double calls = k->by_token ? (double)b->tokens : 1.0;
    print_result(k, &r, (k->flops > 0 ? k->flops : k->bytes) * calls);
    step += r.seconds * k->count;
    flops += k->flops * k->count * calls;
    /* At the machine's rate as it was beside the kernel; passes over memory do no model flops. */
    if (k->flops > 0) ideal += r.ratio * r.seconds * k->count;
  }
  printf("sum of a step %.1f ms, %.1f GFLOP/s, ratio to the matrix rate %.2f\n\n", step * 1e3, flops / step * 1e-9,
         ideal / step);
}

static float *fill(int64_t n) {
  float *x = rate_map_floats(n);
  for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u >> 8 & 0xffff) / 65536.0 - 0.5) * 0.1f;
  return x;
}

static void run_bench(int threads, int64_t rows, int times) {
  int64_t tokens = rows * LENGTH;
  struct bench b = {.pool = pool_create(threads, NULL, 0), .times = times, .rows = rows, .tokens = tokens};
  b.rate = rate_create(b.pool);
  b.ids = MEM_NEW(int32_t, tokens);
  b.lengths = MEM_NEW(int32_t, rows);
  for (int64_t i = 0; i < tokens; i++) b.ids[i] = (int32_t)(i * 7919 % VOCAB);
  for (int64_t i = 0; i < rows; i++) b.lengths[i] = LENGTH;
  b.shape = (struct attention_shape){rows, LENGTH, b.lengths, HEADS, HEADS, HEAD_DIM};
  float **arrays[] = {&b.x,      &b.wide,     &b.wide2, &b.qkv,     &b.d_qkv,  &b.y,
                      &b.out,    &b.lse,      &b.stats, &b.scratch, &b.weight, &b.d_weight,
                      &b.vector, &b.d_vector, &b.table, &b.d_table, &b.m,      &b.v};
  int64_t table = (int64_t)VOCAB * WIDTH;
  const int64_t sizes[] = {tokens * WIDTH,
                           tokens * FFN,
                           tokens * FFN,
                           tokens * QKV,
                           tokens * QKV,
                           tokens * WIDTH,
                           tokens * WIDTH,
                           tokens * HEADS,
                           tokens * HEADS,
                           head_get_scratch(CHUNK, VOCAB),
                           (int64_t)WIDTH * FFN,
                           (int64_t)WIDTH * FFN,
                           FFN,
                           2 * FFN,
                           table,
                           table,
                           SAMPLE,
                           SAMPLE};
  enum { N = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < N; i++) *arrays[i] = fill(sizes[i]);
  for (int64_t i = 0; i < SAMPLE; i++) b.v[i] = 1e-4f;
  print_table(&b);
  for (int i = 0; i < N; i++) rate_unmap_floats(*arrays[i], sizes[i]);
  mem_free(b.ids);
  mem_free(b.lengths);
  rate_destroy(&b.rate);
  pool_destroy(&b.pool);
}

int main(int argc, char **argv) {
  matmul_init_cpu();
  if (argc > 1) {
    int times = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 5;
    run_bench((int)strtol(argv[1], NULL, 10), argc > 2 ? strtol(argv[2], NULL, 10) : 4,
              times < 1           ? 1
              : times > MAX_TIMES ? MAX_TIMES
                                  : times);
    return 0;
  }
  run_bench(2, 4, 5);
  run_bench(1, 1, 5);
  return 0;
}
