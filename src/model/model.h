/* A transformer as a list of layers, each a table of ops over activations and parameter tensors.
 *
 * A block of the configuration is two layers (mixer and feed-forward); embedding and head are layers of their own. What
 * forward, input-gradient and weight-gradient passes do, what is kept, and what it costs are walks over these tables;
 * an architecture is data built in arch.c, not code in the executor.
 */
#ifndef PENSTOCK_MODEL_MODEL_H
#define PENSTOCK_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct params;

/* Kinds of layers: enum, name. */
#define LAYER_KINDS(X)                                                                                                 \
  X(LAYER_EMBED, "embed")                                                                                              \
  X(LAYER_ATTENTION, "attention")                                                                                      \
  X(LAYER_MLP, "mlp")                                                                                                  \
  X(LAYER_HEAD, "head")

/* The limit on the speed of an op: memory, or the arithmetic of products or of attention. */
enum op_bound { BOUND_MEMORY, BOUND_PRODUCTS, BOUND_ATTENTION };

/* Kinds of ops: X(enum, word, bound). The word is the kind's name in files. A kind for which the function count_<word>
 * of op_work.c or the row op_<word> of a device is missing does not compile (doc/dev/add-an-op.md). */
#define OP_KINDS(X)                                                                                                    \
  X(OP_EMBED, embed, BOUND_MEMORY)            /* token (+ position) lookup */                                          \
  X(OP_NORM, norm, BOUND_MEMORY)              /* layer norm or RMS norm */                                             \
  X(OP_MATMUL, matmul, BOUND_PRODUCTS)        /* product with a weight, + bias, + residual */                          \
  X(OP_ROPE, rope, BOUND_MEMORY)              /* rotary positions, in place */                                         \
  X(OP_ATTENTION, attention, BOUND_ATTENTION) /* core attention over packed queries, keys, values */                   \
  X(OP_ACTIVATION, activation, BOUND_MEMORY)  /* nonlinearity, with the product by the other half when gated */        \
  X(OP_HEAD, head, BOUND_PRODUCTS)            /* vocabulary projection + cross entropy; its forward makes gradients */

#define X(id, ...) id,
enum layer_kind { LAYER_KINDS(X) LAYER_KIND_COUNT };
enum op_kind { OP_KINDS(X) OP_KIND_COUNT };
#undef X

const char *layer_kind_get_name(enum layer_kind kind);
enum op_bound op_kind_get_bound(enum op_kind kind);

/* How long an activation lives. */
enum act_life {
  ACT_INPUT,       /* the layer's input: owned by the boundary before it; needed until the weight pass */
  ACT_OUTPUT,      /* the layer's output: owned by the boundary after it */
  ACT_KEEP_INPUT,  /* from the forward to the end of the input pass */
  ACT_KEEP_WEIGHT, /* from the forward to the end of the weight pass */
  ACT_TEMPORARY,   /* inside the forward only */
};

/* How long an activation's gradient lives. */
enum grad_life {
  GRAD_NONE,      /* there is none */
  GRAD_BOUNDARY,  /* of the layer's input or output: owned by the boundary */
  GRAD_TEMPORARY, /* inside the input pass only */
  GRAD_WEIGHT,    /* from the input pass to the end of the weight pass */
  GRAD_FORWARD,   /* made by the forward (head), to the end of the weight pass */
};

struct act {
  const char *name;
  int64_t width; /* floats a token */
  enum act_life life;
  enum grad_life grad;
};

/* One row of a layer's op table. Activations and tensors by index into the layer; -1: none. */
struct op {
  const char *name; /* "norm", "qkv", "core", ...: the name that decks and reports use */
  enum op_kind kind;
  bool cheap;   /* normalisation, activation, elementwise */
  int in, out;  /* equal: in place */
  int residual; /* MATMUL: activation added to the product. NORM: activation whose gradient is added to the input's */
  int stats;    /* NORM: mean and rstd; ATTENTION: log-sum-exp */
  int weight;   /* NORM: gain; MATMUL: matrix; EMBED: token table; HEAD: vocabulary table */
  int bias;     /* NORM, MATMUL: bias; EMBED: position table */
  bool transposed; /* MATMUL: the weight is [in, out] (as GPT-2 stores it), else [out, in] */
};

enum tensor_init { INIT_NORMAL, INIT_ONES, INIT_ZEROS };

/* A parameter tensor, named and laid out as in Hugging Face checkpoints. */
struct tensor {
  char name[96];
  int n_dims;
  int64_t dims[2];
  int64_t offset, count; /* floats, in the layer's parameter block (of a tied tensor: of the other layer's) */
  bool decays;           /* weight decay applies (matrices and embeddings) */
  bool tied;             /* another layer's tensor in a second use (struct tie), not stored in checkpoints */
  enum tensor_init init;
  double init_std;
};

enum { LAYER_MAX_ACTS = 12, LAYER_MAX_OPS = 10, LAYER_MAX_TENSORS = 12 };

