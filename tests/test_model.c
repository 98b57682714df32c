/* Models from configurations: what is read, refused and noted; tensors and their places; counts, FLOPs, initial
 * values.
 */
#include "base/error.h"
#include "base/mem.h"
#include "kernels.h"
#include "model/config_table.h"
#include "model/model.h"
#include "t.h"

static struct model *create(const char *json, char **notes) {
  struct model *model = NULL;
  T_CHECK(model_create(json, "c.json", -1, &model, notes) == STATUS_OK, "%s: %s", json, error_text());
  if (!model) exit(1);
  return model;
}

/* ---- configurations ---- */

static void test_gpt2_defaults(void) {
  char *notes = NULL;
  struct model *model = create("{\"model_type\": \"gpt2\"}", &notes);
  const struct model_config *c = &model->config;
  T_CHECK(c->vocab_size == 50257 && c->hidden == 768 && c->n_blocks == 12 && c->n_heads == 12 && c->n_kv_heads == 12,
          "sizes");
  T_CHECK(c->head_dim == 64 && c->ffn == 3072 && c->max_positions == 1024, "derived sizes");
  T_CHECK(c->tied && c->layer_norm && c->learned_positions && !c->rope && !c->gated, "kinds");
  T_CHECK(c->activation == ACTIVATION_GELU_TANH && c->norm_eps == 1e-5f && c->init_std == 0.02, "numbers");
  T_CHECK(!strcmp(notes, ""), "%s", notes);
  T_CHECK(model->n_layers == 26 && model->n_parameters == 124439808, "%lld parameters", (long long)model->n_parameters);
  mem_free(notes);
  model_destroy(&model);
}

static void test_llama_defaults(void) {
  struct model *model = create("{\"model_type\": \"llama\"}", NULL);
  const struct model_config *c = &model->config;
  T_CHECK(c->vocab_size == 32000 && c->hidden == 4096 && c->n_blocks == 32 && c->n_heads == 32 && c->n_kv_heads == 32,
          "sizes");
  T_CHECK(c->head_dim == 128 && c->ffn == 11008 && c->max_positions == 2048, "derived sizes");
  T_CHECK(!c->tied && !c->layer_norm && !c->learned_positions && c->rope && c->gated, "kinds");
  T_CHECK(c->activation == ACTIVATION_SILU && c->norm_eps == 1e-6f && c->rope_theta == 10000, "numbers");
  T_CHECK(model->n_parameters == 6738415616, "%lld parameters", (long long)model->n_parameters);
  model_destroy(&model);
}

/* Sizes of published models, counted by their makers. */
static void test_counts(void) {
  static const struct {
    const char *json;
    int64_t parameters;
  } models[] = {
      {"{\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, \"n_inner\": null}", 1557611200},
      {"{\"model_type\": \"llama\", \"hidden_size\": 8192, \"intermediate_size\": 28672, \"num_hidden_layers\": 80, "
       "\"num_attention_heads\": 64, \"num_key_value_heads\": 8}",
       68976648192},
      {"{\"model_type\": \"mistral\", \"sliding_window\": null}", 7241732096},
      {"{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, \"num_hidden_layers\": 24, "
       "\"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"tie_word_embeddings\": true}",
       494032768},
  };
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    struct model *model = create(models[i].json, NULL);
    T_CHECK(model->n_parameters == models[i].parameters, "%s: %lld parameters, %lld wanted", models[i].json,
            (long long)model->n_parameters, (long long)models[i].parameters);
    model_destroy(&model);
  }
}

