/* The rows of one step of /nodes, simulated or measured, and what is found in them again and again: which row's end let
 * another start, and what a row needs by its kind (node_kind.h). Serial.
 */
#ifndef PENSTOCK_RECORD_STEP_VIEW_H
#define PENSTOCK_RECORD_STEP_VIEW_H

#include <stdbool.h>

#include "record/trace_rows.h"

struct step_view {
  const struct node_row *rows; /* borrowed */
  int64_t n_rows;
  int32_t n_ranks, n_stages, n_micro;
  bool recompute_early;   /* R waits for no gradient (struct plan) */
  int64_t *rank_offset;   /* [n_ranks+1] */
  int64_t *after;         /* [n_rows] the row whose end let a row start, -1: none, or not known */
  int64_t *find;          /* [NODE_KIND_COUNT][n_stages][n_micro] row, -1: none */
  int64_t *shared_offset; /* [n_ranks+1] into shared */
  int64_t *shared;        /* the rows of each rank that are of no micro-batch and of no compute stream: norm and ties */
  double begin, end;      /* of the step: from 0, or earlier where a rank began earlier */
  double passes_end;      /* of the last F, B, I or W of any rank */
  double compute_end;     /* of the last compute node */
  double ties_end;        /* of the last exchange of a tied weight */
};

/* Rows that are grouped by rank, each rank's compute nodes in their order. seconds: how long the step is at least.
 * Where no row knows what it came after (a file of before the column), a compute node comes after what it needs, as far
 * as its kind tells: waits for memory are not seen then. */
void step_view_init(struct step_view *view, const struct node_row *rows, int64_t n_rows, double seconds,
                    bool recompute_early);
void step_view_fini(struct step_view *view);

/* All return a row, -1 where there is none. The send of a receive. */
int64_t step_view_find_send(const struct step_view *view, int64_t receive);
/* The pass that made what a send sends. */
int64_t step_view_find_maker(const struct step_view *view, int64_t send);
/* Of the kinds that a compute node waits for, on streams before `streams`, the row that ends last. */
int64_t step_view_find_need(const struct step_view *view, int64_t row, enum stream streams);

#endif
