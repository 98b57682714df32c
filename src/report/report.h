/* Where time and memory of a run went, rank by rank, from its trace.h5 and plan.h5. Serial. */
#ifndef PENSTOCK_REPORT_REPORT_H
#define PENSTOCK_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* One rank, mean over the steps that were read. Seconds a step; busy + bubble + wait + other = step. */
struct report_rank {
  int32_t rank;
  double busy;   /* compute nodes F, B, I, W, U */
  double bubble; /* compute idle for want of data that another rank has not made yet, start and end of the step included */
  double wait;   /* compute idle while a message that the next node needs is under way */
  double other;  /* the norm, and what is between the nodes: the program itself */
  int64_t peak_bytes, limit_bytes; /* device; limit INT64_MAX: none */
};

struct report {
  char *folder, *planner;
  int32_t n_ranks, n_stages, n_micro;
  int64_t first_step, last_step, n_steps; /* that were read */
  double step_seconds;                    /* median */
  double loss_first, loss_last, tokens_per_s;
  struct report_rank *ranks; /* [n_ranks] */
};

/* Reads a run folder. steps: how many of the last steps in the trace to read, 0: all but the first (which warms up), when
 * there are more. STATUS_MISTAKE when the folder has no trace, naming what to set. */
int report_read(const char *folder, int64_t steps, struct report *report);
void report_fini(struct report *report);

/* The report as text; owned by the caller. */
char *report_format(const struct report *report);
/* The same as one JSON object; owned by the caller. */
char *report_format_json(const struct report *report);

/* Writes RUN/report.txt, atomically. */
int report_save(const char *folder);

#endif
