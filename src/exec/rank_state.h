/* The state of a rank for the whole run: parameters, gradients and moments of its layers, in device memory. */
#ifndef PENSTOCK_EXEC_RANK_STATE_H
#define PENSTOCK_EXEC_RANK_STATE_H

#include "device/device.h"
#include "model/model.h"

/* A tied tensor on this rank. w, m, v are the owner's own arrays where both uses are here, a separate copy where the
 * user is alone, NULL where the user is not here. */
struct rank_tie {
  const struct tie *tie;
  bool has_owner, has_user;
  float *w, *m, *v;
  float *g_owner; /* the owner's gradient sum: inside its g, or received from the other rank */
  float *g_user;  /* the user's: this rank's own, or received */
};

struct rank_state {
  const struct model *model; /* borrowed */
  struct device *device;     /* borrowed */
  bool *holds;               /* [n_layers] */
  bool weights_only;
  float **w, **g, **m, **v; /* [n_layers] parameter blocks; NULL where the layer is not here */
  bool needs_tokens;        /* embeds ids, or takes labels */
  int32_t n_ties;           /* those of the model that a layer here has a part in */
  struct rank_tie *ties;
};

/* Allocates and clears the arrays of the layers for which holds[layer] is true; their bytes are footprint_static. With
 * weights_only gradients and moments are NULL: for forwards alone. A status: what does not fit is refused by the
 * device. */
int rank_state_create(const struct model *model, struct device *device, const bool *holds, bool weights_only,
                      struct rank_state **state);
void rank_state_destroy(struct rank_state **state);

/* Sets parameters to their initial values and moments to 0. */
void rank_state_init(struct rank_state *state, uint64_t seed);

/* The tie that a layer here has a part in; NULL: none. */
struct rank_tie *rank_state_find_tie(const struct rank_state *state, int32_t layer);
/* True when this rank has the user's copy of a tied tensor to itself. */
bool rank_tie_is_copy(const struct rank_tie *tie);

/* True when weights of the layer are here: its own, or a copy of a tensor of it. */
bool rank_state_needs_weights(const struct rank_state *state, int32_t layer);
/* Gives a copy its weights, from the owner's parameter block in host memory. */
void rank_state_write_copy(struct rank_state *state, const struct rank_tie *tie, const float *block);

/* Where a layer's tensors and their gradients lie: arrays [n_tensors] filled in. */
void rank_state_get_tensors(const struct rank_state *state, int32_t layer, float **weight, float **weight_grad);

#endif
