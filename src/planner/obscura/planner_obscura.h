/* What can be asked of planner obscura beside the rest of the request. */
#ifndef PENSTOCK_PLANNER_OBSCURA_PLANNER_OBSCURA_H
#define PENSTOCK_PLANNER_OBSCURA_PLANNER_OBSCURA_H

#include <stdbool.h>
#include <stdint.h>

#include "input/params.h"

struct obscura_options {
  enum params_obscura_steps steps; /* the last pass */
  int32_t adjusted_stages; /* how many of the first stages are adjusted, or PARAMS_AUTO: those over their limit */
  bool faithful;           /* the paper's passes, whatever comes of them */
  int32_t lambda;          /* blocks of the last adjusted stage that leave in the warm-up, or PARAMS_AUTO */
  double beta;             /* the part of a block that leaves, 0 to 1, or PARAMS_AUTO */
  double epsilon;          /* of Eq. 2, as a part of a micro-batch: 0 to 1 */
  bool eager;              /* blocks leave and come back as soon as they can, not as late as they can */
};

/* All passes, all found out. */
struct obscura_options obscura_options_default(void);

#endif
