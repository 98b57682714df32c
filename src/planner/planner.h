/* Planners: one file each, one line in the registry (planner.c). A planner makes a plan or declines with a reason.
 * Serial code: no MPI, no HDF5, no device.
 */
#ifndef PENSTOCK_PLANNER_PLANNER_H
#define PENSTOCK_PLANNER_PLANNER_H

#include "input/params.h"
#include "plan/plan.h"

struct cost;

enum { PLAN_ALL_STAGES = INT32_MAX };

/* The request to a planner. All members are borrowed. Planners read the deck's choices from params, each in its own
 * section and in `pipeline`; the other members are what was found out from the deck, or what one planner asks of
 * another. */
struct plan_request {
  const struct model *model;
  const struct params *params; /* NULL: only for planners that read nothing of it (not obscura) */
  const struct cost *cost;     /* for as many ranks; NULL: nothing is known of times */
  int32_t n_ranks, n_stages;   /* n_stages: the pipeline's depth in ranks */
  int32_t n_chunks;       /* stages that a rank holds; 0: as many as the planner likes best, 1 where it has no mind */
  const int32_t *rank_of; /* [n_stages x n_chunks] where each stage stands; NULL: they go round over the ranks */
  struct params_partition partition; /* how the layers are cut: the deck's, but where a planner tries another */
  int32_t n_micro;
  const struct micro_shape *micro;        /* the worst micro-batches the deck allows */
  const int64_t *device_limit;            /* [n_ranks] bytes, INT64_MAX: none; NULL: none at all */
  const int64_t *host_limit, *disk_limit; /* the same for blocks that wait in host memory, and on disk */
  bool clip;
  /* The ops whose outputs forwards discard. planner_run puts it into whatever plan a planner makes, unless that has
   * its own. recompute_ops: a bit an op, [n_layers]; NULL: nothing. Planners that recompute themselves choose any
   * part of that. recompute_stages: [n_recompute_stages] where, ascending; NULL: the first so many (PLAN_ALL_STAGES:
   * all). recompute_as_needed is for request_plan: of these stages no more, from the first, than memory asks for.
   * recompute_early: see struct plan. recompute_by: whether plans are cut by recompute_cut; auto leaves it to planners.
   */
  const uint32_t *recompute_ops;
  const int32_t *recompute_stages;
  int32_t n_recompute_stages;
  bool recompute_as_needed, recompute_early;
  enum params_recompute_by recompute_by;
  bool simulate;        /* plans are weighed by planner_evaluate; else planners go by what they estimate themselves */
  const char *plan_csv; /* planner "file": the text of a file of actions (plan_csv.h), or NULL */
  const struct plan *given; /* planner "file": or a plan made elsewhere */
  double *evaluated; /* out: seconds of a step by planner_evaluate of the plan that the planner returns; NAN: it has
                      * not evaluated it. planner_run sets this pointer and checks what it gets */
  char **notes;      /* what a planner says beside its plan, a line each; owned by the caller; NULL: not wanted */
};

struct planner {
  enum params_planner id; /* params.def has its name and what it does in a line */
  /* Makes a plan (owned by the caller, not yet frozen). Returns STATUS_MISTAKE with the reason when it declines. */
  int (*make)(const struct plan_request *request, struct plan **plan);
  /* Lets blocks move (plan_reserve_moves), when the orders have their recomputation; NULL: none do. */
  int (*move)(const struct plan_request *request, struct plan *plan);
  /* The planner decides itself what is recomputed, among the ops that the request allows. */
  bool recomputes_itself;
  /* Whether recomputation begins before its gradient where the deck does not say; NULL: it does. */
  bool (*begins_early)(const struct params *params);
  bool takes_file;  /* it needs pipeline.plan_file: what the request has of a plan made elsewhere */
  int32_t n_chunks; /* stages a rank holds where the deck does not say; 0: 1, or as the file has it */
};

/* Cuts the recomputations of a plan that is complete but not yet frozen into blocks where the request says so. Planners
 * that evaluate their plans do so with what this makes of them. */
void planner_cut(const struct plan_request *request, struct plan *plan);

/* Returns the planner's name as in pipeline.planner; static. */
const char *planner_get_name(const struct planner *planner);

/* The registry: all planners, in the order of the manual; NULL-terminated. */
const struct planner *const *planner_get_all(void);
/* Finds a planner by name; NULL when there is none. */
const struct planner *planner_find(const char *name);
/* Returns true when a stage may discard anything; request->recompute_ops says which ops. */
bool planner_may_recompute(const struct plan_request *request, int32_t stage);
/* Checks that the stages of request->recompute_stages are among n_stages: STATUS_MISTAKE names the one that is not.
 * planner_run does it for the stages that it is given; a caller that gives it fewer of them asks itself. */
