/* For tests of checkpoints: a model of odd shapes, its arrays laid over the ranks in many ways, and values that follow
 * from where they stand. */
#ifndef PENSTOCK_TESTS_RANDOM_MODEL_H
#define PENSTOCK_TESTS_RANDOM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"
#include "record/checkpoint.h"
#include "t.h"

/* Draw number i of the kind a: 0 to below - 1. */
int64_t random_model_pick(uint64_t seed, uint32_t a, uint64_t i, int64_t below);

/* Layers with 1 to 4 tensors of one or two dimensions up to `most`; when asked, the last one ends in one of another
 * layer's. */
struct model *make_random_model(uint64_t seed, int32_t n_layers, int64_t most, bool tied);
void free_random_model(struct model *model);

/* Ways to lay layers over ranks. */
enum { SPREAD_EVEN, SPREAD_ROUND, SPREAD_BACKWARD, SPREAD_LAST, SPREAD_COUNT };

/* Arrays of one rank. */
struct arrays {
  float **set[3];
  float *copy[3]; /* of the tied tensor, where the rank has its user alone */
  const struct tie *tie;
  int64_t tied; /* floats of it */
};

struct arrays make_arrays(const struct model *model, int spread, int rank, int size);
void free_arrays(const struct model *model, struct arrays *arrays);
struct checkpoint_part get_part(const struct arrays *arrays);

/* Writes the values of a step into the tensors (padding stays 0), or counts those that differ from it. */
int64_t visit_arrays(const struct model *model, const struct arrays *arrays, int64_t step, int n_sets, bool write);

/* What is not zero between the tensors. */
int64_t count_padding(const struct model *model, const struct arrays *arrays);

#endif
