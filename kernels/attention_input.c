/* Attention backward: a task is one head of keys and values of one row. It walks over blocks of keys and, for each,
 * over the queries that see them, of all heads that share the keys: the sums for keys and values stay in tiles, those
 * for queries grow in d_qkv, in the order of the keys.
 */
#include "kernels.h"

#include "attention_tile.h"
#include "base/pool.h"

enum { BLOCK_QUERIES = 64, BLOCK_KEYS = 128 };

struct input {
  const struct attention_shape *shape;
  const float *qkv, *out, *lse, *d_out;
  float *d_qkv, *delta;
  int64_t ld; /* floats of a token in qkv */
};

/* A block of keys at work. */
struct key_block {
  int64_t first, n, dim, tile_dim;
  const float *keys, *keys_t, *values_t; /* [BLOCK_KEYS][tile_dim], and transposed [dim][BLOCK_KEYS] */
  float *d_keys, *d_values;              /* [BLOCK_KEYS][tile_dim] */
};

/* A block of queries of one head, in memory. */
struct query_block {
  int64_t first, n;
  const float *q, *out, *d_out; /* of its first token; tokens are ld and n_heads * head_dim apart */
  const float *lse;
  float *delta; /* as lse, n_heads apart */
  float *d_q;
};

/* delta = out . d_out of each query, the mean gradient that softmax takes away. */
static void sum_deltas(const struct query_block *q, int64_t dim, int64_t n_heads) {
  for (int64_t i = 0; i < q->n; i++) {
    const float *out = q->out + i * n_heads * dim, *d_out = q->d_out + i * n_heads * dim;
    vec sum = {0};
    for (int64_t j = 0; j < dim; j += VEC) sum += vec_load_part(out + j, dim - j) * vec_load_part(d_out + j, dim - j);
    q->delta[i * n_heads] = vec_sum(sum);
  }
}

/* Scores of one query become probabilities, and `d` (their gradient so far) that of the scores; zeros behind `seen`. */
static void differentiate_row(float *scores, float *d, int64_t seen, float scale, float lse, float delta) {
  for (int64_t j = 0; j < seen; j += VEC) {
    vec e = vec_cut(vec_exp(vec_load(scores + j) * scale - lse), seen - j);
    vec_store(scores + j, e);
    vec_store(d + j, vec_cut((vec_load(d + j) - delta) * e * scale, seen - j));
  }
}

/* Adds the block's gradient of queries to memory, or writes it when these are its first keys. */
static void give_queries(const float *tile, int64_t tile_dim, const struct query_block *q, int64_t ld, int64_t dim,
                         bool first) {
  for (int64_t i = 0; i < q->n; i++)
    for (int64_t j = 0; j < dim; j += VEC) {
      float *d_q = q->d_q + i * ld + j;
      vec sum = vec_load(tile + i * tile_dim + j);
      if (!first) sum += vec_load_part(d_q, dim - j);
      vec_store_part(d_q, sum, dim - j);
    }
}

