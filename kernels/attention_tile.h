/* Products of small tiles that lie in the first caches, for attention. Tiles are row-major with rows of whole groups of
 * TILE_COLUMNS floats (zeros behind the end), and of whole groups of TILE_ROWS rows.
 */
#ifndef PENSTOCK_KERNELS_ATTENTION_TILE_H
#define PENSTOCK_KERNELS_ATTENTION_TILE_H

#include "vec.h"

/* TILE_ROWS by two vectors of sums, and what they are made of, fill the registers: 32 of them where vectors are of 16.
 */
enum { TILE_ROWS = VEC / 2, TILE_COLUMNS = 2 * VEC };

/* Tokens lie pages apart, so that rows to be packed are asked for this early. */
enum { TILE_AHEAD = 8 };

static inline int64_t tile_round(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static inline int64_t tile_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tile_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* The parts of a product that the causal mask leaves: query i may see key j if j <= i + shift (shift, a multiple of
 * TILE_ROWS, is the distance of the tiles' first positions). */
enum tile_part {
  TILE_SCORES,   /* rows are queries, columns keys: only what is visible is needed */
  TILE_SCORES_T, /* rows are keys, columns queries: the same */
  TILE_BY_KEY,   /* rows are queries, the sum is over keys: the rest of A is zero */
  TILE_BY_QUERY, /* rows are keys, the sum is over queries: the rest of A is zero */
};

/* Lines that are needed after a product and asked for while it runs, some rows a step: a core can wait for few at once.
 * Each of n arrays has `left` more rows of `width` floats. */
enum { TILE_ARRAYS = 8, TILE_ROWS_A_STEP = 2 };
struct tile_ahead {
  int n;
  const float *rows[TILE_ARRAYS];
  int64_t ld[TILE_ARRAYS];
  int64_t left, width;
};

static inline void tile_ask(struct tile_ahead *ahead) {
  for (int step = 0; step < TILE_ROWS_A_STEP && ahead->left; step++, ahead->left--)
    for (int i = 0; i < ahead->n; i++) {
      vec_prefetch(ahead->rows[i], ahead->width);
      ahead->rows[i] += ahead->ld[i];
    }
}

/* C = A B + beta C; A's element (i, k) is at a[i * a_row + k * a_column]. Rows of queries that see no key are left as
 * they are. `ahead` may be NULL. */
struct tile_product {
  enum tile_part part;
  int64_t shift;
  int64_t rows, columns, depth;
  const float *a;
  int64_t a_row, a_column;
  const float *b;
  int64_t ldb;
  float *c;
  int64_t ldc;
  int beta;
  struct tile_ahead *ahead;
};

/* TILE_ROWS rows by two vectors of C, over k in [k, end). */
static inline void tile_block(const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t ldb, int64_t k,
                              int64_t end, float *c, int64_t ldc, int beta) {
  vec left[TILE_ROWS], right[TILE_ROWS];
#pragma GCC unroll 8
  for (int i = 0; i < TILE_ROWS; i++) {
    left[i] = beta ? vec_load(c + i * ldc) : vec_set(0.0f);
    right[i] = beta ? vec_load(c + i * ldc + VEC) : vec_set(0.0f);
  }
  for (; k < end; k++) {
    vec b0 = vec_load(b + k * ldb), b1 = vec_load(b + k * ldb + VEC);
#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++) {
      vec factor = vec_set(a[i * a_row + k * a_column]);
      left[i] += factor * b0;
      right[i] += factor * b1;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < TILE_ROWS; i++) {
    vec_store(c + i * ldc, left[i]);
    vec_store(c + i * ldc + VEC, right[i]);
  }
}

static inline void tile_multiply(struct tile_product p) {
  for (int64_t i = 0; i < p.rows; i += TILE_ROWS) {
    int64_t column = 0, columns = p.columns, first = 0, end = p.depth, seen = tile_max(0, i + TILE_ROWS + p.shift);
    if (p.ahead) tile_ask(p.ahead);
    if (!seen && (p.part == TILE_SCORES || p.part == TILE_BY_KEY)) continue;
    if (p.part == TILE_SCORES_T) column = tile_max(0, i - p.shift) / TILE_COLUMNS * TILE_COLUMNS;
    if (p.part == TILE_SCORES) columns = tile_min(columns, tile_round(seen, TILE_COLUMNS));
    if (p.part == TILE_BY_KEY) end = tile_min(end, seen);
    if (p.part == TILE_BY_QUERY) first = tile_max(0, i - p.shift);
    for (int64_t j = column; j < columns; j += TILE_COLUMNS)
      tile_block(p.a + i * p.a_row, p.a_row, p.a_column, p.b + j, p.ldb, first, end, p.c + i * p.ldc + j, p.ldc,
                 p.beta);
  }
}

/* Copies n rows of `width` floats, `ld` apart, into rows of tile_width, and clears the rest of the tile: columns from
 * width on, rows from n to a whole group. */
static inline void tile_pack(float *tile, int64_t tile_width, const float *x, int64_t ld, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; i++, tile += tile_width, x += ld) {
    vec_prefetch(x + TILE_AHEAD * ld, width);
    int64_t j = 0;
    for (; j + VEC <= width; j += VEC) vec_store(tile + j, vec_load(x + j));
    for (; j < tile_width; j += VEC) vec_store(tile + j, j < width ? vec_load_part(x + j, width - j) : vec_set(0.0f));
  }
  memset(tile, 0, (size_t)((tile_round(n, TILE_ROWS) - n) * tile_width) * sizeof *tile);
}

/* n rows from column j on, VEC by VEC, into columns of a tile whose rows are tile_ld apart; zeros for rows from n on.
 */
static inline void tile_turn(float *tile, int64_t tile_ld, const float *x, int64_t ld, int64_t n, int64_t width,
                             float scale) {
  vec block[VEC];
  for (int64_t i = 0; i < VEC; i++) block[i] = i < n ? vec_load_part(x + i * ld, width) * scale : vec_set(0.0f);
  vec_transpose(block);
  for (int64_t j = 0; j < VEC && j < width; j++) vec_store(tile + j * tile_ld, block[j]);
}

/* Transposes n rows and multiplies by `scale`: column i of a tile [width][tile_ld] is row i of x; columns from n to a
 * whole group are cleared. */
static inline void tile_pack_transposed(float *tile, int64_t tile_ld, const float *x, int64_t ld, int64_t n,
                                        int64_t width, float scale) {
  for (int64_t i = 0; i < tile_round(n, TILE_COLUMNS); i += VEC) {
    for (int64_t k = i + VEC; k < i + 2 * VEC && k < n; k++) vec_prefetch(x + k * ld, width);
    for (int64_t j = 0; j < width; j += VEC)
      tile_turn(tile + j * tile_ld + i, tile_ld, x + i * ld + j, ld, n - i, width - j, scale);
  }
}

#endif
