/* Makes a checked plan of parameters on one rank, without MPI; shared by `train`, `verify` and `plan`. */
#ifndef PENSTOCK_SETUP_REQUEST_H
#define PENSTOCK_SETUP_REQUEST_H

#include "dag/dag.h"
#include "input/params.h"
#include "model/model.h"
#include "planner/planner.h"

/* The text of the model's configuration, the file's or the deck's keys as one; owned by the caller. STATUS_MISTAKE when
 * the deck names no model, or a file that cannot be read. */
int request_read_config(const struct params *params, char **json);
/* The model of such a text. What of it is ignored is a warning. */
int request_create_model(const struct params *params, const char *json, struct model **model);

/* STATUS_MISTAKE when what computes is asked for numbers that can only be predicted. */
int request_check_precision(const struct params *params);

/* Rows longer than the model's table of positions are STATUS_MISTAKE; than what rotary positions were meant for, a
 * warning. */
int request_check_positions(const struct params *params, const struct model *model);

/* STATUS_MISTAKE when a step's micro-batches on so many stages make a graph that no machine holds: numbers that are a
 * slip of the pen must not take the machine's memory. */
int request_check_count(const struct params *params, int32_t n_stages);

/* Bytes of a rank's device: memory.rank_limits, else memory.device_limit, else `otherwise`. */
int64_t request_get_limit(const struct params *params, int32_t rank, int64_t otherwise);
/* Bytes of host memory for blocks: memory.host_limit, but no more than there are. */
int64_t request_get_host_limit(const struct params *params, int64_t most);
/* STATUS_MISTAKE when memory.rank_limits names a rank that is not among n_ranks. */
int request_check_rank_limits(const struct params *params, int32_t n_ranks);

/* request_open.c: STATUS_MISTAKE when pipeline.recompute names an op that the model does not have. */
int request_check_ops(const struct params *params, const struct model *model);

/* Ranks that a plan outside a job is for: pipeline.stages, else those of pipeline.plan_file; 0: the deck does not say.
 */
int request_count_ranks(const struct params *params, int32_t *n_ranks);

/* The request of a deck to the planner. All members but the first are owned by it and freed by request_close. */
struct deck_request {
  struct plan_request plan; /* borrows from the others, from the parameters, the model and the caller */
  uint32_t *ops;            /* plan.recompute_ops */
  int32_t *stages;          /* plan.recompute_stages */
  char *csv;                /* plan.plan_csv */
  struct plan *given;       /* plan.given */
  int64_t *host, *disk;     /* plan.host_limit, plan.disk_limit */
  char *notes;              /* what the planner says, a line each; NULL: nothing yet */
};

/* request_open.c: makes the request for n_ranks ranks; reads pipeline.plan_file. `request` may not move afterwards.
 * STATUS_MISTAKE for a file that cannot be read, for an op that the model does not have, and for a stage that there is
 * not. request_close is harmless after that. */
int request_open(const struct params *params, const struct model *model, int32_t n_ranks, int32_t n_micro,
                 const struct micro_shape *micro, const int64_t *limits, struct deck_request *request);
void request_close(struct deck_request *request);

/* Plans and passes the plan and its graph through all checks; with recompute_as_needed recomputes on as few stages,
 * from the first, as let the plan fit. Both are owned by the caller; dag NULL: not wanted. A planner that declines, and
 * a plan that does not fit, with the smallest changes that would, are STATUS_MISTAKE. */
int request_plan(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag);

#endif
