/* Model FLOPs of a training step; model.h defines them. */
#include "model/model.h"

/* Weights that are used in matrix products, once each; lookups do not count. */
static int64_t count_matrix_weights(const struct model *model) {
  int64_t n = 0;
  for (int32_t l = 0; l < model->n_layers; l++) {
    const struct layer *layer = &model->layers[l];
    if (layer->kind == LAYER_EMBED) continue;
    for (int t = 0; t < layer->n_tensors; t++)
      if (layer->tensors[t].n_dims == 2) n += layer->tensors[t].count;
  }
  return n;
}

double model_get_flops(const struct model *model, int64_t n_rows, const int32_t *lengths) {
  double tokens = 0, pairs = 0;
  for (int64_t r = 0; r < n_rows; r++) {
    double n = lengths[r];
    tokens += n;
    pairs += n * (n + 1) / 2;
  }
  const struct model_config *c = &model->config;
  return 6.0 * (double)count_matrix_weights(model) * tokens +
         12.0 * (double)(c->head_dim * c->n_heads * c->n_blocks) * pairs;
}
