/* What a rank holds for the whole run: parameters, gradients and moments of its layers, in device memory. */
#ifndef PENSTOCK_EXEC_RANK_STATE_H
#define PENSTOCK_EXEC_RANK_STATE_H

#include "device/device.h"
#include "model/model.h"

struct rank_state {
  const struct model *model; /* borrowed */
  struct device *device;     /* borrowed */
  bool *holds;               /* [n_layers] */
  bool weights_only;
  float **w, **g, **m, **v; /* [n_layers] parameter blocks; NULL where the layer is not here */
  /* A tied table: each use has its own gradient sum. tied_w, tied_m, tied_v are the embedding's own arrays where both uses
   * are here, a separate copy where the head is alone, NULL where the head is not here. */
  bool has_embed, has_head;
  int64_t tied_floats; /* 0: not tied */
  float *tied_w, *tied_m, *tied_v;
  float *tied_g_embed; /* the embedding use's sum: inside g[0], or received from the other rank */
  float *tied_g_head;  /* the head use's sum: this rank's own, or received */
};

/* Allocates and clears the arrays of the layers for which holds[layer] is true; their bytes are footprint_static. With
 * weights_only gradients and moments are NULL: for forwards alone. A status: what does not fit is refused by the device. */
int rank_state_create(const struct model *model, struct device *device, const bool *holds, bool weights_only,
                      struct rank_state **state);
void rank_state_destroy(struct rank_state **state);

/* Sets parameters to their initial values and moments to 0. */
void rank_state_init(struct rank_state *state, uint64_t seed);

/* Where a layer's tensors and their gradients lie: arrays [n_tensors] filled in. */
void rank_state_get_tensors(const struct rank_state *state, int32_t layer, float **weight, float **weight_grad);

#endif
