#include "model/footprint.h"

#include "kernels.h"

int64_t footprint_round(int64_t bytes) { return (bytes + FOOTPRINT_ALIGN - 1) / FOOTPRINT_ALIGN * FOOTPRINT_ALIGN; }

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static enum region region_of_act(enum act_life life) {
  switch (life) {
  case ACT_KEEP_INPUT: return REGION_KEEP_INPUT;
  case ACT_KEEP_WEIGHT: return REGION_KEEP_WEIGHT;
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

void footprint_layer(const struct model *model, const struct layer *layer, int64_t rows, int64_t length,
                     struct footprint *out) {
  int64_t tokens = rows * length, scratch[3] = {0};
  *out = (struct footprint){0};
  for (int a = 0; a < layer->n_acts; a++) {
    int64_t bytes = layer->acts[a].width * tokens * (int64_t)sizeof(float);
    out->act[a] = place_array(out, region_of_act(layer->acts[a].life), bytes);
    out->grad[a] = place_array(out, region_of_grad(layer->acts[a].grad), bytes);
  }
  for (int o = 0; o < layer->n_ops; o++) {
    int64_t need[3];
    get_scratch(model, &layer->ops[o], tokens, need);
    for (int pass = 0; pass < 3; pass++) scratch[pass] = max64(scratch[pass], need[pass]);
  }
  for (int pass = 0; pass < 3; pass++)
    if (scratch[pass])
      out->scratch[pass] =
          place_array(out, (enum region)(REGION_FORWARD + pass), scratch[pass] * (int64_t)sizeof(float));
}

int64_t footprint_boundary(const struct model *model, int64_t rows, int64_t length) {
  return footprint_round(rows * length * model->config.hidden * (int64_t)sizeof(float));
}

void footprint_stage(const struct model *model, int32_t first, int32_t n, int64_t rows, int64_t length,
                     struct footprint_stage *out) {
  int64_t boundary = footprint_boundary(model, rows, length), backward = 0;
  *out = (struct footprint_stage){0};
  for (int32_t l = first; l < first + n; l++) {
    struct footprint f;
    footprint_layer(model, &model->layers[l], rows, length, &f);
    out->keep_input += f.bytes[REGION_KEEP_INPUT];
    out->keep_weight += f.bytes[REGION_KEEP_WEIGHT];
    out->grad_weight += f.bytes[REGION_GRAD_WEIGHT];
    out->work_forward = max64(out->work_forward, f.bytes[REGION_FORWARD]);
    out->work_input = max64(out->work_input, f.bytes[REGION_INPUT]);
    out->work_weight = max64(out->work_weight, f.bytes[REGION_WEIGHT]);
    backward = max64(backward, f.bytes[REGION_GRAD_WEIGHT] + max64(f.bytes[REGION_INPUT], f.bytes[REGION_WEIGHT]));
  }
  int64_t between = n > 1 ? n - 1 : 0;
  out->keep_weight += between * boundary;
  out->grad_weight += between * boundary;
  out->work_backward = backward + (between < 2 ? between : 2) * boundary;
}

int64_t footprint_tied_floats(const struct model *model) {
  const struct model_config *c = &model->config;
  return c->tied ? (c->vocab_size * c->hidden + 15) / 16 * 16 : 0;
}

int64_t footprint_static(const struct model *model, const bool *holds) {
  int64_t floats = 0;
  for (int32_t l = 0; l < model->n_layers; l++)
    if (holds[l]) floats += 4 * model->layers[l].n_floats;
  bool embed = holds[0], head = holds[model->n_layers - 1];
  floats += footprint_tied_floats(model) * (embed ? 1 : head ? 5 : 0);
  return floats * (int64_t)sizeof(float);
}
