/* The graph under construction, and where its nodes are. Shared by the parts of dag_build; others do not include it. */
#ifndef PENSTOCK_DAG_DAG_BUILDER_H
#define PENSTOCK_DAG_DAG_BUILDER_H

#include "dag/dag.h"

/* The nodes of a tie between ranks, of its layer and of its user: ST and RT, or -1. */
struct dag_tie {
  int32_t send[2], receive[2];
};

/* A shape, and what is discarded, that micro-batches have; many have the same. */
struct dag_shape {
  int32_t micro; /* one of them */
  struct micro_shape shape;
};

/* Nodes of a move: ES, ER, LS, LR; or EV, -1, -1, LD; or EV, SW, SR, LD. */
struct dag_move {
  int32_t out, keep, back, in;
};

struct dag_builder {
  const struct plan *plan;   /* borrowed */
  const struct model *model; /* borrowed */
  struct dag *dag;           /* being made */

  int32_t n_shapes, *shape_of; /* [n_micro] */
  struct dag_shape *shapes;    /* [n_shapes] */

  /* Nodes of (stage, micro-batch), -1 where there is none; see dag_builder_at. */
  int32_t *forward;       /* F */
  int32_t *rebuild;       /* R, where it has parts the first */
  int32_t *gradient;      /* B or I, where it has parts the first: it takes the gradient of the stage's output */
  int32_t *input;         /* B or I, where it has parts the last */
  int32_t *weight;        /* B or W, where it has parts the last */
  int32_t *send_forward;  /* SF of this stage's output */
  int32_t *send_backward; /* SB of this stage's input gradient */

  int32_t *update, *norm; /* [n_layers] U, [n_ranks] N, -1 where there is none */
  struct dag_tie *ties;   /* [model->n_ties] */

  struct dag_move *moves; /* [n_moves] of the plan's moves */
  int64_t *blocks;        /* [n_stages*n_shapes][DAG_BLOCK_PARTS] bytes of what moves; NULL: nothing does */

  int64_t n_edges, max_edges; /* unsorted */
  int32_t *edge_from, *edge_to;
};

static inline size_t dag_builder_at(const struct dag_builder *b, int32_t stage, int32_t micro) {
  return (size_t)stage * (size_t)b->plan->n_micro + (size_t)micro;
}

/* Bytes of the hidden state that a stage hands on, or its gradient. */
int64_t dag_builder_get_boundary(const struct dag_builder *b, int32_t stage, int32_t micro);

/* The first compute node that needs what a stage keeps of a micro-batch: R, but where it has parts, and the first of
 * them discard nothing, B or I comes before. (Compute nodes of a rank have ascending ids.) */
static inline int32_t dag_builder_get_use(const struct dag_builder *b, size_t at) {
  return b->rebuild[at] >= 0 && b->rebuild[at] < b->gradient[at] ? b->rebuild[at] : b->gradient[at];
}

/* The node that the gradient of a stage's output is received for: B or I, or the R before it that is glued to it. */
static inline int32_t dag_builder_get_gradient_user(const struct dag_builder *b, size_t at) {
  return b->plan->recompute_early ? b->gradient[at] : dag_builder_get_use(b, at);
}

/* Returns what dag_measure_block returns, from the measurements of dag_moves_measure. */
static inline int64_t dag_builder_get_block(const struct dag_builder *b, int32_t stage, int32_t micro,
                                            int64_t parts[DAG_BLOCK_PARTS]) {
  size_t row = (size_t)stage * (size_t)b->n_shapes + (size_t)b->shape_of[micro];
  int64_t sum = 0;
  for (size_t k = 0; k < DAG_BLOCK_PARTS; k++) sum += parts[k] = b->blocks[row * DAG_BLOCK_PARTS + k];
  return sum;
}

/* dag_nodes.c: shapes, nodes, look-up tables and streams (send and receive in no particular order yet). STATUS_FAILED
 * when there are more nodes than an id can count. */
int dag_nodes_make(struct dag_builder *b);

/* dag_moves.c: the bytes of all blocks. */
void dag_moves_measure(struct dag_builder *b);
/* dag_moves.c: the edges of moves, after all others. */
void dag_moves_connect(struct dag_builder *b);

/* dag_edges.c: the edges that dag.h lists, and any one more. */
void dag_edges_make(struct dag_builder *b);
void dag_edges_add(struct dag_builder *b, int32_t from, int32_t to);
/* Puts the edges so far into the graph, sorted by `to`; may be called again after adding more. */
void dag_edges_sort(struct dag_builder *b);

/* dag_release.c: release[v] of each SF and SB: the compute node at whose end the sent buffer is freed. Adds the edges
 * that this needs. place[]: of dag_order_messages. */
void dag_release_sent(struct dag_builder *b, const int32_t *place, int32_t *release);

/* dag_memory.c: the buffer table, its sums on the nodes, the static bytes. */
void dag_memory_make(struct dag_builder *b, const int32_t *release);

#endif
