#include "exec/rank_state.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/footprint.h"

#include <string.h>

/* n floats, of which a device that only counts its memory may be told other bytes. */
static float *alloc_floats(struct rank_state *s, int64_t n, int64_t bytes, const char *what, int *status) {
  if (*status || bytes == 0) return NULL;
  float *x = s->device->ops->alloc(s->device, bytes, what);
  if (!x)
    *status = error_status();
  else
    s->device->ops->fill(s->device, n, 0.0f, x);
  return x;
}

static int alloc_layers(struct rank_state *s) {
  int status = STATUS_OK;
  for (int32_t l = 0; l < s->model->n_layers; l++) {
    if (!s->holds[l]) continue;
    int64_t n = s->model->layers[l].n_floats, bytes = footprint_parameters(s->model, &s->model->layers[l]);
    s->w[l] = alloc_floats(s, n, bytes, "parameters", &status);
    if (s->weights_only) continue;
    s->g[l] = alloc_floats(s, n, bytes, "gradients", &status);
    s->m[l] = alloc_floats(s, n, bytes, "optimizer state", &status);
    s->v[l] = alloc_floats(s, n, bytes, "optimizer state", &status);
  }
  return status;
}

/* See footprint_static for the counts. */
static int alloc_tied(struct rank_state *s) {
  int status = STATUS_OK;
  int64_t n = s->tied_floats, bytes = footprint_tied_bytes(s->model);
  if (bytes == 0 || !(s->has_embed || s->has_head)) return STATUS_OK;
  bool trains = !s->weights_only;
  if (trains) s->tied_g_head = alloc_floats(s, n, bytes, "gradients of the tied table", &status);
  if (s->has_embed) {
    int64_t offset = s->model->layers[0].tensors[0].offset;
    s->tied_g_embed = s->g[0] ? s->g[0] + offset : NULL;
    if (s->has_head && !status) {
      s->tied_w = s->w[0] + offset;
      s->tied_m = trains ? s->m[0] + offset : NULL;
      s->tied_v = trains ? s->v[0] + offset : NULL;
    }
    return status;
  }
  if (!trains) {
    s->tied_w = alloc_floats(s, n, bytes, "the tied table", &status);
    return status;
  }
  s->tied_g_embed = alloc_floats(s, n, bytes, "gradients of the tied table", &status);
  s->tied_w = alloc_floats(s, n, bytes, "the tied table", &status);
  s->tied_m = alloc_floats(s, n, bytes, "optimizer state of the tied table", &status);
  s->tied_v = alloc_floats(s, n, bytes, "optimizer state of the tied table", &status);
  return status;
}

int rank_state_create(const struct model *model, struct device *device, const bool *holds, bool weights_only,
                      struct rank_state **state) {
  struct rank_state *s = MEM_NEW(struct rank_state, 1);
  size_t n = (size_t)model->n_layers;
  s->model = model;
  s->device = device;
  s->weights_only = weights_only;
  s->holds = MEM_NEW(bool, n);
  memcpy(s->holds, holds, n * sizeof *holds);
  s->w = MEM_NEW(float *, n);
  s->g = MEM_NEW(float *, n);
  s->m = MEM_NEW(float *, n);
  s->v = MEM_NEW(float *, n);
  s->has_embed = holds[0];
  s->has_head = holds[n - 1];
  s->tied_floats = footprint_tied_floats(model);
  int status = alloc_layers(s);
  if (!status) status = alloc_tied(s);
  if (status) rank_state_destroy(&s);
  *state = s;
  return status;
}

void rank_state_destroy(struct rank_state **state) {
  struct rank_state *s = *state;
  if (!s) return;
  void (*release)(struct device *, void *) = s->device->ops->free;
  for (int32_t l = 0; l < s->model->n_layers; l++) {
    release(s->device, s->w[l]);
    release(s->device, s->g[l]);
    release(s->device, s->m[l]);
    release(s->device, s->v[l]);
  }
  release(s->device, s->tied_g_head);
  if (!s->has_embed) {
    release(s->device, s->tied_g_embed);
    release(s->device, s->tied_w);
    release(s->device, s->tied_m);
    release(s->device, s->tied_v);
  }
  mem_free(s->w);
  mem_free(s->g);
  mem_free(s->m);
  mem_free(s->v);
  mem_free(s->holds);
  mem_free(s);
  *state = NULL;
}

/* Initial values of one layer go through host memory, as the device's may not be addressable. */
static void init_layer(struct rank_state *s, int32_t layer, uint64_t seed) {
  int64_t n = s->model->layers[layer].n_floats;
  float *block = MEM_NEW(float, n);
  model_init_layer(s->model, layer, seed, block);
  if (s->w[layer]) s->device->ops->write(s->device, s->w[layer], block, n * (int64_t)sizeof *block);
  if (layer == 0 && s->tied_w && !s->has_embed)
    s->device->ops->write(s->device, s->tied_w, block + s->model->layers[0].tensors[0].offset,
                          s->model->layers[0].tensors[0].count * (int64_t)sizeof *block);
  mem_free(block);
}

void rank_state_init(struct rank_state *s, uint64_t seed) {
  for (int32_t l = 0; l < s->model->n_layers; l++) {
    if (s->holds[l] || (l == 0 && s->tied_w)) init_layer(s, l, seed);
    if (!s->holds[l] || s->weights_only) continue;
    int64_t n = s->model->layers[l].n_floats;
    s->device->ops->fill(s->device, n, 0.0f, s->m[l]);
    s->device->ops->fill(s->device, n, 0.0f, s->v[l]);
  }
  if (!s->tied_w || s->has_embed || s->weights_only) return;
  s->device->ops->fill(s->device, s->tied_floats, 0.0f, s->tied_m);
  s->device->ops->fill(s->device, s->tied_floats, 0.0f, s->tied_v);
}

void rank_state_get_tensors(const struct rank_state *s, int32_t layer, float **weight, float **weight_grad) {
  const struct layer *l = &s->model->layers[layer];
  for (int t = 0; t < l->n_tensors; t++) {
    weight[t] = l->tensors[t].tied ? s->tied_w : s->w[layer] + l->tensors[t].offset;
    weight_grad[t] = s->weights_only ? NULL : l->tensors[t].tied ? s->tied_g_head : s->g[layer] + l->tensors[t].offset;
  }
}
