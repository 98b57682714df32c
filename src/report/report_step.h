/* One step of a trace: what each rank's time went into. Only for report*.c. */
#ifndef PENSTOCK_REPORT_REPORT_STEP_H
#define PENSTOCK_REPORT_REPORT_STEP_H

#include "record/trace_read.h"
#include "report/report.h"

/* The rows of one step, sorted by rank, stream, start, and what is found in them again and again. */
struct step_view {
  const struct node_row *rows;
  int64_t n_rows;
  int32_t n_ranks, n_stages, n_micro;
  int64_t *find;        /* [NODE_KIND_COUNT][n_stages][n_micro] row, -1: none */
  int64_t *rank_offset; /* [n_ranks+1] */
  int64_t *by_end; /* [n_rows] the rows of each rank from its offset on, by their end; of equal ends the first last */
  bool recompute_early; /* R waits for nothing of another rank; set after init, else it waits for its gradient */
  double begin, end;    /* of the step */
  double passes_end;    /* of the last F, B, I or W of any rank */
  double compute_end;   /* of the last compute node */
  double ties_end;      /* of the last exchange of a tied weight */
};

void step_view_init(struct step_view *view, const struct node_row *rows, int64_t n_rows, double seconds);
void step_view_fini(struct step_view *view);

/* Adds the parts of each rank's step to report->ranks (which has as many ranks as the view), and its late nodes. */
void step_view_add(const struct step_view *view, struct report *report);

/* Draws the step; owned by the caller, as in struct report. */
char *step_view_draw(const struct step_view *view);

#endif
