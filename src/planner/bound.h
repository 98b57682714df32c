/* Lower bounds of the time of a step, to tell a plan that can hardly be better from one that may be. Serial.
 *
 * Work. A rank cannot begin before the hidden state of some micro-batch has come through the stages before its first
 * one: the head h. From there on it does the forward and the backward of every micro-batch for each of its stages, and
 * then updates what it holds. After its last backward that micro-batch goes back through the stages before, and the
 * first stage is updated: the tail t. So with the rank's forwards F, backwards B, recomputation R and updates u
 *
 *   step >= h + F + B + R + max(u, t).
 *
 * With clip all updates come after the last gradient and the norm: step >= h + F + B + R + t + norm + u. Where a
 * backward is two passes, weight passes W may be done while the tail lasts, and the tail has input passes alone, but
 * for the first stage, whose gradient is complete only after its weight pass:
 *
 *   step >= max(h + F + I + W + R + u, h + F + I + R + t).
 *
 * A rank of several stages can begin no earlier than its lowest stage, and whichever of its backwards is last, those of
 * the stages below its lowest one follow. Heads and tails are those of the micro-batch that takes least, with their
 * messages.
 *
 * Memory. A micro-batch's activations are on a stage from the start of its forward to the end of its backward. That is
 * no shorter than these two and the way through all later stages and back, v. Bytes times seconds, summed over
 * micro-batches (Little's law), are no more than what the limit leaves beside parameters, gradients and moments, times
 * the part of the step in which they can be there, which is neither in the head nor in the tail:
 *
 *   sum of (kept - discarded) x v <= (limit - static) x (step - h - t).
 *
 * What is discarded costs R. Seconds of R are taken where they free most byte-seconds, from any part of any
 * micro-batch, which is more than a plan can choose from; what is rebuilt counts as free to the end. The bound is the
 * least step for which both lines can be true on every rank. Waits for memory and receivers, links that are shared,
 * workspaces and copies of tied tensors only add to it. Activations that leave the device are not on it, so plans in
 * which some do are held against the first line alone, with R = 0.
 *
 * Over all cuts, where each rank holds one stage: the least head, tail and way of any cut of the layers before and
 * after, and then whether some cut has stages that can all be done in a time, which is halved down. No cut is better,
 * and it need not exist. Where ranks hold several stages: the work of all ranks, divided by them.
 */
#ifndef PENSTOCK_PLANNER_BOUND_H
#define PENSTOCK_PLANNER_BOUND_H

#include "plan/plan.h"

struct cost;
struct model;

/* Seconds of a step by itself. NAN: not known. */
struct bound {
  double cut; /* of any order, with whatever recomputation and moves, of the plan's stages where they stand */
  double any; /* of any cut too, of as many stages for the same micro-batches; at most `cut` */
  double cut_staying, any_staying; /* the same within the plan's limits, where no activations leave their device; NAN
                                    * where some of this plan do, or ranks share stages; at least those above */
};
/* Plans with backwards in two passes are held against such plans, others against others. The plan need not be frozen.
 */
struct bound bound_make(const struct plan *plan, const struct model *model, const struct cost *cost);

#endif