static void meet_queries(const struct input *p, const struct key_block *k, const struct query_block *q,
                         struct tile_ahead *ahead) {
  int64_t n_heads = p->shape->n_heads, dim = k->dim, width = k->tile_dim, shift = q->first - k->first;
  int64_t rows = tile_round(q->n, TILE_ROWS);
  float scale = 1.0f / sqrtf((float)dim);
  float q_tile[BLOCK_QUERIES * width] __attribute__((aligned(64)));
  float d_out[BLOCK_QUERIES * width] __attribute__((aligned(64)));
  float d_q[BLOCK_QUERIES * width] __attribute__((aligned(64)));
  float scores[BLOCK_QUERIES * BLOCK_KEYS] __attribute__((aligned(64)));
  float d_scores[BLOCK_QUERIES * BLOCK_KEYS] __attribute__((aligned(64)));
  for (int64_t i = 0; k->first && i < q->n; i++) vec_prefetch(q->d_q + i * p->ld, dim); /* for the end */
  tile_pack(q_tile, width, q->q, p->ld, q->n, dim);
  tile_pack(d_out, width, q->d_out, n_heads * dim, q->n, dim);

  struct tile_product forward = {.part = TILE_SCORES,
                                 .ahead = ahead,
                                 .shift = shift,
                                 .rows = rows,
                                 .columns = tile_round(k->n, TILE_COLUMNS),
                                 .depth = dim,
                                 .a = q_tile,
                                 .a_row = width,
                                 .a_column = 1,
                                 .b = k->keys_t,
                                 .ldb = BLOCK_KEYS,
                                 .c = scores,
                                 .ldc = BLOCK_KEYS};
  tile_multiply(forward);
  forward.a = d_out, forward.b = k->values_t, forward.c = d_scores;
  tile_multiply(forward);
  for (int64_t i = 0; i < q->n; i++)
    differentiate_row(scores + i * BLOCK_KEYS, d_scores + i * BLOCK_KEYS, tile_min(k->n, i + shift + 1), scale,
                      q->lse[i * n_heads], q->delta[i * n_heads]);

  struct tile_product backward = {.part = TILE_BY_QUERY,
                                  .ahead = ahead,
                                  .shift = shift,
                                  .rows = tile_round(k->n, TILE_ROWS),
                                  .columns = width,
                                  .depth = q->n,
                                  .a = scores,
                                  .a_row = 1,
                                  .a_column = BLOCK_KEYS,
                                  .b = d_out,
                                  .ldb = width,
                                  .c = k->d_values,
                                  .ldc = width,
                                  .beta = 1};
  tile_multiply(backward);
  backward.a = d_scores, backward.b = q_tile, backward.c = k->d_keys;
  tile_multiply(backward);
  tile_multiply((struct tile_product){.part = TILE_BY_KEY,
                                      .ahead = ahead,
                                      .shift = shift,
                                      .rows = rows,
                                      .columns = width,
                                      .depth = k->n,
                                      .a = d_scores,
                                      .a_row = BLOCK_KEYS,
                                      .a_column = 1,
                                      .b = k->keys,
                                      .ldb = width,
                                      .c = d_q,
                                      .ldc = width});
  give_queries(d_q, width, q, p->ld, dim, k->first == 0);
}

/* Returns the lines that the next block of queries will read and write: its own, and the keys and values of the same
 * tokens. These lines are far apart, and no hardware foresees them. */
static struct tile_ahead look_ahead(const struct input *p, const struct query_block *q, int64_t head, int64_t end) {
  const struct attention_shape *s = p->shape;
  int64_t group = s->n_heads / s->n_kv_heads, dim = s->head_dim, out_ld = s->n_heads * dim;
  int64_t next = BLOCK_QUERIES * p->ld, key = next + (s->n_heads + head / group - head) * dim;
  int64_t value = key + s->n_kv_heads * dim, left = end - q->first - BLOCK_QUERIES;
  return (struct tile_ahead){.n = head % group ? 4 : 8, /* the group's first head asks for keys */
                             .rows = {q->q + next, q->d_q + next, q->out + BLOCK_QUERIES * out_ld,
                                      q->d_out + BLOCK_QUERIES * out_ld, q->q + key, q->q + value, q->d_q + key,
                                      q->d_q + value},
                             .ld = {p->ld, p->ld, out_ld, out_ld, p->ld, p->ld, p->ld, p->ld},
                             .left = tile_max(0, tile_min(BLOCK_QUERIES, left)),
                             .width = dim};
}

/* All queries that see one block of keys: positions from its own to `end`, of the heads of its group. The first keys
 * meet all queries, which are then in no cache. */
static void meet_group(const struct input *p, int64_t row, int64_t kv_head, int64_t end, const struct key_block *k) {
  const struct attention_shape *s = p->shape;
  int64_t group = s->n_heads / s->n_kv_heads;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
    for (int64_t first = k->first; first < end; first += BLOCK_QUERIES) {
      int64_t token = row * s->length + first, in_out = (token * s->n_heads + head) * s->head_dim;
      int64_t in_qkv = token * p->ld + head * s->head_dim;
      struct query_block q = {.first = first,
                              .n = tile_min(BLOCK_QUERIES, end - first),
                              .q = p->qkv + in_qkv,
                              .out = p->out + in_out,
                              .d_out = p->d_out + in_out,
                              .lse = p->lse + token * s->n_heads + head,
                              .delta = p->delta + token * s->n_heads + head,
                              .d_q = p->d_qkv + in_qkv};
      struct tile_ahead ahead = {0};
      if (k->first == 0) {
        sum_deltas(&q, s->head_dim, s->n_heads);
        ahead = look_ahead(p, &q, head, end);
      }
      meet_queries(p, k, &q, &ahead);
    }
}

