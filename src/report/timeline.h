/* One step of all ranks as bars to be drawn, from the rows of /nodes: predicted (of plan.h5) or measured (of trace.h5).
 * What is drawn stays small however large the step is. Serial.
 */
#ifndef PENSTOCK_REPORT_TIMELINE_H
#define PENSTOCK_REPORT_TIMELINE_H

#include "record/trace_rows.h"
#include "report/report.h"

/* A step of more rows than MOST_BARS is drawn in columns that hold COLUMN_PASSES passes of a rank each on average (of
 * fewer, the shares of neighbours differ by where their edges fall), as far as the limits of all columns allow. */
enum {
  TIMELINE_MOST_BARS = 3000,
  TIMELINE_MOST_RANKS = 256,
  TIMELINE_COLUMN_PASSES = 6,
  TIMELINE_LEAST_COLUMNS = 60,
  TIMELINE_MOST_COLUMNS = 250,
  TIMELINE_MOST_CELLS = 24000
};

/* A node, to be drawn by itself. */
struct timeline_bar {
  int64_t row; /* into rows */
  double start_s, end_s;
  int64_t bytes_in_use; /* of the device, the most while the bar lasts; from then on bytes_after. Compute bars only */
  int64_t bytes_after;
  bool on_path; /* it is on the critical path */
};

struct timeline {
  const char *title; /* "predicted" or "measured" */
  int64_t step;      /* 0: of a plan */
  int32_t n_ranks, n_drawn;
  double begin_s, end_s;
  struct node_row *rows; /* whose times are known, by rank, stream, start */
  int64_t n_rows;
  int64_t *row_offset;         /* [n_ranks+1] the rows of a rank */
  bool *on_path;               /* [n_rows] the row is on the critical path */
  int32_t n_stages, n_chunks;  /* n_chunks: the most stages of a rank */
  int32_t *chunks;             /* [n_stages] which of its rank's stages it is */
  int n_columns;               /* 0: each node has a bar; else the columns that the step is drawn in */
  struct timeline_bar *bars;   /* of the first n_drawn ranks: each rank's compute bars, then its messages */
  int64_t n_bars, *bar_offset; /* bar_offset: [n_drawn+1] */
  int64_t *levels;             /* [n_drawn][n_columns] device bytes, the most in each column; NULL without columns */
  struct report_rank *ranks;   /* [n_ranks] parts of the step, device peak and limit as in a report */
  int64_t *bytes_static;       /* [n_ranks] device bytes held for the whole step; 0 when not known */
};

/* Bytes that the rows do not tell, by rank; NULL where not known, then peaks are those of the rows. */
struct timeline_memory {
  int64_t n_ranks;
  const int64_t *bytes_static, *limit_bytes; /* limit INT64_MAX: none */
};

/* Takes over `rows` (frees those it does not keep). seconds: how long the step is at least. No row with a time: n_rows
 * 0. STATUS_FAILED for rows that no program writes. */
int timeline_init(struct timeline *timeline, const char *title, int64_t step, double seconds, struct node_row *rows,
                  int64_t n_rows, const struct timeline_memory *memory);
void timeline_fini(struct timeline *timeline);

/* Returns true when each rank did the same passes in the same order in both, as steps of one plan do. A measured step
 * of which only one rank's rows are there, as a broken job leaves it, is judged by these. */
bool timeline_is_of_plan(const struct timeline *measured, const struct timeline *predicted);

/* Passes have shades: 0 for a rank's first stage, up to TIMELINE_SHADES - 1 for its last one; 0 of what is no pass. */
enum { TIMELINE_SHADES = 8 };
int timeline_get_shade(const struct timeline *timeline, const struct node_row *row);

/* The shares of a rank's columns of compute time between two instants, of classes kind x TIMELINE_SHADES + shade. The
 * columns have NODE_KIND_COUNT x TIMELINE_SHADES classes. */
struct columns;
void timeline_fill_columns(const struct timeline *timeline, int32_t rank, struct columns *columns);

#endif
