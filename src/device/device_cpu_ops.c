/* Calls the CPU kernels of an op of a layer table: one function for each kind of op and pass, one table. */
#include "device/device_cpu.h"

#include "kernels.h"

#include <stddef.h>

typedef void op_function(struct pool *pool, const struct op_call *call);

static int64_t count_tokens(const struct op_call *call) { return micro_shape_count_positions(call->batch->shape); }

static int64_t get_width(const struct op_call *call, int act) { return call->layer->acts[act].width; }

/* The array at an index that may be -1. */
static float *pick(float *const *arrays, int index) { return index < 0 ? NULL : arrays[index]; }

static void embed_forward(struct pool *pool, const struct op_call *c) {
  embed_forward_cpu(pool, c->batch->shape.rows, c->batch->shape.length, c->config->hidden, c->batch->tokens,
                    c->weight[c->op->weight], pick(c->weight, c->op->bias), c->act[c->op->out]);
}

static void embed_weight(struct pool *pool, const struct op_call *c) {
  embed_weight_cpu(pool, c->batch->shape.rows, c->batch->shape.length, c->config->hidden, c->batch->tokens,
                   c->batch->lengths, c->grad[c->op->out], c->weight_grad[c->op->weight],
                   pick(c->weight_grad, c->op->bias));
}

static void norm_forward(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  norm_forward_cpu(pool, c->config->layer_norm, count_tokens(c), get_width(c, op->in), c->config->norm_eps,
                   c->act[op->in], c->weight[op->weight], pick(c->weight, op->bias), c->act[op->out],
                   c->act[op->stats]);
}

static void norm_input(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  norm_input_cpu(pool, c->config->layer_norm, count_tokens(c), get_width(c, op->in), c->act[op->in],
                 c->weight[op->weight], c->act[op->stats], c->grad[op->out], pick(c->grad, op->residual),
                 c->grad[op->in]);
}

static void norm_weight(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  norm_weight_cpu(pool, c->config->layer_norm, count_tokens(c), get_width(c, op->in), c->act[op->in], c->act[op->stats],
                  c->grad[op->out], c->weight_grad[op->weight], pick(c->weight_grad, op->bias));
}

static void product_forward(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  int64_t rows = count_tokens(c), in = get_width(c, op->in), out = get_width(c, op->out);
  bool prepared = op->residual >= 0 || op->bias >= 0;
  if (prepared)
    matmul_prepare_cpu(pool, rows, out, pick(c->act, op->residual), pick(c->weight, op->bias), c->act[op->out]);
  matmul_cpu(pool, false, !op->transposed, rows, out, in, c->act[op->in], in, c->weight[op->weight],
             op->transposed ? out : in, prepared ? 1.0f : 0.0f, c->act[op->out], out);
}

static void product_input(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  int64_t rows = count_tokens(c), in = get_width(c, op->in), out = get_width(c, op->out);
  matmul_cpu(pool, false, op->transposed, rows, in, out, c->grad[op->out], out, c->weight[op->weight],
             op->transposed ? out : in, 0.0f, c->grad[op->in], in);
}

static void product_weight(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  int64_t rows = count_tokens(c), in = get_width(c, op->in), out = get_width(c, op->out);
  const float *x = c->act[op->in], *d_y = c->grad[op->out];
  float *d_weight = c->weight_grad[op->weight];
  if (op->transposed)
    matmul_cpu(pool, true, false, in, out, rows, x, in, d_y, out, 1.0f, d_weight, out);
  else
    matmul_cpu(pool, true, false, out, in, rows, d_y, out, x, in, 1.0f, d_weight, in);
  if (op->bias >= 0) matmul_bias_weight_cpu(pool, rows, out, d_y, c->weight_grad[op->bias]);
}

