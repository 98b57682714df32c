/* Datasets of files by hand, without a deck's text. */
#ifndef PENSTOCK_TESTS_DATASET_CASE_H
#define PENSTOCK_TESTS_DATASET_CASE_H

#include "data/dataset.h"

struct dataset_case {
  int batching; /* enum params_batching */
  int64_t length;
  int64_t seed, vocab;
  bool shuffle;
};

/* weights NULL: none. As dataset_open. */
static inline int dataset_open_case(const struct dataset_case *c, const char *const *prefixes, const double *weights,
                                    int n, struct dataset **dataset) {
  struct params params = {.data = {.batching = c->batching, .sequence_length = c->length}, .run.seed = c->seed};
  struct params_mix mix = {(char **)(uintptr_t)prefixes, (double *)(uintptr_t)weights, n};
  return dataset_open(&params, &mix, c->shuffle, c->vocab, dataset);
}

#endif
