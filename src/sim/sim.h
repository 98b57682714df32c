/* The simulator: the graph in virtual time. What the executor does with devices and messages, this does with the times
 * that nodes are said to take; both follow the same edges and the same order of streams, so their node tables compare
 * row by row.
 *
 * Rules. A node starts when its stream is free and the nodes before it have ended. A message occupies its send stream
 * from its start to its end, latency and transfer; its receive begins when it is posted and ends with the send. Above
 * eager_bytes a send waits until its receive is posted (rendezvous), below it leaves at once; a block of activations
 * always waits, as there is no room for it before. The norms of all ranks end together. Iterations follow one another
 * without a barrier but for what their nodes give; a norm that nothing waits for (no clip) is none.
 */
#ifndef PENSTOCK_SIM_SIM_H
#define PENSTOCK_SIM_SIM_H

#include "dag/dag.h"
#include "record/step_parts.h"

/* Seconds of the nodes. Borrowed. */
struct sim_times {
  const double *seconds; /* [n_nodes] of compute nodes, sends (latency + bytes / bandwidth) and norms; others 0 */
  int64_t eager_bytes;   /* messages up to this size do not wait for their receiver */
};

/* True for a message that waits until its receiver is ready. */
static inline bool sim_is_rendezvous(const struct sim_times *times, const struct dag_node *node) {
  return node->bytes > times->eager_bytes || dag_is_block(node);
}

struct sim_rank {
  double busy; /* compute nodes, seconds of one iteration */
  struct step_idle idle;
  double first_start, last_end;
};

struct sim_stage {
  double forward_bubble;  /* idle of its rank between the stage's first F and its first R, B or I */
  double backward_bubble; /* and from there to its last */
};

struct sim_result {
  int32_t n_iterations;
  double makespan;          /* from 0 to the end of the last iteration */
  double step;              /* makespan / iterations */
  double *start, *end;      /* [n_nodes] of the first iteration */
  int32_t *binder;          /* [n_nodes] the node whose end let this one start (edge or stream), -1: none */
  struct sim_rank *ranks;   /* [n_ranks] of the first iteration; drain up to its end on all ranks */
  struct sim_stage *stages; /* [n_stages] */
  /* Seconds of all messages of activations and gradients; exposed: idle time of compute directly before the consumer,
   * inside [start, end] of the message (systems that overlap hide it). */
  double message_seconds, exposed_seconds;
  /* Seconds that blocks of activations are on their way, and that compute nodes wait until one is back or gone. */
  double block_seconds, block_exposed_seconds;
};

/* Prepares a simulation of this graph: arrays that sim_run uses again and again without allocating. */
struct sim;
struct sim *sim_create(const struct dag *dag, int32_t n_stages);
void sim_destroy(struct sim **sim);
/* Runs it. The result's arrays belong to the simulation and hold until the next run. */
const struct sim_result *sim_run(struct sim *sim, const struct sim_times *times, int32_t n_iterations);

#endif
