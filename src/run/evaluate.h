/* The loss of a trainer's weights over rows of a dataset: what evaluations of a run and `penstock evaluate` share. */
#ifndef PENSTOCK_RUN_EVALUATE_H
#define PENSTOCK_RUN_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct trainer;

struct evaluation {
  struct trainer *trainer;       /* borrowed */
  const struct dataset *dataset; /* borrowed; its rows from 0 on are taken, in order */
  int64_t n_rows;                /* how many of them, at most as many as there are */
  int64_t batch_rows, micro_rows;
  int64_t step; /* for messages */
  /* Asked before each batch on every rank, with the same answer on all: whether to do it. May be collective. NULL: all
   * are done. */
  bool (*go_on_all)(void *context, int64_t done, int64_t n_batches);
  void *context;
};

struct evaluation_sum {
  double loss; /* sum of token losses, on every rank alike */
  int64_t rows, tokens, labels;
  bool is_whole; /* all rows were done */
};

/* Collective. A status that is not OK is this rank's own and leaves the other ranks waiting: the caller ends the job.
 */
int evaluate_rows_all(const struct evaluation *evaluation, struct evaluation_sum *sum);

/* Mean loss a label; NaN where there is none. */
double evaluation_get_mean(const struct evaluation_sum *sum);

#endif
