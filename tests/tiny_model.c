#include "tiny_model.h"

struct model *make_tiny_model(int n_blocks, bool tied) {
  char json[512];
  snprintf(json, sizeof json,
           "{\"model_type\": \"llama\", \"vocab_size\": 53, \"hidden_size\": 16, \"intermediate_size\": 40, "
           "\"num_hidden_layers\": %d, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
           "\"max_position_embeddings\": 64, \"tie_word_embeddings\": %s}",
           n_blocks, tied ? "true" : "false");
  struct model *model = NULL;
  int status = model_create(json, "test", -1, &model, NULL);
  T_CHECK(status == STATUS_OK, "%s", error_text());
  if (!model) exit(1);
  return model;
}
