/* What `penstock profile` measured of a device, as data: filled in by exec/profile.h, kept in profile.h5 by
 * store/profile_file.h, priced by cost_profile.c. Seconds are those of one rank while all ranks of its node measure the same
 * at once, medians over repetitions, the slowest rank's.
 */
#ifndef PENSTOCK_COST_PROFILE_H
#define PENSTOCK_COST_PROFILE_H

#include "cost/cost.h"

/* One op of one kind of layer in one pass, for a micro-batch of rows x length tokens. */
struct profile_op {
  enum layer_kind layer;
  int op; /* row of the layer's op table */
  enum cost_pass pass;
  int32_t rows, length;
  double seconds;
  double spread;      /* (90 % quantile - 10 % quantile) / median of the repetitions */
  double counters[2]; /* per op: cycles, instructions; NaN where the machine gives none */
};

/* A pass over parameters. */
enum profile_sweep_kind { PROFILE_UPDATE, PROFILE_NORM };
struct profile_sweep {
  enum profile_sweep_kind kind;
  int64_t floats;
  double seconds;
};

/* A message one way between two ranks. */
struct profile_link {
  int32_t from, to;
  bool across; /* nodes */
  int64_t bytes;
  double seconds;
};

/* Copies between device and host, and spill writes and reads. */
enum profile_copy_kind { PROFILE_COPY_OUT, PROFILE_COPY_IN, PROFILE_COPY_BOTH, PROFILE_DISK_WRITE, PROFILE_DISK_READ };
struct profile_copy {
  enum profile_copy_kind kind;
  int64_t bytes; /* each way */
  double seconds;
};

struct profile {
  /* What the times hold for. device: backend, processor, threads, precision, ranks a node; model: what of a model makes its
   * ops (kinds, widths, vocabulary), not how many layers it has. Texts that a person can read; equal texts, equal times. */
  char *device, *model;
  int64_t n_ops, n_sweeps, n_links, n_copies;
  struct profile_op *ops;
  struct profile_sweep *sweeps;
  struct profile_link *links;
  struct profile_copy *copies;
};

void profile_destroy(struct profile **profile);

#endif
