/* trace.h5: what really ran, written by rank 0. /nodes as in plan.h5, one row a node a step; /steps; /peaks, all in
 * ascending steps; at the end what comparison.h says; attributes format, version, n_ranks, hosts. Rows are gathered
 * from all ranks and appended every run.trace_every steps, then flushed; a killed writer loses at most what was not
 * flushed, and the file stays readable. trace_read.h reads it.
 *
 * A file that would pass run.trace_limit is written anew, a quarter as large: of its steps the first few, the last
 * TRACE_LAST_STEPS and every K-th between stay (fewer where a step is large), K a power of two that doubles as the run
 * goes on (trace_thin.h). /steps is whole as long as it is an eighth of the limit at most.
 */
#ifndef PENSTOCK_RECORD_TRACE_H
#define PENSTOCK_RECORD_TRACE_H

#include "dag/dag.h"
#include "record/plan_file.h" /* the plan that a trace is compared with lies beside it */

struct comm;
struct comparison;
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
  double predicted_seconds; /* NaN: not predicted */
  uint64_t plan_hash;
  bool starts;                  /* it is the first step after a start of the program */
  double start;                 /* of the step, rank 0's clock */
  int64_t host_peak, disk_peak; /* bytes of this rank's host memory and spill file */
};

/* Opens RUN/trace.h5 on rank 0: creates it, or continues it after removing rows of steps above `last_step` (resume). A
 * file that cannot be continued is renamed to trace.h5.old with a warning. Collective. */
int trace_open_all(struct comm *comm, const char *path, int64_t last_step, struct trace **trace);
enum { TRACE_LAST_STEPS = 100 };
/* About what a node's row takes in the file, of the times that a computer measures. */
enum { TRACE_ROW_BYTES = 12 };
/* The file has at most so many bytes from the next flush on; not limited before. Of all ranks, or of rank 0 alone. */
void trace_set_limit(struct trace *trace, int64_t bytes);
/* Keeps this rank's rows of one step in memory: spans[i] for node rank_offset[rank]+i of the graph. peak: this rank's
 * measured device peak of the step, bytes; static_bytes as in the graph. */
int trace_add(struct trace *trace, const struct dag *dag, const struct trace_span *spans, const struct trace_step *step,
              int64_t peak, int64_t static_bytes);
/* Gathers all ranks' rows to rank 0, appends and flushes. When the disk fails, the rows given since the last flush are
 * lost and named, the file stays as it was, and the next flush tries again with the rows after them. Collective. */
int trace_flush_all(struct trace *trace);
/* Appends and flushes what rank 0 itself holds, without any communication: for the end of a broken job. Nothing on
 * other ranks; failures are ignored. */
void trace_flush_alone(struct trace *trace);
/* Adds what was predicted beside what was measured (comparison.h); rank 0 alone, written by the next flush. */
int trace_put_comparison(struct trace *trace, const struct comparison *comparison);
/* Flushes and closes. Frees also on failure. Collective. */
int trace_close_all(struct trace **trace);
/* Frees, and leaves the file as the last flush left it. Not collective; NULL is allowed. */
void trace_discard(struct trace **trace);

#endif
