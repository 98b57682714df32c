/* Shared by verify_deck.c and verify_reference.c. */
#ifndef PENSTOCK_VERIFY_VERIFY_INTERNAL_H
#define PENSTOCK_VERIFY_VERIFY_INTERNAL_H

#include "exec/trainer.h"
#include "setup/setup.h"
#include "verify/verify.h"

/* A trainer with the first step's gradients and the course of its steps. */
struct verify_side {
  struct trainer *trainer;
  float **first; /* [n_layers] gradients of the first step, host memory; NULL where the layer is not here */
  int32_t n_steps;
  double *loss, *grad_norm; /* [n_steps] */
};

/* Gives batch `i` of the run (0, 1, ...); a status. */
typedef int verify_get_batch(void *context, int32_t i, struct batch *batch);

/* Takes the first batch's gradients, then trains all steps. Parameters are already set. A status of this rank alone
 * that leaves others waiting ends the job. `alive` (may be NULL) is a communicator to poll between steps. */
int verify_side_run(struct verify_side *side, int32_t n_steps, verify_get_batch *get, void *context,
                    struct comm *alive);
void verify_side_fini(struct verify_side *side);

/* The relative difference that fp32 training may have from other roundings of equal sums: doc/dev/testing.md. */
#define VERIFY_LOSS_TOLERANCE 1e-6
#define VERIFY_NORM_TOLERANCE 5e-5
/* Return the difference that a tensor may have: of its gradient, given its norm and that of all gradients; of the
 * weights after some steps. */
double verify_allow_gradient(double norm, double global);
double verify_allow_weight(const struct layer *layer, int tensor, double norm);
/* True when no error of the result is above what it allows; NaN is. */
bool verify_is_within(const struct verify_result *result);

/* 2-norm of a - b over n floats, and of b. */
double verify_norm_difference(int64_t n, const float *a, const float *b, double *norm_b);

#endif
