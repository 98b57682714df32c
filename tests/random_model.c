#include "random_model.h"

#include "base/mem.h"
#include "base/rng.h"

int64_t random_model_pick(uint64_t seed, uint32_t a, uint64_t i, int64_t below) {
  const struct rng_key key = {.seed = seed, .purpose = RNG_TEST, .a = a};
  return (int64_t)(rng_bits(&key, i) % (uint64_t)below);
}

struct model *make_random_model(uint64_t seed, int32_t n_layers, int64_t most, bool tied) {
  struct model *model = MEM_NEW(struct model, 1);
  model->n_layers = n_layers;
  model->layers = MEM_NEW(struct layer, n_layers);
  for (int32_t l = 0; l < n_layers; l++) {
    struct layer *layer = &model->layers[l];
    layer->n_tensors = 1 + (int)random_model_pick(seed, 1, (uint64_t)l, 4);
    for (int t = 0; t < layer->n_tensors; t++) {
      struct tensor *tensor = &layer->tensors[t];
      uint64_t at = (uint64_t)l * 16 + (uint64_t)t;
      snprintf(tensor->name, sizeof tensor->name, "model.layers.%d.part%d.weight", l, t);
      tensor->n_dims = 1 + (int)random_model_pick(seed, 2, at, 2);
      tensor->count = 1;
      for (int d = 0; d < tensor->n_dims; d++)
        tensor->count *= tensor->dims[d] = 1 + random_model_pick(seed, 3 + (uint32_t)d, at, most);
      tensor->offset = layer->n_floats;
      layer->n_floats += (tensor->count + 15) / 16 * 16;
    }
  }
  if (tied) {
    struct layer *head = &model->layers[n_layers - 1];
    struct tie tie = {.layer = (int32_t)random_model_pick(seed, 5, 0, n_layers - 1), .user = n_layers - 1};
    tie.tensor = (int)random_model_pick(seed, 6, 0, model->layers[tie.layer].n_tensors);
    tie.user_tensor = head->n_tensors++;
    head->tensors[tie.user_tensor] = model->layers[tie.layer].tensors[tie.tensor];
    head->tensors[tie.user_tensor].tied = true;
    model->ties = MEM_NEW(struct tie, 1);
    model->ties[model->n_ties++] = tie;
  }
  return model;
}

void free_random_model(struct model *model) {
  mem_free(model->layers);
  mem_free(model->ties);
  mem_free(model);
}

static int spread_layer(int spread, int32_t layer, int32_t n_layers, int size) {
  switch (spread) {
  case SPREAD_EVEN: return (int)((int64_t)layer * size / n_layers);
  case SPREAD_ROUND: return layer % size;
  case SPREAD_BACKWARD: return size - 1 - (int)((int64_t)layer * layer * size / ((int64_t)n_layers * n_layers));
  default: return layer == 0 ? 0 : size - 1;
  }
}

struct arrays make_arrays(const struct model *model, int spread, int rank, int size) {
  struct arrays arrays = {.tie = model->ties};
  if (arrays.tie) arrays.tied = model->layers[arrays.tie->layer].tensors[arrays.tie->tensor].count;
  for (int s = 0; s < 3; s++) {
    arrays.set[s] = MEM_NEW(float *, model->n_layers);
    for (int32_t l = 0; l < model->n_layers; l++)
      if (spread_layer(spread, l, model->n_layers, size) == rank)
        arrays.set[s][l] = MEM_NEW(float, model->layers[l].n_floats);
    int last = spread_layer(spread, model->n_layers - 1, model->n_layers, size);
    bool alone = arrays.tie && last == rank && !arrays.set[s][arrays.tie->layer];
    arrays.copy[s] = alone ? MEM_NEW(float, arrays.tied) : NULL;
  }
  return arrays;
}

void free_arrays(const struct model *model, struct arrays *arrays) {
  for (int s = 0; s < 3; s++) {
    for (int32_t l = 0; l < model->n_layers; l++) mem_free(arrays->set[s][l]);
    mem_free(arrays->set[s]);
    mem_free(arrays->copy[s]);
  }
}

struct checkpoint_part get_part(const struct arrays *arrays) {
  struct checkpoint_part part = {.weights = arrays->set[0], .m = arrays->set[1], .v = arrays->set[2]};
  part.n_copies = arrays->copy[0] != NULL;
  if (part.n_copies)
    part.copies[0] = (struct checkpoint_copy){
        arrays->tie->layer, arrays->tie->tensor, {arrays->copy[0], arrays->copy[1], arrays->copy[2]}};
  return part;
}

static float value_at(int64_t step, int set, int32_t layer, int64_t i) {
  uint64_t x = (uint64_t)step * 1000003 + (uint64_t)set * 10007 + (uint64_t)layer * 101 + (uint64_t)i * 2654435761u;
  x ^= x >> 15;
  return (float)(int32_t)(x * 0x9E3779B1u >> 8) * 1e-6f;
}

int64_t visit_arrays(const struct model *model, const struct arrays *arrays, int64_t step, int n_sets, bool write) {
  int64_t wrong = 0;
  for (int s = 0; s < n_sets; s++)
    for (int32_t l = 0; l < model->n_layers; l++)
      for (int t = 0; t < model->layers[l].n_tensors && arrays->set[s][l]; t++) {
        const struct tensor *tensor = &model->layers[l].tensors[t];
        float *data = arrays->set[s][l] + tensor->offset;
        for (int64_t i = 0; i < tensor->count && !tensor->tied; i++) {
          float value = value_at(step, s, l, tensor->offset + i);
          if (write) data[i] = value;
          wrong += data[i] != value;
        }
      }
  for (int s = 0; s < n_sets; s++)
    for (int64_t i = 0; arrays->copy[s] && i < arrays->tied && !write; i++) {
      int64_t offset = model->layers[arrays->tie->layer].tensors[arrays->tie->tensor].offset;
      wrong += arrays->copy[s][i] != value_at(step, s, arrays->tie->layer, offset + i);
    }
  return wrong;
}

int64_t count_padding(const struct model *model, const struct arrays *arrays) {
  int64_t wrong = 0;
  for (int s = 0; s < 3; s++)
    for (int32_t l = 0; l < model->n_layers; l++)
      for (int t = 0; t < model->layers[l].n_tensors && arrays->set[s][l]; t++) {
        const struct tensor *tensor = &model->layers[l].tensors[t];
        if (tensor->tied) continue;
        for (int64_t i = tensor->count; i % 16; i++) wrong += arrays->set[s][l][tensor->offset + i] != 0;
      }
  return wrong;
}
