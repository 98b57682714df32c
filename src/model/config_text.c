/* The whole configuration as a Hugging Face config.json, nothing left to defaults: for programs that read checkpoints.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/config_table.h"
#include "model/model.h"

static const struct {
  const char *model_type, *class;
} classes[] = {{"gpt2", "GPT2LMHeadModel"},
               {"llama", "LlamaForCausalLM"},
               {"mistral", "MistralForCausalLM"},
               {"qwen2", "Qwen2ForCausalLM"}};

static void set_int(json_t *root, const char *name, int64_t value) {
  json_object_set_new(root, name, json_integer(value));
}

/* Sets a key that the configuration lacks. A key that it has stays as it is written: 1e-6 has no float of that value.
 */
static void set_real(json_t *root, const char *name, double value) {
  char text[32];
  if (json_is_number(json_object_get(root, name))) return;
  snprintf(text, sizeof text, "%.7g", value);
  json_object_set_new(root, name, json_real(strtod(text, NULL)));
}

static void set_activation(json_t *root, const char *name, int activation) {
  if (!json_is_string(json_object_get(root, name)))
    json_object_set_new(root, name, json_string(config_get_activation_name(activation)));
}

/* Absent means what the family does without it. */
static void set_absent(json_t *root, const char *name, json_t *value) {
  if (!json_object_get(root, name)) json_object_set(root, name, value);
  json_decref(value);
}

static void fill_gpt2(json_t *root, const struct model_config *c) {
  set_int(root, "n_positions", c->max_positions);
  set_int(root, "n_embd", c->hidden);
  set_int(root, "n_layer", c->n_blocks);
  set_int(root, "n_head", c->n_heads);
  set_int(root, "n_inner", c->ffn);
  set_real(root, "layer_norm_epsilon", c->norm_eps);
  set_activation(root, "activation_function", c->activation);
}

static void fill_llamas(json_t *root, const struct model_config *c) {
  set_int(root, "max_position_embeddings", c->max_positions);
  set_int(root, "hidden_size", c->hidden);
  set_int(root, "intermediate_size", c->ffn);
  set_int(root, "num_hidden_layers", c->n_blocks);
  set_int(root, "num_attention_heads", c->n_heads);
  set_int(root, "num_key_value_heads", c->n_kv_heads);
  set_int(root, "head_dim", c->head_dim);
  set_real(root, "rms_norm_eps", c->norm_eps);
  json_object_set_new(root, "rope_theta", json_real(c->rope_theta));
  set_activation(root, "hidden_act", c->activation);
  if (!strcmp(c->model_type, "llama")) {
    set_absent(root, "attention_bias", json_false());
    set_absent(root, "mlp_bias", json_false());
  }
  if (!strcmp(c->model_type, "mistral")) set_absent(root, "sliding_window", json_null());
  if (!strcmp(c->model_type, "qwen2")) set_absent(root, "use_sliding_window", json_false());
}

char *model_format_config(const struct model *model, const char *json, int32_t begin, int32_t end) {
  const struct model_config *c = &model->config;
  json_t *root = json_loads(json, 0, NULL);
  CHECK(json_is_object(root), "the configuration of the model has changed");
  json_object_set_new(root, "model_type", json_string(c->model_type));
  json_object_del(root, "architecture");
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (!strcmp(classes[i].model_type, c->model_type))
      json_object_set_new(root, "architectures", json_pack("[s]", classes[i].class));
  set_int(root, "vocab_size", c->vocab_size);
  if (c->rope)
    fill_llamas(root, c);
  else
    fill_gpt2(root, c);
  json_object_set_new(root, "tie_word_embeddings", json_boolean(c->tied));
  set_real(root, "initializer_range", c->init_std);
  set_absent(root, "bos_token_id", begin >= 0 ? json_integer(begin) : json_null());
  set_absent(root, "eos_token_id", end >= 0 ? json_integer(end) : json_null());
  char *dumped = json_dumps(root, JSON_INDENT(1)), *text = mem_strdup(dumped);
  free(dumped);
  json_decref(root);
  return text;
}
