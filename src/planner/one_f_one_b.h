/* 1F1B, and what differs from it in how far forwards go ahead, in numbers: warm-up, and how long it takes with given
 * times. Serial. */
#ifndef PENSTOCK_PLANNER_ONE_F_ONE_B_H
#define PENSTOCK_PLANNER_ONE_F_ONE_B_H

#include <stdbool.h>
#include <stdint.h>

/* Forwards that a stage runs ahead: a planner_warm_up. */
int32_t one_f_one_b_get_warm_up(int32_t stage, int32_t n_stages, int32_t n_micro);

struct one_f_one_b {
  int32_t n_stages, n_micro;
  int32_t *warm_up, *steady;  /* [n_stages] forwards ahead, as in order_make_ahead; falling by at least 1 a stage */
  double *forward, *backward; /* [n_stages] seconds of a micro-batch */
  double *recompute;          /* [n_stages] between them */
  bool early;                 /* the recomputation does not wait for the gradient */
  double *send, *send_back;   /* [n_stages] of a message to stage s+1, and from there back to s */
  double *copy;               /* [n_stages] of a block of activations one way; 0: none leaves */
  int32_t *capacity;          /* [n_stages] where some leave: blocks on the device, those on their way included */
};

/* All times 0, forwards ahead as in 1F1B; freed by one_f_one_b_free. */
struct one_f_one_b one_f_one_b_create(int32_t n_stages, int32_t n_micro);
void one_f_one_b_free(struct one_f_one_b *times);
/* Where blocks leave, a forward that would be one too many waits until the block two before it is gone, one copy at a
 * time each way; a backward whose block is away waits until it is back, which it may begin to come when the backward
 * two before has ended. Seconds from the first forward to the end of the last backward, when every pass starts as soon
 * as it can; INFINITY where a stage waits for ever, having fewer forwards ahead than a later one. */
double one_f_one_b_time(const struct one_f_one_b *times);

#endif
