/* Schedules: the order of every stage action by action, for each micro-batch what it discards, and which blocks of
 * activations wait in host memory. Every recomputation may begin before its gradient is there. Serial.
 */
#ifndef PENSTOCK_PLANNER_OBSCURA_OBSCURA_SCHEDULE_H
#define PENSTOCK_PLANNER_OBSCURA_OBSCURA_SCHEDULE_H

#include "planner/obscura/obscura.h"

/* One way to discard activations of a stage. */
struct obscura_way {
  int64_t bytes;  /* of a micro-batch that are discarded */
  double seconds; /* of the recomputation */
  int64_t block;  /* bytes of a block that leaves; 0: none may */
  double copy;    /* seconds of its copy, one way */
};

/* The ways of the stages of one cut. Way 0 of a stage discards nothing, way 1 what its draft does if it does so. */
struct obscura_ways {
  int32_t n_stages, n_layers;
  int32_t *n;              /* [n_stages] */
  struct obscura_way *way; /* [n_stages][OBSCURA_MOST_WAYS] */
  uint32_t *ops;           /* [n_stages][OBSCURA_MOST_WAYS][n_layers] */
  bool *may_leave;         /* [n_stages] whether blocks may wait in host memory */
};
enum { OBSCURA_MOST_WAYS = 24 };

/* swaps: blocks may wait in host memory where the deck lets them. */
struct obscura_ways *obscura_ways_create(const struct obscura *x, const struct obscura_draft *draft, bool swaps);
void obscura_ways_destroy(struct obscura_ways **ways);

/* An action of a micro-batch on a stage: NODE_F, NODE_R or NODE_B; or OUT, where its block's memory is given back and
 * the next action waits until the copy has ended; or IN, where the memory is taken again and the copy back may begin.
 * Copies out begin with the end of the forward, and there is one at a time each way. */
enum { OBSCURA_OUT = NODE_KIND_COUNT, OBSCURA_IN, OBSCURA_MOST_ACTIONS = 5 };
struct obscura_action {
  int32_t kind;
  int32_t micro;
};

struct obscura_schedule {
  const struct obscura_ways *ways;   /* borrowed */
  const struct obscura_draft *draft; /* borrowed: its cut, needs and margins */
  int32_t n_stages, n_micro;
  int32_t *n_actions;             /* [n_stages] */
  struct obscura_action *actions; /* [n_stages][OBSCURA_MOST_ACTIONS n_micro] in order: F, R and B each ascending */
  int32_t *chosen;                /* [n_stages][n_micro] the way of each micro-batch */
  bool *moved;                    /* [n_stages][n_micro] whether its block leaves */
};

/* Makes the schedule of a draft, but for blocks that leave to elsewhere than host memory. Owned by the caller. */
struct obscura_schedule *obscura_schedule_create(const struct obscura *x, const struct obscura_ways *ways,
                                                 const struct obscura_draft *draft);
void obscura_schedule_destroy(struct obscura_schedule **schedule);
/* Copies the orders and choices of one stage, and of all, from another schedule of the same ways. */
void obscura_schedule_copy_stage(struct obscura_schedule *to, const struct obscura_schedule *from, int32_t stage);
void obscura_schedule_copy(struct obscura_schedule *to, const struct obscura_schedule *from);

/* Changes the way of a micro-batch: its R is put before its B, or goes. False, and nothing is done, where its R, which
 * must come before those of later micro-batches, has no place. */
bool obscura_schedule_choose(struct obscura_schedule *schedule, int32_t stage, int32_t micro, int32_t way);
/* Lets the block of a micro-batch leave during the action after its forward, and come back during the one before its
 * use. False, and nothing is done, where there is no time between. It must not be moved yet. */
bool obscura_schedule_evict(struct obscura_schedule *schedule, int32_t stage, int32_t micro);
/* The block stays on the device. */
void obscura_schedule_keep(struct obscura_schedule *schedule, int32_t stage, int32_t micro);
/* Swaps the actions at `place` and place + 1 of a stage. False, and nothing is done, where they must stay in order. */
bool obscura_schedule_swap(struct obscura_schedule *schedule, int32_t stage, int32_t place);

/* Returns the most bytes that a stage takes, estimated as for drafts. */
int64_t obscura_schedule_get_peak(const struct obscura_schedule *schedule, int32_t stage);
/* Returns the most bytes of a stage's blocks that wait in host memory. */
int64_t obscura_schedule_get_host_peak(const struct obscura_schedule *schedule, int32_t stage);
/* Returns the way of a micro-batch. */
const struct obscura_way *obscura_schedule_get_way(const struct obscura_schedule *schedule, int32_t stage,
                                                   int32_t micro);

/* ---- obscura_clockwork.c ---- */

/* The times of messages and the room that obscura_schedule_time works in. */
struct obscura_clockwork;
struct obscura_clockwork *obscura_clockwork_create(const struct obscura *x, const struct obscura_draft *draft);
void obscura_clockwork_destroy(struct obscura_clockwork **clockwork);
/* Returns the seconds of a step when every action starts as soon as it can; INFINITY where the orders lock up. */
double obscura_schedule_time(const struct obscura_schedule *schedule, struct obscura_clockwork *clockwork);

/* obscura_schedule_plan.c: makes the plan, owned by the caller, not frozen. */
struct plan *obscura_schedule_build(const struct obscura *x, const struct obscura_schedule *schedule);

#endif
