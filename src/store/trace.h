/* trace.h5: what really ran, written by rank 0. /nodes as in plan.h5, one row a node a step; /steps; /peaks. Rows are
 * gathered from all ranks and appended every run.trace_every steps, then flushed; a killed writer loses at most what was
 * not flushed, and the file stays readable.
 */
#ifndef PENSTOCK_STORE_TRACE_H
#define PENSTOCK_STORE_TRACE_H

#include "dag/dag.h"

struct comm;
struct trace;

/* A node's measured times: seconds of this rank's clock_now(). */
struct trace_span {
  double start, end;
};

struct trace_step {
  int64_t step;
  double loss;
  int64_t tokens;
  double seconds;
  uint64_t plan_hash;
  double start; /* of the step, rank 0's clock */
};

/* Opens RUN/trace.h5 on rank 0: creates it, or continues it after removing rows of steps above `last_step` (resume).
 * Collective. */
int trace_open_all(struct comm *comm, const char *path, int64_t last_step, struct trace **trace);
/* Keeps this rank's rows of one step in memory: spans[i] for node rank_offset[rank]+i of the graph. peak: this rank's
 * measured device peak of the step, bytes; static_bytes as in the graph. */
int trace_add(struct trace *trace, const struct dag *dag, const struct trace_span *spans, const struct trace_step *step,
              int64_t peak, int64_t static_bytes);
/* Gathers all ranks' rows to rank 0, appends and flushes. Collective. */
int trace_flush_all(struct trace *trace);
/* Appends and flushes what rank 0 itself holds, without any communication: for the end of a broken job. */
void trace_flush_alone(struct trace *trace);
int trace_close_all(struct trace **trace);

/* The columns of /nodes, shared with plan.h5. */
struct h5_column;
const struct h5_column *trace_get_node_columns(int *n);

/* plan.h5 of a plan and its graph (tables /nodes /edges /layers /stages /replicas /microbatches /limits /peaks,
 * attributes format, version, planner, hash, n_ranks, deck). By one rank. start_s and end_s are NaN until a simulator
 * fills them in. */
struct model;
int plan_file_write(const char *path, const struct plan *plan, const struct dag *dag, const struct model *model,
                    const char *deck);

#endif
