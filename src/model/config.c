#include "model/config.h"

#include "base/error.h"
#include "base/mem.h"
#include "kernels.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct tensor_names gpt2_names = {
    .token_table = "transformer.wte.weight",
    .position_table = "transformer.wpe.weight",
    .mixer_norm = "transformer.h.%d.ln_1",
    .qkv = {"transformer.h.%d.attn.c_attn", NULL, NULL},
    .mixer_out = "transformer.h.%d.attn.c_proj",
    .mlp_norm = "transformer.h.%d.ln_2",
    .up = "transformer.h.%d.mlp.c_fc",
    .down = "transformer.h.%d.mlp.c_proj",
    .final_norm = "transformer.ln_f",
    .head = "lm_head.weight",
    .transposed = true,
};

static const struct tensor_names llama_names = {
    .token_table = "model.embed_tokens.weight",
    .mixer_norm = "model.layers.%d.input_layernorm",
    .qkv = {"model.layers.%d.self_attn.q_proj", "model.layers.%d.self_attn.k_proj", "model.layers.%d.self_attn.v_proj"},
    .mixer_out = "model.layers.%d.self_attn.o_proj",
    .mlp_norm = "model.layers.%d.post_attention_layernorm",
    .gate = "model.layers.%d.mlp.gate_proj",
    .up = "model.layers.%d.mlp.up_proj",
    .down = "model.layers.%d.mlp.down_proj",
    .final_norm = "model.norm",
    .head = "lm_head.weight",
};

