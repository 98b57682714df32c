#include "model/op_work.h"

/* Bytes of a number of what is updated. */
static const double FLOAT = sizeof(float);

/* Widths of one op: floats a token that come in and go out. */
struct widths {
  const struct model_config *config;
  const struct op *op;
  double tokens, in, out; /* tokens: padding included */
  double pairs;           /* of attention, but half of the diagonal */
  double word;            /* bytes of a number */
};

static void count_embed(const struct widths *s, struct op_work *work) {
  double tables = s->op->bias >= 0 ? 2 : 1, floats = s->tokens * s->out;
  work[PASS_FORWARD] = (struct op_work){floats * (tables - 1), s->word * floats * (tables + 1)};
  work[PASS_WEIGHT] = (struct op_work){floats * tables, s->word * floats * (1 + 2 * tables)};
}

/* Mean, variance and scaling; the gradient needs two sums more. */
static void count_norm(const struct widths *s, struct op_work *work) {
  double floats = s->tokens * s->in, joins = s->op->residual >= 0;
  work[PASS_FORWARD] = (struct op_work){5 * floats, s->word * 2 * floats};
  work[PASS_INPUT] = (struct op_work){(9 + joins) * floats, s->word * (3 + joins) * floats};
  work[PASS_WEIGHT] = (struct op_work){4 * floats, s->word * 2 * floats};
}

static void count_matmul(const struct widths *s, struct op_work *work) {
  double flops = 2 * s->tokens * s->in * s->out, weights = s->in * s->out;
  double x = s->tokens * s->in, y = s->tokens * s->out, joins = s->op->residual >= 0;
  work[PASS_FORWARD] = (struct op_work){flops, s->word * (x + weights + (1 + joins) * y)};
  work[PASS_INPUT] = (struct op_work){flops, s->word * (x + weights + y)};
  work[PASS_WEIGHT] = (struct op_work){flops, s->word * (x + 2 * weights + y)};
}

/* Queries and keys turn in place. */
static void count_rope(const struct widths *s, struct op_work *work) {
  double floats = s->tokens * (double)((s->config->n_heads + s->config->n_kv_heads) * s->config->head_dim);
  work[PASS_FORWARD] = work[PASS_INPUT] = (struct op_work){3 * floats, s->word * 2 * floats};
}

/* A pair takes an addition and a multiplication for its score and for its value. The published formulas halve the
 * square of a row's length, so half of the diagonal is not counted. */
static void count_attention(const struct widths *s, struct op_work *work) {
  double flops = 4 * s->pairs * s->out;
  work[PASS_FORWARD] = (struct op_work){flops, s->word * s->tokens * (s->in + s->out)};
  work[PASS_INPUT] = (struct op_work){2.5 * flops, s->word * s->tokens * 2 * (s->in + s->out)};
}

/* An exponential counts as some ten operations. */
static void count_activation(const struct widths *s, struct op_work *work) {
  double in = s->tokens * s->in, out = s->tokens * s->out;
  work[PASS_FORWARD] = (struct op_work){15 * out, s->word * (in + out)};
  work[PASS_INPUT] = (struct op_work){25 * out, s->word * (2 * in + out)};
}

/* Logits are written, read for the softmax and read for both gradients, a chunk at a time. */
static void count_head(const struct widths *s, struct op_work *work) {
  double vocab = (double)s->config->vocab_size, weights = vocab * s->in, logits = s->tokens * vocab;
  work[PASS_FORWARD] =
      (struct op_work){6 * s->tokens * s->in * vocab, s->word * (2 * s->tokens * s->in + 4 * weights + 4 * logits)};
}

void op_work_count(const struct model *model, const struct layer *layer, const struct op *op, struct micro_shape shape,
                   struct op_work work[PASS_COUNT]) {
#define X(id, word, ...) [id] = count_##word,
  static void (*const counters[OP_KIND_COUNT])(const struct widths *, struct op_work *) = {OP_KINDS(X)};
#undef X
  struct widths widths = {.config = &model->config,
                          .word = model->half ? 2 : FLOAT,
                          .op = op,
                          .tokens = (double)micro_shape_count_positions(shape),
                          .pairs = (double)shape.pairs - (double)micro_shape_count_positions(shape) / 2,
                          .in = op->in < 0 ? 0 : (double)layer->acts[op->in].width,
                          .out = op->out < 0 ? 0 : (double)layer->acts[op->out].width};
  for (int pass = 0; pass < PASS_COUNT; pass++) work[pass] = (struct op_work){0, 0};
  counters[op->kind](&widths, work);
}

struct op_work op_work_count_update(int64_t n) {
  /* Weight, gradient and two moments, each read and written. */
  return (struct op_work){16 * (double)n, FLOAT * 8 * (double)n};
}

enum op_bound op_kind_get_bound(enum op_kind kind) {
#define X(id, word, bound) [id] = bound,
  static const enum op_bound bounds[OP_KIND_COUNT] = {OP_KINDS(X)};
#undef X
  return bounds[kind];
}