/* Grouped queries, a head size that does not follow from the others, rotary parameters in every place. */
static void test_llama_keys(void) {
  struct model *model =
      create("{\"model_type\": \"llama\", \"hidden_size\": 48, \"intermediate_size\": 64, \"num_hidden_layers\": 2, "
             "\"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"head_dim\": 10, \"vocab_size\": 100, "
             "\"rope_theta\": 500000, \"rms_norm_eps\": 1e-5, \"initializer_range\": 0.5}",
             NULL);
  const struct model_config *c = &model->config;
  T_CHECK(c->head_dim == 10 && c->n_kv_heads == 2 && c->rope_theta == 500000 && c->init_std == 0.5, "keys are dropped");
  T_CHECK(model->layers[1].acts[3].width == 12 * 10, "queries, keys and values have %lld floats",
          (long long)model->layers[1].acts[3].width);
  model_destroy(&model);
  static const char *const thetas[] = {
      "{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1234}}",
      "{\"model_type\": \"qwen2\", \"rope_parameters\": {\"rope_theta\": 1234}, \"rope_scaling\": null}",
      "{\"model_type\": \"llama\", \"rope_theta\": 1234.0, \"rope_scaling\": {\"type\": \"default\"}}",
  };
  for (size_t i = 0; i < sizeof thetas / sizeof *thetas; i++) {
    model = create(thetas[i], NULL);
    T_CHECK(model->config.rope_theta == 1234, "%s: theta %g", thetas[i], model->config.rope_theta);
    model_destroy(&model);
  }
  struct model *named = create("{\"architecture\": \"gpt2\", \"n_layer\": 1}", NULL);
  T_CHECK(!strcmp(named->config.model_type, "gpt2"), "%s", named->config.model_type);
  model_destroy(&named);
}

/* The first half of a message's proof names the key, the second what is wrong or allowed. */
static void test_refusals(void) {
  static const struct {
    const char *json, *first, *second;
  } cases[] = {
      {"{", "c.json", ""},
      {"[1]", "c.json", ""},
      {"{}", "model_type", "gpt2, llama"},
      {"{\"model_type\": \"bert\"}", "'bert'", "gpt2, llama"},
      {"{\"model_type\": 3}", "model_type", "gpt2, llama"},
      {"{\"model_type\": \"gpt2\", \"n_embd\": \"big\"}", "'n_embd' is \"big\"",
       "allowed: a whole number, from 1 to 16777216"},
      {"{\"model_type\": \"gpt2\", \"n_embd\": 768.5}", "'n_embd' is 768.5", "allowed: a whole number, from 1"},
      {"{\"model_type\": \"gpt2\", \"n_embd\": 0}", "'n_embd' is 0", "allowed: a whole number, from 1"},
      {"{\"model_type\": \"gpt2\", \"n_layer\": -1}", "'n_layer' is -1", "allowed: a whole number, from 0 to 65536"},
      {"{\"model_type\": \"gpt2\", \"n_head\": 7}", "'n_head' is 7; allowed: what divides", "'n_embd', which is 768"},
      {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1}", "'tie_word_embeddings' is 1",
       "allowed: true or false"},
      {"{\"model_type\": \"gpt2\", \"activation_function\": \"mish\"}", "'activation_function' is \"mish\"",
       "allowed: gelu_new"},
      {"{\"model_type\": \"gpt2\", \"activation_function\": 5}", "'activation_function' is 5", "allowed: gelu_new"},
      {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false}", "'scale_attn_weights' is false", "not supported"},
      {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}", "'scale_attn_by_inverse_layer_idx'",
       "not supported"},
      {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", "'add_cross_attention'", "not supported"},
      {"{\"model_type\": \"gpt2\", \"quantization_config\": {\"bits\": 4}}", "'quantization_config'", "not supported"},
      {"{\"model_type\": \"llama\", \"is_encoder_decoder\": true}", "'is_encoder_decoder'", "not supported"},
      {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 0.5}", "'partial_rotary_factor'", "not supported"},
      {"{\"model_type\": \"mistral\"}", "'sliding_window' is not there", "set it to null"},
      {"{\"model_type\": \"mistral\", \"sliding_window\": 4096}", "'sliding_window'", "set it to null"},
      {"{\"model_type\": \"qwen2\", \"use_sliding_window\": true}", "'use_sliding_window'", "set it to false"},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}}",
       "'rope_scaling.rope_type'", "llama3"},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", "'rope_scaling.type'",
       "linear"},
      {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"yarn\"}}", "'rope_parameters.rope_type'",
       "yarn"},
      {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_theta\": -1}}", "'rope_parameters.rope_theta' is -1",
       "allowed: a number, from 0.001"},
      {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}}",
       "'rope_parameters.partial_rotary_factor' is 0.5", "not supported"},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"default\", \"factor\": 2.0}}",
       "'rope_scaling.factor' is 2.0", "not understood"},
      {"{\"model_type\": \"qwen2\", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}}",
       "'rope_parameters.full_attention'", "not understood"},
      {"{\"model_type\": \"llama\", \"rope_parameters\": {\"attention_factor\": 1.2}}",
       "'rope_parameters.attention_factor'", "not supported"},
      {"{\"model_type\": \"llama\", \"rope_parameters\": [1]}", "'rope_parameters' is [1]", "allowed: an object"},
      {"{\"model_type\": \"llama\", \"rope_theta\": 1e4, \"rope_parameters\": {\"rope_theta\": 5e5}}",
       "'rope_theta' is 10000", "'rope_parameters.rope_theta' is 500000"},
      {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "'layer_types'",
       "not supported"},
      {"{\"model_type\": \"llama\", \"layer_types\": 3}", "'layer_types'", "not supported"},
      {"{\"model_type\": \"gpt2\", \"pruned_heads\": {\"0\": [1]}}", "'pruned_heads'", "not supported"},
      {"{\"model_type\": \"gpt2\", \"num_hidden_layers\": 4}", "'num_hidden_layers'", "'n_layer'"},
      {"{\"model_type\": \"gpt2\", \"hidden_size\": 64}", "'hidden_size'", "'n_embd'"},
      {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", "'num_key_value_heads' is 5; allowed: what divides",
       "'num_attention_heads', which is 32"},
      {"{\"model_type\": \"llama\", \"head_dim\": 5}", "'head_dim' is 5", "allowed: even numbers"},
      {"{\"model_type\": \"llama\", \"hidden_size\": 96}", "'num_attention_heads' is 32, which makes heads of size 3",
       "'hidden_size' is 96"},
      {"{\"model_type\": \"qwen2\", \"hidden_size\": 100}", "'num_attention_heads' is 32; allowed: what divides",
       "'hidden_size', which is 100, unless 'head_dim' gives"},
      {"{\"model_type\": \"llama\", \"rms_norm_eps\": 2}", "'rms_norm_eps' is 2", "allowed: a number, from 0 to 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct model *model = NULL;
    char *notes = NULL;
    error_clear();
    int status = model_create(cases[i].json, "c.json", -1, &model, &notes);
    T_CHECK(status == STATUS_MISTAKE && !model, "%s: status %d", cases[i].json, status);
    T_CHECK(strstr(error_text(), "c.json") && strstr(error_text(), cases[i].first) &&
                strstr(error_text(), cases[i].second),
            "%s: %s", cases[i].json, error_text());
    model_destroy(&model);
    mem_free(notes);
  }
}

