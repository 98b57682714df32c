/* Attention forward: a task is one head's block of queries, which meets the blocks of keys in turn with a running
 * maximum and sum. Scores lie key by key, so that a vector holds one key's scores of neighbouring queries and their
 * maxima and sums need no step across a vector.
 */
#include "kernels.h"

#include "attention_tile.h"
#include "base/pool.h"

enum { BLOCK_QUERIES = 128, BLOCK_KEYS = 64 };

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
  float *q, *o, *scores; /* [dim][BLOCK_QUERIES], [queries][tile_dim], [BLOCK_KEYS][BLOCK_QUERIES] */
  float top[BLOCK_QUERIES], sum[BLOCK_QUERIES], shrink[BLOCK_QUERIES];
};

/* Some independent chains hide the latency of their steps, and short sums are exact ones. */
enum { CHAINS = 4 };

/* Maxima of `n` keys' scores, and `top`; the keys from `seen` on are visible from one element further each. */
static vec find_top(const float *scores, int64_t n, int64_t seen, vec top) {
  vec tops[CHAINS] = {top, top, top, top};
  int64_t whole = tile_min(n, seen) / CHAINS * CHAINS, j = 0;
  for (; j < whole; j += CHAINS)
    for (int64_t l = 0; l < CHAINS; l++) tops[l] = vec_max(tops[l], vec_load(scores + (j + l) * BLOCK_QUERIES));
  for (; j < n; j++) {
    vec hidden = j < seen ? vec_set(0.0f) : vec_cut(vec_set(INFINITY), j + 1 - seen);
    tops[0] = vec_max(tops[0], vec_load(scores + j * BLOCK_QUERIES) - hidden);
  }
  return vec_max(vec_max(tops[0], tops[1]), vec_max(tops[2], tops[3]));
}

/* Turns scores of VEC queries from i on into exponentials below their new maxima, 0 where a key is not visible: element
 * l sees the keys below l + seen. */
static void exponentiate(struct block *b, int64_t i, int64_t n, int64_t seen) {
  float *scores = b->scores + i;
  n = tile_min(n, seen + VEC - 1);
  vec old = vec_load(b->top + i), top = find_top(scores, n, seen, old), sum[CHAINS] = {{0}};
  int64_t whole = tile_min(n, seen) / CHAINS * CHAINS, j = 0;
  for (; j < whole; j += CHAINS)
    for (int64_t l = 0; l < CHAINS; l++) {
      float *x = scores + (j + l) * BLOCK_QUERIES;
      vec e = vec_exp(vec_load(x) - top);
      sum[l] += e;
      vec_store(x, e);
    }
  for (; j < n; j++) {
    float *x = scores + j * BLOCK_QUERIES;
    vec e = vec_exp(vec_load(x) - top);
    if (j >= seen) e -= vec_cut(e, j + 1 - seen);
    sum[0] += e;
    vec_store(x, e);
  }
  vec shrink = vec_exp(old - top);
  vec_store(b->shrink + i, shrink);
  vec_store(b->sum + i, vec_load(b->sum + i) * shrink + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
  vec_store(b->top + i, top);
}

static void shrink_outputs(struct block *b, int64_t first) {
  for (int64_t i = first; i < b->n; i++) {
    float *o = b->o + i * b->tile_dim;
    if (b->shrink[i] == 1.0f) continue;
    for (int64_t j = 0; j < b->tile_dim; j += VEC) vec_store(o + j, vec_load(o + j) * b->shrink[i]);
  }
}

/* One block of keys. */
static void meet_keys(struct block *b, const float *keys, const float *values, int64_t ld, int64_t first, int64_t n) {
  float key_tile[b->tile_dim * BLOCK_KEYS] __attribute__((aligned(64)));
  float value_tile[b->tile_dim * BLOCK_KEYS] __attribute__((aligned(64)));
  tile_pack(key_tile, b->tile_dim, keys, ld, n, b->dim);
  tile_pack(value_tile, b->tile_dim, values, ld, n, b->dim);
  int64_t shift = b->first - first, start = tile_max(0, -shift); /* the first query that sees any of them */
  tile_multiply((struct tile_product){.part = TILE_SCORES_T,
                                      .shift = shift,
                                      .rows = tile_round(n, TILE_ROWS),
                                      .columns = tile_round(b->n, TILE_COLUMNS),
                                      .depth = b->dim,
                                      .a = key_tile,
                                      .a_row = b->tile_dim,
                                      .a_column = 1,
                                      .b = b->q,
                                      .ldb = BLOCK_QUERIES,
                                      .c = b->scores,
                                      .ldc = BLOCK_QUERIES});
  for (int64_t i = start / VEC * VEC; i < b->n; i += VEC) exponentiate(b, i, n, i + shift + 1);
  if (first) shrink_outputs(b, start);
  tile_multiply((struct tile_product){.part = TILE_BY_KEY,
                                      .shift = shift,
                                      .rows = tile_round(b->n, TILE_ROWS),
                                      .columns = b->tile_dim,
                                      .depth = n,
                                      .a = b->scores,
                                      .a_row = 1,
                                      .a_column = BLOCK_QUERIES,
                                      .b = value_tile,
                                      .ldb = b->tile_dim,
                                      .c = b->o,
                                      .ldc = b->tile_dim,
                                      .beta = first > 0});
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
  float q[dim * BLOCK_QUERIES] __attribute__((aligned(64)));
  float o[BLOCK_QUERIES * b.tile_dim] __attribute__((aligned(64)));
  float scores[BLOCK_KEYS * BLOCK_QUERIES] __attribute__((aligned(64)));
  b.q = q, b.o = o, b.scores = scores;
  for (int64_t i = 0; i < BLOCK_QUERIES; i++) b.top[i] = -INFINITY;
  const float *token = p->qkv + row * s->length * p->ld;
  tile_pack_transposed(q, BLOCK_QUERIES, token + first * p->ld + head * dim, p->ld, b.n, dim, 1.0f / sqrtf((float)dim));
  const float *keys = token + (s->n_heads + head / (s->n_heads / s->n_kv_heads)) * dim;
  const float *values = keys + s->n_kv_heads * dim;
  for (int64_t key = 0; key < stop; key += BLOCK_KEYS)
    meet_keys(&b, keys + key * p->ld, values + key * p->ld, p->ld, key, tile_min(BLOCK_KEYS, stop - key));
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
