/* What can be asked of planner obscura beside the rest of the request. */
#ifndef PENSTOCK_PLANNER_OBSCURA_PLANNER_OBSCURA_H
#define PENSTOCK_PLANNER_OBSCURA_PLANNER_OBSCURA_H

#include <stdbool.h>
#include <stdint.h>

/* Passes in their order; each includes those before it (X: enum, name, what it does). */
#define OBSCURA_STEPS(X)                                                                                               \
  X(OBSCURA_STRAWMAN, "strawman", "stages over their limit recompute and run forwards ahead")                          \
  X(OBSCURA_RELAXED, "relaxed", "their other forwards go in turn with backwards")                                      \
  X(OBSCURA_REFINED, "refined", "no more forwards ahead than the last of them can use")                                \
  X(OBSCURA_SWAP, "swap", "what is recomputed and what leaves the device is chosen op by op")                          \
  X(OBSCURA_PARTITION, "partition", "layers go from these stages to the others")                                       \
  X(OBSCURA_CMB, "cmb", "stages that fit with cheap recomputation alone are left out")

#define X(id, name, text) id,
enum obscura_step { OBSCURA_STEPS(X) OBSCURA_STEP_COUNT };
#undef X

enum { OBSCURA_AUTO = -1 };

struct obscura_options {
  enum obscura_step steps; /* the last pass */
  int32_t adjusted_stages; /* how many of the first stages are adjusted, or OBSCURA_AUTO: those over their limit */
  bool faithful;           /* the paper's passes, whatever comes of them */
  int32_t lambda;          /* blocks of the last adjusted stage that leave in the warm-up, or OBSCURA_AUTO */
  double beta;             /* the part of a block that leaves, 0 to 1, or OBSCURA_AUTO */
  double epsilon;          /* of Eq. 2, as a part of a micro-batch: 0 to 1 */
  bool eager;              /* blocks leave and come back as soon as they can, not as late as they can */
};

/* All passes, all found out. */
struct obscura_options obscura_options_default(void);
/* What the deck calls a pass. */
const char *obscura_step_get_name(enum obscura_step step);

#endif
