/* Time and memory of any range of layers as a stage on a rank: time from the request's costs, memory from the
 * footprints. Serial.
 */
#ifndef PENSTOCK_PLANNER_STAGE_NEED_H
#define PENSTOCK_PLANNER_STAGE_NEED_H

#include "planner/planner.h"

/* The needs of one stage in 1F1B order, for its largest micro-batch: the first two in seconds, all others in bytes. */
struct stage_need {
  double forward, backward; /* seconds of a micro-batch; backward without recomputation */
  int64_t fixed;            /* parameters with all that belongs to them; hidden states and gradients under way */
  int64_t keep;             /* from the forward to the backward of a micro-batch, its hidden states included */
  int64_t leaves;           /* of keep: the hidden state that leaves the stage, which stays on the device */
  int64_t discardable;      /* of keep: all that the request lets forwards discard */
  int64_t work_forward, work_backward; /* workspaces */
  int64_t work_discarding;             /* of a forward that discards all it may: its largest layer passes through */
  int32_t copies;                      /* micro-batches kept at a time */
  int64_t part; /* of discardable: the most that is rebuilt at a time; INT64_MAX: all that is discarded */
};

/* Bytes that a rank takes at most when `discarded` bytes of what each copy keeps are discarded. A backward has those of
 * its own micro-batch again, or of one part of it; a forward no more of them than its largest layer's. */
int64_t stage_need_get_peak(const struct stage_need *need, int64_t discarded);
/* Returns the least bytes to discard of each of so many copies to save `over` bytes, when of one of them up to `part`
 * bytes are there again; INFINITY: no number is enough. */
double stage_need_share(double over, double copies, int64_t part);
/* The least bytes that have to be discarded for a limit, 0 for none; -1 when no number is enough. */
int64_t stage_need_get_discarded(const struct stage_need *need, int64_t limit);

struct stage_needs; /* of all stages of one request */
/* request->cost NULL: all times are 0. The request is borrowed. */
struct stage_needs *stage_needs_create(const struct plan_request *request);
void stage_needs_destroy(struct stage_needs **needs);
/* The largest of the request's micro-batches. */
const struct micro_shape *stage_needs_get_micro(const struct stage_needs *needs);
/* Returns the needs of layers first .. first+n-1 as this stage on this rank. */
struct stage_need stage_needs_get(const struct stage_needs *needs, int32_t stage, int32_t rank, int32_t first,
                                  int32_t n);
/* Seconds alone, in constant time: forward and backward of a micro-batch. */
double stage_needs_get_seconds(const struct stage_needs *needs, int32_t rank, int32_t first, int32_t n);

#endif
