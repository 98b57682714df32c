#include "model/model.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* Where a layer of the model is in the cut, which keeps the last one; -1: it is cut off. */
static int32_t find_place(const struct model *model, const struct model *cut, int32_t layer) {
  if (layer == model->n_layers - 1) return cut->n_layers - 1;
  return layer < cut->n_layers - 1 ? layer : -1;
}

struct model *model_dup_blocks(const struct model *model, int32_t n_blocks) {
  int32_t n_body = 2 * n_blocks;
  CHECK(n_blocks >= 0 && n_body + 2 <= model->n_layers, "a model of %d layers has no %d blocks", model->n_layers,
        n_blocks);
  struct model *cut = MEM_NEW(struct model, 1);
  cut->config = model->config;
  cut->config.n_blocks = n_blocks;
  cut->n_layers = n_body + 2;
  cut->layers = MEM_NEW(struct layer, cut->n_layers);
  memcpy(cut->layers, model->layers, sizeof *cut->layers * (size_t)(n_body + 1));
  cut->layers[n_body + 1] = model->layers[model->n_layers - 1];
  cut->ties = MEM_NEW(struct tie, model->n_ties);
  for (int32_t i = 0; i < model->n_ties; i++) {
    const struct tie *tie = &model->ties[i];
    int32_t layer = find_place(model, cut, tie->layer), user = find_place(model, cut, tie->user);
    if (user < 0) continue;
    CHECK(layer >= 0, "layer %d has a tensor of layer %d, which is cut off", tie->user, tie->layer);
    cut->ties[cut->n_ties] = *tie;
    cut->ties[cut->n_ties].layer = layer;
    cut->ties[cut->n_ties++].user = user;
  }
  for (int32_t l = 0; l < cut->n_layers; l++) cut->n_parameters += cut->layers[l].n_parameters;
  return cut;
}
