#include "exec/stage_pass.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/footprint.h"

/* Where a layer's regions begin inside the stage's buffers, bytes. */
struct layer_place {
  struct footprint footprint;
  int64_t keep_input, keep_weight, move_input, move_weight, rebuild_input, rebuild_weight, grad_weight;
};

struct walk {
  const struct stage_run *run;
  struct layer_place *places; /* [n_layers] */
  int64_t boundary, gradient; /* bytes of a hidden state, and of its gradient */
  enum node_kind kind;
  bool full; /* a full backward: gradients live in the workspace */
};

static uint32_t get_discarded(const struct walk *walk, int32_t i) {
  return walk->run->discarded ? walk->run->discarded[i] : 0;
}

static uint32_t get_moved(const struct walk *walk, int32_t i) { return walk->run->moved ? walk->run->moved[i] : 0; }

/* Returns true when the hidden state after layer i leaves the device. */
static bool moves_hidden(const struct walk *walk, int32_t i) {
  return i + 1 < walk->run->n_layers && (get_moved(walk, i + 1) >> FOOTPRINT_MOVES_HIDDEN & 1);
}

static void place_layers(struct walk *walk) {
  const struct stage_run *run = walk->run;
  const struct model *model = run->state->model;
  int64_t keep_input = 0, keep_weight = 0, move_input = 0, move_weight = 0;
  int64_t rebuild_input = 0, rebuild_weight = 0, grad_weight = 0;
  for (int32_t i = 0; i < run->n_layers; i++) {
    struct layer_place *p = &walk->places[i];
    if (i == run->first) rebuild_input = rebuild_weight = 0; /* each part has its own */
    footprint_layer(model, &model->layers[run->first_layer + i], run->batch->shape, get_discarded(walk, i),
                    get_moved(walk, i), &p->footprint);
    p->keep_input = keep_input;
    p->keep_weight = keep_weight;
    p->move_input = move_input;
    p->move_weight = move_weight;
    p->rebuild_input = rebuild_input;
    p->rebuild_weight = rebuild_weight;
    p->grad_weight = grad_weight;
    keep_input += p->footprint.bytes[REGION_KEEP_INPUT];
    keep_weight += p->footprint.bytes[REGION_KEEP_WEIGHT] + (moves_hidden(walk, i) ? 0 : walk->boundary);
    move_input += p->footprint.bytes[REGION_MOVE_INPUT];
    move_weight += p->footprint.bytes[REGION_MOVE_WEIGHT] + (moves_hidden(walk, i) ? walk->boundary : 0);
    rebuild_input += p->footprint.bytes[REGION_REBUILD_INPUT];
    rebuild_weight += p->footprint.bytes[REGION_REBUILD_WEIGHT];
    grad_weight += p->footprint.bytes[REGION_GRAD_WEIGHT] + walk->boundary;
  }
}

/* A place in a buffer; NULL in a buffer that this pass does not have. */
static char *advance(char *buffer, int64_t bytes) { return buffer ? buffer + bytes : NULL; }

/* Hidden state after layer i of the stage (-1: before the first). */
static char *find_hidden(const struct walk *walk, int32_t i) {
  const struct stage_run *run = walk->run;
  if (i < 0) return run->buffers[BUFFER_INPUT];
  if (i == run->n_layers - 1) return run->buffers[BUFFER_OUTPUT];
  const struct layer_place *p = &walk->places[i];
  if (moves_hidden(walk, i))
    return advance(run->buffers[BUFFER_MOVE_WEIGHT], p->move_weight + p->footprint.bytes[REGION_MOVE_WEIGHT]);
  return advance(run->buffers[BUFFER_KEEP_WEIGHT], p->keep_weight + p->footprint.bytes[REGION_KEEP_WEIGHT]);
}

/* Bytes of hidden-state gradients at the start of a full backward's workspace: two in turn. */
static int64_t get_turning_bytes(const struct walk *walk) {
  int32_t between = walk->run->end - walk->run->first - 1;
  return (between < 2 ? between : 2) * walk->boundary;
}

/* Gradient of the hidden state after layer i. */
static char *find_hidden_grad(const struct walk *walk, int32_t i) {
  const struct stage_run *run = walk->run;
  if (i < 0) return run->buffers[BUFFER_D_INPUT];
  if (i == run->n_layers - 1) return run->buffers[BUFFER_D_OUTPUT];
  /* Between parts: what one writes the next one reads, while it writes the other. */
  if (i == run->end - 1) return advance(run->buffers[BUFFER_D_HIDDEN], run->odd ? 0 : walk->gradient);
  if (i == run->first - 1) return advance(run->buffers[BUFFER_D_HIDDEN], run->odd ? walk->gradient : 0);
  if (walk->full) return advance(run->buffers[BUFFER_WORK], ((i - run->first) % 2) * walk->boundary);
  const struct layer_place *p = &walk->places[i];
  return advance(run->buffers[BUFFER_GRAD_WEIGHT], p->grad_weight + p->footprint.bytes[REGION_GRAD_WEIGHT]);
}