static const struct family families[] = {
    {.model_type = "gpt2", .names = &gpt2_names, .layer_norm = true, .learned_positions = true, .matrix_bias = true},
    {.model_type = "llama", .names = &llama_names, .rope = true, .gated = true},
    {.model_type = "mistral", .names = &llama_names, .rope = true, .gated = true},
    {.model_type = "qwen2", .names = &llama_names, .rope = true, .gated = true, .qkv_bias = true},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Values that are read before they become a model_config. */
struct raw {
  int64_t vocab, positions, hidden, blocks, heads, kv_heads, head_dim, ffn;
  double eps, theta, init_std;
  int64_t tied, attention_bias, mlp_bias;
  int64_t activation;
};

enum key_type { KEY_INT, KEY_REAL, KEY_BOOL, KEY_ACTIVATION };

/* A key that is used: where it goes, Hugging Face's default (unset stays -1 for what follows from other keys). */
struct key {
  const char *families; /* the model types that have it */
  const char *name;
  enum key_type type;
  size_t offset;
  double standard, least, most;
};

#define AT(field) offsetof(struct raw, field)
#define LLAMAS "llama mistral qwen2"
static const struct key keys[] = {
    {"gpt2", "vocab_size", KEY_INT, AT(vocab), 50257, 1, 1 << 30},
    {"gpt2", "n_positions", KEY_INT, AT(positions), 1024, 1, 1 << 30},
    {"gpt2", "n_embd", KEY_INT, AT(hidden), 768, 1, 1 << 24},
    {"gpt2", "n_layer", KEY_INT, AT(blocks), 12, 0, 1 << 16},
    {"gpt2", "n_head", KEY_INT, AT(heads), 12, 1, 1 << 16},
    {"gpt2", "n_inner", KEY_INT, AT(ffn), -1, 1, 1 << 26},
    {"gpt2", "layer_norm_epsilon", KEY_REAL, AT(eps), 1e-5, 0, 1},
    {"gpt2", "activation_function", KEY_ACTIVATION, AT(activation), ACTIVATION_GELU_TANH, 0, 0},
    {"gpt2", "tie_word_embeddings", KEY_BOOL, AT(tied), 1, 0, 1},
    {"mistral", "vocab_size", KEY_INT, AT(vocab), 32000, 1, 1 << 30},
    {"llama", "vocab_size", KEY_INT, AT(vocab), 32000, 1, 1 << 30},
    {"qwen2", "vocab_size", KEY_INT, AT(vocab), 151936, 1, 1 << 30},
    {"llama", "max_position_embeddings", KEY_INT, AT(positions), 2048, 1, 1 << 30},
    {"mistral", "max_position_embeddings", KEY_INT, AT(positions), 131072, 1, 1 << 30},
    {"qwen2", "max_position_embeddings", KEY_INT, AT(positions), 32768, 1, 1 << 30},
    {LLAMAS, "hidden_size", KEY_INT, AT(hidden), 4096, 1, 1 << 24},
    {"llama", "intermediate_size", KEY_INT, AT(ffn), 11008, 1, 1 << 26},
    {"mistral", "intermediate_size", KEY_INT, AT(ffn), 14336, 1, 1 << 26},
    {"qwen2", "intermediate_size", KEY_INT, AT(ffn), 22016, 1, 1 << 26},
    {LLAMAS, "num_hidden_layers", KEY_INT, AT(blocks), 32, 0, 1 << 16},
    {LLAMAS, "num_attention_heads", KEY_INT, AT(heads), 32, 1, 1 << 16},
    {"llama", "num_key_value_heads", KEY_INT, AT(kv_heads), -1, 1, 1 << 16},
    {"mistral", "num_key_value_heads", KEY_INT, AT(kv_heads), 8, 1, 1 << 16},
    {"qwen2", "num_key_value_heads", KEY_INT, AT(kv_heads), 32, 1, 1 << 16},
    {LLAMAS, "head_dim", KEY_INT, AT(head_dim), -1, 1, 1 << 16},
    {LLAMAS, "rms_norm_eps", KEY_REAL, AT(eps), 1e-6, 0, 1},
    {LLAMAS, "rope_theta", KEY_REAL, AT(theta), 10000, 1e-3, 1e12},
    {LLAMAS, "hidden_act", KEY_ACTIVATION, AT(activation), ACTIVATION_SILU, 0, 0},
    {LLAMAS, "tie_word_embeddings", KEY_BOOL, AT(tied), 0, 0, 1},
    {"llama", "attention_bias", KEY_BOOL, AT(attention_bias), 0, 0, 1},
    {"llama", "mlp_bias", KEY_BOOL, AT(mlp_bias), 0, 0, 1},
    {"gpt2 " LLAMAS, "initializer_range", KEY_REAL, AT(init_std), 0.02, 0, 10},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

/* A key that changes the arithmetic in a way that is not supported unless it has the harmless value. */
struct refused {
  const char *families, *name;
  const char *harmless; /* JSON text; null always counts as harmless too */
  const char *advice;
  bool when_absent; /* Hugging Face's default is not the harmless value */
};
static const struct refused refusals[] = {
    {"gpt2", "scale_attn_weights", "true", "unscaled attention is not supported", false},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false", "scaling by layer is not supported", false},
    {"gpt2", "add_cross_attention", "false", "cross attention is not supported", false},
    {LLAMAS, "partial_rotary_factor", "1.0", "partial rotary positions are not supported", false},
    {"mistral", "sliding_window", "null", "sliding windows are not supported (absent means 4096); set it to null",
     true},
    {"qwen2", "use_sliding_window", "false", "sliding windows are not supported; set it to false", false},
    {"gpt2 " LLAMAS, "quantization_config", "null", "quantised weights are not supported", false},
    {"gpt2 " LLAMAS, "is_encoder_decoder", "false", "encoder-decoder models are not supported", false},
};
enum { N_REFUSALS = sizeof refusals / sizeof *refusals };

static const struct {
  const char *name;
  enum activation activation;
} activations[] = {
    {"gelu_new", ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
    {"gelu", ACTIVATION_GELU},          {"silu", ACTIVATION_SILU},
    {"swish", ACTIVATION_SILU},         {"relu", ACTIVATION_RELU},
    {"relu2", ACTIVATION_RELU2},
};

/* True when `word` is one of the space-separated words of `list`. */
static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; (p = strstr(p, word)); p += n)
    if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
  return false;
}

static const struct family *find_family(const char *model_type) {
  for (int i = 0; i < N_FAMILIES; i++)
    if (!strcmp(families[i].model_type, model_type)) return &families[i];
  return NULL;
}

static int read_activation(const json_t *value, const char *source, const char *key, int64_t *out) {
  const char *name = json_string_value(value);
  for (size_t i = 0; name && i < sizeof activations / sizeof *activations; i++)
    if (!strcmp(activations[i].name, name)) {
      *out = activations[i].activation;
      return STATUS_OK;
    }
  return error_raise(STATUS_MISTAKE,
                     "%s: '%s' is %s%s%s; supported: gelu_new, gelu_pytorch_tanh, gelu, silu, relu, relu2", source, key,
                     name ? "'" : "not a name", name ? name : "", name ? "'" : "");
}

static int read_key(const struct key *key, const json_t *value, const char *source, struct raw *raw) {
  void *at = (char *)raw + key->offset;
  if (key->type == KEY_ACTIVATION) {
    if (value) return read_activation(value, source, key->name, at);
    *(int64_t *)at = (int64_t)key->standard;
    return STATUS_OK;
  }
  if (key->type == KEY_BOOL) {
    if (value && !json_is_boolean(value))
      return error_raise(STATUS_MISTAKE, "%s: '%s' must be true or false", source, key->name);
    *(int64_t *)at = value ? json_is_true(value) : key->standard != 0;
    return STATUS_OK;
  }
  bool integer = key->type == KEY_INT;
  if (value && (integer ? !json_is_integer(value) : !json_is_number(value)))
    return error_raise(STATUS_MISTAKE, "%s: '%s' must be %s", source, key->name, integer ? "an integer" : "a number");
  double number = value ? json_number_value(value) : key->standard;
  if (value && (number < key->least || number > key->most))
    return error_raise(STATUS_MISTAKE, "%s: '%s' is %g; allowed: %g to %g", source, key->name, number, key->least,
                       key->most);
  if (integer)
    *(int64_t *)at = value ? json_integer_value(value) : (int64_t)key->standard;
  else
    *(double *)at = number;
  return STATUS_OK;
}

/* rope_parameters (and the older rope_scaling) may hold theta; any scaling is refused. */
static int read_rope(const json_t *root, const char *source, struct raw *raw) {
  static const char *const names[] = {"rope_parameters", "rope_scaling"};
  for (int i = 0; i < 2; i++) {
    const json_t *rope = json_object_get(root, names[i]);
    if (!rope || json_is_null(rope)) continue;
    const json_t *type = json_object_get(rope, "rope_type");
    if (!type) type = json_object_get(rope, "type");
    if (!json_is_object(rope) || (type && (!json_is_string(type) || strcmp(json_string_value(type), "default"))))
      return error_raise(STATUS_MISTAKE,
                         "%s: '%s' asks for another rotary scaling%s%s%s; only rope_type 'default' is supported",
                         source, names[i], json_is_string(type) ? " ('" : "",
                         json_is_string(type) ? json_string_value(type) : "", json_is_string(type) ? "')" : "");
    const json_t *theta = json_object_get(rope, "rope_theta");
    if (theta && !(json_is_number(theta) && json_number_value(theta) > 0))
      return error_raise(STATUS_MISTAKE, "%s: '%s.rope_theta' must be a number above 0", source, names[i]);
    if (theta) raw->theta = json_number_value(theta);
  }
  return STATUS_OK;
}

static int check_refused(const json_t *root, const struct family *family, const char *source) {
  for (int i = 0; i < N_REFUSALS; i++) {
    const struct refused *refused = &refusals[i];
    const json_t *value = json_object_get(root, refused->name);
    if (!has_word(refused->families, family->model_type) || (value ? json_is_null(value) : !refused->when_absent))
      continue;
    json_t *harmless = json_loads(refused->harmless, JSON_DECODE_ANY, NULL);
    bool same = json_equal(value, harmless) || (json_is_number(value) && json_is_number(harmless) &&
                                                json_number_value(value) == json_number_value(harmless));
    json_decref(harmless);
    if (!same) return error_raise(STATUS_MISTAKE, "%s: '%s': %s", source, refused->name, refused->advice);
  }
  return STATUS_OK;
}

static bool is_known(const struct family *family, const char *name) {
  static const char other[] = "model_type architecture rope_parameters rope_scaling architectures";
  if (has_word(other, name)) return true;
  for (int i = 0; i < N_KEYS; i++)
    if (has_word(keys[i].families, family->model_type) && !strcmp(keys[i].name, name)) return true;
  for (int i = 0; i < N_REFUSALS; i++)
    if (has_word(refusals[i].families, family->model_type) && !strcmp(refusals[i].name, name)) return true;
  return false;
}

/* Appends ", name" to a list owned by the caller. */
static void append_name(char **list, const char *name) {
  char *longer = *list ? mem_format("%s, %s", *list, name) : mem_strdup(name);
  mem_free(*list);
  *list = longer;
}

/* One line on dropout keys, one on keys that change nothing. */
static char *make_notes(json_t *root, const struct family *family, const char *source) {
  char *dropout = NULL, *ignored = NULL;
  const char *name;
  json_t *value;
  json_object_foreach(root, name, value) {
    bool drops = strstr(name, "pdrop") || strstr(name, "dropout");
    if (drops && json_number_value(value) != 0)
      append_name(&dropout, name);
    else if (!drops && !is_known(family, name))
      append_name(&ignored, name);
  }
  char *notes = mem_format("%s%s%s%s%s%s%s", dropout ? source : "", dropout ? ": dropout is taken as 0: " : "",
                           dropout ? dropout : "", dropout && ignored ? "\n" : "", ignored ? source : "",
                           ignored ? ": keys without effect here, ignored: " : "", ignored ? ignored : "");
  mem_free(dropout);
  mem_free(ignored);
  return notes;
}

static int find_model_type(const json_t *root, const char *source, const struct family **family) {
  const json_t *type = json_object_get(root, "model_type");
  if (!type) type = json_object_get(root, "architecture");
  if (!json_is_string(type))
    return error_raise(STATUS_MISTAKE, "%s: no 'model_type'; supported: gpt2, llama, mistral, qwen2", source);
  *family = find_family(json_string_value(type));
  if (*family) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "%s: model_type '%s' is not available in this version; supported: gpt2, llama, mistral, qwen2",
                     source, json_string_value(type));
}

