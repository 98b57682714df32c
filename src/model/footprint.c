#include "model/footprint.h"

#include "kernels.h"

int64_t footprint_round(int64_t bytes) { return (bytes + FOOTPRINT_ALIGN - 1) / FOOTPRINT_ALIGN * FOOTPRINT_ALIGN; }

/* Bytes of a number of an activation. */
static int64_t get_word(const struct model *model) { return model->half ? 2 : (int64_t)sizeof(float); }

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static enum region region_of_act(enum act_life life, bool discarded, bool moved) {
  switch (life) {
  case ACT_KEEP_INPUT: return discarded ? REGION_REBUILD_INPUT : moved ? REGION_MOVE_INPUT : REGION_KEEP_INPUT;
  case ACT_KEEP_WEIGHT: return discarded ? REGION_REBUILD_WEIGHT : moved ? REGION_MOVE_WEIGHT : REGION_KEEP_WEIGHT;
  case ACT_TEMPORARY: return REGION_FORWARD;
  case ACT_INPUT:
  case ACT_OUTPUT: break;
  }
  return REGION_NONE;
}

static enum region region_of_grad(enum grad_life life) {
  switch (life) {
  case GRAD_TEMPORARY: return REGION_INPUT;
  case GRAD_WEIGHT: return REGION_GRAD_WEIGHT;
  case GRAD_FORWARD: return REGION_KEEP_WEIGHT;
  case GRAD_NONE:
  case GRAD_BOUNDARY: break;
  }
  return REGION_NONE;
}

/* Puts an array at the end of its region. */
static struct place place_array(struct footprint *out, enum region region, int64_t bytes) {
  struct place place = {region, out->bytes[region]};
  if (region == REGION_NONE) return (struct place){REGION_NONE, 0};
  out->bytes[region] += footprint_round(bytes);
  return place;
}

/* Kernel scratch of one op in the three passes, floats. */
static void get_scratch(const struct model *model, const struct op *op, int64_t tokens, int64_t scratch[3]) {
  scratch[0] = op->kind == OP_HEAD ? head_get_scratch(tokens, model->config.vocab_size) : 0;
  scratch[1] = op->kind == OP_ATTENTION ? tokens * model->config.n_heads : 0;
  scratch[2] = 0;
}

static bool is_kept(const struct layer *layer, int act) {
  return act >= 0 && (layer->acts[act].life == ACT_KEEP_INPUT || layer->acts[act].life == ACT_KEEP_WEIGHT);
}

static bool writes(const struct op *op, int act) { return op->out == act || op->stats == act; }

/* An activation is discarded when one of the ops that write it is. */
static bool is_discarded(const struct layer *layer, int act, uint32_t discarded) {
  for (int o = 0; o < layer->n_ops; o++)
    if ((discarded >> o & 1) && writes(&layer->ops[o], act)) return is_kept(layer, act);
  return false;
}

int64_t footprint_act(const struct model *model, const struct act *act, struct micro_shape shape) {
  return footprint_round(act->width * micro_shape_count_positions(shape) * get_word(model));
}

bool footprint_is_rebuilt(const struct layer *layer, int op, uint32_t discarded) {
  const struct op *o = &layer->ops[op];
  return (o->out >= 0 && is_discarded(layer, o->out, discarded)) ||
         (o->stats >= 0 && is_discarded(layer, o->stats, discarded));
}

uint32_t footprint_get_movable(const struct layer *layer) {
  uint32_t acts = ((uint32_t)1 << layer->n_acts) - 1;
  return (layer->has_sizes && !acts ? 1 : acts) | (uint32_t)1 << FOOTPRINT_MOVES_HIDDEN;
}

bool footprint_is_given(const struct model *model) { return model->layers[0].has_sizes; }

static void lay_out_given(const struct layer *layer, bool discarded, bool moved, struct footprint *out) {
  const struct layer_sizes *sizes = &layer->sizes;
  place_array(out, region_of_act(ACT_KEEP_INPUT, discarded, moved), sizes->kept - sizes->kept_weight);
  place_array(out, region_of_act(ACT_KEEP_WEIGHT, discarded, moved), sizes->kept_weight);
}

