#include "rate.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels.h"
#include "library_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct rate {
  struct pool *pool;
  float *a, *b, *c;
  bool own_threads, trans_a, trans_b; /* the fastest way */
  cpu_set_t cores;                    /* of the calling thread, before anything bound it */
  char text[80];
};

enum { TRIES = 3 };

/* ---- memory ---- */

float *rate_map_floats(int64_t n) {
  size_t bytes = (size_t)n * sizeof(float);
  float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(x != MAP_FAILED, "no memory for %zu bytes", bytes);
  madvise(x, bytes, MADV_HUGEPAGE);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 97) * 0.01f;
  return x;
}

void rate_unmap_floats(float *x, int64_t n) { munmap(x, (size_t)n * sizeof(float)); }

/* ---- the product ---- */

/* The library makes its threads in the calling thread's image, which the pool has bound to one core. */
static void multiply_freely(const struct rate *rate) {
  cpu_set_t bound;
  pthread_getaffinity_np(pthread_self(), sizeof bound, &bound);
  pthread_setaffinity_np(pthread_self(), sizeof rate->cores, &rate->cores);
  struct matmul_call call = {rate->trans_a, rate->trans_b, RATE_SIZE, RATE_SIZE, RATE_SIZE, RATE_SIZE, RATE_SIZE};
  library_threads_multiply(pool_threads(rate->pool), &call, rate->a, rate->b, 0.0f, rate->c);
  pthread_setaffinity_np(pthread_self(), sizeof bound, &bound);
}

double rate_measure(struct rate *rate, double *cpu) {
  double cpu_before = rate_get_cpu(), start = clock_now();
  if (rate->own_threads)
    multiply_freely(rate);
  else
    matmul_cpu(rate->pool, rate->trans_a, rate->trans_b, RATE_SIZE, RATE_SIZE, RATE_SIZE, rate->a, RATE_SIZE, rate->b,
               RATE_SIZE, 0.0f, rate->c, RATE_SIZE);
  double seconds = clock_now() - start;
  if (cpu) *cpu = rate_get_cpu() - cpu_before;
  return seconds;
}

static double try_way(struct rate *rate, int way) {
  rate->own_threads = way & 1;
  rate->trans_a = way & 2;
  rate->trans_b = way & 4;
  double best = rate_measure(rate, NULL);
  for (int i = 1; i < TRIES; i++) {
    double seconds = rate_measure(rate, NULL);
    if (seconds < best) best = seconds;
  }
  return best;
}

static void choose_way(struct rate *rate) {
  double best = 0;
  int best_way = 0;
  for (int way = 0; way < 8; way++) {
    double seconds = try_way(rate, way);
    if (way && seconds >= best) continue;
    best = seconds;
    best_way = way;
  }
  rate->own_threads = best_way & 1;
  rate->trans_a = best_way & 2;
  rate->trans_b = best_way & 4;
  snprintf(rate->text, sizeof rate->text, "%s, %s, A%s B%s", matmul_get_library(),
           rate->own_threads ? "its own threads" : "our tiles", rate->trans_a ? "^T" : "", rate->trans_b ? "^T" : "");
}

struct rate *rate_create(struct pool *pool) {
  struct rate *rate = MEM_NEW(struct rate, 1);
  int64_t n = (int64_t)RATE_SIZE * RATE_SIZE;
  matmul_init_cpu();
  rate->pool = pool;
  pthread_getaffinity_np(pthread_self(), sizeof rate->cores, &rate->cores);
  rate->a = rate_map_floats(n);
  rate->b = rate_map_floats(n);
  rate->c = rate_map_floats(n);
  choose_way(rate);
  return rate;
}

void rate_destroy(struct rate **rate) {
  struct rate *r = *rate;
  if (!r) return;
  int64_t n = (int64_t)RATE_SIZE * RATE_SIZE;
  rate_unmap_floats(r->a, n);
  rate_unmap_floats(r->b, n);
  rate_unmap_floats(r->c, n);
  mem_free(r);
  *rate = NULL;
}

void rate_set_pool(struct rate *rate, struct pool *pool) { rate->pool = pool; }

const char *rate_describe(const struct rate *rate) { return rate->text; }

double rate_get_flops(void) { return 2.0 * RATE_SIZE * RATE_SIZE * RATE_SIZE; }

/* ---- memory bandwidth ---- */

enum { TRIAD_FLOATS = 1 << 24, TRIAD_PIECE = 1 << 14, TRIAD_TIMES = 15 };

struct triad {
  float *x, *y, *z;
  int64_t from, n;
};

static void triad_piece(void *context, int64_t i) {
  const struct triad *t = context;
  int64_t begin = i * TRIAD_PIECE, end = begin + TRIAD_PIECE < t->n ? begin + TRIAD_PIECE : t->n;
  float *restrict x = t->x + t->from;
  const float *restrict y = t->y + t->from, *restrict z = t->z + t->from;
  for (int64_t j = begin; j < end; j++) x[j] = y[j] + 3.0f * z[j];
}

double rate_measure_triad(struct pool *pool, int64_t bytes) {
  int64_t n = bytes / 12;
  if (n < 1) n = 1;
  if (n > TRIAD_FLOATS) n = TRIAD_FLOATS;
  struct triad t = {rate_map_floats(TRIAD_FLOATS), rate_map_floats(TRIAD_FLOATS), rate_map_floats(TRIAD_FLOATS), 0, n};
  double seconds[TRIAD_TIMES];
  for (int i = 0; i < TRIAD_TIMES; i++) {
    double start = clock_now();
    pool_run(pool, (n + TRIAD_PIECE - 1) / TRIAD_PIECE, triad_piece, &t);
    seconds[i] = clock_now() - start;
    /* On to what the caches have not seen for longest. */
    t.from = t.from + 2 * n <= TRIAD_FLOATS ? t.from + n : 0;
  }
  rate_unmap_floats(t.x, TRIAD_FLOATS);
  rate_unmap_floats(t.y, TRIAD_FLOATS);
  rate_unmap_floats(t.z, TRIAD_FLOATS);
  return 12.0 * (double)n / rate_get_median(seconds, TRIAD_TIMES);
}

/* ---- helpers ---- */

double rate_get_cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_values(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double rate_get_median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare_values);
  return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}