static int check_shape(const struct raw *raw, const char *source) {
  if (raw->heads % raw->kv_heads)
    return error_raise(STATUS_MISTAKE, "%s: %lld attention heads are not a multiple of %lld key-value heads", source,
                       (long long)raw->heads, (long long)raw->kv_heads);
  return STATUS_OK;
}

/* Values that follow from others, as Hugging Face has it. */
static int derive(struct raw *raw, const struct family *family, const char *source) {
  if (raw->kv_heads < 0) raw->kv_heads = raw->heads;
  if (raw->ffn < 0) raw->ffn = 4 * raw->hidden;
  if (raw->head_dim < 0) {
    if (raw->hidden % raw->heads)
      return error_raise(STATUS_MISTAKE, "%s: hidden size %lld is not a multiple of %lld attention heads", source,
                         (long long)raw->hidden, (long long)raw->heads);
    raw->head_dim = raw->hidden / raw->heads;
  }
  if (family->rope && raw->head_dim % 2)
    return error_raise(STATUS_MISTAKE, "%s: head size %lld is odd; rotary positions need an even one", source,
                       (long long)raw->head_dim);
  return check_shape(raw, source);
}

static int read_raw(const json_t *root, const struct family *family, const char *source, struct raw *raw) {
  *raw = (struct raw){.kv_heads = -1, .head_dim = -1, .theta = 10000};
  for (int i = 0; i < N_KEYS; i++) {
    if (!has_word(keys[i].families, family->model_type)) continue;
    const json_t *value = json_object_get(root, keys[i].name);
    int status = read_key(&keys[i], json_is_null(value) ? NULL : value, source, raw);
    if (status) return status;
  }
  int status = family->rope ? read_rope(root, source, raw) : STATUS_OK;
  if (!status) status = check_refused(root, family, source);
  return status ? status : derive(raw, family, source);
}

