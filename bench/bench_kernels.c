/* Time of every kernel of a GPT-2 124M training step, next to what the machine can do: the matrix rate (the best float32
 * product of 2048^3 with the same threads) and the memory rate (a triad), both measured again beside every kernel, since
 * a machine's speed changes while one looks. Ends with what the kernels of a whole step come to.
 *
 * bench_kernels [THREADS [ROWS]]: without arguments, 2 threads with 4 rows of 256 tokens, then 1 thread with 1 row.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels.h"
#include "matmul_library.h"

enum { LENGTH = 256, WIDTH = 768, FFN = 3072, QKV = 2304, HEADS = 12, HEAD_DIM = 64, LAYERS = 12, VOCAB = 50257 };
enum { SQUARE = 2048, REPEATS = 3, SAMPLE = 16 * 1024 * 1024 };

/* The optimizer's passes run over a sample of the parameters and count in proportion. */
#define PARAMETERS 124439808.0

struct bench {
  struct pool *pool;
  int64_t rows, tokens; /* tokens = rows * LENGTH */
  int32_t *ids, *lengths;
  struct attention_shape shape;
  float *x, *wide, *wide2, *qkv, *d_qkv, *y, *out, *lse, *stats, *scratch; /* activations */
  float *weight, *d_weight, *vector, *d_vector, *table, *d_table, *m, *v;
  float *square[3];
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

#define PRODUCTS(X) X(qkv, WIDTH, QKV) X(projection, WIDTH, WIDTH) X(up, WIDTH, FFN) X(down, FFN, WIDTH)
/* Weights are [in, out], as in GPT-2: y += x W, d_x = d_y W^T, d_W += x^T d_y. */
#define X(name, in, out)                                                                                               \
  static void name##_forward(struct bench *b) {                                                                        \
    matmul_cpu(b->pool, false, false, b->tokens, out, in, b->wide, in, b->weight, out, 1.0f, b->wide2, out);           \
  }                                                                                                                    \
  static void name##_input(struct bench *b) {                                                                          \
    matmul_cpu(b->pool, false, true, b->tokens, in, out, b->wide, out, b->weight, out, 0.0f, b->wide2, in);            \
  }                                                                                                                    \
  static void name##_weight(struct bench *b) {                                                                         \
    matmul_cpu(b->pool, true, false, in, out, b->tokens, b->wide, in, b->wide2, out, 1.0f, b->d_weight, out);          \
  }
PRODUCTS(X)
#undef X

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

/* flops and bytes of a call: of the model (attention's real pairs), and moved at least; for one token where `by_token`. */
struct kernel {
  const char *name;
  double count; /* calls a step */
  double flops, bytes;
  bool by_token;
  void (*run)(struct bench *bench);
};

#define PAIRS ((LENGTH + 1) / 2.0 * HEADS * HEAD_DIM)

