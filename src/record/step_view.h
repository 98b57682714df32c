/* One step as arrays by node, simulated or measured: what ran, when, after what, and what it needed. Serial. */
#ifndef PENSTOCK_RECORD_STEP_VIEW_H
#define PENSTOCK_RECORD_STEP_VIEW_H

#include <stdbool.h>

#include "record/trace_rows.h"

/* Nodes here are places in these arrays: the nodes of a graph, or the rows of a step. */
struct step_view {
  int32_t n_nodes, n_ranks, n_stages, n_micro;
  const struct dag_node *nodes; /* rank, stage, micro, layer, peer, kind, stream, bytes are set */
  const int32_t *stream_offset; /* [n_ranks*STREAM_COUNT+1] into stream_nodes: each rank's streams in their order */
  const int32_t *stream_nodes;
  const double *start, *end; /* seconds */
  const int32_t *after;      /* the node whose end let a node start; -1: none, or not known */
  const int32_t *match;      /* the other end of a message; -1: none (of rows: of a receive alone) */
  /* The nodes that a node needs: edges to node v are edge_from[in_offset[v]] to edge_from[in_offset[v + 1] - 1]. */
  const int64_t *in_offset;
  const int32_t *edge_from;
  const struct node_row *rows; /* that it was made of, borrowed; NULL: of a graph */
  struct step_arrays *own;     /* what is to be freed; NULL: all is borrowed */
  double begin, until;         /* of the step: from 0, or earlier where a rank began earlier */
  double passes_end;           /* of the last F, B, I or W of any rank */
  double compute_end;          /* of the last compute node */
  double ties_end;             /* of the last exchange of a tied weight */
  double message_seconds;      /* of all sends of activations and gradients */
};

/* A graph with the times of its nodes; after: as struct sim_result has it. All is borrowed, nothing is allocated. */
void step_view_init_graph(struct step_view *view, const struct dag *dag, int32_t n_stages, const double *start,
                          const double *end, const int32_t *after);

/* Rows of one step; those of each rank and stream in their order. seconds: how long the step is at least. Rows do not
 * tell edges: what a row needs is what its kind says (node_kind.h), of its rank, stage and micro-batch, unless that
 * ended after it began. recompute_early: R needs no gradient (struct plan). Where no row knows what it came after (a
 * file of before the column), that is what ended last of what it needs and its stream: waits for memory are not seen
 * then. */
void step_view_init_rows(struct step_view *view, const struct node_row *rows, int64_t n_rows, double seconds,
                         bool recompute_early);
void step_view_fini(struct step_view *view);

/* Returns the node that ends last among those that a node needs, on streams from `first` to before `end`; -1: none. */
int32_t step_view_find_need(const struct step_view *view, int32_t node, enum stream first, enum stream end);

#endif
