/* Runs this rank's nodes of a graph: compute in order, messages on the send and receive streams beside it, each node
 * when the nodes before it are done. Knows nothing of schedules, planners or models beyond what graph and op tables
 * say.
 */
#ifndef PENSTOCK_EXEC_EXEC_H
#define PENSTOCK_EXEC_EXEC_H

#include "dag/dag.h"
#include "exec/optimizer.h"
#include "exec/rank_state.h"
#include "record/trace.h"

struct comm;
struct sim_times;
struct spill;

/* Ways to carry out nodes, in one order and under one memory: by work, or by keeping modelled times (exec_timed.c). */
struct exec_way;
extern const struct exec_way exec_way_work, exec_way_timed;

/* Modelled times of a step. */
struct exec_model {
  const struct sim_times *times;     /* what nodes take */
  const struct trace_span *expected; /* when the simulator has this rank's nodes, from the start of the step on, */
  double end;                        /* and the end of the step; only for when to wake up */
};

/* One step as the executor is given it. All borrowed. */
struct exec_step {
  struct comm *comm;
  struct rank_state *state;
  const struct plan *plan;
  const struct dag *dag;
  const struct op_batch *micro; /* [n_micro] shape, lengths; tokens and labels where the stage needs them */
  float loss_scale;             /* 1 / labels of the step */
  const struct optimizer_config *optimizer;
  int64_t step;               /* from 1 */
  bool sync_messages;         /* a send ends only when its receive has begun: nothing is buffered */
  bool keep_gradients;        /* no update: gradient sums are completed and left in place (for verify) */
  const struct exec_way *way; /* how nodes are carried out */
  struct exec_model model;    /* what exec_way_timed goes by; others do not look at it */
  struct spill *spill;        /* where blocks of tier disk go; NULL: none do */
  struct trace_span *spans;   /* [nodes of this rank] filled in: spans[i] for node rank_offset[rank] + i */
  double *op_seconds;         /* [OP_TIMES] of op_times.h: what this rank's ops took is added; NULL: not wanted */
};

struct exec_result {
  double loss_sum; /* sum of token losses: on every rank after a training step, of this rank's head after a forward-only
                       one (0 elsewhere) */
  double grad_norm;  /* before clipping */
  bool finite;       /* false: nothing was updated on this rank */
  int32_t bad_layer; /* first layer, in layer order, whose gradient is not finite; -1: none (the loss then) */
  int bad_tensor;
  /* Set by exec_way_timed only, 0 otherwise; equal on all ranks except `start`. Loss and norm are NaN then. */
  double start, seconds; /* this rank's clock when the step began; until the last node of all ranks really ended */
  double modelled;       /* the same by the modelled times */
  double late;           /* longest time by which a node began after its modelled end */
};

/* Collective over the plan's ranks. An error status is this rank's own (device memory refused) and leaves the other
 * ranks waiting: the caller ends the job. */
int exec_run(const struct exec_step *step, struct exec_result *result);

#endif