static const struct kernel kernels[] = {
    {"embed forward", 1, 0, 4.0 * 3 * WIDTH, true, embed_forward},
    {"embed weight", 1, 0, 4.0 * 5 * WIDTH, true, embed_weight},
    {"norm forward", 2 * LAYERS + 1, 0, 4.0 * 2 * WIDTH, true, norm_forward},
    {"norm input", 2 * LAYERS + 1, 0, 4.0 * 4 * WIDTH, true, norm_input},
    {"norm weight", 2 * LAYERS + 1, 0, 4.0 * 2 * WIDTH, true, norm_weight},
    {"prepare", 2 * LAYERS, 0, 4.0 * 2 * WIDTH, true, prepare},
    {"prepare wide", 1.75 * LAYERS, 0, 4.0 * FFN, true, prepare_wide},
    {"bias weight", 2 * LAYERS, 0, 4.0 * WIDTH, true, bias_weight},
    {"bias weight wide", 1.75 * LAYERS, 0, 4.0 * FFN, true, bias_weight_wide},
#define X(name, in, out)                                                                                               \
  {#name " forward", LAYERS, 2.0 * in * out, 0, true, name##_forward},                                                 \
      {#name " input", LAYERS, 2.0 * in * out, 0, true, name##_input},                                                 \
      {#name " weight", LAYERS, 2.0 * in * out, 0, true, name##_weight},
    PRODUCTS(X)
#undef X
        {"attention forward", LAYERS, 4 * PAIRS, 0, true, attention_forward},
    {"attention input", LAYERS, 8 * PAIRS, 0, true, attention_input},
    {"activation forward", LAYERS, 0, 4.0 * 2 * FFN, true, activation_forward},
    {"activation input", LAYERS, 0, 4.0 * 3 * FFN, true, activation_input},
    {"head", 1, 6.0 * WIDTH *VOCAB, 0, true, head},
    {"sum of squares", PARAMETERS / SAMPLE, 0, 4.0 * SAMPLE, false, sum_squares},
    {"adamw", PARAMETERS / SAMPLE, 0, 4.0 * 8 * SAMPLE, false, adamw},
};

/* ---- what the machine can do ---- */

/* A strip of whole rows of the square product: one library call a thread is its largest possible tile. */
static void multiply_strip(void *context, int64_t i) {
  const struct bench *b = context;
  int64_t rows = SQUARE / pool_threads(b->pool), first = i * rows;
  if (i == pool_threads(b->pool) - 1) rows = SQUARE - first;
  matmul_library_multiply(false, false, rows, SQUARE, SQUARE, b->square[0] + first * SQUARE, SQUARE, b->square[1],
                          SQUARE, 0.0f, b->square[2] + first * SQUARE, SQUARE);
}

static void multiply_strips(struct bench *b) { pool_run(b->pool, pool_threads(b->pool), multiply_strip, b); }

static void multiply_tiles(struct bench *b) {
  matmul_cpu(b->pool, false, false, SQUARE, SQUARE, SQUARE, b->square[0], SQUARE, b->square[1], SQUARE, 0.0f,
             b->square[2], SQUARE);
}

static void run_triad_block(void *context, int64_t i) {
  const struct bench *b = context;
  enum { BLOCK = SAMPLE / 256 };
  const float *x = b->m + i * BLOCK, *y = b->v + i * BLOCK;
  float *z = b->table + i * BLOCK;
  for (int64_t j = 0; j < BLOCK; j++) z[j] = x[j] + 0.5f * y[j];
}

static void run_triad(struct bench *b) { pool_run(b->pool, 256, run_triad_block, b); }

static double measure(void (*run)(struct bench *b), struct bench *b) {
  double start = clock_now();
  run(b);
  return clock_now() - start;
}

static double measure_square(struct bench *b) {
  double strips = measure(multiply_strips, b), tiles = measure(multiply_tiles, b);
  return 2.0 * SQUARE * SQUARE * SQUARE / fmin(strips, tiles);
}

static double measure_triad(struct bench *b) { return 4.0 * 3 * SAMPLE / measure(run_triad, b); }

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double find_median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, compare_doubles);
  return x[n / 2];
}

/* ---- the table ---- */

struct result {
  double seconds, ratio, rate; /* of a call; to the machine's rate beside it; that rate */
};

/* Alternates the kernel with the machine's rate, and takes medians. A short kernel runs several times a sample. */
static struct result measure_kernel(struct bench *b, const struct kernel *k) {
  double work = (k->flops > 0 ? k->flops : k->bytes) * (k->by_token ? (double)b->tokens : 1.0);
  double seconds[REPEATS], ratio[REPEATS], rate[REPEATS];
  int calls = 1 + (int)(0.02 / (measure(k->run, b) + 1e-6));
  for (int i = 0; i < REPEATS; i++) {
    rate[i] = k->flops > 0 ? measure_square(b) : measure_triad(b);
    double start = clock_now();
    for (int j = 0; j < calls; j++) k->run(b);
    seconds[i] = (clock_now() - start) / calls;
    ratio[i] = work / seconds[i] / rate[i];
  }
  return (struct result){find_median(seconds, REPEATS), find_median(ratio, REPEATS), find_median(rate, REPEATS)};
}

static void print_table(struct bench *b) {
  double step = 0, flops = 0, ideal = 0;
  printf("%d threads, %d rows of %d tokens, %s\n", pool_threads(b->pool), (int)b->rows, LENGTH, matmul_get_library());
  printf("%-20s %8s %9s %9s %7s %12s\n", "kernel", "ms", "ms a step", "G../s", "ratio", "machine");
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    const struct kernel *k = &kernels[i];
    struct result r = measure_kernel(b, k);
    double calls = k->by_token ? (double)b->tokens : 1.0, work = (k->flops > 0 ? k->flops : k->bytes) * calls;
    printf("%-20s %8.2f %9.1f %9.1f %7.2f %7.1f %s\n", k->name, r.seconds * 1e3, r.seconds * k->count * 1e3,
           work / r.seconds * 1e-9, r.ratio, r.rate * 1e-9, k->flops > 0 ? "GFLOP/s" : "GB/s");
    fflush(stdout);
    step += r.seconds * k->count;
    flops += k->flops * k->count * calls;
    /* At the machine's rate as it was beside the kernel; passes over memory do no model flops. */
    if (k->flops > 0) ideal += r.ratio * r.seconds * k->count;
  }
  printf("sum of a step %.1f ms, %.1f GFLOP/s, ratio to the matrix rate %.2f\n\n", step * 1e3, flops / step * 1e-9,
         ideal / step);
}

