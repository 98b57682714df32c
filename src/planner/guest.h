/* Activation blocks that wait on another rank: the places there. Serial. */
#ifndef PENSTOCK_PLANNER_GUEST_H
#define PENSTOCK_PLANNER_GUEST_H

#include "plan/plan.h"
#include "planner/order_time.h"

/* Sets peer_start and peer_end of a move whose own places and peer stand, for a block that is `transfer` seconds on its
 * way: memory from the action that runs there when the block has to leave to be gone in time, until the one that runs
 * when it is back, so that neither rank waits and no memory is held longer than that. Returns the seconds that the
 * transfer is taken to last: somewhat more than none, so that two that follow one another do not seem to happen at
 * once. */
double guest_place(const struct plan *plan, const struct order_time *times, double transfer, struct plan_move *move);

#endif
