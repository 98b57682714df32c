#include "model/config_table.h"

#include "kernels.h"

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
    {.model_type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .names = &gpt2_names,
     .layer_norm = true,
     .learned_positions = true,
     .matrix_bias = true},
    {.model_type = "llama", .class_name = "LlamaForCausalLM", .names = &llama_names, .rope = true, .gated = true},
    {.model_type = "mistral", .class_name = "MistralForCausalLM", .names = &llama_names, .rope = true, .gated = true},
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .names = &llama_names,
     .rope = true,
     .gated = true,
     .qkv_bias = true},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

#define AT(field) offsetof(struct config_raw, field)
#define LLAMAS "llama mistral qwen2"
const struct config_key config_keys[] = {
    {"gpt2", "vocab_size", AT(vocab), 50257},
    {"gpt2", "n_positions", AT(positions), 1024},
    {"gpt2", "n_embd", AT(hidden), 768},
    {"gpt2", "n_layer", AT(blocks), 12},
    {"gpt2", "n_head", AT(heads), 12},
    {"gpt2", "n_inner", AT(ffn), -1},
    {"gpt2", "layer_norm_epsilon", AT(eps), 1e-5},
    {"gpt2", "activation_function", AT(activation), ACTIVATION_GELU_TANH},
    {"gpt2", "tie_word_embeddings", AT(tied), 1},
    {"mistral", "vocab_size", AT(vocab), 32000},
    {"llama", "vocab_size", AT(vocab), 32000},
    {"qwen2", "vocab_size", AT(vocab), 151936},
    {"llama", "max_position_embeddings", AT(positions), 2048},
    {"mistral", "max_position_embeddings", AT(positions), 131072},
    {"qwen2", "max_position_embeddings", AT(positions), 32768},
    {LLAMAS, "hidden_size", AT(hidden), 4096},
    {"llama", "intermediate_size", AT(ffn), 11008},
    {"mistral", "intermediate_size", AT(ffn), 14336},
    {"qwen2", "intermediate_size", AT(ffn), 22016},
    {LLAMAS, "num_hidden_layers", AT(blocks), 32},
    {LLAMAS, "num_attention_heads", AT(heads), 32},
    {"llama", "num_key_value_heads", AT(kv_heads), -1},
    {"mistral", "num_key_value_heads", AT(kv_heads), 8},
    {"qwen2", "num_key_value_heads", AT(kv_heads), 32},
    {LLAMAS, "head_dim", AT(head_dim), -1},
    {LLAMAS, "rms_norm_eps", AT(eps), 1e-6},
    {LLAMAS, "rope_theta", AT(theta), 10000},
    {LLAMAS, "hidden_act", AT(activation), ACTIVATION_SILU},
    {LLAMAS, "tie_word_embeddings", AT(tied), 0},
    {"llama", "attention_bias", AT(attention_bias), 0},
    {"llama", "mlp_bias", AT(mlp_bias), 0},
    {"gpt2 " LLAMAS, "initializer_range", AT(init_std), 0.02},
    {0},
};

const struct config_refusal config_refusals[] = {
    {"gpt2", "scale_attn_weights", "true", "unscaled attention is not supported", false},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false", "scaling by layer is not supported", false},
    {"gpt2", "add_cross_attention", "false", "cross attention is not supported", false},
    {LLAMAS, "partial_rotary_factor", "1.0", "partial rotary positions are not supported", false},
    {"mistral", "sliding_window", "null", "sliding windows are not supported (absent means 4096); set it to null",
     true},
    {"qwen2", "use_sliding_window", "false", "sliding windows are not supported; set it to false", false},
    {"gpt2 " LLAMAS, "quantization_config", "null", "quantised weights are not supported", false},
    {LLAMAS, "layer_types", "[\"full_attention\"]", "layers of other attention are not supported", false},
    {"gpt2 " LLAMAS, "is_encoder_decoder", "false", "encoder-decoder models are not supported", false},
    {"gpt2", "pruned_heads", "{}", "pruned heads are not supported", false},
    /* Names that Hugging Face's own reader takes for the family's. */
    {"gpt2", "hidden_size", "null", "it is 'n_embd' in this family: write that", false},
    {"gpt2", "num_hidden_layers", "null", "it is 'n_layer' in this family: write that", false},
    {"gpt2", "num_attention_heads", "null", "it is 'n_head' in this family: write that", false},
    {"gpt2", "max_position_embeddings", "null", "it is 'n_positions' in this family: write that", false},
    {0},
};

const struct config_refusal config_rope_keys[] = {
    {NULL, "rope_type", "\"default\"", "only rope_type 'default' is supported", false},
    {NULL, "type", "\"default\"", "only type 'default' is supported", false},
    {NULL, "partial_rotary_factor", "1.0", "partial rotary positions are not supported", false},
    {NULL, "attention_factor", "1.0", "scaled rotary positions are not supported", false},
    {0},
};

const struct config_word config_words[] = {
    {"num_layers", AT(blocks)},
    {"n_layers", AT(blocks)},
    {"layers", AT(blocks)},
    {"d_model", AT(hidden)},
    {"dim", AT(hidden)},
    {"n_heads", AT(heads)},
    {"num_heads", AT(heads)},
    {"n_kv_heads", AT(kv_heads)},
    {"num_kv_heads", AT(kv_heads)},
    {"num_query_groups", AT(kv_heads)},
    {"ffn_dim", AT(ffn)},
    {"ffn_hidden_size", AT(ffn)},
    {"d_ff", AT(ffn)},
    {"max_seq_len", AT(positions)},
    {"seq_length", AT(positions)},
    {"n_ctx", AT(positions)},
    {"norm_eps", AT(eps)},
    {"layer_norm_eps", AT(eps)},
    {"activation", AT(activation)},
    {"rotary_base", AT(theta)},
    {"init_std", AT(init_std)},
    {NULL, 0},
};

static const struct {
  const char *name;
  enum activation activation;
} activations[] = {
    {"gelu_new", ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
    {"gelu", ACTIVATION_GELU},          {"silu", ACTIVATION_SILU},
    {"swish", ACTIVATION_SILU},         {"relu", ACTIVATION_RELU},
    {"relu2", ACTIVATION_RELU2},
};

const struct param_row *config_get_row(const struct config_key *key) {
  static const struct param_row outside = {.type = PARAM_FLOAT,
                                           .range = "[0, 10]"}; /* initializer_range: decks have init_std */
  const struct param_row *row = param_find("model", key->name);
  return row ? row : &outside;
}

bool config_has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; (p = strstr(p, word)); p += n)
    if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
  return false;
}

const struct family *config_find_family(const char *model_type) {
  for (int i = 0; i < N_FAMILIES; i++)
    if (!strcmp(families[i].model_type, model_type)) return &families[i];
  return NULL;
}

int config_find_activation(const char *name) {
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if (!strcmp(activations[i].name, name)) return (int)activations[i].activation;
  return -1;
}

const char *config_get_activation_name(int activation) {
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if ((int)activations[i].activation == activation) return activations[i].name;
  return "?";
}

const struct config_key *config_find_key(const struct family *family, const char *name) {
  for (const struct config_key *key = config_keys; key->name; key++)
    if (config_has_word(key->families, family->model_type) && !strcmp(key->name, name)) return key;
  return NULL;
}

const struct config_key *config_find_offset(const struct family *family, size_t offset) {
  for (const struct config_key *key = config_keys; key->name; key++)
    if (config_has_word(key->families, family->model_type) && key->offset == offset) return key;
  return NULL;
}