int planner_check_stages(const struct plan_request *request, int32_t n_stages);
/* Runs a planner by name, puts in the recomputation, checks and freezes the plan. */
int planner_run(const char *name, const struct plan_request *request, struct plan **plan);

/* partition.c: cuts the layers into stages as asked (n_stages x n_chunks of them; even: whole blocks, sizes differ by
 * at most one, the larger ones later; with two stages more than blocks, first and last have none; auto: by cost, see
 * partition_auto.h, even where the request has none; list: as given, must sum to the blocks, .5 cuts between mixer and
 * feed-forward, 0 allowed on first and last stage). Embedding goes with the first stage, head with the last.
 * stages[n_stages x n_chunks] is filled in. STATUS_MISTAKE names sum and count ("sum 8, model has 7"). */
int partition_make(const struct plan_request *request, struct plan_stage *stages);

/* planner_start.c: what all planners begin with.
 * Stages a rank holds, at least 1, and stages of the whole plan. */
int32_t planner_count_chunks(const struct plan_request *request);
int32_t planner_count_stages(const struct plan_request *request);
/* A plan with the request's stages, their ranks, limits, micro-batches and clip; no orders yet: room for n_actions, all
 * order_offset 0 but the last. STATUS_MISTAKE when the depth is not the number of ranks, or the
 * layers cannot be cut. Owned by the caller. */
int planner_start(const struct plan_request *request, const char *name, int64_t n_actions, struct plan **plan);
/* Name, clip, micro-batches and limits of the request: what is not the planner's choice. */
void planner_fill(const struct plan_request *request, const char *name, struct plan *plan);
/* Cuts `rows` rows of `length` tokens into micro-batches of `micro_batch` rows: the worst that a deck allows, all
 * labels there. Returns how many; *micro is owned by the caller. */
int32_t planner_make_worst(int64_t rows, int64_t micro_batch, int64_t length, struct micro_shape **micro);
/* The rank on which a stage stands, whose limits, costs and order are the stage's (request->rank_of). zb-v and file put
 * the stages where they want them into a request of their own. */
int32_t planner_get_rank(const struct plan_request *request, int32_t stage);
/* The first stage that stands on a rank. */
int32_t planner_get_first_stage(const struct plan_request *request, int32_t rank);
/* Bytes that a rank's device may take; INT64_MAX: no limit. */
int64_t planner_get_limit(const struct plan_request *request, int32_t rank);
/* Adds a line to the request's notes, unless it is there. */
void planner_note(const struct plan_request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* order.c: the one generator behind GPipe and 1F1B and what is built on them: `warm_up` forwards, then backwards and
 * forwards in turn. Appends 2m actions of one stage to `out`; returns how many. */
int64_t order_make_interleaved(int32_t stage, int32_t n_micro, int32_t warm_up, struct plan_action *out);
/* Orders a stage that runs `warm_up` forwards first and then keeps `steady` in flight: max(warm_up, j + steady)
 * forwards stand before the backward of micro-batch j. With m = 5, warm_up 3 and steady 1: F0 F1 F2 B0 B1 B2 F3 B3 F4
 * B4. With steady = warm_up it is order_make_interleaved. Appends 2m actions; returns how many. */
int64_t order_make_ahead(int32_t stage, int32_t n_micro, int32_t warm_up, int32_t steady, struct plan_action *out);
/* Orders a stage whose backward is two passes: after the input pass of micro-batch j comes the weight pass of
 * j - delay, and then the next forward; the weight passes that are left come last. Appends 3m actions; returns how
 * many. */
int64_t order_make_split(int32_t stage, int32_t n_micro, int32_t warm_up, int32_t delay, struct plan_action *out);

/* planner_linear.c: what planners with one stage a rank share: the partition as asked, each stage's order made by
 * order_make_interleaved from its warm-up count, or by order_make_split where get_delay is not NULL. Declines when the
 * stages are not as many as the ranks, or several a rank. */
typedef int32_t planner_warm_up(int32_t stage, int32_t n_stages, int32_t n_micro);
typedef int32_t planner_delay(int32_t stage);
int planner_linear_make(const struct plan_request *request, const char *name, planner_warm_up *get_warm_up,
                        planner_delay *get_delay, struct plan **plan);

/* planner_evaluate.c: seconds of a step of a plan as it would run, by the request's costs; INFINITY when it cannot run
 * or does not fit its limits. peaks (may be NULL): bytes of each rank's device, INT64_MAX where they are not known. The
 * plan need not be checked or frozen. */
double planner_evaluate(const struct plan_request *request, const struct plan *plan, int64_t *peaks);
/* Its memory alone, for which no costs are needed: true when it can run and fits its limits. peaks: as above. */
bool planner_measure(const struct plan_request *request, const struct plan *plan, int64_t *peaks);

#endif
