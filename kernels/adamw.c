/* AdamW and what goes with it: passes over long arrays, at the speed of memory. */
#include "kernels.h"

#include "base/pool.h"
#include "vec.h"

enum { BLOCK = 16384, N_SUMS = 64 };

struct update {
  int64_t n;
  float *w, *g, *m, *v;
  float grad_scale, beta1, beta2, keep; /* keep: 1 - lr weight_decay */
  float rate, root, eps;                /* lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
};

static void update_block(void *context, int64_t task) {
  const struct update *p = context;
  int64_t end = (task + 1) * BLOCK < p->n ? (task + 1) * BLOCK : p->n;
  for (int64_t i = task * BLOCK; i < end; i += VEC) {
    int64_t left = end - i;
    vec g = vec_load_part(p->g + i, left) * p->grad_scale;
    vec m = vec_load_part(p->m + i, left), v = vec_load_part(p->v + i, left);
    m = g + (m - g) * p->beta1;
    v = g * g + (v - g * g) * p->beta2;
    vec w = vec_load_part(p->w + i, left) * p->keep - m * p->rate / (vec_sqrt(v) * p->root + p->eps);
    vec_store_part(p->w + i, w, left);
    vec_store_part(p->m + i, m, left);
    vec_store_part(p->v + i, v, left);
    vec_store_part(p->g + i, vec_set(0.0f), left);
  }
}

void adamw_cpu(struct pool *pool, const struct adamw *a, int64_t n, float *w, float *g, float *m, float *v) {
  double rest1 = 1.0 - pow((double)a->beta1, (double)a->step), rest2 = 1.0 - pow((double)a->beta2, (double)a->step);
  struct update p = {.n = n,
                     .w = w,
                     .g = g,
                     .m = m,
                     .v = v,
                     .grad_scale = a->grad_scale,
                     .beta1 = a->beta1,
                     .beta2 = a->beta2,
                     .keep = (float)(1.0 - (double)a->lr * (double)a->weight_decay),
                     .rate = (float)((double)a->lr / rest1),
                     .root = (float)(1.0 / sqrt(rest2)),
                     .eps = a->eps};
  pool_run(pool, (n + BLOCK - 1) / BLOCK, update_block, &p);
}

/* Four doubles, the width that the compiler converts to in one instruction. */
typedef double quad __attribute__((vector_size(32)));
typedef float float_quad __attribute__((vector_size(16), aligned(4), may_alias));

enum { GROUP = 16, QUADS = 4 };

struct squares {
  const float *g;
  int64_t n, first; /* of this round */
  double sums[N_SUMS];
};

static inline void add_squares(const float *x, quad *sum) {
  for (int i = 0; i < QUADS; i++) {
    quad y = __builtin_convertvector(*(const float_quad *)(x + 4 * i), quad);
    sum[i] += y * y;
  }
}

static void square_block(void *context, int64_t task) {
  struct squares *p = context;
  int64_t i = p->first + task * BLOCK, end = i + BLOCK < p->n ? i + BLOCK : p->n;
  quad sum[QUADS] = {0};
  for (; i + GROUP <= end; i += GROUP) add_squares(p->g + i, sum);
  float tail[GROUP] = {0};
  memcpy(tail, p->g + i, (size_t)(end - i) * sizeof *tail);
  add_squares(tail, sum);
  quad total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  p->sums[task] = (total[0] + total[1]) + (total[2] + total[3]);
}

double sum_squares_cpu(struct pool *pool, int64_t n, const float *g) {
  struct squares p = {.g = g, .n = n};
  double sum = 0;
  for (p.first = 0; p.first < n; p.first += (int64_t)N_SUMS * BLOCK) {
    int64_t tasks = (n - p.first + BLOCK - 1) / BLOCK;
    if (tasks > N_SUMS) tasks = N_SUMS;
    pool_run(pool, tasks, square_block, &p);
    for (int64_t i = 0; i < tasks; i++) sum += p.sums[i];
  }
  return sum;
}

struct pass {
  int64_t n;
  const float *x;
  float *y, value;
};

static void add_block(void *context, int64_t task) {
  const struct pass *p = context;
  int64_t end = (task + 1) * BLOCK < p->n ? (task + 1) * BLOCK : p->n;
  for (int64_t i = task * BLOCK; i < end; i += VEC)
    vec_store_part(p->y + i, vec_load_part(p->y + i, end - i) + vec_load_part(p->x + i, end - i), end - i);
}

void add_cpu(struct pool *pool, int64_t n, const float *x, float *y) {
  struct pass p = {.n = n, .x = x, .y = y};
  pool_run(pool, (n + BLOCK - 1) / BLOCK, add_block, &p);
}

static void fill_block(void *context, int64_t task) {
  const struct pass *p = context;
  int64_t end = (task + 1) * BLOCK < p->n ? (task + 1) * BLOCK : p->n;
  for (int64_t i = task * BLOCK; i < end; i += VEC) vec_store_part(p->y + i, vec_set(p->value), end - i);
}

void fill_cpu(struct pool *pool, int64_t n, float value, float *x) {
  struct pass p = {.n = n, .value = value, .y = x};
  pool_run(pool, (n + BLOCK - 1) / BLOCK, fill_block, &p);
}
