/* Moves of activation blocks in a plan: their rules. Serial. */
#ifndef PENSTOCK_PLAN_PLAN_MOVE_H
#define PENSTOCK_PLAN_PLAN_MOVE_H

#include "plan/plan.h"

/* The rules of moves, for a plan whose orders are right: one move a block, of a stage and micro-batch that there are;
 * it leaves after its forward, comes back before its first use (R, or B or I), and takes memory again no sooner than it
 * has given it back; the rank that keeps it is another one. STATUS_FAILED with what is wrong. */
int plan_check_moves(const struct plan *plan);

/* Where its rank's order (0: the first action) has the forward of each stage and micro-batch, and the first action that
 * needs its block again: [stage * n_micro + micro]. Both owned by the caller. */
void plan_move_find_uses(const struct plan *plan, int32_t **forward, int32_t **use);

/* The action with whose start host memory is taken (tiers host and disk). */
int32_t plan_move_get_host_start(const struct plan_move *move);

#endif
