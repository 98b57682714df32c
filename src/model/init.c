/* Initial parameters: each element a function of (seed, layer, tensor, element). */
#include "model/model.h"

#include "base/rng.h"

#include <string.h>

static void init_tensor(const struct tensor *t, const struct rng_key *key, float *w) {
  for (int64_t i = 0; i < t->count; i++)
    w[i] = t->init == INIT_NORMAL ? (float)(t->init_std * rng_normal(key, (uint64_t)i))
           : t->init == INIT_ONES ? 1.0f
                                  : 0.0f;
}

void model_init_layer(const struct model *model, int32_t layer, uint64_t seed, float *block) {
  const struct layer *l = &model->layers[layer];
  memset(block, 0, sizeof *block * (size_t)l->n_floats);
  for (int t = 0; t < l->n_tensors; t++) {
    if (l->tensors[t].tied) continue;
    struct rng_key key = {.seed = seed, .purpose = RNG_INIT, .a = (uint32_t)layer, .b = (uint32_t)t};
    init_tensor(&l->tensors[t], &key, block + l->tensors[t].offset);
  }
}