static void fill_config(const struct raw *raw, const struct family *family, double init_std,
                        struct model_config *config) {
  *config = (struct model_config){
      .vocab_size = raw->vocab,
      .hidden = raw->hidden,
      .n_blocks = raw->blocks,
      .n_heads = raw->heads,
      .n_kv_heads = raw->kv_heads,
      .head_dim = raw->head_dim,
      .ffn = raw->ffn,
      .max_positions = raw->positions,
      .learned_positions = family->learned_positions,
      .layer_norm = family->layer_norm,
      .gated = family->gated,
      .rope = family->rope,
      .tied = raw->tied,
      .activation = (int)raw->activation,
      .norm_eps = (float)raw->eps,
      .rope_theta = raw->theta,
      .init_std = init_std >= 0 ? init_std : raw->init_std,
  };
  snprintf(config->model_type, sizeof config->model_type, "%s", family->model_type);
}

int config_read(const char *json, const char *source, double init_std, struct model_config *config,
                struct config_extra *extra, char **notes) {
  json_error_t place;
  json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &place);
  if (!root)
    return error_raise(STATUS_MISTAKE, "%s:%d:%d: not valid JSON: %s", source, place.line, place.column, place.text);
  int status = STATUS_OK;
  struct raw raw = {0};
  const struct family *family = NULL;
  if (!json_is_object(root)) status = error_raise(STATUS_MISTAKE, "%s: not a JSON object", source);
  if (!status) status = find_model_type(root, source, &family);
  if (!status) status = read_raw(root, family, source, &raw);
  if (!status) {
    fill_config(&raw, family, init_std, config);
    *extra = (struct config_extra){
        .family = family,
        .qkv_bias = family->matrix_bias || family->qkv_bias || raw.attention_bias,
        .mixer_out_bias = family->matrix_bias || raw.attention_bias,
        .mlp_bias = family->matrix_bias || raw.mlp_bias,
    };
    if (notes) *notes = make_notes(root, family, source);
  }
  json_decref(root);
  return status;
}
