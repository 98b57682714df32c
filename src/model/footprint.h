/* Where a layer's activations and gradients lie, and how many bytes they take: one layout that planner, graph,
 * simulator and executor share, so that predicted and measured memory agree to the byte. Every array starts at a
 * multiple of 64 bytes within its region, and regions are multiples of 64 bytes. Functions of a layer and a shape
 * alone.
 */
#ifndef PENSTOCK_MODEL_FOOTPRINT_H
#define PENSTOCK_MODEL_FOOTPRINT_H

#include "model/micro_shape.h"
#include "model/model.h"

enum { FOOTPRINT_ALIGN = 64 };

/* Regions that a layer's arrays fall into. */
enum region {
  REGION_NONE,           /* lies elsewhere (boundary) or does not exist */
  REGION_KEEP_INPUT,     /* forward to input pass */
  REGION_KEEP_WEIGHT,    /* forward to weight pass */
  REGION_MOVE_INPUT,     /* forward to input pass, of what leaves the device in between */
  REGION_MOVE_WEIGHT,    /* forward to weight pass, the same */
  REGION_REBUILD_INPUT,  /* recomputation to input pass */
  REGION_REBUILD_WEIGHT, /* recomputation to weight pass */
  REGION_GRAD_WEIGHT,    /* input pass to weight pass */
  REGION_FORWARD,        /* workspace of the forward */
  REGION_INPUT,          /* workspace of the input pass */
  REGION_WEIGHT,         /* workspace of the weight pass */
  REGION_COUNT
};

struct place {
  enum region region;
  int64_t offset; /* bytes in the region */
};

struct footprint {
  int64_t bytes[REGION_COUNT];      /* of each region for this layer */
  struct place act[LAYER_MAX_ACTS]; /* activations, from the backward's side: kept, or rebuilt */
  struct place
      made[LAYER_MAX_ACTS]; /* activations, where the forward makes them: the same, or workspace when discarded */
  struct place grad[LAYER_MAX_ACTS]; /* their gradients */
  struct place scratch[3];           /* kernel scratch of the passes: forward, input, weight (one for all ops) */
  int64_t scratch_rebuild_bytes;     /* all the workspace that a recomputation needs */
};

/* n rounded up to FOOTPRINT_ALIGN. */
int64_t footprint_round(int64_t bytes);
/* The activations of a layer that may leave the device between forward and backward: a bit an activation, and one for
 * the hidden state that enters the layer. Gradients that a forward makes stay. */
enum { FOOTPRINT_MOVES_HIDDEN = LAYER_MAX_ACTS };

/* The bits that mean something for a layer: its activations, the hidden state; all that it keeps can move. */
uint32_t footprint_get_movable(const struct layer *layer);

/* Lays out one layer for a micro-batch. `discarded` has a bit for each op whose outputs the forward
 * does not keep; `moved` is as above, 0: nothing leaves. */
void footprint_layer(const struct model *model, const struct layer *layer, struct micro_shape shape, uint32_t discarded,
                     uint32_t moved, struct footprint *out);
/* Bytes of an activation, or of its gradient, rounded up: the model's two-byte or four-byte numbers. */
int64_t footprint_act(const struct model *model, const struct act *act, struct micro_shape shape);
/* True when R runs the op again: one of the arrays that it writes is kept for the backward and was discarded. An array
 * that several ops write (in place) is discarded when any of them is named. */
bool footprint_is_rebuilt(const struct layer *layer, int op, uint32_t discarded);
/* Bytes of the hidden state between two layers of the model; its gradient has as many. */
int64_t footprint_boundary(const struct model *model, struct micro_shape shape);
/* Bytes that a stage holds for the gradient of a hidden state between two of its layers: none where sizes are given. */
int64_t footprint_gradient(const struct model *model, struct micro_shape shape);
/* Bytes of the hidden state that leaves a layer: the size given for it by hand, else the model's. */
int64_t footprint_output(const struct model *model, int32_t layer, struct micro_shape shape);

/* True when the layers' sizes are given by hand (struct layer_sizes). Then a layer keeps these bytes and no others,
 * discards all of them as soon as one of its ops is discarded, moves all or none, has no workspace, and a stage holds
 * the outputs between its layers but not their gradients; a tied table has no copies. Rounded up to 64 bytes, as all
 * is. */
bool footprint_is_given(const struct model *model);
/* Bytes of a layer's parameters: its own array of them, one of four (an equal part of what they take, with two-byte
 * numbers). */
int64_t footprint_parameters(const struct model *model, const struct layer *layer);

/* Bytes of one micro-batch for consecutive layers first .. first+n-1 that one stage holds. */
struct footprint_stage {
  int64_t keep_input, keep_weight; /* sums over layers; keep_weight includes the hidden states between the layers */
  int64_t move_input, move_weight; /* the same of what leaves the device */
  int64_t rebuild_input, rebuild_weight; /* sums over layers */
  int64_t grad_weight; /* sums over layers; includes the gradients of hidden states between the layers */
  int64_t work_forward, work_rebuild, work_input, work_weight; /* largest over layers */
  int64_t work_backward; /* of a full backward (input pass then weight pass, layer by layer): the largest layer's
                            grad_weight + input or weight workspace, + up to two hidden-state gradients */
};
/* discarded[n], moved[n]: of each of the stage's layers; NULL: nothing. */
void footprint_stage(const struct model *model, int32_t first, int32_t n, struct micro_shape shape,
                     const uint32_t *discarded, const uint32_t *moved, struct footprint_stage *out);

/* Static bytes of a rank that holds the layers for which holds[layer] is true: parameters, gradients and two moments of
 * each layer, fp32, each array rounded to 64 bytes. Of a tied tensor: the rank of its layer holds one array more (the
 * user's gradient sum, its own or the other rank's); the rank that holds the user alone holds five (its copy, its sum,
 * two moments, and the other use's sum). */
int64_t footprint_static(const struct model *model, const bool *holds);
/* Bytes of one array of a tied tensor beside the layers' own; 0 when sizes are given. */
int64_t footprint_tie(const struct model *model, const struct tie *tie);

#endif
