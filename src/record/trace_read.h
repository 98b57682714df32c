/* Reading trace.h5, while its run goes on or afterwards. Serial. */
#ifndef PENSTOCK_RECORD_TRACE_READ_H
#define PENSTOCK_RECORD_TRACE_READ_H

#include "record/trace_rows.h"

/* The last steps of a trace; rows in ascending steps. */
struct trace_content {
  struct step_row *steps;
  struct node_row *nodes; /* within a step by rank, stream, start */
  struct peak_row *peaks;
  int64_t n_steps, n_nodes, n_peaks;
  int64_t n_ranks; /* of the job that wrote last; a broken one may have left steps with rank 0's rows alone */
};

/* Reads the last n_steps steps, fewer when there are fewer. A file that is being written to is read again when a write
 * came in between. A trace without steps is STATUS_OK with n_steps 0; no file, or one that is no trace, is
 * STATUS_MISTAKE. The content is owned by the caller. */
int trace_read(const char *path, int64_t n_steps, struct trace_content *content);
void trace_content_fini(struct trace_content *content);

/* The rows of /nodes of one step (0: of plan.h5); owned by the caller. No such step: n 0. */
int trace_read_nodes(const char *path, int64_t step, struct node_row **nodes, int64_t *n);

#endif
