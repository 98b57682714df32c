/* What one rank has to do in a step, and whether it can in so many seconds: for the lower bound. Serial. */
#ifndef PENSTOCK_PLANNER_BOUND_LOAD_H
#define PENSTOCK_PLANNER_BOUND_LOAD_H

#include "planner/bound_sums.h"

/* Layers first .. end-1 as a stage on a rank. */
struct bound_stage {
  int32_t rank, first, end;
  int64_t n_body;  /* layers of blocks that the rank holds */
  int32_t n_micro; /* micro-batches that it does */
  double turn;     /* seconds from the end of a forward to the start of its backward, at least */
};

/* Recomputation, and the byte-seconds that it frees. */
struct bound_freed {
  double byte_seconds, seconds;
};

struct bound_load {
  double passes, inputs;     /* seconds of all passes; of all but weight passes */
  double update;             /* of updates */
  double kept;               /* byte-seconds of activations when nothing is discarded */
  struct bound_freed *freed; /* the caller's, room for the units of each stage; those that free most for their
                              * time come first */
  int32_t n_freed;
  double least; /* seconds of the step without recomputation: set by bound_load_close */
  double idle;  /* of the step, those in which no activations can be there: set by bound_load_close */
  double room;  /* bytes for activations, set by the caller; INFINITY: no limit */
};

/* Adds a stage to the load, which begins as all zeros but for `freed`. */
void bound_load_add(struct bound_load *load, const struct bound_sums *sums, const struct bound_stage *stage);
/* Sets what the load takes at least. head, tail: seconds before the first forward of the rank's first stage, and after
 * its last input pass; update: the longest known updates of a rank, norm: seconds of the global norm. */
void bound_load_close(struct bound_load *load, const struct bound_sums *sums, double head, double tail, double update,
                      double norm);
/* Returns the bytes that a rank's limit leaves beside `fixed`; INFINITY: no limit. */
double bound_load_get_room(const struct bound_sums *sums, int32_t rank, int64_t fixed);
/* Returns true unless the rank surely takes longer. */
bool bound_load_fits(const struct bound_load *load, double step);

/* Returns the least step, from `low` on, that is possible, or up to a part in 10^8 less. Where even a million times
 * `low` is not possible it is that. */
typedef bool bound_possible(void *context, double step);
double bound_find_least(bound_possible *possible, void *context, double low);

#endif