static float *fill(int64_t n) {
  float *x = MEM_NEW(float, n);
  for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u >> 8 & 0xffff) / 65536.0 - 0.5) * 0.1f;
  return x;
}

static void run_bench(int threads, int64_t rows) {
  int64_t tokens = rows * LENGTH;
  struct bench b = {.pool = pool_create(threads, NULL, 0), .rows = rows, .tokens = tokens};
  b.ids = MEM_NEW(int32_t, tokens);
  b.lengths = MEM_NEW(int32_t, rows);
  for (int64_t i = 0; i < tokens; i++) b.ids[i] = (int32_t)(i * 7919 % VOCAB);
  for (int64_t i = 0; i < rows; i++) b.lengths[i] = LENGTH;
  b.shape = (struct attention_shape){rows, LENGTH, b.lengths, HEADS, HEADS, HEAD_DIM};
  float **arrays[] = {&b.x,     &b.wide,    &b.wide2,   &b.qkv,    &b.d_qkv,     &b.y,         &b.out,
                      &b.lse,   &b.stats,   &b.scratch, &b.weight, &b.d_weight,  &b.vector,    &b.d_vector,
                      &b.table, &b.d_table, &b.m,       &b.v,      &b.square[0], &b.square[1], &b.square[2]};
  int64_t table = (int64_t)VOCAB * WIDTH, square = (int64_t)SQUARE * SQUARE;
  const int64_t sizes[] = {tokens * WIDTH,
                           tokens * FFN,
                           tokens * FFN,
                           tokens * QKV,
                           tokens * QKV,
                           tokens * WIDTH,
                           tokens * WIDTH,
                           tokens * HEADS,
                           tokens * HEADS,
                           head_get_scratch(tokens, VOCAB),
                           (int64_t)WIDTH * FFN,
                           (int64_t)WIDTH * FFN,
                           FFN,
                           2 * FFN,
                           table,
                           table,
                           SAMPLE,
                           SAMPLE,
                           square,
                           square,
                           square};
  enum { N = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < N; i++) *arrays[i] = fill(sizes[i]);
  for (int64_t i = 0; i < SAMPLE; i++) b.v[i] = 1e-4f;
  print_table(&b);
  for (int i = 0; i < N; i++) mem_free(*arrays[i]);
  mem_free(b.ids);
  mem_free(b.lengths);
  pool_destroy(&b.pool);
}

int main(int argc, char **argv) {
  matmul_init_cpu();
  if (argc > 1) {
    run_bench((int)strtol(argv[1], NULL, 10), argc > 2 ? strtol(argv[2], NULL, 10) : 4);
    return 0;
  }
  run_bench(2, 4);
  run_bench(1, 1);
  return 0;
}
