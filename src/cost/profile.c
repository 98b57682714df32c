#include "cost/profile.h"

#include <string.h>

#include "base/mem.h"
#include "kernels.h"

struct profile *profile_create(const char *device, const char *model) {
  struct profile *profile = MEM_NEW(struct profile, 1);
  profile->device = mem_strdup(device);
  profile->model = mem_strdup(model);
  return profile;
}

void profile_destroy(struct profile **profile) {
  struct profile *p = *profile;
  if (!p) return;
  mem_free(p->device);
  mem_free(p->model);
  mem_free(p->op_names);
#define X(table, row) mem_free(p->table);
  PROFILE_TABLES(X)
#undef X
  mem_free(p);
  *profile = NULL;
}

/* ---- what a profile is of ---- */

/* Adds to a text that the caller owns. */
static char *append(char *text, const char *more) {
  char *longer = mem_format("%s%s", text, more);
  mem_free(text);
  return longer;
}

/* "attention(norm, qkv+bias, core, projection+bias)": biases and residuals are what the same op may do more of. */
static char *append_layer(char *text, const struct layer *layer) {
  text = append(text, "; ");
  text = append(text, layer_kind_get_name(layer->kind));
  for (int o = 0; o < layer->n_ops; o++) {
    const struct op *op = &layer->ops[o];
    text = append(text, o ? " " : " (");
    text = append(text, op->name);
    if (op->bias >= 0) text = append(text, "+bias");
    if (op->transposed) text = append(text, "+transposed");
  }
  return append(text, ")");
}

/* The first layer of each kind stands for all of them. */
static const struct layer *find_layer(const struct model *model, enum layer_kind kind) {
  for (int32_t l = 0; l < model->n_layers; l++)
    if (model->layers[l].kind == kind) return &model->layers[l];
  return NULL;
}

char *profile_describe_model(const struct model *model) {
  static const char *const activations[] = {[ACTIVATION_GELU_TANH] = "gelu-tanh",
                                            [ACTIVATION_GELU] = "gelu",
                                            [ACTIVATION_SILU] = "silu",
                                            [ACTIVATION_RELU] = "relu",
                                            [ACTIVATION_RELU2] = "relu2"};
  const struct model_config *c = &model->config;
  char *text = mem_format("%s: hidden %lld, %lld heads (%lld of keys and values) of %lld, feed-forward %lld%s, "
                          "vocabulary %lld%s, %s, %s norm",
                          c->model_type, (long long)c->hidden, (long long)c->n_heads, (long long)c->n_kv_heads,
                          (long long)c->head_dim, (long long)c->ffn, c->gated ? " gated" : "", (long long)c->vocab_size,
                          c->tied ? " tied" : "", activations[c->activation], c->layer_norm ? "layer" : "RMS");
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    const struct layer *layer = find_layer(model, (enum layer_kind)kind);
    if (layer) text = append_layer(text, layer);
  }
  return text;
}

/* ---- rows ---- */

static bool is_same(const struct profile_op *op, enum layer_kind layer, int row, enum pass pass,
                    struct micro_shape shape) {
  return op->layer == layer && op->op == row && op->pass == pass && op->rows == shape.rows &&
         op->length == shape.length;
}

const struct profile_op *profile_find_op(const struct profile *profile, enum layer_kind layer, int op, enum pass pass,
                                         struct micro_shape shape) {
  for (int64_t i = 0; i < profile->n_ops; i++)
    if (is_same(&profile->ops[i], layer, op, pass, shape)) return &profile->ops[i];
  return NULL;
}

static bool has_layer(const struct profile *profile, const struct layer *layer, struct micro_shape shape) {
  for (int o = 0; o < layer->n_ops; o++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      if (!profile_find_op(profile, layer->kind, o, (enum pass)pass, shape)) return false;
  return true;
}

bool profile_has_point(const struct profile *profile, const struct model *model, struct micro_shape shape) {
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    const struct layer *layer = find_layer(model, (enum layer_kind)kind);
    if (layer && !has_layer(profile, layer, shape)) return false;
  }
  return true;
}

void profile_put_ops(struct profile *profile, const struct profile_op *ops, int64_t n) {
  profile->ops = mem_resize(profile->ops, sizeof *ops * (size_t)(profile->n_ops + n));
  for (int64_t i = 0; i < n; i++) {
    const struct profile_op *op = &ops[i];
    int64_t at = 0;
    while (at < profile->n_ops && !is_same(&profile->ops[at], op->layer, op->op, op->pass, profile_op_get_shape(op)))
      at++;
    profile->ops[at] = *op;
    if (at == profile->n_ops) profile->n_ops++;
  }
}

/* A copy of n rows; *copy, the rows before, is freed. */
static void copy_rows(void **copy, const void *rows, size_t bytes) {
  mem_free(*copy);
  *copy = mem_alloc(bytes);
  if (bytes) memcpy(*copy, rows, bytes);
}

void profile_set_sweeps(struct profile *profile, const struct profile_sweep *sweeps, int64_t n) {
  copy_rows((void **)&profile->sweeps, sweeps, sizeof *sweeps * (size_t)n);
  profile->n_sweeps = n;
}

void profile_set_links(struct profile *profile, const struct profile_link *links, int64_t n) {
  copy_rows((void **)&profile->links, links, sizeof *links * (size_t)n);
  profile->n_links = n;
}

void profile_set_copies(struct profile *profile, const struct profile_copy *copies, int64_t n) {
  copy_rows((void **)&profile->copies, copies, sizeof *copies * (size_t)n);
  profile->n_copies = n;
}
