/* Activations, plain and gated: one table of functions, each giving value and derivative of a vector. */
#include "kernels.h"

#include "base/pool.h"
#include "vec.h"

enum { BLOCK = 4096 };

struct slope {
  vec y, d; /* f(u), f'(u) */
};

/* 1 / (1 + exp(-u)) and 1 less that, each without cancellation. */
static inline vec get_sigmoid(vec u, vec *rest) {
  vec e = vec_exp(-u), s = vec_set(1.0f) / (e + 1.0f);
  *rest = e * s;
  return s;
}

/* u/2 (1 + tanh t) = u sigmoid(2t) with t = sqrt(2/pi) (u + 0.044715 u^3); no cancellation where tanh is near -1. */
static inline struct slope slope_gelu_tanh(vec u) {
  vec squared = u * u, rest;
  vec s = get_sigmoid(u * (squared * 0.0713548163f + 1.59576912f), &rest);
  vec inner = squared * 0.214064449f + 1.59576912f;
  return (struct slope){u * s, s + u * inner * (s * rest)};
}

static inline struct slope slope_gelu(vec u) {
  vec cdf = vec_normal_cdf(u);
  return (struct slope){u * cdf, cdf + u * vec_exp(u * u * -0.5f) * 0.398942280f};
}

static inline struct slope slope_silu(vec u) {
  vec rest, s = get_sigmoid(u, &rest);
  return (struct slope){u * s, s + u * (s * rest)};
}

static inline struct slope slope_relu(vec u) {
  vec zero = vec_set(0.0f);
  return (struct slope){vec_select(u <= zero, zero, u), vec_select(u <= zero, zero, vec_set(1.0f))};
}

static inline struct slope slope_relu2(vec u) {
  vec zero = vec_set(0.0f), positive = vec_select(u <= zero, zero, u);
  return (struct slope){positive * positive, positive * 2.0f};
}

/* A run of n elements. Plain: gate is u; gated: gate and up are the halves of u. */
struct piece {
  int64_t n;
  const float *gate, *up, *d_y;
  float *y, *d_gate, *d_up;
};

/* The four loops over a piece, for one function. */
#define DEFINE_LOOPS(name)                                                                                             \
  static void forward_##name(struct piece p) {                                                                         \
    for (int64_t i = 0; i < p.n; i += VEC)                                                                             \
      vec_store_part(p.y + i, slope_##name(vec_load_part(p.gate + i, p.n - i)).y, p.n - i);                            \
  }                                                                                                                    \
  static void input_##name(struct piece p) {                                                                           \
    for (int64_t i = 0; i < p.n; i += VEC) {                                                                           \
      vec d_y = vec_load_part(p.d_y + i, p.n - i);                                                                     \
      vec_store_part(p.d_gate + i, slope_##name(vec_load_part(p.gate + i, p.n - i)).d * d_y, p.n - i);                 \
    }                                                                                                                  \
  }                                                                                                                    \
  static void gated_forward_##name(struct piece p) {                                                                   \
    for (int64_t i = 0; i < p.n; i += VEC) {                                                                           \
      vec up = vec_load_part(p.up + i, p.n - i);                                                                       \
      vec_store_part(p.y + i, slope_##name(vec_load_part(p.gate + i, p.n - i)).y * up, p.n - i);                       \
    }                                                                                                                  \
  }                                                                                                                    \
  static void gated_input_##name(struct piece p) {                                                                     \
    for (int64_t i = 0; i < p.n; i += VEC) {                                                                           \
      struct slope s = slope_##name(vec_load_part(p.gate + i, p.n - i));                                               \
      vec up = vec_load_part(p.up + i, p.n - i), d_y = vec_load_part(p.d_y + i, p.n - i);                              \
      vec_store_part(p.d_gate + i, s.d * d_y * up, p.n - i);                                                           \
      vec_store_part(p.d_up + i, s.y * d_y, p.n - i);                                                                  \
    }                                                                                                                  \
  }

#define ACTIVATIONS(X)                                                                                                 \
  X(ACTIVATION_GELU_TANH, gelu_tanh)                                                                                   \
  X(ACTIVATION_GELU, gelu)                                                                                             \
  X(ACTIVATION_SILU, silu)                                                                                             \
  X(ACTIVATION_RELU, relu)                                                                                             \
  X(ACTIVATION_RELU2, relu2)

#define X(id, name) DEFINE_LOOPS(name)
ACTIVATIONS(X)
#undef X

typedef void loop(struct piece p);

static const struct {
  loop *forward, *input, *gated_forward, *gated_input;
} table[] = {
#define X(id, name) [id] = {forward_##name, input_##name, gated_forward_##name, gated_input_##name},
    ACTIVATIONS(X)
#undef X
};

struct job {
  loop *run;
  int64_t width, n; /* n: elements of all rows */
  const float *u, *d_y;
  float *y, *d_u;
};

static void run_plain(void *context, int64_t task) {
  const struct job *job = context;
  int64_t first = task * BLOCK, left = job->n - first;
  struct piece p = {.n = left < BLOCK ? left : BLOCK, .gate = job->u + first};
  if (job->y) p.y = job->y + first;
  if (job->d_y) p.d_y = job->d_y + first, p.d_gate = job->d_u + first;
  job->run(p);
}

/* One row a task: gate and up lie side by side. */
static void run_gated(void *context, int64_t row) {
  const struct job *job = context;
  int64_t width = job->width;
  struct piece p = {.n = width, .gate = job->u + 2 * row * width, .up = job->u + (2 * row + 1) * width};
  if (job->y) p.y = job->y + row * width;
  if (job->d_y) {
    p.d_y = job->d_y + row * width;
    p.d_gate = job->d_u + 2 * row * width;
    p.d_up = p.d_gate + width;
  }
  job->run(p);
}

void activation_forward_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                            float *y) {
  struct job job = {.run = table[f].forward, .n = rows * width, .u = u, .y = y};
  pool_run(pool, (job.n + BLOCK - 1) / BLOCK, run_plain, &job);
}

void activation_input_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                          const float *d_y, float *d_u) {
  struct job job = {.run = table[f].input, .n = rows * width, .u = u, .d_y = d_y, .d_u = d_u};
  pool_run(pool, (job.n + BLOCK - 1) / BLOCK, run_plain, &job);
}

void activation_gated_forward_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                                  float *y) {
  struct job job = {.run = table[f].gated_forward, .width = width, .u = u, .y = y};
  pool_run(pool, rows, run_gated, &job);
}

void activation_gated_input_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                                const float *d_y, float *d_u) {
  struct job job = {.run = table[f].gated_input, .width = width, .u = u, .d_y = d_y, .d_u = d_u};
  pool_run(pool, rows, run_gated, &job);
}
