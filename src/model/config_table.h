/* Configurations of each family: keys that are used, keys that are refused, and words. One table each. Internal to
 * model.
 */
#ifndef PENSTOCK_MODEL_CONFIG_TABLE_H
#define PENSTOCK_MODEL_CONFIG_TABLE_H

#include "input/param_table.h"
#include "model/config.h"

#include <stddef.h>

/* The words that are allowed, as messages list them. */
#define CONFIG_FAMILIES "gpt2, llama, mistral, qwen2"
#define CONFIG_ACTIVATIONS "gelu_new, gelu_pytorch_tanh, gelu, silu, relu, relu2"

/* Values that are read before they become a model_config. */
struct config_raw {
  int64_t vocab, positions, hidden, blocks, heads, kv_heads, head_dim, ffn;
  double eps, theta, init_std;
  int64_t tied, attention_bias, mlp_bias;
  int64_t activation;
};

/* A key that is used: where it goes, Hugging Face's default (unset stays -1 for what follows from other keys). Its type
 * and range are those of the deck's key of that name (MODEL_KEY in params.def): config_get_row. */
struct config_key {
  const char *families; /* the model types that have it */
  const char *name;
  size_t offset; /* in struct config_raw */
  double standard;
};

/* A key that changes the arithmetic in a way that is not supported unless it has the harmless value. */
struct config_refusal {
  const char *families, *name;
  const char *harmless; /* JSON text, of a list that of its elements; null always counts as harmless too */
  const char *advice;
  bool when_absent; /* Hugging Face's default is not the harmless value */
};

/* Words of other programs and families for a key. */
struct config_word {
  const char *word;
  size_t offset;
};

/* Each ends with an entry whose name or word is NULL. */
extern const struct config_key config_keys[];
extern const struct config_refusal config_refusals[];
extern const struct config_refusal config_rope_keys[]; /* inside rope_parameters and rope_scaling; no families */
extern const struct config_word config_words[];

/* Type and range: PARAM_INT, PARAM_FLOAT, PARAM_BOOL, or PARAM_STRING for the name of an activation. */
const struct param_row *config_get_row(const struct config_key *key);
/* NULL when there is none of that name. */
const struct family *config_find_family(const char *model_type);
/* Value of an activation's name, -1 when it is not supported; and a name of a value. */
int config_find_activation(const char *name);
const char *config_get_activation_name(int activation);
/* The family's key of a name, or of a place in struct config_raw; NULL when it has none. */
const struct config_key *config_find_key(const struct family *family, const char *name);
const struct config_key *config_find_offset(const struct family *family, size_t offset);
/* True when `word` is one of the space-separated words of `list`. */
bool config_has_word(const char *list, const char *word);

#endif