/* Every key that is used is one of the deck's, for the same families, but for the one that a deck calls init_std. */
static void test_keys(void) {
  int n_own = 0;
  for (const struct config_key *key = config_keys; key->name; key++) {
    const struct param_row *row = param_find("model", key->name);
    char families[64], *rest = families;
    snprintf(families, sizeof families, "%s", key->families);
    for (char *word = strtok_r(families, " ", &rest); row && word; word = strtok_r(NULL, " ", &rest))
      T_CHECK(!*row->family || config_has_word(row->family, word), "%s of %s", key->name, word);
    T_CHECK(row || !strcmp(key->name, "initializer_range"), "a deck has no %s", key->name);
  }
  for (int id = 0; id < PARAM_COUNT; id++) {
    const struct config_key *key = config_keys;
    if (!param_rows[id].of_model) continue;
    while (key->name && strcmp(key->name, param_rows[id].key)) key++;
    T_CHECK(key->name, "no model has %s", param_rows[id].key);
    n_own++;
  }
  T_CHECK(n_own > 10, "%d keys", n_own);
}

/* What does not matter is named once, dropout apart; what is set to its harmless value is not. */
static void test_notes(void) {
  char *notes = NULL;
  struct model *model = create(
      "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"attn_pdrop\": 0.1, \"embd_pdrop\": 0.2, \"resid_pdrop\": 0.0, "
      "\"bos_token_id\": 5, \"use_cache\": true, \"scale_attn_weights\": true, \"quantization_config\": null}",
      &notes);
  T_CHECK(strstr(notes, "c.json: dropout") && strstr(notes, "attn_pdrop, embd_pdrop\n"), "%s", notes);
  T_CHECK(strstr(notes, "bos_token_id, use_cache"), "%s", notes);
  T_CHECK(!strstr(notes, "resid_pdrop") && !strstr(notes, "scale_attn") && !strstr(notes, "quantization") &&
              !strstr(notes, "n_layer") && !strstr(notes, "model_type"),
          "%s", notes);
  mem_free(notes);
  model_destroy(&model);
  model = create("{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"attention_dropout\": 0.0, "
                 "\"partial_rotary_factor\": 1}",
                 &notes);
  T_CHECK(!strcmp(notes, ""), "%s", notes);
  mem_free(notes);
  model_destroy(&model);
}

