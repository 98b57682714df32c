/* A lower bound of the time of a step, to tell a plan that can hardly be better from one that may be. Serial.
 *
 * A rank cannot begin before the hidden state of some micro-batch has come through the stages before its first one: the
 * head h. From there on it does the forward and the backward of every micro-batch for each of its stages, and then
 * updates what it holds. After its last backward that micro-batch goes back through the stages before, and the first
 * stage is updated: the tail t. So with the rank's forwards F, backwards B and update u
 *
 *   step >= h + F + B + max(u, t).
 *
 * Where a backward is two passes, weight passes W may be done while the tail lasts, and the tail has input passes
 * alone, but for the first stage, whose gradient is complete only after its weight pass:
 *
 *   step >= max(h + F + I + W + u, h + F + I + t).
 *
 * A rank of several stages can begin no earlier than its lowest stage, and whichever of its backwards is last, those of
 * the stages below its lowest one follow. Heads and tails are those of the micro-batch that takes least. Messages,
 * recomputation, copies, norms and limits only add to all that.
 *
 * For a given cut that is summed up rank by rank. Over all cuts, where each rank holds one stage: the least head and
 * the least tail of any cut of the layers before, for each stage and each first layer, and then the cut whose largest
 * stage by these is least, by dynamic programming; no cut is better, and it need not exist. Where ranks hold several
 * stages: the work of all ranks, divided by them.
 */
#ifndef PENSTOCK_PLANNER_BOUND_H
#define PENSTOCK_PLANNER_BOUND_H

#include "plan/plan.h"

struct cost;
struct model;

/* Seconds of a step by itself. */
struct bound {
  double cut; /* of any order, with whatever recomputation, of the plan's stages where they stand */
  double any; /* of any cut too, of as many stages for the same micro-batches; at most `cut`; NaN: not known */
};
/* Plans with backwards in two passes are held against such plans, others against others. The plan need not be frozen.
 */
struct bound bound_make(const struct plan *plan, const struct model *model, const struct cost *cost);

#endif
