#include "model/model.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

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
  cut->n_ties = model->n_ties;
  cut->ties = MEM_NEW(struct tie, model->n_ties);
  for (int32_t i = 0; i < model->n_ties; i++) {
    cut->ties[i] = model->ties[i]; /* of the embedding and the head, which a cut keeps */
    cut->ties[i].user = cut->n_layers - 1;
  }
  for (int32_t l = 0; l < cut->n_layers; l++) cut->n_parameters += cut->layers[l].n_parameters;
  return cut;
}