/* What looks like a slip is told so; no key is passed over in silence. */
static void test_slips(void) {
  static const struct {
    const char *keys, *note; /* of a llama; "": none */
  } cases[] = {
      {"\"num_layers\": 4", "ignored: num_layers (did you mean 'num_hidden_layers'?)"},
      {"\"n_layer\": 4", "ignored: n_layer (did you mean 'num_hidden_layers'?)"},
      {"\"num_hiden_layers\": 4", "ignored: num_hiden_layers (did you mean 'num_hidden_layers'?)"},
      {"\"n_embd\": 4", "ignored: n_embd (did you mean 'hidden_size'?)"},
      {"\"d_model\": 4, \"hidden_size\": 64, \"num_attention_heads\": 4", "ignored: d_model"},
      {"\"use_cache\": true, \"torch_dtype\": \"bfloat16\", \"sliding_window\": null",
       "ignored: use_cache, torch_dtype, sliding_window"},
      {"\"architectures\": [\"LlamaForCausalLM\"]", ""},
      {"\"architectures\": [\"LlamaForSequenceClassification\"]", "ignored: architectures"},
      {"\"architecture\": \"gpt2\"", "ignored: architecture"},
      {"\"dropout_layers\": [1]", "ignored: dropout_layers"},
      {"\"rope_scaling\": null, \"rope_parameters\": {\"rope_type\": \"default\", \"factor\": null, "
       "\"partial_rotary_factor\": 1}",
       ""},
      {"\"layer_types\": [\"full_attention\", \"full_attention\"], \"quantization_config\": null", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *json = mem_format("{\"model_type\": \"llama\", %s}", cases[i].keys), *notes = NULL;
    struct model *model = create(json, &notes);
    size_t n = strlen(notes), m = strlen(cases[i].note);
    T_CHECK(m ? n >= m && !strcmp(notes + n - m, cases[i].note) : n == 0, "%s: '%s'", json, notes);
    model_destroy(&model);
    mem_free(notes);
    mem_free(json);
  }
  char *notes = NULL;
  struct model *model = create("{\"model_type\": \"gpt2\", \"n_layer\": 1, \"rope_parameters\": {\"x\": 1}}", &notes);
  T_CHECK(strstr(notes, "ignored: rope_parameters"), "%s", notes);
  model_destroy(&model);
  mem_free(notes);
}

/* Configurations of two lives of a run: only what is used counts. */
static void test_compare(void) {
  static const char *const keys = "{\"model_type\": \"mistral\", \"num_hidden_layers\": 2}";
  struct model *model = NULL;
  T_CHECK(!model_compare(keys, keys, "new.json"), "what a deck left out: %s", error_text());
  T_CHECK(!model_create_again(keys, "plan.h5", &model), "what a deck left out: %s", error_text());
  model_destroy(&model);

  static const char *const base = "{\"model_type\": \"llama\", \"num_hidden_layers\": 2}";
  static const struct {
    const char *json, *words; /* NULL: the same model */
  } cases[] = {
      {"{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"rope_theta\": 10000, \"use_cache\": false}", NULL},
      {"{\"num_hidden_layers\": 2,\n\"model_type\": \"llama\", \"tie_word_embeddings\": false}", NULL},
      {"{\"model_type\": \"llama\", \"num_hidden_layers\": 3}",
       "new.json: 'num_hidden_layers' was 2 when this run began "
       "and is 3 now"},
      {"{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"rope_parameters\": {\"rope_theta\": 5e5}}",
       "'rope_theta' was 10000 when this run began and is 500000 now"},
      {"{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_act\": \"gelu\"}", "'hidden_act' was silu"},
      {"{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"rms_norm_eps\": 1e-5}", "'rms_norm_eps' was 1e-06"},
      {"{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"mlp_bias\": true}", "'mlp_bias' was false"},
      {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 2}", "was a llama when this run began and is a qwen2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    error_clear();
    int status = model_compare(base, cases[i].json, "new.json");
    T_CHECK(cases[i].words ? status == STATUS_MISTAKE && strstr(error_text(), cases[i].words) : status == STATUS_OK,
            "%s: %s", cases[i].json, error_text());
  }
}

/* ---- tensors ---- */

struct wanted {
  const char *name;
  int64_t dims[2]; /* the second 0: a vector */
  bool decays;
};

static void check_tensors(const char *json, const struct wanted *wanted, int n_wanted) {
  struct model *model = create(json, NULL);
  int found = 0;
  int64_t sum = 0;
  for (int32_t l = 0; l < model->n_layers; l++)
    for (int t = 0; t < model->layers[l].n_tensors; t++) {
      const struct tensor *tensor = &model->layers[l].tensors[t];
      if (tensor->tied) continue;
      const struct wanted *w = &wanted[found < n_wanted ? found : n_wanted - 1];
      found++;
      T_CHECK(!strcmp(tensor->name, w->name), "tensor '%s', wanted '%s'", tensor->name, w->name);
      T_CHECK(tensor->n_dims == (w->dims[1] ? 2 : 1) && tensor->dims[0] == w->dims[0] &&
                  (!w->dims[1] || tensor->dims[1] == w->dims[1]),
              "%s: %d dimensions, %lld x %lld", tensor->name, tensor->n_dims, (long long)tensor->dims[0],
              (long long)tensor->dims[1]);
      T_CHECK(tensor->decays == w->decays, "%s: decay %d", tensor->name, tensor->decays);
      sum += w->dims[0] * (w->dims[1] ? w->dims[1] : 1);
      int place;
      T_CHECK(model_find_tensor(model, w->name, &place) == l && place == t, "%s is not found", w->name);
    }
  int place;
  T_CHECK(found == n_wanted, "%d tensors, wanted %d", found, n_wanted);
  T_CHECK(model->n_parameters == sum, "%lld parameters, wanted %lld", (long long)model->n_parameters, (long long)sum);
  T_CHECK(model_find_tensor(model, "transformer.h.7.ln_1.weight", &place) == -1, "a tensor that is not there is found");
  model_destroy(&model);
}

static void test_gpt2_tensors(void) {
  static const struct wanted wanted[] = {
      {"transformer.wte.weight", {11, 8}, true},
      {"transformer.wpe.weight", {6, 8}, true},
      {"transformer.h.0.ln_1.weight", {8}, false},
      {"transformer.h.0.ln_1.bias", {8}, false},
      {"transformer.h.0.attn.c_attn.weight", {8, 24}, true},
      {"transformer.h.0.attn.c_attn.bias", {24}, false},
      {"transformer.h.0.attn.c_proj.weight", {8, 8}, true},
      {"transformer.h.0.attn.c_proj.bias", {8}, false},
      {"transformer.h.0.ln_2.weight", {8}, false},
      {"transformer.h.0.ln_2.bias", {8}, false},
      {"transformer.h.0.mlp.c_fc.weight", {8, 20}, true},
      {"transformer.h.0.mlp.c_fc.bias", {20}, false},
      {"transformer.h.0.mlp.c_proj.weight", {20, 8}, true},
      {"transformer.h.0.mlp.c_proj.bias", {8}, false},
      {"transformer.ln_f.weight", {8}, false},
      {"transformer.ln_f.bias", {8}, false},
      {"lm_head.weight", {11, 8}, true},
  };
  enum { N = sizeof wanted / sizeof *wanted };
  check_tensors("{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_positions\": 6, \"n_embd\": 8, \"n_layer\": 1, "
                "\"n_head\": 2, \"n_inner\": 20}",
                wanted, N - 1);
  check_tensors("{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_positions\": 6, \"n_embd\": 8, \"n_layer\": 1, "
                "\"n_head\": 2, \"n_inner\": 20, \"tie_word_embeddings\": false}",
                wanted, N);
}

#define LLAMA_SIZES                                                                                                    \
  "\"vocab_size\": 11, \"hidden_size\": 12, \"intermediate_size\": 20, \"num_hidden_layers\": 1, "                     \
  "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 6"

static void test_llama_tensors(void) {
  static const struct wanted wanted[] = {
      {"model.embed_tokens.weight", {11, 12}, true},
      {"model.layers.0.input_layernorm.weight", {12}, false},
      {"model.layers.0.self_attn.q_proj.weight", {24, 12}, true},
      {"model.layers.0.self_attn.k_proj.weight", {12, 12}, true},
      {"model.layers.0.self_attn.v_proj.weight", {12, 12}, true},
      {"model.layers.0.self_attn.o_proj.weight", {12, 24}, true},
      {"model.layers.0.post_attention_layernorm.weight", {12}, false},
      {"model.layers.0.mlp.gate_proj.weight", {20, 12}, true},
      {"model.layers.0.mlp.up_proj.weight", {20, 12}, true},
      {"model.layers.0.mlp.down_proj.weight", {12, 20}, true},
      {"model.norm.weight", {12}, false},
      {"lm_head.weight", {11, 12}, true},
  };
  enum { N = sizeof wanted / sizeof *wanted };
  check_tensors("{\"model_type\": \"llama\", " LLAMA_SIZES "}", wanted, N);
  check_tensors("{\"model_type\": \"mistral\", \"sliding_window\": null, " LLAMA_SIZES "}", wanted, N);
  check_tensors("{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " LLAMA_SIZES "}", wanted, N - 1);
}

static void test_biased_tensors(void) {
  static const struct wanted qwen2[] = {
      {"model.embed_tokens.weight", {11, 12}, true},
      {"model.layers.0.input_layernorm.weight", {12}, false},
      {"model.layers.0.self_attn.q_proj.weight", {24, 12}, true},
      {"model.layers.0.self_attn.k_proj.weight", {12, 12}, true},
      {"model.layers.0.self_attn.v_proj.weight", {12, 12}, true},
      {"model.layers.0.self_attn.q_proj.bias", {24}, false},
      {"model.layers.0.self_attn.k_proj.bias", {12}, false},
      {"model.layers.0.self_attn.v_proj.bias", {12}, false},
      {"model.layers.0.self_attn.o_proj.weight", {12, 24}, true},
      {"model.layers.0.post_attention_layernorm.weight", {12}, false},
      {"model.layers.0.mlp.gate_proj.weight", {20, 12}, true},
      {"model.layers.0.mlp.up_proj.weight", {20, 12}, true},
      {"model.layers.0.mlp.down_proj.weight", {12, 20}, true},
      {"model.norm.weight", {12}, false},
      {"lm_head.weight", {11, 12}, true},
  };
  check_tensors("{\"model_type\": \"qwen2\", " LLAMA_SIZES "}", qwen2, sizeof qwen2 / sizeof *qwen2);
  struct model *model =
      create("{\"model_type\": \"llama\", \"attention_bias\": true, \"mlp_bias\": true, " LLAMA_SIZES "}", NULL);
  static const char *const biases[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                       "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
  for (int i = 0; i < 7; i++) {
    char name[64];
    int tensor;
    snprintf(name, sizeof name, "model.layers.0.%s.bias", biases[i]);
    T_CHECK(model_find_tensor(model, name, &tensor) == (i < 4 ? 1 : 2), "%s is missing", name);
  }
  model_destroy(&model);
}

/* Tensors lie apart in their layer's block, each in order and inside it, those of one product side by side. */
static void check_places(const struct model *model) {
  for (int32_t l = 0; l < model->n_layers; l++) {
    const struct layer *layer = &model->layers[l];
    int64_t end = 0;
    for (int t = 0; t < layer->n_tensors; t++) {
      if (layer->tensors[t].tied) continue;
      T_CHECK(layer->tensors[t].offset >= end && layer->tensors[t].offset < end + 16, "%s lies at %lld, after %lld",
              layer->tensors[t].name, (long long)layer->tensors[t].offset, (long long)end);
      end = layer->tensors[t].offset + layer->tensors[t].count;
    }
    T_CHECK(layer->n_floats >= end && layer->n_floats < end + 16 && layer->n_floats % 16 == 0,
            "layer %d has %lld floats", l, (long long)layer->n_floats);
    for (int o = 0; o < layer->n_ops; o++) {
      const struct op *op = &layer->ops[o];
      T_CHECK(op->weight < 0 || layer->tensors[op->weight].tied || layer->tensors[op->weight].offset % 16 == 0,
              "%s is not aligned", layer->tensors[op->weight].name);
    }
  }
}

/* Rows of a fused matrix: from one tensor's offset to the next without a gap, as many as the product makes. */
static void test_fused(void) {
  struct model *model = create("{\"model_type\": \"qwen2\", " LLAMA_SIZES "}", NULL);
  check_places(model);
  const struct layer *layer = &model->layers[1];
  const struct op *qkv = &layer->ops[1];
  T_CHECK(!strcmp(qkv->name, "qkv") && layer->acts[qkv->out].width == 48, "%s", qkv->name);
  const struct tensor *t = &layer->tensors[qkv->weight], *b = &layer->tensors[qkv->bias];
  T_CHECK(t[1].offset == t[0].offset + t[0].count && t[2].offset == t[1].offset + t[1].count, "a gap in the matrix");
  T_CHECK(b[1].offset == b[0].offset + b[0].count && b[2].offset == b[1].offset + b[1].count, "a gap in the bias");
  model_destroy(&model);
  model = create("{\"model_type\": \"gpt2\", \"vocab_size\": 13, \"n_embd\": 6, \"n_head\": 3, \"n_positions\": 5, "
                 "\"n_layer\": 2}",
                 NULL);
  check_places(model);
  const struct tensor *table = &model->layers[5].tensors[2];
  T_CHECK(table->tied && !strcmp(table->name, "transformer.wte.weight") && model->layers[5].n_parameters == 12,
          "the tied head: %s, %lld parameters", table->name, (long long)model->layers[5].n_parameters);
  model_destroy(&model);
}

/* ---- FLOPs, by hand ---- */

static void check_flops(const char *json, int64_t n_rows, const int32_t *lengths, double wanted) {
  struct model *model = create(json, NULL);
  double flops = model_get_flops(model, n_rows, lengths);
  T_CHECK(flops == wanted, "%s: %.17g FLOPs, wanted %.17g", json, flops, wanted);
  model_destroy(&model);
}

static void test_flops(void) {
  static const int32_t full[] = {4, 4}, padded[] = {4, 1, 3};
  /* Two blocks of 8x24 + 8x8 + 8x32 + 32x8, the tied head 11x8: 2 x 768 + 88 weights, 8 tokens, 2 x 10 pairs. */
  check_flops("{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_positions\": 6, \"n_embd\": 8, \"n_layer\": 2, "
              "\"n_head\": 2}",
              2, full, 6.0 * (2 * 768 + 88) * 8 + 12.0 * 4 * 2 * 2 * 20);
  /* Grouped queries: 12x(24+12+12) + 24x12 + 3x12x20, head 11x12; pairs count all 4 query heads of 6. */
  check_flops("{\"model_type\": \"llama\", " LLAMA_SIZES "}", 2, full,
              6.0 * (576 + 288 + 720 + 132) * 8 + 12.0 * 6 * 4 * 20);
  /* Rows of 4, 1 and 3 real tokens: 10 + 1 + 6 pairs, whatever they are padded to. */
  check_flops("{\"model_type\": \"llama\", " LLAMA_SIZES "}", 3, padded,
              6.0 * (576 + 288 + 720 + 132) * 8 + 12.0 * 6 * 4 * 17);
}

/* ---- initial values ---- */

/* A layer of a longer model, made in other memory, has the same bits; another seed or layer has others. */
static void test_init(void) {
  struct model *model = create("{\"model_type\": \"llama\", " LLAMA_SIZES "}", NULL);
  struct model *longer = create("{\"model_type\": \"llama\", \"vocab_size\": 11, \"hidden_size\": 12, "
                                "\"intermediate_size\": 20, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                                "\"num_key_value_heads\": 2, \"head_dim\": 6}",
                                NULL);
  int64_t n = model->layers[1].n_floats;
  float *a = MEM_NEW(float, n), *b = MEM_NEW(float, n);
  memset(b, 0xff, sizeof *b * (size_t)n);
  model_init_layer(model, 1, 7, a);
  model_init_layer(longer, 1, 7, b);
  T_CHECK(!memcmp(a, b, sizeof *a * (size_t)n), "a layer's values depend on the model's length or on old memory");
  model_init_layer(longer, 3, 7, b);
  T_CHECK(longer->layers[3].n_floats == n && memcmp(a, b, sizeof *a * (size_t)n), "two layers are alike");
  model_init_layer(model, 1, 8, b);
  T_CHECK(memcmp(a, b, sizeof *a * (size_t)n), "two seeds are alike");
  mem_free(a);
  mem_free(b);
  model_destroy(&model);
  model_destroy(&longer);
}

/* Norms 1, biases 0, matrices normal with the deviation asked for; GPT-2's residual projections narrower. */
static void test_init_values(void) {
  struct model *model = create("{\"model_type\": \"gpt2\", \"vocab_size\": 50, \"n_positions\": 10, \"n_embd\": 96, "
                               "\"n_head\": 2, \"n_layer\": 8, \"initializer_range\": 0.3}",
                               NULL);
  for (int32_t l = 1; l <= 2; l++) {
    const struct layer *layer = &model->layers[l];
    float *block = MEM_NEW(float, layer->n_floats);
    model_init_layer(model, l, 1, block);
    for (int t = 0; t < layer->n_tensors; t++) {
      const struct tensor *tensor = &layer->tensors[t];
      double sum = 0, squares = 0, n = (double)tensor->count;
      for (int64_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
        sum += (double)block[i];
        squares += (double)block[i] * (double)block[i];
      }
      bool norm = strstr(tensor->name, ".ln_") && strstr(tensor->name, "weight");
      double std = strstr(tensor->name, "c_proj") ? 0.3 / 4 : 0.3, deviation = sqrt(squares / n);
      if (tensor->n_dims == 1)
        T_CHECK(sum == (norm ? n : 0) && squares == sum, "%s: sum %g", tensor->name, sum);
      else
        T_CHECK(fabs(deviation - std) < 4 * std / sqrt(2 * n) && fabs(sum / n) < 4 * std / sqrt(n),
                "%s: mean %g, deviation %g, wanted %g", tensor->name, sum / n, deviation, std);
    }
    mem_free(block);
  }
  model_destroy(&model);
}

/* The whole configuration makes the model that it was made of, and keeps what it does not know. */
static void test_whole_config(void) {
  static const char *const texts[] = {
      "{\"model_type\": \"gpt2\"}",
      "{\"architecture\": \"gpt2\", \"n_embd\": 64, \"n_head\": 4, \"n_layer\": 2, \"layer_norm_epsilon\": 1e-6, "
      "\"activation_function\": \"relu\", \"tie_word_embeddings\": false}",
      "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
      "\"attention_bias\": true, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}}",
      "{\"model_type\": \"mistral\", \"sliding_window\": null, \"rms_norm_eps\": 1e-5, \"head_dim\": 96}",
      "{\"model_type\": \"qwen2\", \"tie_word_embeddings\": true, \"eos_token_id\": 7, \"initializer_range\": 0.1}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *notes = NULL;
    struct model *model = create(texts[i], &notes);
    char *text = model_format_config(model, texts[i], -1, 256);
    mem_free(notes);
    struct model *again = create(text, &notes);
    mem_free(notes);
    T_CHECK(!memcmp(&model->config, &again->config, sizeof model->config), "%s is not %s", text, texts[i]);
    T_CHECK(model->n_parameters == again->n_parameters, "%s", text);
    T_CHECK(strstr(text, "_epsilon\": ") || strstr(text, "rms_norm_eps\": "), "%s", text);
    T_CHECK(strstr(text, i == 4 ? "\"eos_token_id\": 7" : "\"eos_token_id\": 256"), "%s", text);
    T_CHECK(strstr(text, "\"bos_token_id\": null") && strstr(text, "tie_word_embeddings"), "%s", text);
    mem_free(text);
    model_destroy(&model);
    model_destroy(&again);
  }
}

int main(void) {
  test_gpt2_defaults();
  test_llama_defaults();
  test_whole_config();
  test_counts();
  test_llama_keys();
  test_refusals();
  test_keys();
  test_notes();
  test_slips();
  test_compare();
  test_gpt2_tensors();
  test_llama_tensors();
  test_biased_tensors();
  test_fused();
  test_flops();
  test_init();
  test_init_values();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
