/* The fastest schedule of a tiny pipeline, by exact search: a measure for planners that shares no code with them.
 *
 * Searched is over the order of every stage's actions, which layers each micro-batch discards, and when it rebuilds
 * them, any time between forward and backward. A micro-batch's activations lie on the device from its forward to the
 * end of its backward, less what is discarded, from its forward to its recomputation. Forwards of a stage ascend, and
 * so do backwards, which are whole. Messages take no time, an action starts as soon as it can.
 */
#ifndef PENSTOCK_TESTS_OPTIMUM_H
#define PENSTOCK_TESTS_OPTIMUM_H

#include <stdint.h>

enum { OPTIMUM_STAGES = 3, OPTIMUM_MICRO = 4, OPTIMUM_LAYERS = 4, OPTIMUM_WAYS = 1 << OPTIMUM_LAYERS };

/* One layer of a stage: times in any unit, and the bytes that it keeps of a micro-batch. Layers without any need not be
 * given. */
struct optimum_layer {
  int32_t forward, backward, recompute;
  int64_t kept;
};

struct optimum_stage {
  struct optimum_layer layers[OPTIMUM_LAYERS];
  int32_t n_layers;
  int64_t limit; /* bytes of its device */
};

struct optimum_pipeline {
  struct optimum_stage stages[OPTIMUM_STAGES];
  int32_t n_stages, n_micro;
};

/* Returns the time of the fastest schedule, or `most` where none is faster than that. */
int32_t optimum_find(const struct optimum_pipeline *pipeline, int32_t most);

#endif
