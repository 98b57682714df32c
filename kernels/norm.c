/* Layer norm and RMS norm. A row's sums run in one vector and the row is read again from the cache; the weights'
 * gradients are sums over rows, of which a task owns some columns.
 */
#include "kernels.h"

#include "base/pool.h"
#include "vec.h"

enum { BLOCK_ROWS = 16, BLOCK_COLUMNS = 64, AHEAD = 8 };

struct norm {
  bool layer_norm;
  int64_t rows, width;
  float eps;
  const float *x, *weight, *bias, *stats, *d_y, *residual;
  float *y, *stats_out, *d_x, *d_weight, *d_bias;
};

/* Mean and reciprocal of the standard deviation; the mean of RMS norm is 0. */
struct moments {
  float mean, rstd;
};

static struct moments get_moments(const struct norm *p, int64_t row) {
  if (p->layer_norm) return (struct moments){p->stats[2 * row], p->stats[2 * row + 1]};
  return (struct moments){0.0f, p->stats[row]};
}

static struct moments measure_row(const struct norm *p, const float *x) {
  struct moments m = {0};
  int64_t n = p->width;
  if (p->layer_norm) {
    vec sum = {0};
    for (int64_t j = 0; j < n; j += VEC) sum += vec_load_part(x + j, n - j);
    m.mean = vec_sum(sum) / (float)n;
  }
  vec squares = {0};
  int64_t j = 0;
  for (; j + VEC <= n; j += VEC) {
    vec d = vec_load(x + j) - m.mean;
    squares += d * d;
  }
  if (j < n) { /* the zeros of the filled-up tail would count as -mean */
    float tail[VEC];
    for (int i = 0; i < VEC; i++) tail[i] = j + i < n ? x[j + i] : m.mean;
    vec d = vec_load(tail) - m.mean;
    squares += d * d;
  }
  m.rstd = 1.0f / sqrtf(vec_sum(squares) / (float)n + p->eps);
  return m;
}

static void forward_rows(void *context, int64_t task) {
  const struct norm *p = context;
  int64_t n = p->width, end = (task + 1) * BLOCK_ROWS < p->rows ? (task + 1) * BLOCK_ROWS : p->rows;
  for (int64_t row = task * BLOCK_ROWS; row < end; row++) {
    const float *x = p->x + row * n;
    float *y = p->y + row * n;
    struct moments m = measure_row(p, x);
    for (int64_t j = 0; j < n; j += VEC) {
      vec value = (vec_load_part(x + j, n - j) - m.mean) * m.rstd * vec_load_part(p->weight + j, n - j);
      if (p->bias) value += vec_load_part(p->bias + j, n - j);
      vec_store_part(y + j, value, n - j);
    }
    if (p->layer_norm) {
      p->stats_out[2 * row] = m.mean;
      p->stats_out[2 * row + 1] = m.rstd;
    } else {
      p->stats_out[row] = m.rstd;
    }
  }
}

void norm_forward_cpu(struct pool *pool, bool layer_norm, int64_t rows, int64_t width, float eps, const float *x,
                      const float *weight, const float *bias, float *y, float *stats) {
  struct norm p = {.layer_norm = layer_norm,
                   .rows = rows,
                   .width = width,
                   .eps = eps,
                   .x = x,
                   .weight = weight,
                   .bias = bias,
                   .y = y,
                   .stats_out = stats};
  pool_run(pool, (rows + BLOCK_ROWS - 1) / BLOCK_ROWS, forward_rows, &p);
}

/* With g = d_y weight and h = (x - mean) rstd: d_x = rstd (g - mean(g) - h mean(g h)), the middle term for layer norm
 * only. Behind the end of a row g is 0. */
