/* Holds training against what it must give: a deck's plan against one rank, or a file of known results. Collective. */
#ifndef PENSTOCK_VERIFY_VERIFY_H
#define PENSTOCK_VERIFY_VERIFY_H

#include "input/params.h"

#include <stdbool.h>
#include <stdint.h>

struct comm;

/* Worst errors of one tensor: 2-norms of differences, and what is allowed. */
struct verify_tensor {
  char name[96];
  double gradient_error, gradient_allowed;
  double weight_error, weight_allowed;
};

struct verify_result {
  bool passed;
  bool exact; /* bit by bit, and nothing is allowed; else within what is allowed */
  int32_t n_stages, n_micro;
  int32_t n_steps;
  double *loss, *loss_error, *grad_norm; /* [n_steps]; errors relative to the loss */
  double *norm_error;                    /* [n_steps] relative */
  double loss_allowed, norm_allowed;
  int32_t n_tensors;
  struct verify_tensor *tensors; /* [n_tensors] in layer order */
};

/* Trains `steps` steps of the deck's plan on all ranks and the same on one rank with the memory limit lifted, beside
 * the other on rank 0; everything must be bit-equal, or within tolerances when the plan's micro-batches do not ascend,
 * as its sums round in another order then. *result is filled in on rank 0. */
int verify_deck_all(struct comm *comm, struct params *params, int64_t steps, struct verify_result *result);

/* Trains the steps of a reference file (known losses, first gradients, final weights computed in float64) and compares.
 * Without overrides: the file's model, optimizer, batches and micro-batch, planner 1f1b, partition even. A kind of
 * batch or model that is not built is STATUS_MISTAKE. *result is filled in on rank 0. */
int verify_reference_all(struct comm *comm, const char *path, const char *const *overrides, int n_overrides,
                         struct verify_result *result);

void verify_fini(struct verify_result *result);

#endif
