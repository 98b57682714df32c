/* Attention forward: a task is one head's block of queries, which meets the blocks of keys in turn with a running
 * maximum and sum.
 */
#include "kernels.h"

#include "attention_tile.h"
#include "base/pool.h"

enum { BLOCK_QUERIES = 128 };

struct forward {
  const struct attention_shape *shape;
  const float *qkv;
  float *out, *lse;
  int64_t ld, blocks; /* floats of a token in qkv; blocks of queries in a row */
};

/* A block of queries at work, tiles of which are on the task's stack. */
struct block {
  int64_t first, n; /* position of the first query, real queries */
  int64_t dim, tile_dim;
  float *q, *o, *scores; /* [queries][tile_dim], the same, [queries][TILE_KEYS] */
  float top[BLOCK_QUERIES], sum[BLOCK_QUERIES];
};

/* Turns the `seen` scores of one query into exponentials below the new maximum, zeros behind them to a whole vector. */
static void exponentiate_row(struct block *b, int64_t i, int64_t seen) {
  float *scores = b->scores + i * TILE_KEYS;
  vec tops = vec_set(b->top[i]);
  for (int64_t j = 0; j < seen; j += VEC) {
    vec x = vec_load(scores + j);
    for (int64_t l = seen - j; l < VEC; l++) x[l] = scores[j];
    tops = vec_max(tops, x);
  }
  float top = vec_top(tops);
  vec sum = {0};
  for (int64_t j = 0; j < seen; j += VEC) {
    vec e = tile_cut(vec_exp(vec_load(scores + j) - top), seen - j);
    sum += e;
    vec_store(scores + j, e);
  }
  if (top > b->top[i]) {
    vec shrink = vec_exp(vec_set(b->top[i] - top));
    float *o = b->o + i * b->tile_dim;
    for (int64_t j = 0; j < b->tile_dim; j += VEC) vec_store(o + j, vec_load(o + j) * shrink);
    b->sum[i] *= shrink[0];
    b->top[i] = top;
  }
  b->sum[i] += vec_sum(sum);
}

/* One block of keys. */
static void meet_keys(struct block *b, const float *keys, const float *values, int64_t ld, int64_t first, int64_t n) {
  float key_tile[b->dim * TILE_KEYS] __attribute__((aligned(64)));
  float value_tile[b->tile_dim * TILE_KEYS] __attribute__((aligned(64)));
  tile_pack_transposed(key_tile, keys, ld, n, b->dim);
  tile_pack(value_tile, b->tile_dim, values, ld, n, b->dim, 1.0f);
  int64_t shift = b->first - first, rows = tile_round(b->n, TILE_ROWS);
  tile_multiply((struct tile_product){.part = TILE_SCORES,
                                      .shift = shift,
                                      .rows = rows,
                                      .columns = tile_round(n, TILE_COLUMNS),
                                      .depth = b->dim,
                                      .a = b->q,
                                      .a_row = b->tile_dim,
                                      .a_column = 1,
                                      .b = key_tile,
                                      .ldb = TILE_KEYS,
                                      .c = b->scores,
                                      .ldc = TILE_KEYS});
  for (int64_t i = tile_max(0, -shift); i < b->n; i++) exponentiate_row(b, i, tile_min(n, i + shift + 1));
  tile_multiply((struct tile_product){.part = TILE_BY_KEY,
                                      .shift = shift,
                                      .rows = rows,
                                      .columns = b->tile_dim,
                                      .depth = n,
                                      .a = b->scores,
                                      .a_row = TILE_KEYS,
                                      .a_column = 1,
                                      .b = value_tile,
                                      .ldb = b->tile_dim,
                                      .c = b->o,
                                      .ldc = b->tile_dim,
                                      .beta = 1});
}

static void write_block(const struct block *b, float *out, int64_t ld, float *lse, int64_t lse_ld) {
  for (int64_t i = 0; i < b->n; i++) {
    float factor = 1.0f / b->sum[i];
    for (int64_t j = 0; j < b->dim; j += VEC)
      vec_store_part(out + i * ld + j, vec_load(b->o + i * b->tile_dim + j) * factor, b->dim - j);
    lse[i * lse_ld] = b->top[i] + logf(b->sum[i]);
  }
}

static void clear_padding(float *out, int64_t ld, int64_t dim, float *lse, int64_t lse_ld, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < dim; j++) out[i * ld + j] = 0.0f;
    lse[i * lse_ld] = 0.0f;
  }
}

static void attend_block(void *context, int64_t task) {
  const struct forward *p = context;
  const struct attention_shape *s = p->shape;
  int64_t heads = s->rows * s->n_heads, dim = s->head_dim;
  int64_t row = task % heads / s->n_heads, head = task % s->n_heads;
  int64_t first = (p->blocks - 1 - task / heads) * BLOCK_QUERIES; /* the longest first */
  int64_t end = tile_min(first + BLOCK_QUERIES, s->length), stop = tile_max(first, tile_min(end, s->lengths[row]));
  float *out = p->out + (row * s->length * s->n_heads + head) * dim;
  float *lse = p->lse + row * s->length * s->n_heads + head;
  int64_t out_ld = s->n_heads * dim;
  clear_padding(out + stop * out_ld, out_ld, dim, lse + stop * s->n_heads, s->n_heads, end - stop);
  if (stop == first) return;

  struct block b = {.first = first, .n = stop - first, .dim = dim, .tile_dim = tile_round(dim, TILE_COLUMNS)};
  int64_t rows = tile_round(b.n, TILE_ROWS);
  float q[rows * b.tile_dim] __attribute__((aligned(64)));
  float o[rows * b.tile_dim] __attribute__((aligned(64)));
  float scores[rows * TILE_KEYS] __attribute__((aligned(64)));
  b.q = q, b.o = o, b.scores = scores;
  memset(o, 0, sizeof o);
  for (int64_t i = 0; i < b.n; i++) b.top[i] = -INFINITY;
  const float *token = p->qkv + row * s->length * p->ld;
  tile_pack(q, b.tile_dim, token + first * p->ld + head * dim, p->ld, b.n, dim, 1.0f / sqrtf((float)dim));
  const float *keys = token + (s->n_heads + head / (s->n_heads / s->n_kv_heads)) * dim;
  const float *values = keys + s->n_kv_heads * dim;
  for (int64_t key = 0; key < stop; key += TILE_KEYS)
    meet_keys(&b, keys + key * p->ld, values + key * p->ld, p->ld, key, tile_min(TILE_KEYS, stop - key));
  write_block(&b, out + first * out_ld, out_ld, lse + first * s->n_heads, s->n_heads);
}

void attention_forward_cpu(struct pool *pool, const struct attention_shape *shape, const float *qkv, float *out,
                           float *lse) {
  struct forward p = {.shape = shape,
                      .qkv = qkv,
                      .out = out,
                      .lse = lse,
                      .ld = (shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim,
                      .blocks = (shape->length + BLOCK_QUERIES - 1) / BLOCK_QUERIES};
  pool_run(pool, p.blocks * shape->rows * shape->n_heads, attend_block, &p);
}