/* Sizes of a layer given by hand, in place of those of its ops: bytes, whatever the rows of a micro-batch. */
struct layer_sizes {
  int64_t kept;        /* of a micro-batch, from its forward to its input pass */
  int64_t kept_weight; /* of these, on to its weight pass */
  int64_t parameters;
  int64_t output; /* the hidden state that leaves the layer */
};

struct layer {
  enum layer_kind kind;
  int32_t block; /* the configuration's layer it belongs to, -1 for embedding and head */
  int n_acts, n_ops, n_tensors;
  struct act acts[LAYER_MAX_ACTS];
  struct op ops[LAYER_MAX_OPS];
  struct tensor tensors[LAYER_MAX_TENSORS];
  int64_t n_floats;     /* of the parameter block, a multiple of 16, without a tied tensor; padding stays 0 */
  int64_t n_parameters; /* true parameters (a tied tensor counts in the embedding only) */
  bool has_sizes;       /* of all layers or of none, and of none where a device computes */
  struct layer_sizes sizes;
};

/* The numbers of a configuration that ops need, whatever its family. */
struct model_config {
  char model_type[16];
  int64_t vocab_size, hidden, n_blocks, n_heads, n_kv_heads, head_dim, ffn;
  int64_t max_positions;
  bool learned_positions; /* positions beyond max_positions are an error, else only a warning */
  bool layer_norm;        /* layer norm with bias, else RMS norm */
  bool gated;             /* feed-forward has gate and up */
  bool rope;
  bool tied;      /* head uses the embedding's table */
  int activation; /* enum activation of kernels.h */
  float norm_eps;
  double rope_theta;
  double init_std;
};

/* A tensor of one layer that another layer, the user, uses too: an embedding's table as the weights of a head. Each use
 * has its own gradient sum; the user's tensor is marked `tied` and lies outside its layer's block. */
struct tie {
  int32_t layer, user;
  int tensor, user_tensor;
  int64_t floats; /* of the tensor, rounded up to a multiple of 16 */
};

struct model {
  struct model_config config;
  int32_t n_layers, n_ties;
  struct layer *layers;
  struct tie *ties;     /* [n_ties] no layer in more than one */
  int64_t n_parameters; /* tied counted once */
  /* Numbers of two bytes, for what computes nothing: activations and their gradients 2, a parameter 18 (itself 2; its
   * gradient, the copy that is updated and two moments 4 each). Set before anything is planned. */
  bool half;
};

/* Builds the model of a Hugging Face config.json text ("model_type", or "architecture" in its place). `source` is how
 * messages name the place (path or "deck"). A key that changes the arithmetic and is not supported is STATUS_MISTAKE;
 * keys that do not matter are listed once in `notes` (one string, owned by the caller; "" when none; NULL: not wanted).
 * `init_std` < 0 takes the configuration's initializer_range. */
int model_create(const char *json, const char *source, double init_std, struct model **model, char **notes);

/* Like model_create, of a text that the program itself wrote of a model that it had made, as in plan.h5. */
int model_create_again(const char *json, const char *source, struct model **model);

/* Like model_create, with model.init_std of the deck, which has the keys of this text itself or names its file:
 * messages say where a key stands in the deck, or in which line of the file. */
int model_create_of_deck(const struct params *params, const char *json, struct model **model, char **notes);

/* The tie that a layer has a part in, as owner or as user; NULL: none. */
const struct tie *model_find_tie(const struct model *model, int32_t layer);

/* Compares two configurations by what they mean here: STATUS_MISTAKE names a key of `now`, a text of the file `source`,
 * that is another than in `before`, the text that a run began with; models were
 * made of both. Keys without effect may differ. */
int model_compare(const char *before, const char *now, const char *source);
void model_destroy(struct model **model);
/* cut.c: the same model with its first n_blocks blocks alone (at most as many as it has). Owned by the caller. */
struct model *model_dup_blocks(const struct model *model, int32_t n_blocks);

/* config_text.c: the model's configuration as a Hugging Face config.json in which no key is left to a default. `json`
 * is the text that the model was made of, whose other keys stay; begin, end: ids of the beginning and end of a document
 * where the text has none (bos_token_id, eos_token_id), -1: null. Owned by the caller. */
char *model_format_config(const struct model *model, const char *json, int32_t begin, int32_t end);

/* Fills a layer's parameter block with initial values: a function of (seed, layer, tensor, element) only. */
void model_init_layer(const struct model *model, int32_t layer, uint64_t seed, float *block);

/* Names of a layer's ops or activations by their place in its table, as JSON: {"attention": ["norm", "qkv", ...], ...},
 * a list a kind of layer that the model has. Owned by the caller. */
enum model_names { MODEL_OPS, MODEL_ACTS };
char *model_format_names(const struct model *model, enum model_names which);

/* Finds a tensor by its checkpoint name; returns the layer (first use) and tensor index, or -1. */
int32_t model_find_tensor(const struct model *model, const char *name, int *tensor);

/* Model FLOPs of one training step for rows of these real lengths: 6 x matrix weights x real tokens (head once, lookups
 * 0) + 12 x head size x heads x attention layers x real causal pairs. No recompute, no padding. */
double model_get_flops(const struct model *model, int64_t n_rows, const int32_t *lengths);

#endif
