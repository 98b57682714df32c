/* One step of all ranks as bars to be drawn, from the rows of /nodes: predicted (of plan.h5) or measured (of trace.h5). What
 * is drawn stays small however large the step is. Serial.
 */
#ifndef PENSTOCK_REPORT_TIMELINE_H
#define PENSTOCK_REPORT_TIMELINE_H

#include "report/report.h"
#include "store/trace_rows.h"

enum { TIMELINE_MOST_BARS = 12000, TIMELINE_MOST_RANKS = 256 };

/* A node; or several compute nodes of a rank one after the other, with the time between them, where there are too many to
 * be told apart: then `row` is the longest of them. */
struct timeline_bar {
  int64_t row;   /* into rows */
  int64_t count; /* of nodes */
  double start_s, end_s;
  int64_t bytes_in_use; /* of the device, the most while the bar lasts; from then on bytes_after. Compute bars only */
  int64_t bytes_after;
  bool on_path; /* one of them is on the critical path */
};

struct timeline {
  const char *title; /* "predicted" or "measured" */
  int64_t step;      /* 0: of a plan */
  int32_t n_ranks, n_drawn;
  double begin_s, end_s;
  struct node_row *rows; /* whose times are known, by rank, stream, start */
  int64_t n_rows;
  bool *on_path;             /* [n_rows] the row is on the critical path */
  struct timeline_bar *bars; /* of the first n_drawn ranks: each rank's compute bars, then its messages */
  int64_t n_bars;
  int64_t *bar_offset;       /* [n_drawn+1] */
  bool has_messages;         /* false: there would be too many bars */
  bool merged;               /* some bars are several nodes */
  struct report_rank *ranks; /* [n_ranks] parts of the step, device peak and limit as in a report */
  int64_t *bytes_static;     /* [n_ranks] device bytes held for the whole step; 0 when not known */
};

/* Bytes that the rows do not tell, by rank; NULL where not known, then peaks are those of the rows. */
struct timeline_memory {
  int64_t n_ranks;
  const int64_t *bytes_static, *limit_bytes; /* limit INT64_MAX: none */
};

/* Takes over `rows` (frees those it does not keep). seconds: how long the step is at least. No row with a time: n_rows 0.
 * STATUS_FAILED for rows that no program writes. */
int timeline_init(struct timeline *timeline, const char *title, int64_t step, double seconds, struct node_row *rows,
                  int64_t n_rows, const struct timeline_memory *memory);
void timeline_fini(struct timeline *timeline);

/* timeline_path.c: fills in on_path of the rows; called by timeline_init. */
void timeline_mark_path(struct timeline *timeline);

#endif