/* Start of a region of layer i during a pass. */
static char *find_region(const struct walk *walk, int32_t i, enum region region) {
  char *const *buffers = walk->run->buffers;
  const struct layer_place *p = &walk->places[i];
  char *work = buffers[BUFFER_WORK];
  switch (region) {
  case REGION_KEEP_INPUT: return advance(buffers[BUFFER_KEEP_INPUT], p->keep_input);
  case REGION_KEEP_WEIGHT: return advance(buffers[BUFFER_KEEP_WEIGHT], p->keep_weight);
  case REGION_MOVE_INPUT: return advance(buffers[BUFFER_MOVE_INPUT], p->move_input);
  case REGION_MOVE_WEIGHT: return advance(buffers[BUFFER_MOVE_WEIGHT], p->move_weight);
  case REGION_REBUILD_INPUT: return advance(buffers[BUFFER_REBUILD_INPUT], p->rebuild_input);
  case REGION_REBUILD_WEIGHT: return advance(buffers[BUFFER_REBUILD_WEIGHT], p->rebuild_weight);
  case REGION_GRAD_WEIGHT:
    return walk->full ? advance(work, get_turning_bytes(walk)) : advance(buffers[BUFFER_GRAD_WEIGHT], p->grad_weight);
  case REGION_FORWARD: return work;
  case REGION_INPUT:
  case REGION_WEIGHT:
    return walk->full ? advance(work, get_turning_bytes(walk) + p->footprint.bytes[REGION_GRAD_WEIGHT]) : work;
  case REGION_NONE:
  case REGION_COUNT: break;
  }
  return NULL;
}

static float *find_array(const struct walk *walk, int32_t i, struct place place) {
  char *region = find_region(walk, i, place.region);
  return region ? (float *)(void *)(region + place.offset) : NULL;
}

/* Pointers of one layer for a pass. */
struct frame {
  float *act[LAYER_MAX_ACTS], *grad[LAYER_MAX_ACTS];
  float *weight[LAYER_MAX_TENSORS], *weight_grad[LAYER_MAX_TENSORS];
  float *scratch;
};

static void fill_frame(const struct walk *walk, int32_t i, enum pass pass, struct frame *frame) {
  bool makes = walk->kind == NODE_F; /* R and the backward see what is kept or rebuilt */
  const struct stage_run *run = walk->run;
  const struct layer *layer = &run->state->model->layers[run->first_layer + i];
  const struct footprint *f = &walk->places[i].footprint;
  for (int a = 0; a < layer->n_acts; a++) {
    enum act_life life = layer->acts[a].life;
    bool outer = life == ACT_INPUT || life == ACT_OUTPUT;
    int32_t hidden = life == ACT_INPUT ? i - 1 : i;
    frame->act[a] =
        outer ? (float *)(void *)find_hidden(walk, hidden) : find_array(walk, i, makes ? f->made[a] : f->act[a]);
    frame->grad[a] = outer ? (float *)(void *)find_hidden_grad(walk, hidden) : find_array(walk, i, f->grad[a]);
  }
  frame->scratch =
      walk->kind == NODE_R ? (float *)(void *)run->buffers[BUFFER_WORK] : find_array(walk, i, f->scratch[pass]);
  rank_state_get_tensors(run->state, run->first_layer + i, frame->weight, frame->weight_grad);
}

static void run_layer(const struct walk *walk, int32_t i, enum pass pass) {
  const struct stage_run *run = walk->run;
  const struct layer *layer = &run->state->model->layers[run->first_layer + i];
  struct device *device = run->state->device;
  struct frame frame;
  fill_frame(walk, i, pass, &frame);
  struct op_call call = {.config = &run->state->model->config,
                         .layer = layer,
                         .batch = run->batch,
                         .act = frame.act,
                         .grad = frame.grad,
                         .weight = frame.weight,
                         .weight_grad = frame.weight_grad,
                         .scratch = frame.scratch};
  for (int o = 0; o < layer->n_ops; o++) {
    int index = pass == PASS_INPUT ? layer->n_ops - 1 - o : o;
    if (walk->kind == NODE_R && !footprint_is_rebuilt(layer, index, get_discarded(walk, i))) continue;
    call.op = &layer->ops[index];
    device->ops->run(device, pass, &call);
    if (run->between) run->between(run->context, run->first_layer + i, index, pass);
  }
}

void stage_pass_run(enum node_kind kind, const struct stage_run *run) {
  if (run->n_layers == 0) return;
  struct walk walk = {.run = run, .kind = kind, .full = kind == NODE_B};
  walk.places = MEM_NEW(struct layer_place, run->n_layers);
  walk.boundary = footprint_boundary(run->state->model, run->batch->shape);
  walk.gradient = footprint_gradient(run->state->model, run->batch->shape);
  place_layers(&walk);
  int32_t first = run->first, last = run->end - 1;
  switch (kind) {
  case NODE_F:
  case NODE_R: /* the same walk, over what was discarded */
    for (int32_t i = first; i <= last; i++) run_layer(&walk, i, PASS_FORWARD);
    break;
  case NODE_B: /* its input pass and its weight pass, layer by layer */
    for (int32_t i = last; i >= first; i--) {
      run_layer(&walk, i, PASS_INPUT);
      run_layer(&walk, i, PASS_WEIGHT);
    }
    break;
  case NODE_I:
    for (int32_t i = last; i >= first; i--) run_layer(&walk, i, PASS_INPUT);
    break;
  case NODE_W:
    for (int32_t i = last; i >= first; i--) run_layer(&walk, i, PASS_WEIGHT);
    break;
  default: CHECK(false, "node kind %d does not compute", kind);
  }
  mem_free(walk.places);
}