void footprint_layer(const struct model *model, const struct layer *layer, struct micro_shape shape, uint32_t discarded,
                     uint32_t moved, struct footprint *out) {
  int64_t tokens = micro_shape_count_positions(shape), scratch[3] = {0}, rebuild = 0;
  *out = (struct footprint){0};
  if (layer->has_sizes) {
    lay_out_given(layer, discarded, moved & ((1 << LAYER_MAX_ACTS) - 1), out);
    return;
  }
  for (int a = 0; a < layer->n_acts; a++) {
    int64_t bytes = footprint_act(model, &layer->acts[a], shape);
    bool lost = is_discarded(layer, a, discarded);
    out->act[a] = place_array(out, region_of_act(layer->acts[a].life, lost, moved >> a & 1), bytes);
    out->made[a] = lost ? place_array(out, REGION_FORWARD, bytes) : out->act[a];
    out->grad[a] = place_array(out, region_of_grad(layer->acts[a].grad), bytes);
  }
  for (int o = 0; o < layer->n_ops; o++) {
    int64_t need[3];
    get_scratch(model, &layer->ops[o], tokens, need);
    for (int pass = 0; pass < 3; pass++) scratch[pass] = max64(scratch[pass], need[pass]);
    if (footprint_is_rebuilt(layer, o, discarded)) rebuild = max64(rebuild, need[0]);
  }
  out->scratch_rebuild_bytes = footprint_round(rebuild * (int64_t)sizeof(float));
  for (int pass = 0; pass < 3; pass++)
    if (scratch[pass])
      out->scratch[pass] =
          place_array(out, (enum region)(REGION_FORWARD + pass), scratch[pass] * (int64_t)sizeof(float));
}

int64_t footprint_boundary(const struct model *model, struct micro_shape shape) {
  return footprint_round(micro_shape_count_positions(shape) * model->config.hidden * get_word(model));
}

int64_t footprint_output(const struct model *model, int32_t layer, struct micro_shape shape) {
  const struct layer *l = &model->layers[layer];
  return l->has_sizes ? footprint_round(l->sizes.output) : footprint_boundary(model, shape);
}

int64_t footprint_gradient(const struct model *model, struct micro_shape shape) {
  return footprint_is_given(model) ? 0 : footprint_boundary(model, shape);
}

/* The hidden states between the layers and their gradients. */
static void add_hidden(const struct model *model, int32_t first, int32_t n, struct micro_shape shape,
                       const uint32_t *moved, struct footprint_stage *out) {
  int64_t between = n > 1 ? n - 1 : 0, boundary = footprint_gradient(model, shape);
  for (int32_t l = 1; l < n; l++) {
    bool moves = moved && moved[l] >> FOOTPRINT_MOVES_HIDDEN & 1;
    *(moves ? &out->move_weight : &out->keep_weight) += footprint_output(model, first + l - 1, shape);
  }
  out->grad_weight += between * boundary;
  out->work_backward += (between < 2 ? between : 2) * boundary;
}

void footprint_stage(const struct model *model, int32_t first, int32_t n, struct micro_shape shape,
                     const uint32_t *discarded, const uint32_t *moved, struct footprint_stage *out) {
  *out = (struct footprint_stage){0};
  for (int32_t l = first; l < first + n; l++) {
    struct footprint f;
    footprint_layer(model, &model->layers[l], shape, discarded ? discarded[l - first] : 0, moved ? moved[l - first] : 0,
                    &f);
    out->keep_input += f.bytes[REGION_KEEP_INPUT];
    out->keep_weight += f.bytes[REGION_KEEP_WEIGHT];
    out->move_input += f.bytes[REGION_MOVE_INPUT];
    out->move_weight += f.bytes[REGION_MOVE_WEIGHT];
    out->rebuild_input += f.bytes[REGION_REBUILD_INPUT];
    out->rebuild_weight += f.bytes[REGION_REBUILD_WEIGHT];
    out->grad_weight += f.bytes[REGION_GRAD_WEIGHT];
    out->work_forward = max64(out->work_forward, f.bytes[REGION_FORWARD]);
    out->work_rebuild = max64(out->work_rebuild, f.scratch_rebuild_bytes);
    out->work_input = max64(out->work_input, f.bytes[REGION_INPUT]);
    out->work_weight = max64(out->work_weight, f.bytes[REGION_WEIGHT]);
    out->work_backward =
        max64(out->work_backward, f.bytes[REGION_GRAD_WEIGHT] + max64(f.bytes[REGION_INPUT], f.bytes[REGION_WEIGHT]));
  }
  add_hidden(model, first, n, shape, moved, out);
}

int64_t footprint_tie(const struct model *model, const struct tie *tie) {
  int64_t bytes = tie->floats * (int64_t)sizeof(float);
  return footprint_is_given(model) ? 0 : model->half ? footprint_round(bytes + bytes / 8) : bytes;
}

int64_t footprint_parameters(const struct model *model, const struct layer *layer) {
  int64_t bytes = layer->n_floats * (int64_t)sizeof(float);
  if (layer->has_sizes) return footprint_round(layer->sizes.parameters);
  return model->half ? footprint_round(bytes + bytes / 8) : bytes;
}

int64_t footprint_static(const struct model *model, const bool *holds) {
  int64_t bytes = 0;
  for (int32_t l = 0; l < model->n_layers; l++)
    if (holds[l]) bytes += 4 * footprint_parameters(model, &model->layers[l]);
  for (int32_t i = 0; i < model->n_ties; i++) {
    const struct tie *tie = &model->ties[i];
    bytes += footprint_tie(model, tie) * (holds[tie->layer] ? 1 : holds[tie->user] ? 5 : 0);
  }
  return bytes;
}