static void meet_keys(const struct input *p, int64_t row, int64_t kv_head, int64_t end, int64_t first) {
  const struct attention_shape *s = p->shape;
  int64_t dim = s->head_dim, width = tile_round(dim, TILE_COLUMNS);
  float keys[BLOCK_KEYS * width] __attribute__((aligned(64)));
  float keys_t[dim * BLOCK_KEYS] __attribute__((aligned(64)));
  float values_t[dim * BLOCK_KEYS] __attribute__((aligned(64)));
  float d_keys[BLOCK_KEYS * width] __attribute__((aligned(64)));
  float d_values[BLOCK_KEYS * width] __attribute__((aligned(64)));
  struct key_block k = {.first = first,
                        .n = tile_min(BLOCK_KEYS, end - first),
                        .dim = dim,
                        .tile_dim = width,
                        .keys = keys,
                        .keys_t = keys_t,
                        .values_t = values_t,
                        .d_keys = d_keys,
                        .d_values = d_values};
  int64_t offset = (row * s->length + first) * p->ld + (s->n_heads + kv_head) * dim;
  const float *memory = p->qkv + offset;
  tile_pack(keys, width, memory, p->ld, k.n, dim);
  tile_pack_transposed(keys_t, BLOCK_KEYS, memory, p->ld, k.n, dim, 1.0f);
  tile_pack_transposed(values_t, BLOCK_KEYS, memory + s->n_kv_heads * dim, p->ld, k.n, dim, 1.0f);
  memset(d_keys, 0, sizeof d_keys);
  memset(d_values, 0, sizeof d_values);
  meet_group(p, row, kv_head, end, &k);
  for (int64_t i = 0; i < k.n; i++) {
    float *d_key = p->d_qkv + offset + i * p->ld, *d_value = d_key + s->n_kv_heads * dim;
    for (int64_t j = 0; j < dim; j += VEC) {
      vec_store_part(d_key + j, vec_load(d_keys + i * width + j), dim - j);
      vec_store_part(d_value + j, vec_load(d_values + i * width + j), dim - j);
    }
  }
}

static void clear_padding(const struct input *p, int64_t row, int64_t kv_head) {
  const struct attention_shape *s = p->shape;
  int64_t group = s->n_heads / s->n_kv_heads, dim = s->head_dim;
  for (int64_t i = s->lengths[row]; i < s->length; i++) {
    float *token = p->d_qkv + (row * s->length + i) * p->ld;
    memset(p->delta + (row * s->length + i) * s->n_heads + kv_head * group, 0, (size_t)group * sizeof *p->delta);
    memset(token + kv_head * group * dim, 0, (size_t)(group * dim) * sizeof *token);
    memset(token + (s->n_heads + kv_head) * dim, 0, (size_t)dim * sizeof *token);
    memset(token + (s->n_heads + s->n_kv_heads + kv_head) * dim, 0, (size_t)dim * sizeof *token);
  }
}

static void differentiate_head(void *context, int64_t task) {
  const struct input *p = context;
  int64_t row = task / p->shape->n_kv_heads, kv_head = task % p->shape->n_kv_heads;
  int64_t end = p->shape->lengths[row];
  for (int64_t first = 0; first < end; first += BLOCK_KEYS) meet_keys(p, row, kv_head, end, first);
  clear_padding(p, row, kv_head);
}

void attention_input_cpu(struct pool *pool, const struct attention_shape *shape, const float *qkv, const float *out,
                         const float *lse, const float *d_out, float *d_qkv, float *scratch) {
  struct input p = {.shape = shape,
                    .qkv = qkv,
                    .out = out,
                    .lse = lse,
                    .d_out = d_out,
                    .d_qkv = d_qkv,
                    .delta = scratch,
                    .ld = (shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim};
  pool_run(pool, shape->rows * shape->n_kv_heads, differentiate_head, &p);
}
