#include "dataset_case.h"

int dataset_open_case(const struct dataset_case *c, const char *const *prefixes, const double *weights, int n,
                      struct dataset **dataset) {
  struct params params = {.data = {.batching = c->batching, .sequence_length = c->length}, .run.seed = c->seed};
  struct params_mix mix = {(char **)(uintptr_t)prefixes, (double *)(uintptr_t)weights, n};
  return dataset_open(&params, &mix, c->shuffle, c->vocab, dataset);
}
