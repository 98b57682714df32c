/* The sums beside a product: the residual and bias that it is added to, and the bias's gradient. */
#include "kernels.h"

#include "base/pool.h"
#include "vec.h"

enum { BLOCK_ROWS = 32, BLOCK_COLUMNS = 64, AHEAD = 8 };

struct bias {
  int64_t rows, n;
  const float *residual, *bias, *d_y;
  float *y, *d_bias;
};

static void prepare_rows(void *context, int64_t task) {
  const struct bias *b = context;
  int64_t end = (task + 1) * BLOCK_ROWS < b->rows ? (task + 1) * BLOCK_ROWS : b->rows;
  for (int64_t row = task * BLOCK_ROWS; row < end; row++) {
    const float *residual = b->residual ? b->residual + row * b->n : NULL;
    float *y = b->y + row * b->n;
    for (int64_t j = 0; j < b->n; j += VEC) {
      vec sum = residual ? vec_load_part(residual + j, b->n - j) : vec_set(0.0f);
      if (b->bias) sum += vec_load_part(b->bias + j, b->n - j);
      vec_store_part(y + j, sum, b->n - j);
    }
  }
}

void matmul_prepare_cpu(struct pool *pool, int64_t rows, int64_t n, const float *residual, const float *bias,
                        float *y) {
  struct bias b = {.rows = rows, .n = n, .residual = residual, .bias = bias, .y = y};
  pool_run(pool, (rows + BLOCK_ROWS - 1) / BLOCK_ROWS, prepare_rows, &b);
}

/* A task owns some columns and walks down all rows, a block of rows at a time, so that sums stay short. */
static void sum_columns(void *context, int64_t task) {
  const struct bias *b = context;
  int64_t first = task * BLOCK_COLUMNS;
  int64_t n = b->n - first < BLOCK_COLUMNS ? b->n - first : BLOCK_COLUMNS;
  for (int64_t row = 0; row < b->rows; row += BLOCK_ROWS) {
    int64_t end = row + BLOCK_ROWS < b->rows ? row + BLOCK_ROWS : b->rows;
    vec sum[BLOCK_COLUMNS / VEC] = {0};
    for (int64_t i = row; i < end; i++) {
      const float *line = b->d_y + i * b->n + first;
      vec_prefetch(line + AHEAD * b->n, n);
      for (int64_t j = 0; j < n; j += VEC) sum[j / VEC] += vec_load_part(line + j, n - j);
    }
    float *total = b->d_bias + first;
    for (int64_t j = 0; j < n; j += VEC)
      vec_store_part(total + j, vec_load_part(total + j, n - j) + sum[j / VEC], n - j);
  }
}

void matmul_bias_weight_cpu(struct pool *pool, int64_t rows, int64_t n, const float *d_y, float *d_bias) {
  struct bias b = {.rows = rows, .n = n, .d_y = d_y, .d_bias = d_bias};
  pool_run(pool, (n + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS, sum_columns, &b);
}
