/* `penstock evaluate`: the loss of a checkpoint over whole token files, each by itself, on any number of ranks. The run
 * that made it may go on meanwhile: nothing in its folder is changed. */
#ifndef PENSTOCK_RUN_EVALUATE_CHECKPOINT_H
#define PENSTOCK_RUN_EVALUATE_CHECKPOINT_H

#include "run/evaluate.h"

struct comm;
struct params;

struct evaluate_request {
  const char *checkpoint;      /* NULL: the newest one of run.folder */
  const char *const *prefixes; /* token files; n_prefixes 0: data.validation */
  int n_prefixes;
  int64_t most_rows; /* of each file, from its first on; 0: all */
};

struct evaluate_result {
  char *checkpoint;
  int64_t step;
  int n_files;
  char **files;               /* [n_files] prefixes */
  struct evaluation_sum *sum; /* [n_files] */
  struct evaluation_sum total;
};

/* Collective, ends in agreement. The result is the caller's to fini, also on failure; every rank has it. STATUS_STOPPED
 * after a signal. A rank that fails in the middle ends the job. */
int evaluate_checkpoint_all(struct comm *comm, struct params *params, const struct evaluate_request *request,
                            struct evaluate_result *result);
void evaluate_result_fini(struct evaluate_result *result);

#endif