static void input_row(const struct norm *p, int64_t row) {
  int64_t n = p->width;
  const float *x = p->x + row * n, *d_y = p->d_y + row * n;
  const float *residual = p->residual ? p->residual + row * n : NULL;
  float *d_x = p->d_x + row * n;
  struct moments m = get_moments(p, row);
  vec sum = {0}, product = {0};
  for (int64_t j = 0; j < n; j += VEC) {
    vec g = vec_load_part(d_y + j, n - j) * vec_load_part(p->weight + j, n - j);
    vec h = (vec_load_part(x + j, n - j) - m.mean) * m.rstd;
    sum += g;
    product += g * h;
  }
  float mean_g = p->layer_norm ? vec_sum(sum) / (float)n : 0.0f;
  float mean_gh = vec_sum(product) / (float)n;
  for (int64_t j = 0; j < n; j += VEC) {
    vec g = vec_load_part(d_y + j, n - j) * vec_load_part(p->weight + j, n - j);
    vec h = (vec_load_part(x + j, n - j) - m.mean) * m.rstd;
    vec value = (g - mean_g - h * mean_gh) * m.rstd;
    if (residual) value += vec_load_part(residual + j, n - j);
    vec_store_part(d_x + j, value, n - j);
  }
}

static void input_rows(void *context, int64_t task) {
  const struct norm *p = context;
  int64_t end = (task + 1) * BLOCK_ROWS < p->rows ? (task + 1) * BLOCK_ROWS : p->rows;
  for (int64_t row = task * BLOCK_ROWS; row < end; row++) input_row(p, row);
}

void norm_input_cpu(struct pool *pool, bool layer_norm, int64_t rows, int64_t width, const float *x,
                    const float *weight, const float *stats, const float *d_y, const float *residual, float *d_x) {
  struct norm p = {.layer_norm = layer_norm,
                   .rows = rows,
                   .width = width,
                   .x = x,
                   .weight = weight,
                   .stats = stats,
                   .d_y = d_y,
                   .residual = residual,
                   .d_x = d_x};
  pool_run(pool, (rows + BLOCK_ROWS - 1) / BLOCK_ROWS, input_rows, &p);
}

static void add_columns(float *total, const vec *sum, int64_t n) {
  for (int64_t j = 0; j < n; j += VEC) vec_store_part(total + j, vec_load_part(total + j, n - j) + sum[j / VEC], n - j);
}

static void weight_columns(void *context, int64_t task) {
  const struct norm *p = context;
  int64_t first = task * BLOCK_COLUMNS;
  int64_t n = p->width - first < BLOCK_COLUMNS ? p->width - first : BLOCK_COLUMNS;
  for (int64_t row = 0; row < p->rows; row += BLOCK_ROWS) {
    int64_t end = row + BLOCK_ROWS < p->rows ? row + BLOCK_ROWS : p->rows;
    vec d_weight[BLOCK_COLUMNS / VEC] = {0}, d_bias[BLOCK_COLUMNS / VEC] = {0};
    for (int64_t i = row; i < end; i++) {
      struct moments m = get_moments(p, i);
      const float *x = p->x + i * p->width + first, *d_y = p->d_y + i * p->width + first;
      vec_prefetch(x + AHEAD * p->width, n);
      vec_prefetch(d_y + AHEAD * p->width, n);
      for (int64_t j = 0; j < n; j += VEC) {
        vec g = vec_load_part(d_y + j, n - j);
        d_weight[j / VEC] += (vec_load_part(x + j, n - j) - m.mean) * m.rstd * g;
        d_bias[j / VEC] += g;
      }
    }
    add_columns(p->d_weight + first, d_weight, n);
    if (p->d_bias) add_columns(p->d_bias + first, d_bias, n);
  }
}

void norm_weight_cpu(struct pool *pool, bool layer_norm, int64_t rows, int64_t width, const float *x,
                     const float *stats, const float *d_y, float *d_weight, float *d_bias) {
  struct norm p = {.layer_norm = layer_norm,
                   .rows = rows,
                   .width = width,
                   .x = x,
                   .stats = stats,
                   .d_y = d_y,
                   .d_weight = d_weight,
                   .d_bias = d_bias};
  pool_run(pool, (width + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS, weight_columns, &p);
}
