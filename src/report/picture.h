/* The data that pictures of a run or plan are drawn from, and the files that they are drawn into. Serial. */
#ifndef PENSTOCK_REPORT_PICTURE_H
#define PENSTOCK_REPORT_PICTURE_H

#include <stdio.h>

#include "record/rundir.h"
#include "report/timeline.h"

/* The prediction first, the measurement after it; either may be missing, one is there. */
struct picture {
  char *name;    /* of the run folder or plan */
  char *planner; /* NULL: not known */
  char *note;    /* what the reader must know, a sentence; NULL: nothing */
  int n_timelines;
  struct timeline timelines[2];
};

/* trace, plan: paths, NULL for one that is not to be read; a plan that cannot be read is left out with a warning where
 * there is a trace. step: of the trace. Without any times it is STATUS_MISTAKE. The picture is the caller's to fini, on
 * success. */
int picture_read(const char *name, const char *trace, const char *plan, int64_t step, struct picture *picture);
void picture_fini(struct picture *picture);
/* Raises that a trace does not hold a step. Returns STATUS_MISTAKE. */
int picture_refuse_step(const char *trace, int64_t step);

/* Seconds of the longest timeline: all are drawn to one scale. */
double picture_get_seconds(const struct picture *picture);

/* Returns the ranks' actions as text, for a plan that has not run; owned by the caller. */
char *picture_format(const struct picture *picture);

/* The writers leave errors of the stream to whoever closes it.
 * report_svg.c: timelines, memory over time against the limit, parts of each rank's step. standalone: a file of its
 * own, else to be put into HTML. */
enum { SVG_LEFT = 70, SVG_PLOT = 1000, SVG_RIGHT = 170 };
void picture_write_svg(FILE *out, const struct picture *picture, bool standalone);
/* report_data.c: the nodes of a timeline that is drawn in columns, for the script of a page, to the scale of `seconds`;
 * as many as a page may hold. */
enum picture_detail { PICTURE_ALL, PICTURE_COMPUTE /* no messages */, PICTURE_COLUMNS /* none */ };
enum picture_detail picture_write_data(FILE *out, const struct timeline *timeline, double seconds);
/* report_chrome.c: trace events, microseconds; process = rank, thread = stream; a prediction's processes come after the
 * measured ones. */
void picture_write_chrome(FILE *out, const struct picture *picture);
/* report_csv.c: the rows of /nodes of one timeline, the columns of the table with names for kinds and streams. */
void picture_write_csv(FILE *out, const struct timeline *timeline);

/* ---- a page: one HTML file that needs no other ---- */

struct page {
  const struct picture *picture;
  const struct report *report; /* NULL: of a plan */
  const struct metrics_row *metrics;
  int64_t n_metrics;
};

void page_write(FILE *out, const struct page *page);
/* report_curves.c: what metrics.csv has over the steps. */
void page_write_curves(FILE *out, const struct page *page);
/* report_tables.c */
void page_write_tables(FILE *out, const struct page *page);
extern const char picture_script[]; /* report_script.c */

/* `text` with what XML gives a meaning escaped. */
void picture_write_escaped(FILE *out, const char *text);

#endif
