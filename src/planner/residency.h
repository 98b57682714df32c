/* Chooses the blocks of activations of a stage that leave its device, and when, so that it never holds more than so
 * many. Serial. */
#ifndef PENSTOCK_PLANNER_RESIDENCY_H
#define PENSTOCK_PLANNER_RESIDENCY_H

#include "plan/plan.h"

struct residency {
  int32_t stage;    /* the only one of its rank */
  int32_t capacity; /* blocks that have memory during any action, those that are leaving or coming included */
  int32_t span;     /* actions during which a block may leave, and as many during which it may come back: at least 1 */
};

/* Appends a move for each block that has to leave, ascending by micro-batch, to moves[n_micro]: stage, micro and the
 * places on its own rank. Where an action would be one block too many, the block that is needed last has left by then
 * (Belady's rule). Spans are shorter where there is no room for them. Returns how many moves, or -1 when that capacity
 * is too small. */
int32_t residency_make(const struct plan *plan, const struct residency *rule, struct plan_move *moves);

#endif
