/* Obscura's model of time and memory (Huang et al., USENIX ATC 2025), as numbers: a pipeline whose stages 0 to k, the
 * adjusted ones, run forwards ahead and recompute, and whose others do as in 1F1B. Serial.
 *
 * The equations are those of the paper by number. Where it has 3f there is forward + backward here, where 2f the
 * backward; uneven stages (Eq. 5) put the slowest one's times in. What is said of a loss that can be below 0 is taken
 * as 0 then.
 */
#ifndef PENSTOCK_PLANNER_OBSCURA_OBSCURA_MODEL_H
#define PENSTOCK_PLANNER_OBSCURA_OBSCURA_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct obscura_model {
  int32_t n_stages, n_micro;
  int32_t n_adjusted;       /* k + 1 */
  double forward, backward; /* seconds of a micro-batch on a stage: f, 2f */
  double recompute;         /* r of the adjusted ones */
  double slowest,
      slowest_adjusted; /* C_non, C_adj of Eq. 5; even stages: forward + backward, and recompute beside it */
  double transfer;      /* seconds of a block one way: a_adj beta / Bw */
  int32_t lambda;       /* blocks of stage k that have left when its warm-up ends; 0: none ever leaves */
  double epsilon;       /* of Eq. 2, as a part of 3f + r: 0 to 1 */
};

/* Return the forwards that stage s runs ahead: in 1F1B, in the strawman, and in the refined pipeline. */
int32_t obscura_model_get_plain(const struct obscura_model *model, int32_t stage);
int32_t obscura_model_get_moved(const struct obscura_model *model, int32_t stage);
int32_t obscura_model_get_refined(const struct obscura_model *model, int32_t stage);
/* Blocks of stage s that leave in the warm-up: one more for each stage before k; 0 on stages that are not adjusted. */
int32_t obscura_model_get_lambda(const struct obscura_model *model, int32_t stage);

/* Eq. 2: seconds that the transfers of stage s <= k add. */
double obscura_model_get_transfer(const struct obscura_model *model, int32_t stage);
/* Eq. 3 and 5: seconds from the first op of stage s to its last; stage 0's is the step's. */
double obscura_model_get_time(const struct obscura_model *model, int32_t stage);
/* The second condition of Eq. 4: a block may not take longer one way than a steady micro-batch does. */
bool obscura_model_allows(const struct obscura_model *model);

#endif
