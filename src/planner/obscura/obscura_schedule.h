/* Schedules: the order of every stage action by action, and for each micro-batch what it discards. Every recomputation
 * may begin before its gradient is there; no block of activations leaves. Serial.
 */
#ifndef PENSTOCK_PLANNER_OBSCURA_OBSCURA_SCHEDULE_H
#define PENSTOCK_PLANNER_OBSCURA_OBSCURA_SCHEDULE_H

#include "planner/obscura/obscura.h"

/* One way to discard activations of a stage. */
struct obscura_way {
  int64_t bytes;  /* of a micro-batch that are discarded */
  double seconds; /* of the recomputation */
};

/* The ways of the stages of one cut. Way 0 of a stage discards nothing, way 1 what its draft does if it does so. */
struct obscura_ways {
  int32_t n_stages, n_layers;
  int32_t *n;              /* [n_stages] */
  struct obscura_way *way; /* [n_stages][OBSCURA_MOST_WAYS] */
  uint32_t *ops;           /* [n_stages][OBSCURA_MOST_WAYS][n_layers] */
};
enum { OBSCURA_MOST_WAYS = 24 };

struct obscura_ways *obscura_ways_create(const struct obscura *x, const struct obscura_draft *draft);
void obscura_ways_destroy(struct obscura_ways **ways);

/* The action of a micro-batch on a stage. */
struct obscura_action {
  int32_t kind; /* NODE_F, NODE_R or NODE_B */
  int32_t micro;
};

struct obscura_schedule {
  const struct obscura_ways *ways;   /* borrowed */
  const struct obscura_draft *draft; /* borrowed: its cut, needs and margins */
  int32_t n_stages, n_micro;
  int32_t *n_actions;             /* [n_stages] */
  struct obscura_action *actions; /* [n_stages][3 n_micro] in order: F, R and B each ascending */
  int32_t *chosen;                /* [n_stages][n_micro] the way of each micro-batch */
};

/* Makes the schedule of a draft, but for blocks that leave. Owned by the caller. */
struct obscura_schedule *obscura_schedule_create(const struct obscura_ways *ways, const struct obscura_draft *draft);
void obscura_schedule_destroy(struct obscura_schedule **schedule);
/* Copies the orders and choices of one stage, and of all, from another schedule of the same ways. */
void obscura_schedule_copy_stage(struct obscura_schedule *to, const struct obscura_schedule *from, int32_t stage);
void obscura_schedule_copy(struct obscura_schedule *to, const struct obscura_schedule *from);

/* Changes the way of a micro-batch: its R is put before its B, or goes. */
void obscura_schedule_choose(struct obscura_schedule *schedule, int32_t stage, int32_t micro, int32_t way);
/* Swaps the actions at `place` and place + 1 of a stage. False, and nothing is done, where they must stay in order. */
bool obscura_schedule_swap(struct obscura_schedule *schedule, int32_t stage, int32_t place);

/* Returns the most bytes that a stage takes, estimated as for drafts. */
int64_t obscura_schedule_get_peak(const struct obscura_schedule *schedule, int32_t stage);

/* The times of messages and the room that obscura_schedule_time works in. */
struct obscura_clockwork;
struct obscura_clockwork *obscura_clockwork_create(const struct obscura *x, const struct obscura_draft *draft);
void obscura_clockwork_destroy(struct obscura_clockwork **clockwork);
/* Returns the seconds of a step when every action starts as soon as it can; INFINITY where the orders lock up. */
double obscura_schedule_time(const struct obscura_schedule *schedule, struct obscura_clockwork *clockwork);

/* Makes the plan, owned by the caller, not frozen. */
struct plan *obscura_schedule_build(const struct obscura *x, const struct obscura_schedule *schedule);

#endif
