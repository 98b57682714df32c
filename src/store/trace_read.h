/* Reading the timeline of a run, from trace.h5 and plan.h5, while the run goes on or afterwards. Serial. */
#ifndef PENSTOCK_STORE_TRACE_READ_H
#define PENSTOCK_STORE_TRACE_READ_H

#include <stdint.h>

/* One row of /nodes. Seconds from the start of the step. */
struct trace_row {
  int32_t step, rank, stage, micro, layer, peer; /* -1 where it does not apply */
  int8_t stream, kind;
  double start, end;
};

/* One row of /steps. */
struct trace_step_row {
  int64_t step, tokens;
  double loss, seconds;
};

/* One row of /peaks. */
struct trace_peak {
  int32_t step, rank;
  int64_t device_bytes;
};

struct trace_content {
  struct trace_step_row *steps; /* ascending */
  struct trace_row *rows;       /* sorted by step, rank, stream, start */
  struct trace_peak *peaks;
  int64_t n_steps, n_rows, n_peaks;
};

/* Reads the last n_steps steps of a trace, fewer when there are fewer. A file that is being appended to is read again when
 * a write came in between. A trace without steps is STATUS_OK with n_steps 0; no file, or one that is no trace, is
 * STATUS_MISTAKE. The content is owned by the caller. */
int trace_read(const char *path, int64_t n_steps, struct trace_content *content);
void trace_content_fini(struct trace_content *content);

/* What a report needs of plan.h5. */
struct plan_summary {
  char *planner;
  int32_t n_ranks;
  int64_t *device_limit; /* [n_ranks] bytes, INT64_MAX: none */
};
/* No file is STATUS_OK with planner NULL and n_ranks 0. */
int plan_summary_read(const char *path, struct plan_summary *summary);
void plan_summary_fini(struct plan_summary *summary);

#endif
