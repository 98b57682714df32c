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
int dataset_open_case(const struct dataset_case *c, const char *const *prefixes, const double *weights, int n,
                      struct dataset **dataset);

#endif
