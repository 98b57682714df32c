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
static int alloc_tie(struct rank_state *s, const struct tie *tie) {
  struct rank_tie *t = &s->ties[s->n_ties++];
  int status = STATUS_OK;
  int64_t n = tie->floats, bytes = footprint_tie(s->model, tie);
  int64_t offset = s->model->layers[tie->layer].tensors[tie->tensor].offset;
  bool trains = !s->weights_only;
  *t = (struct rank_tie){.tie = tie, .has_owner = s->holds[tie->layer], .has_user = s->holds[tie->user]};
  if (trains) t->g_user = alloc_floats(s, n, bytes, "gradients of the tied table", &status);
  if (t->has_owner) {
    t->g_owner = s->g[tie->layer] ? s->g[tie->layer] + offset : NULL;
    if (t->has_user && !status) {
      t->w = s->w[tie->layer] + offset;
      t->m = trains ? s->m[tie->layer] + offset : NULL;
      t->v = trains ? s->v[tie->layer] + offset : NULL;
    }
    return status;
  }
  if (trains) t->g_owner = alloc_floats(s, n, bytes, "gradients of the tied table", &status);
  t->w = alloc_floats(s, n, bytes, "the tied table", &status);
  if (!trains) return status;
  t->m = alloc_floats(s, n, bytes, "optimizer state of the tied table", &status);
  t->v = alloc_floats(s, n, bytes, "optimizer state of the tied table", &status);
  return status;
}

static int alloc_ties(struct rank_state *s) {
  int status = STATUS_OK;
  s->ties = MEM_NEW(struct rank_tie, s->model->n_ties);
  for (int32_t i = 0; i < s->model->n_ties && !status; i++) {
    const struct tie *tie = &s->model->ties[i];
    bool here = s->holds[tie->layer] || s->holds[tie->user];
    if (here && footprint_tie(s->model, tie) > 0) status = alloc_tie(s, tie);
  }
  return status;
}

struct rank_tie *rank_state_find_tie(const struct rank_state *s, int32_t layer) {
  for (int32_t i = 0; i < s->n_ties; i++)
    if (s->ties[i].tie->layer == layer || s->ties[i].tie->user == layer) return &s->ties[i];
  return NULL;
}

bool rank_tie_is_copy(const struct rank_tie *tie) { return tie->has_user && !tie->has_owner; }

static bool needs_tokens(const struct rank_state *s) {
  for (int32_t l = 0; l < s->model->n_layers; l++)
    if (s->holds[l] && (s->model->layers[l].kind == LAYER_EMBED || s->model->layers[l].kind == LAYER_HEAD)) return true;
  return false;
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
  s->needs_tokens = needs_tokens(s);
  int status = alloc_layers(s);
  if (!status) status = alloc_ties(s);
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
  for (int32_t i = 0; i < s->n_ties; i++) {
    const struct rank_tie *t = &s->ties[i];
    release(s->device, t->g_user);
    if (t->has_owner) continue;
    release(s->device, t->g_owner);
    release(s->device, t->w);
    release(s->device, t->m);
    release(s->device, t->v);
  }
  mem_free(s->ties);
  mem_free(s->w);
  mem_free(s->g);
  mem_free(s->m);
  mem_free(s->v);
  mem_free(s->holds);
  mem_free(s);
  *state = NULL;
}

bool rank_state_needs_weights(const struct rank_state *s, int32_t layer) {
  const struct rank_tie *t = rank_state_find_tie(s, layer);
  return s->holds[layer] || (t && t->tie->layer == layer && rank_tie_is_copy(t));
}

void rank_state_write_copy(struct rank_state *s, const struct rank_tie *t, const float *block) {
  const struct tensor *tensor = &s->model->layers[t->tie->layer].tensors[t->tie->tensor];
  s->device->ops->write(s->device, t->w, block + tensor->offset, tensor->count * (int64_t)sizeof *block);
}

/* Initial values of one layer go through host memory, as the device's may not be addressable. */
static void init_layer(struct rank_state *s, int32_t layer, uint64_t seed) {
  int64_t n = s->model->layers[layer].n_floats;
  float *block = MEM_NEW(float, n);
  model_init_layer(s->model, layer, seed, block);
  if (s->w[layer]) s->device->ops->write(s->device, s->w[layer], block, n * (int64_t)sizeof *block);
  const struct rank_tie *t = rank_state_find_tie(s, layer);
  if (t && t->tie->layer == layer && rank_tie_is_copy(t)) rank_state_write_copy(s, t, block);
  mem_free(block);
}

void rank_state_init(struct rank_state *s, uint64_t seed) {
  for (int32_t l = 0; l < s->model->n_layers; l++) {
    if (rank_state_needs_weights(s, l)) init_layer(s, l, seed);
    if (!s->holds[l] || s->weights_only) continue;
    int64_t n = s->model->layers[l].n_floats;
    s->device->ops->fill(s->device, n, 0.0f, s->m[l]);
    s->device->ops->fill(s->device, n, 0.0f, s->v[l]);
  }
  for (int32_t i = 0; i < s->n_ties; i++) {
    const struct rank_tie *t = &s->ties[i];
    if (!rank_tie_is_copy(t) || s->weights_only) continue;
    s->device->ops->fill(s->device, t->tie->floats, 0.0f, t->m);
    s->device->ops->fill(s->device, t->tie->floats, 0.0f, t->v);
  }
}

void rank_state_get_tensors(const struct rank_state *s, int32_t layer, float **weight, float **weight_grad) {
  const struct layer *l = &s->model->layers[layer];
  const struct rank_tie *tie = rank_state_find_tie(s, layer);
  for (int t = 0; t < l->n_tensors; t++) {
    bool tied = l->tensors[t].tied;
    weight[t] = tied ? tie->w : s->w[layer] + l->tensors[t].offset;
    weight_grad[t] = s->weights_only ? NULL : tied ? tie->g_user : s->g[layer] + l->tensors[t].offset;
  }
}