/* Queries and keys turn; the heads of both lie side by side. */
static void rope_turn(struct pool *pool, const struct op_call *c, bool inverse, float *qkv) {
  const struct model_config *m = c->config;
  rope_cpu(pool, c->batch->shape.rows, c->batch->shape.length, m->n_heads + m->n_kv_heads, m->head_dim,
           get_width(c, c->op->in), m->rope_theta, inverse, qkv);
}

static void rope_forward(struct pool *pool, const struct op_call *c) { rope_turn(pool, c, false, c->act[c->op->in]); }

static void rope_input(struct pool *pool, const struct op_call *c) { rope_turn(pool, c, true, c->grad[c->op->in]); }

static struct attention_shape get_attention_shape(const struct op_call *c) {
  const struct model_config *m = c->config;
  return (struct attention_shape){c->batch->shape.rows, c->batch->shape.length, c->batch->lengths,
                                  m->n_heads,           m->n_kv_heads,          m->head_dim};
}

static void attention_forward(struct pool *pool, const struct op_call *c) {
  struct attention_shape shape = get_attention_shape(c);
  attention_forward_cpu(pool, &shape, c->act[c->op->in], c->act[c->op->out], c->act[c->op->stats]);
}

static void attention_input(struct pool *pool, const struct op_call *c) {
  struct attention_shape shape = get_attention_shape(c);
  attention_input_cpu(pool, &shape, c->act[c->op->in], c->act[c->op->out], c->act[c->op->stats], c->grad[c->op->out],
                      c->grad[c->op->in], c->scratch);
}

static void activation_forward(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  enum activation f = (enum activation)c->config->activation;
  int64_t rows = count_tokens(c), width = get_width(c, op->out);
  if (c->config->gated)
    activation_gated_forward_cpu(pool, f, rows, width, c->act[op->in], c->act[op->out]);
  else
    activation_forward_cpu(pool, f, rows, width, c->act[op->in], c->act[op->out]);
}

static void activation_input(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  enum activation f = (enum activation)c->config->activation;
  int64_t rows = count_tokens(c), width = get_width(c, op->out);
  if (c->config->gated)
    activation_gated_input_cpu(pool, f, rows, width, c->act[op->in], c->grad[op->out], c->grad[op->in]);
  else
    activation_input_cpu(pool, f, rows, width, c->act[op->in], c->grad[op->out], c->grad[op->in]);
}

/* The head makes its gradients here: with the logits at hand they cost two products instead of four. */
static void head_forward(struct pool *pool, const struct op_call *c) {
  const struct op *op = c->op;
  bool with_grad = c->batch->with_grad;
  *c->batch->loss_sum = head_forward_cpu(pool, count_tokens(c), c->config->hidden, c->config->vocab_size,
                                         c->act[op->in], c->weight[op->weight], c->batch->labels, c->batch->loss_scale,
                                         with_grad ? c->grad[op->in] : NULL,
                                         with_grad ? c->weight_grad[op->weight] : NULL, c->scratch, NULL);
}

/* A row a kind of op: its functions by pass, NULL where a pass has nothing to do. */
struct op_row {
  op_function *run[PASS_COUNT];
};

static const struct op_row op_embed = {{embed_forward, NULL, embed_weight}};
static const struct op_row op_norm = {{norm_forward, norm_input, norm_weight}};
static const struct op_row op_matmul = {{product_forward, product_input, product_weight}};
static const struct op_row op_rope = {{rope_forward, rope_input, NULL}};
static const struct op_row op_attention = {{attention_forward, attention_input, NULL}};
static const struct op_row op_activation = {{activation_forward, activation_input, NULL}};
static const struct op_row op_head = {{head_forward, NULL, NULL}};

void device_cpu_run_op(struct pool *pool, enum pass pass, const struct op_call *call) {
#define X(id, word, ...) [id] = &op_##word,
  static const struct op_row *const rows[OP_KIND_COUNT] = {OP_KINDS(X)};
#undef X
  op_function *run = rows[call->op->kind]->run[pass];
  if (run) run(pool, call);
}
