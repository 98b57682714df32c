/* Makes new weights of gradient sums: the tied tensors' sums, per-layer norms, clipping, AdamW. */
#ifndef PENSTOCK_EXEC_OPTIMIZER_H
#define PENSTOCK_EXEC_OPTIMIZER_H

#include "exec/rank_state.h"
#include "input/params.h"

struct optimizer_config {
  double lr, min_lr;
  enum params_schedule schedule;
  int64_t warmup_steps, decay_steps; /* decay_steps: step at which min_lr is reached (wsd: length of the final decay) */
  int64_t total_steps;               /* wsd: the decay ends here */
  double beta1, beta2, eps, weight_decay;
  double clip; /* largest global norm, 0: off */
};

/* Rate of a step (from 1): rises linearly over warmup_steps, then follows the schedule. */
double optimizer_get_lr(const struct optimizer_config *config, int64_t step);

/* Factor on all gradients so that their norm is at most clip: clip / (norm + 1e-6), at most 1; 1 when clip is 0. */
double optimizer_get_scale(const struct optimizer_config *config, double norm);

/* Completes a layer's gradient after its last weight pass: of a tied tensor the user's sum is added to that of the
 * layer (on a rank with the user alone, the other way round: the same bits). Once a step. */
void optimizer_finish_gradient(struct rank_state *state, int32_t layer);

/* Sum of squares of a layer's gradient, tensor by tensor in order, float64. A tied tensor counts in the layer that it
 * is of, not in its user. *bad_tensor is the first tensor whose sum is not finite, else -1. */
double optimizer_sum_layer(struct rank_state *state, int32_t layer, int *bad_tensor);

/* AdamW on a layer, which also clears its gradients for the next step. */
void optimizer_update_layer(struct rank_state *state, const struct optimizer_config *config, int32_t layer,
                            int64_t step, double grad_scale);

#endif
