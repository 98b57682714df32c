/* Makes the layers of a configuration: the op tables of embedding, attention, feed-forward and head. */
#include "input/params.h"
#include "model/config.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { TENSOR_ALIGN = 16 }; /* floats: 64 bytes */

#define X(id, name) name,
static const char *const layer_names[] = {LAYER_KINDS(X)};
#undef X

const char *layer_kind_get_name(enum layer_kind kind) { return layer_names[kind]; }

static int64_t align_floats(int64_t n) { return (n + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN; }

static int add_act(struct layer *layer, const char *name, int64_t width, enum act_life life, enum grad_life grad) {
  CHECK(layer->n_acts < LAYER_MAX_ACTS, "too many activations in a layer table");
  layer->acts[layer->n_acts] = (struct act){name, width, life, grad};
  return layer->n_acts++;
}

static void add_op(struct layer *layer, struct op op) {
  CHECK(layer->n_ops < LAYER_MAX_OPS, "too many ops in a layer table");
  layer->ops[layer->n_ops++] = op;
}

/* How a tensor is placed: after the one before it without a gap (so that several are one matrix), or aligned. */
enum placing { PLACE_ALIGNED, PLACE_JOINED };

/* Adds a tensor named by a template for the layer's block, with a suffix. rows 0: a vector of `columns`. */
static int add_tensor(struct layer *layer, const char *name, const char *suffix, int64_t rows, int64_t columns,
                      enum placing placing, enum tensor_init init, double std) {
  CHECK(layer->n_tensors < LAYER_MAX_TENSORS, "too many tensors in a layer table");
  struct tensor *t = &layer->tensors[layer->n_tensors];
  char stem[80];
  snprintf(stem, sizeof stem, name, layer->block);
  snprintf(t->name, sizeof t->name, "%s%s", stem, suffix);
  t->n_dims = rows ? 2 : 1;
  t->dims[0] = rows ? rows : columns;
  t->dims[1] = rows ? columns : 1;
  t->count = (rows ? rows : 1) * columns;
  t->offset = placing == PLACE_JOINED ? layer->n_floats : align_floats(layer->n_floats);
  t->decays = rows > 0;
  t->init = init;
  t->init_std = std;
  layer->n_floats = t->offset + t->count;
  layer->n_parameters += t->count;
  return layer->n_tensors++;
}

static int add_matrix(const struct config_extra *extra, struct layer *layer, const char *name, int64_t in, int64_t out,
                      enum placing placing, double std) {
  bool transposed = extra->family->names->transposed;
  return add_tensor(layer, name, ".weight", transposed ? in : out, transposed ? out : in, placing, INIT_NORMAL, std);
}

static int add_bias(struct layer *layer, const char *name, int64_t width, enum placing placing) {
  return add_tensor(layer, name, ".bias", 0, width, placing, INIT_ZEROS, 0);
}

/* A norm's tensors, activations and op; `residual` is the activation whose gradient joins the input's. */
static int add_norm(const struct model_config *c, struct layer *layer, const char *name, int in, enum act_life life,
                    enum grad_life grad) {
  int gain = add_tensor(layer, name, ".weight", 0, c->hidden, PLACE_ALIGNED, INIT_ONES, 0);
  int bias = c->layer_norm ? add_tensor(layer, name, ".bias", 0, c->hidden, PLACE_ALIGNED, INIT_ZEROS, 0) : -1;
  int out = add_act(layer, "norm", c->hidden, life, grad);
  int stats = add_act(layer, "norm_stats", c->layer_norm ? 2 : 1, ACT_KEEP_WEIGHT, GRAD_NONE);
  add_op(layer, (struct op){.name = "norm",
                            .kind = OP_NORM,
                            .cheap = true,
                            .in = in,
                            .out = out,
                            .residual = -1,
                            .stats = stats,
                            .weight = gain,
                            .bias = bias});
  return out;
}

static void build_embed(const struct model_config *c, const struct config_extra *extra, struct layer *layer) {
  const struct tensor_names *names = extra->family->names;
  int table =
      add_tensor(layer, names->token_table, "", c->vocab_size, c->hidden, PLACE_ALIGNED, INIT_NORMAL, c->init_std);
  int positions = c->learned_positions ? add_tensor(layer, names->position_table, "", c->max_positions, c->hidden,
                                                    PLACE_ALIGNED, INIT_NORMAL, c->init_std)
                                       : -1;
  int out = add_act(layer, "embedding", c->hidden, ACT_OUTPUT, GRAD_BOUNDARY);
  add_op(layer, (struct op){.name = "embed",
                            .kind = OP_EMBED,
                            .in = -1,
                            .out = out,
                            .residual = -1,
                            .stats = -1,
                            .weight = table,
                            .bias = positions});
}

/* Residual projections start smaller by sqrt(2 blocks) in GPT-2 (Radford et al. 2019); Hugging Face's Llama does not.
 */
static double residual_std(const struct model_config *c) {
  return c->layer_norm && c->n_blocks ? c->init_std / __builtin_sqrt(2.0 * (double)c->n_blocks) : c->init_std;
}

/* Queries, keys and values lie side by side, so that one product makes all three. Returns the first matrix; *bias the
 * first bias or -1. */
static int add_qkv(const struct model_config *c, const struct config_extra *extra, struct layer *layer, int *bias) {
  const struct tensor_names *names = extra->family->names;
  int64_t width[3] = {c->n_heads * c->head_dim, c->n_kv_heads * c->head_dim, c->n_kv_heads * c->head_dim};
  *bias = -1;
  if (!names->qkv[1]) {
    int64_t all = width[0] + width[1] + width[2];
    int weight = add_matrix(extra, layer, names->qkv[0], c->hidden, all, PLACE_ALIGNED, c->init_std);
    if (extra->qkv_bias) *bias = add_bias(layer, names->qkv[0], all, PLACE_ALIGNED);
    return weight;
  }
  int weight = layer->n_tensors;
  for (int i = 0; i < 3; i++)
    add_matrix(extra, layer, names->qkv[i], c->hidden, width[i], i ? PLACE_JOINED : PLACE_ALIGNED, c->init_std);
  if (extra->qkv_bias) *bias = layer->n_tensors;
  for (int i = 0; extra->qkv_bias && i < 3; i++)
    add_bias(layer, names->qkv[i], width[i], i ? PLACE_JOINED : PLACE_ALIGNED);
  return weight;
}

static void build_attention(const struct model_config *c, const struct config_extra *extra, struct layer *layer) {
  const struct tensor_names *names = extra->family->names;
  bool transposed = names->transposed;
  int64_t width = (c->n_heads + 2 * c->n_kv_heads) * c->head_dim, inner = c->n_heads * c->head_dim;
  int x = add_act(layer, "input", c->hidden, ACT_INPUT, GRAD_BOUNDARY);
  int norm = add_norm(c, layer, names->mixer_norm, x, ACT_KEEP_WEIGHT, GRAD_WEIGHT);
  int bias, weight = add_qkv(c, extra, layer, &bias);
  int qkv = add_act(layer, "qkv", width, ACT_KEEP_INPUT, GRAD_WEIGHT);
  int core = add_act(layer, "core", inner, ACT_KEEP_WEIGHT, GRAD_TEMPORARY);
  int lse = add_act(layer, "log_sum_exp", c->n_heads, ACT_KEEP_INPUT, GRAD_NONE);
  int out = add_act(layer, "output", c->hidden, ACT_OUTPUT, GRAD_BOUNDARY);
  add_op(layer, (struct op){.name = "qkv",
                            .kind = OP_MATMUL,
                            .in = norm,
                            .out = qkv,
                            .residual = -1,
                            .stats = -1,
                            .weight = weight,
                            .bias = bias,
                            .transposed = transposed});
  if (c->rope)
    add_op(layer, (struct op){.name = "rope",
                              .kind = OP_ROPE,
                              .in = qkv,
                              .out = qkv,
                              .residual = -1,
                              .stats = -1,
                              .weight = -1,
                              .bias = -1});
  add_op(layer, (struct op){.name = "core",
                            .kind = OP_ATTENTION,
                            .in = qkv,
                            .out = core,
                            .residual = -1,
                            .stats = lse,
                            .weight = -1,
                            .bias = -1});
  weight = add_matrix(extra, layer, names->mixer_out, inner, c->hidden, PLACE_ALIGNED, residual_std(c));
  bias = extra->mixer_out_bias ? add_bias(layer, names->mixer_out, c->hidden, PLACE_ALIGNED) : -1;
  add_op(layer, (struct op){.name = "projection",
                            .kind = OP_MATMUL,
                            .in = core,
                            .out = out,
                            .residual = x,
                            .stats = -1,
                            .weight = weight,
                            .bias = bias,
                            .transposed = transposed});
  layer->ops[0].residual = out;
}

static void build_mlp(const struct model_config *c, const struct config_extra *extra, struct layer *layer) {
  const struct tensor_names *names = extra->family->names;
  bool transposed = names->transposed;
  int x = add_act(layer, "input", c->hidden, ACT_INPUT, GRAD_BOUNDARY);
  int norm = add_norm(c, layer, names->mlp_norm, x, ACT_KEEP_WEIGHT, GRAD_WEIGHT);
  int weight = layer->n_tensors, bias = -1;
  if (c->gated) add_matrix(extra, layer, names->gate, c->hidden, c->ffn, PLACE_ALIGNED, c->init_std);
  add_matrix(extra, layer, names->up, c->hidden, c->ffn, c->gated ? PLACE_JOINED : PLACE_ALIGNED, c->init_std);
  if (extra->mlp_bias) {
    bias = layer->n_tensors;
    if (c->gated) add_bias(layer, names->gate, c->ffn, PLACE_ALIGNED);
    add_bias(layer, names->up, c->ffn, c->gated ? PLACE_JOINED : PLACE_ALIGNED);
  }
  int up = add_act(layer, "up", c->ffn * (c->gated ? 2 : 1), ACT_KEEP_INPUT, GRAD_WEIGHT);
  int active = add_act(layer, "active", c->ffn, ACT_KEEP_WEIGHT, GRAD_TEMPORARY);
  int out = add_act(layer, "output", c->hidden, ACT_OUTPUT, GRAD_BOUNDARY);
  add_op(layer, (struct op){.name = "up",
                            .kind = OP_MATMUL,
                            .in = norm,
                            .out = up,
                            .residual = -1,
                            .stats = -1,
                            .weight = weight,
                            .bias = bias,
                            .transposed = transposed});
  add_op(layer, (struct op){.name = "activation",
                            .kind = OP_ACTIVATION,
                            .cheap = true,
                            .in = up,
                            .out = active,
                            .residual = -1,
                            .stats = -1,
                            .weight = -1,
                            .bias = -1});
  weight = add_matrix(extra, layer, names->down, c->ffn, c->hidden, PLACE_ALIGNED, residual_std(c));
  bias = extra->mlp_bias ? add_bias(layer, names->down, c->hidden, PLACE_ALIGNED) : -1;
  add_op(layer, (struct op){.name = "down",
                            .kind = OP_MATMUL,
                            .in = active,
                            .out = out,
                            .residual = x,
                            .stats = -1,
                            .weight = weight,
                            .bias = bias,
                            .transposed = transposed});
  layer->ops[0].residual = out;
}

/* A tied table is the embedding's first tensor in a second use: it lies outside this layer's block. */
static int add_tied_table(const struct model_config *c, const struct config_extra *extra, struct layer *layer) {
  struct tensor *t = &layer->tensors[layer->n_tensors];
  snprintf(t->name, sizeof t->name, "%s", extra->family->names->token_table);
  t->n_dims = 2;
  t->dims[0] = c->vocab_size;
  t->dims[1] = c->hidden;
  t->count = c->vocab_size * c->hidden;
  t->decays = true;
  t->tied = true;
  return layer->n_tensors++;
}

static void build_head(const struct model_config *c, const struct config_extra *extra, struct layer *layer) {
  const struct tensor_names *names = extra->family->names;
  int x = add_act(layer, "input", c->hidden, ACT_INPUT, GRAD_BOUNDARY);
  int norm = add_norm(c, layer, names->final_norm, x, ACT_TEMPORARY, GRAD_FORWARD);
  int table =
      c->tied ? add_tied_table(c, extra, layer)
              : add_tensor(layer, names->head, "", c->vocab_size, c->hidden, PLACE_ALIGNED, INIT_NORMAL, c->init_std);
  add_op(layer, (struct op){.name = "head",
                            .kind = OP_HEAD,
                            .in = norm,
                            .out = -1,
                            .residual = -1,
                            .stats = -1,
                            .weight = table,
                            .bias = -1});
}

static void build_layer(const struct model_config *c, const struct config_extra *extra, enum layer_kind kind,
                        int32_t block, struct layer *layer) {
  static void (*const builders[LAYER_KIND_COUNT])(const struct model_config *, const struct config_extra *,
                                                  struct layer *) = {[LAYER_EMBED] = build_embed,
                                                                     [LAYER_ATTENTION] = build_attention,
                                                                     [LAYER_MLP] = build_mlp,
                                                                     [LAYER_HEAD] = build_head};
  *layer = (struct layer){.kind = kind, .block = block};
  builders[kind](c, extra, layer);
  layer->n_floats = align_floats(layer->n_floats);
}

/* The user's tied tensor is the other layer's first. */
static void add_tie(struct model *m, int32_t layer, int32_t user) {
  const struct layer *l = &m->layers[user];
  struct tie tie = {.layer = layer, .user = user, .floats = align_floats(m->layers[layer].tensors[0].count)};
  while (!l->tensors[tie.user_tensor].tied) tie.user_tensor++;
  m->ties = mem_resize(m->ties, sizeof tie * (size_t)(m->n_ties + 1));
  m->ties[m->n_ties++] = tie;
}

const struct tie *model_find_tie(const struct model *model, int32_t layer) {
  for (int32_t i = 0; i < model->n_ties; i++)
    if (model->ties[i].layer == layer || model->ties[i].user == layer) return &model->ties[i];
  return NULL;
}

static int create(const struct config_source *source, double init_std, struct model **model, char **notes) {
  struct model_config config;
  struct config_extra extra;
  int status = config_read(source, init_std, &config, &extra, notes);
  if (status) return status;
  struct model *m = MEM_NEW(struct model, 1);
  m->config = config;
  m->n_layers = (int32_t)(2 * config.n_blocks + 2);
  m->layers = MEM_NEW(struct layer, m->n_layers);
  build_layer(&config, &extra, LAYER_EMBED, -1, &m->layers[0]);
  for (int32_t b = 0; b < config.n_blocks; b++) {
    build_layer(&config, &extra, LAYER_ATTENTION, b, &m->layers[1 + 2 * b]);
    build_layer(&config, &extra, LAYER_MLP, b, &m->layers[2 + 2 * b]);
  }
  build_layer(&config, &extra, LAYER_HEAD, -1, &m->layers[m->n_layers - 1]);
  if (config.tied) add_tie(m, 0, m->n_layers - 1);
  for (int32_t l = 0; l < m->n_layers; l++) m->n_parameters += m->layers[l].n_parameters;
  *model = m;
  return STATUS_OK;
}

int model_create(const char *json, const char *source, double init_std, struct model **model, char **notes) {
  return create(&(struct config_source){json, source, NULL, false}, init_std, model, notes);
}

int model_create_again(const char *json, const char *source, struct model **model) {
  return create(&(struct config_source){json, source, NULL, true}, -1, model, NULL);
}

int model_create_of_deck(const struct params *params, const char *json, struct model **model, char **notes) {
  const char *name = params->model.config ? params->model.config : "model";
  double init_std = params_is_set(params, PARAM_model_init_std) ? params->model.init_std : -1;
  return create(&(struct config_source){json, name, params, false}, init_std, model, notes);
}

void model_destroy(struct model **model) {
  if (!*model) return;
  mem_free((*model)->layers);
  mem_free((*model)->ties);
  mem_free(*model);
  *model = NULL;
}

int32_t model_find_tensor(const struct model *model, const char *name, int *tensor) {
  for (int32_t l = 0; l < model->n_layers; l++)
    for (int t = 0; t < model->layers[l].n_tensors; t++)
      if (!strcmp(model->layers[l].tensors[t].name, name)) {
        *tensor = t;
        return l;
      }
  return -1;
}
