/* The names behind the numbers of ops and activations, for files. */
#include "model/model.h"

#include "base/mem.h"

/* Takes `text` over. */
static char *append(char *text, const char *more, const char *end) {
  char *longer = mem_format("%s%s%s", text, more, end);
  mem_free(text);
  return longer;
}

/* The first layer of a kind stands for all of them. */
static const struct layer *find_layer(const struct model *model, enum layer_kind kind) {
  for (int32_t l = 0; l < model->n_layers; l++)
    if (model->layers[l].kind == kind) return &model->layers[l];
  return NULL;
}

char *model_format_names(const struct model *model, enum model_names which) {
  char *text = mem_strdup("{");
  for (int kind = 0, n_kinds = 0; kind < LAYER_KIND_COUNT; kind++) {
    const struct layer *layer = find_layer(model, (enum layer_kind)kind);
    if (!layer) continue;
    text = append(text, n_kinds++ ? ", \"" : "\"", layer_kind_get_name(layer->kind));
    text = append(text, "\": [", "");
    int n = which == MODEL_OPS ? layer->n_ops : layer->n_acts;
    for (int i = 0; i < n; i++) {
      text = append(text, i ? ", \"" : "\"", which == MODEL_OPS ? layer->ops[i].name : layer->acts[i].name);
      text = append(text, "\"", "");
    }
    text = append(text, "]", "");
  }
  return append(text, "}", "");
}
