/* Rotary positions. A task is a few positions: their angles are made once, for all rows and heads. */
#include "kernels.h"

#include "base/pool.h"
#include "vec.h"

enum { BLOCK_POSITIONS = 4, BLOCK_PAIRS = 64 };

struct rope {
  int64_t rows, length, n_heads, head_dim, ld;
  double theta;
  bool inverse;
  float *x;
};

/* Turns the pairs (first[i], second[i]) of one head. */
static void rotate(float *first, float *second, const float *cosine, const float *sine, int64_t n) {
  for (int64_t i = 0; i < n; i += VEC) {
    vec a = vec_load_part(first + i, n - i), b = vec_load_part(second + i, n - i);
    vec c = vec_load(cosine + i), s = vec_load(sine + i);
    vec_store_part(first + i, a * c - b * s, n - i);
    vec_store_part(second + i, b * c + a * s, n - i);
  }
}

static void rotate_position(const struct rope *p, int64_t position) {
  int64_t half = p->head_dim / 2;
  for (int64_t pair = 0; pair < half; pair += BLOCK_PAIRS) {
    int64_t n = half - pair < BLOCK_PAIRS ? half - pair : BLOCK_PAIRS;
    float cosine[BLOCK_PAIRS + VEC] = {0}, sine[BLOCK_PAIRS + VEC] = {0};
    for (int64_t i = 0; i < n; i++) {
      double angle = (double)position * pow(p->theta, -2.0 * (double)(pair + i) / (double)p->head_dim);
      cosine[i] = (float)cos(angle);
      sine[i] = (float)(p->inverse ? -sin(angle) : sin(angle));
    }
    for (int64_t row = 0; row < p->rows; row++) {
      float *token = p->x + (row * p->length + position) * p->ld;
      for (int64_t head = 0; head < p->n_heads; head++) {
        float *start = token + head * p->head_dim + pair;
        rotate(start, start + half, cosine, sine, n);
      }
    }
  }
}

static void rotate_positions(void *context, int64_t task) {
  const struct rope *p = context;
  int64_t first = task * BLOCK_POSITIONS;
  int64_t end = first + BLOCK_POSITIONS < p->length ? first + BLOCK_POSITIONS : p->length;
  for (int64_t position = first; position < end; position++) rotate_position(p, position);
}

void rope_cpu(struct pool *pool, int64_t rows, int64_t length, int64_t n_heads, int64_t head_dim, int64_t ld,
              double theta, bool inverse, float *x) {
  struct rope p = {.rows = rows,
                   .length = length,
                   .n_heads = n_heads,
                   .head_dim = head_dim,
                   .ld = ld,
                   .theta = theta,
                   .inverse = inverse,
                   .x = x};
  pool_run(pool, (length + BLOCK_POSITIONS - 1) / BLOCK_POSITIONS, rotate_positions, &p);
}
