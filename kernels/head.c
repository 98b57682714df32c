/* The vocabulary projection with cross entropy, a chunk of tokens at a time: the chunk's logits are made in scratch,
 * turned into their own gradient in place, and used up by two products.
 */
#include "kernels.h"

#include "base/pool.h"
#include "vec.h"

/* Tokens of a chunk: 256, fewer where the vocabulary is so large that its logits would take more than 64 MiB. */
enum { CHUNK_TOKENS = 256, CHUNK_FLOATS = 1 << 24, PIECE = 1024, NO_LABEL = -100 };

struct head {
  int64_t vocab;
  const int32_t *labels; /* of the chunk */
  float scale;
  bool gradient;
  float *logits, *loss;
};

static int64_t get_chunk(int64_t rows, int64_t vocab) {
  int64_t chunk = CHUNK_FLOATS / vocab / 16 * 16;
  chunk = chunk < 16 ? 16 : chunk > CHUNK_TOKENS ? CHUNK_TOKENS : chunk;
  return rows < chunk ? rows : chunk;
}

/* Logits, and the losses of a chunk behind them. */
int64_t head_get_scratch(int64_t rows, int64_t vocab) { return get_chunk(rows, vocab) * (vocab + 1); }

static float find_top(const float *x, int64_t n) {
  vec top = vec_set(x[0]);
  int64_t j = 0;
  for (; j + VEC <= n; j += VEC) top = vec_max(top, vec_load(x + j));
  float highest = vec_top(top);
  for (; j < n; j++) highest = x[j] > highest ? x[j] : highest;
  return highest;
}

/* Exponentials below `top`, in place where they are kept; returns their sum, added in pieces so that it stays exact. */
static double exponentiate(float *x, int64_t n, float top, bool keep) {
  double sum = 0;
  for (int64_t piece = 0; piece < n; piece += PIECE) {
    int64_t end = piece + PIECE < n ? piece + PIECE : n;
    vec part = {0};
    for (int64_t j = piece; j < end; j += VEC) {
      vec e = vec_exp(vec_load_part(x + j, n - j) - top);
      if (n - j < VEC)
        for (int64_t l = n - j; l < VEC; l++) e[l] = 0.0f;
      part += e;
      if (keep) vec_store_part(x + j, e, n - j);
    }
    sum += (double)vec_sum(part);
  }
  return sum;
}

static void finish_token(void *context, int64_t i) {
  const struct head *p = context;
  float *x = p->logits + i * p->vocab;
  int64_t n = p->vocab;
  int32_t label = p->labels[i];
  p->loss[i] = 0.0f;
  if (label == NO_LABEL) {
    if (p->gradient) memset(x, 0, (size_t)n * sizeof *x);
    return;
  }
  float top = find_top(x, n), target = x[label];
  double sum = exponentiate(x, n, top, p->gradient);
  p->loss[i] = (float)(log(sum) + ((double)top - (double)target));
  if (!p->gradient) return;
  float factor = (float)((double)p->scale / sum);
  for (int64_t j = 0; j < n; j += VEC) vec_store_part(x + j, vec_load_part(x + j, n - j) * factor, n - j);
  x[label] -= p->scale;
}

static bool has_label(const int32_t *labels, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (labels[i] != NO_LABEL) return true;
  return false;
}

static void skip_chunk(int64_t n, int64_t width, float *d_x, float *token_loss) {
  if (d_x) memset(d_x, 0, (size_t)(n * width) * sizeof *d_x);
  if (token_loss) memset(token_loss, 0, (size_t)n * sizeof *token_loss);
}

double head_forward_cpu(struct pool *pool, int64_t rows, int64_t width, int64_t vocab, const float *x,
                        const float *table, const int32_t *labels, float scale, float *d_x, float *d_table,
                        float *scratch, float *token_loss) {
  int64_t chunk = get_chunk(rows, vocab);
  struct head p = {
      .vocab = vocab, .scale = scale, .gradient = d_x != NULL, .logits = scratch, .loss = scratch + chunk * vocab};
  double sum = 0;
  for (int64_t first = 0; first < rows; first += chunk) {
    int64_t n = rows - first < chunk ? rows - first : chunk;
    const float *x_chunk = x + first * width;
    float *d_x_chunk = d_x ? d_x + first * width : NULL, *loss = token_loss ? token_loss + first : NULL;
    p.labels = labels + first;
    if (!has_label(p.labels, n)) {
      skip_chunk(n, width, d_x_chunk, loss);
      continue;
    }
    matmul_cpu(pool, false, true, n, vocab, width, x_chunk, width, table, width, 0.0f, p.logits, vocab);
    pool_run(pool, n, finish_token, &p);
    for (int64_t i = 0; i < n; i++) sum += (double)p.loss[i];
    if (loss) memcpy(loss, p.loss, (size_t)n * sizeof *loss);
    if (!d_x) continue;
    matmul_cpu(pool, false, false, n, width, vocab, p.logits, vocab, table, width, 0.0f, d_x_chunk, width);
    matmul_cpu(pool, true, false, vocab, width, n, p.logits, vocab, x_chunk, width, 1.0f, d_table, width);
  }
  return sum;
}
