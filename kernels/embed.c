/* Lookups of token and position. The gradient scatters: a task owns some columns of both tables and adds the tokens in
 * order, so that a token that comes twice is added in one order and by one thread.
 */
#include "kernels.h"

#include "base/pool.h"
#include "vec.h"

enum { BLOCK_TOKENS = 32, BLOCK_COLUMNS = 64 };

struct embed {
  int64_t rows, length, width;
  const int32_t *tokens, *lengths;
  const float *token_table, *position_table, *d_y;
  float *y, *d_token_table, *d_position_table;
};

static void look_up(void *context, int64_t task) {
  const struct embed *p = context;
  int64_t n = p->width, first = task * BLOCK_TOKENS;
  int64_t end = first + BLOCK_TOKENS < p->rows * p->length ? first + BLOCK_TOKENS : p->rows * p->length;
  for (int64_t t = first; t < end; t++) {
    const float *token = p->token_table + p->tokens[t] * n;
    const float *position = p->position_table ? p->position_table + t % p->length * n : NULL;
    for (int64_t j = 0; j < n; j += VEC) {
      vec value = vec_load_part(token + j, n - j);
      if (position) value += vec_load_part(position + j, n - j);
      vec_store_part(p->y + t * n + j, value, n - j);
    }
  }
}

void embed_forward_cpu(struct pool *pool, int64_t rows, int64_t length, int64_t width, const int32_t *tokens,
                       const float *token_table, const float *position_table, float *y) {
  struct embed p = {.rows = rows,
                    .length = length,
                    .width = width,
                    .tokens = tokens,
                    .token_table = token_table,
                    .position_table = position_table,
                    .y = y};
  pool_run(pool, (rows * length + BLOCK_TOKENS - 1) / BLOCK_TOKENS, look_up, &p);
}

static void add_line(float *total, const float *x, int64_t n) {
  for (int64_t j = 0; j < n; j += VEC)
    vec_store_part(total + j, vec_load_part(total + j, n - j) + vec_load_part(x + j, n - j), n - j);
}

static void scatter_columns(void *context, int64_t task) {
  const struct embed *p = context;
  int64_t first = task * BLOCK_COLUMNS;
  int64_t n = p->width - first < BLOCK_COLUMNS ? p->width - first : BLOCK_COLUMNS;
  for (int64_t row = 0; row < p->rows; row++)
    for (int64_t i = 0; i < p->lengths[row]; i++) {
      int64_t t = row * p->length + i;
      const float *d_y = p->d_y + t * p->width + first;
      add_line(p->d_token_table + p->tokens[t] * p->width + first, d_y, n);
      if (p->d_position_table) add_line(p->d_position_table + i * p->width + first, d_y, n);
    }
}

void embed_weight_cpu(struct pool *pool, int64_t rows, int64_t length, int64_t width, const int32_t *tokens,
                      const int32_t *lengths, const float *d_y, float *d_token_table, float *d_position_table) {
  struct embed p = {.rows = rows,
                    .length = length,
                    .width = width,
                    .tokens = tokens,
                    .lengths = lengths,
                    .d_y = d_y,
                    .d_token_table = d_token_table,
                    .d_position_table = d_position_table};
  pool_run(pool, (width + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS, scatter_columns, &p);
}
