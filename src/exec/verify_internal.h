/* Shared by verify_deck.c and verify_reference.c. */
#ifndef PENSTOCK_EXEC_VERIFY_INTERNAL_H
#define PENSTOCK_EXEC_VERIFY_INTERNAL_H

#include "exec/setup.h"
#include "exec/trainer.h"
#include "exec/verify.h"

/* A trainer with the first step's gradients and the course of its steps. */
struct verify_side {
  struct trainer *trainer;
  float **first; /* [n_layers] gradients of the first step, host memory; NULL where the layer is not here */
  int32_t n_steps;
  double *loss, *grad_norm; /* [n_steps] */
};

/* Gives batch `i` of the run (0, 1, ...); a status. */
typedef int verify_get_batch(void *context, int32_t i, struct batch *batch);

/* Takes the first batch's gradients, then trains all steps. Parameters are already set. A status of this rank alone that
 * leaves others waiting ends the job. `alive` (may be NULL) is a communicator to poll between steps. */
int verify_side_run(struct verify_side *side, int32_t n_steps, verify_get_batch *get, void *context,
                    struct comm *alive);
void verify_side_fini(struct verify_side *side);

/* 2-norm of a - b over n floats, and of b. */
double verify_norm_difference(int64_t n, const float *a, const float *b, double *norm_b);

#endif
