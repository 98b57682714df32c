/* Nodes of the graph: for each rank its compute nodes in the plan's order, its updates, then messages and norm. */
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "dag/dag_builder.h"
#include "model/footprint.h"

struct shape_key {
  struct micro_shape shape;
  int32_t discards, micro;
};

static int compare_keys(const void *left, const void *right) {
  const struct shape_key *a = left, *b = right;
  if (a->shape.rows != b->shape.rows) return a->shape.rows < b->shape.rows ? -1 : 1;
  if (a->shape.length != b->shape.length) return a->shape.length < b->shape.length ? -1 : 1;
  if (a->discards != b->discards) return a->discards < b->discards ? -1 : 1;
  return 0;
}

/* Numbers the runs of micro-batches between which what is discarded changes. */
static void number_discards(const struct plan *plan, struct shape_key *keys) {
  for (int32_t k = 0; k < plan->n_recompute; k++) {
    const struct plan_recompute *r = &plan->recompute[k];
    keys[r->first_micro].discards = 1;
    if (r->last_micro + 1 < plan->n_micro) keys[r->last_micro + 1].discards = 1;
  }
  for (int32_t i = 1; i < plan->n_micro; i++) keys[i].discards += keys[i - 1].discards;
}

static void find_shapes(struct dag_builder *b) {
  int32_t m = b->plan->n_micro;
  struct shape_key *keys = MEM_NEW(struct shape_key, m);
  b->shape_of = MEM_NEW(int32_t, m);
  b->shapes = MEM_NEW(struct dag_shape, m);
  for (int32_t i = 0; i < m; i++) keys[i] = (struct shape_key){.shape = b->plan->micro[i], .micro = i};
  number_discards(b->plan, keys);
  qsort(keys, (size_t)m, sizeof *keys, compare_keys);
  for (int32_t i = 0; i < m; i++) {
    if (i == 0 || compare_keys(&keys[i - 1], &keys[i]))
      b->shapes[b->n_shapes++] = (struct dag_shape){keys[i].micro, keys[i].shape};
    b->shape_of[keys[i].micro] = b->n_shapes - 1;
  }
  mem_free(keys);
}

int64_t dag_builder_get_boundary(const struct dag_builder *b, int32_t stage, int32_t micro) {
  const struct plan_stage *s = &b->plan->stages[stage];
  const struct dag_shape *shape = &b->shapes[b->shape_of[micro]];
  return footprint_output(b->model, s->first_layer + s->n_layers - 1, shape->shape);
}

/* Layers, stages and ranks of both ends of a tie; false where they are on one rank, or nothing is trained. */
static bool find_ends(const struct dag_builder *b, const struct tie *tie, int32_t layers[2], int32_t stages[2],
                      int32_t ranks[2]) {
  layers[0] = tie->layer;
  layers[1] = tie->user;
  for (int k = 0; k < 2; k++) {
    stages[k] = plan_get_stage(b->plan, layers[k]);
    ranks[k] = plan_get_holder(b->plan, stages[k]);
  }
  return !b->plan->forward_only && ranks[0] != ranks[1];
}

/* Adds each rank's number of nodes to count[rank]. */
static void count_nodes(const struct dag_builder *b, int64_t *count) {
  const struct plan *plan = b->plan;
  for (int32_t r = 0; r < plan->n_ranks; r++)
    count[r] += plan->order_offset[r + 1] - plan->order_offset[r] + !plan->forward_only; /* + N */
  for (int32_t s = 0; s < plan->n_stages; s++) {
    if (!plan->forward_only) count[plan_get_holder(plan, s)] += plan->stages[s].n_layers; /* U */
    for (int32_t i = 0; i < plan->n_micro && s + 1 < plan->n_stages; i++) {
      int32_t rank = plan_find_rank(plan, s, i), next = plan_find_rank(plan, s + 1, i);
      if (next == rank) continue;
      count[rank] += plan->forward_only ? 1 : 2;
      count[next] += plan->forward_only ? 1 : 2;
    }
  }
  for (int32_t i = 0; i < b->model->n_ties; i++) {
    int32_t layers[2], stages[2], ranks[2];
    bool apart = find_ends(b, &b->model->ties[i], layers, stages, ranks);
    for (int k = 0; k < 2 && apart; k++) count[ranks[k]] += 2; /* ST, RT */
  }
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_move *m = &plan->moves[k];
    int32_t own = plan_find_rank(plan, m->stage, m->micro);
    count[own] += 2;                                                                      /* ES, LR or EV, LD */
    if (m->tier != PLAN_TIER_HOST) count[m->tier == PLAN_TIER_RANK ? m->peer : own] += 2; /* ER, LS or SW, SR */
  }
}

static int size_graph(struct dag_builder *b) {
  struct dag *dag = b->dag;
  int32_t p = b->plan->n_ranks;
  int64_t *count = MEM_NEW(int64_t, p), total = 0;
  count_nodes(b, count);
  dag->n_ranks = p;
  dag->rank_offset = MEM_NEW(int32_t, p + 1);
  for (int32_t r = 0; r < p; r++) {
    dag->rank_offset[r] = total < INT32_MAX ? (int32_t)total : INT32_MAX;
    total += count[r];
  }
  mem_free(count);
  if (total >= INT32_MAX)
    return error_raise(STATUS_FAILED,
                       "the plan's graph has %lld nodes, at most %d are possible: fewer micro-batches a step",
                       (long long)total, INT32_MAX - 1);
  dag->rank_offset[p] = dag->n_nodes = (int32_t)total;
  dag->nodes = MEM_NEW(struct dag_node, total);
  dag->match = MEM_NEW(int32_t, total);
  for (int32_t v = 0; v < dag->n_nodes; v++) dag->match[v] = -1;
  return STATUS_OK;
}

static int32_t *make_table(int64_t n) {
  int32_t *table = MEM_NEW(int32_t, n);
  for (int64_t i = 0; i < n; i++) table[i] = -1;
  return table;
}

static void make_tables(struct dag_builder *b) {
  int64_t n = (int64_t)b->plan->n_stages * b->plan->n_micro;
  b->forward = make_table(n);
  b->rebuild = make_table(n);
  b->gradient = make_table(n);
  b->input = make_table(n);
  b->weight = make_table(n);
  b->send_forward = make_table(n);
  b->send_backward = make_table(n);
  b->update = make_table(b->plan->n_layers);
  b->norm = make_table(b->plan->n_ranks);
}

/* `next[rank]` is the rank's next free node. */
static int32_t add_node(struct dag *dag, int32_t *next, int32_t rank, enum node_kind kind) {
  int32_t v = next[rank]++;
  dag->nodes[v] = (struct dag_node){.rank = rank,
                                    .stage = -1,
                                    .micro = -1,
                                    .layer = -1,
                                    .peer = -1,
                                    .kind = (uint8_t)kind,
                                    .stream = (uint8_t)node_kind_get_stream(kind)};
  return v;
}

static void add_actions(struct dag_builder *b, int32_t *next) {
  const struct plan *plan = b->plan;
  for (int32_t r = 0; r < plan->n_ranks; r++)
    for (int64_t k = plan->order_offset[r]; k < plan->order_offset[r + 1]; k++) {
      const struct plan_action *a = &plan->order[k];
      int32_t v = add_node(b->dag, next, r, a->kind);
      b->dag->nodes[v].stage = a->stage;
      b->dag->nodes[v].micro = a->micro;
      size_t at = dag_builder_at(b, a->stage, a->micro);
      if (a->kind == NODE_F) b->forward[at] = v;
      if (plan->n_parts > 0 && plan->parts[k].n_layers > 0) b->dag->nodes[v].layer = plan->parts[k].first_layer;
      if (a->kind == NODE_R && b->rebuild[at] < 0) b->rebuild[at] = v;
      if ((a->kind == NODE_B || a->kind == NODE_I) && b->gradient[at] < 0) b->gradient[at] = v;
      if (a->kind == NODE_B || a->kind == NODE_I) b->input[at] = v;
      if (a->kind == NODE_B || a->kind == NODE_W) b->weight[at] = v;
    }
}

static void add_updates(struct dag_builder *b, int32_t *next) {
  for (int32_t s = 0; s < b->plan->n_stages; s++) {
    const struct plan_stage *stage = &b->plan->stages[s];
    for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
      int32_t v = add_node(b->dag, next, plan_get_holder(b->plan, s), NODE_U);
      b->dag->nodes[v].stage = s;
      b->dag->nodes[v].layer = l;
      b->update[l] = v;
    }
  }
}

/* Adds both ends of one message of stages between ranks; returns the sending one. */
static int32_t add_ends(struct dag_builder *b, int32_t *next, enum node_kind send, enum node_kind receive,
                        const int32_t stages[2], const int32_t ranks[2], int64_t bytes) {
  int32_t ends[2] = {add_node(b->dag, next, ranks[0], send), add_node(b->dag, next, ranks[1], receive)};
  for (int k = 0; k < 2; k++) {
    struct dag_node *n = &b->dag->nodes[ends[k]];
    n->stage = stages[k];
    n->peer = ranks[!k];
    n->bytes = bytes;
    b->dag->match[ends[k]] = ends[!k];
  }
  return ends[0];
}

/* Adds both ends of a micro-batch's message between two stages. */
static int32_t add_message(struct dag_builder *b, int32_t *next, enum node_kind send, enum node_kind receive,
                           int32_t from, int32_t to, int32_t micro) {
  int32_t stages[2] = {from, to};
  int32_t ranks[2] = {plan_find_rank(b->plan, from, micro), plan_find_rank(b->plan, to, micro)};
  int64_t bytes = dag_builder_get_boundary(b, from < to ? from : to, micro);
  int32_t v = add_ends(b, next, send, receive, stages, ranks, bytes);
  b->dag->nodes[v].micro = b->dag->nodes[b->dag->match[v]].micro = micro;
  return v;
}

static void add_boundary(struct dag_builder *b, int32_t *next, int32_t lower) {
  for (int32_t i = 0; i < b->plan->n_micro; i++) {
    if (plan_find_rank(b->plan, lower, i) == plan_find_rank(b->plan, lower + 1, i)) continue;
    int32_t v = add_message(b, next, NODE_SF, NODE_RF, lower, lower + 1, i);
    b->send_forward[dag_builder_at(b, lower, i)] = v;
    if (b->plan->forward_only) continue;
    v = add_message(b, next, NODE_SB, NODE_RB, lower + 1, lower, i);
    b->send_backward[dag_builder_at(b, lower + 1, i)] = v;
  }
}

/* Layer and user of a tie send each other their gradient sums of the tensor that they share. */
static void add_ties(struct dag_builder *b, int32_t *next) {
  b->ties = MEM_NEW(struct dag_tie, b->model->n_ties);
  for (int32_t i = 0; i < b->model->n_ties; i++) {
    const struct tie *tie = &b->model->ties[i];
    int32_t layers[2], stages[2], ranks[2];
    int64_t bytes = tie->floats * (int64_t)sizeof(float);
    b->ties[i] = (struct dag_tie){{-1, -1}, {-1, -1}};
    bool apart = find_ends(b, tie, layers, stages, ranks);
    for (int k = 0; k < 2 && apart; k++) {
      int32_t v = add_ends(b, next, NODE_ST, NODE_RT, (const int32_t[2]){stages[k], stages[!k]},
                           (const int32_t[2]){ranks[k], ranks[!k]}, bytes);
      b->dag->nodes[v].layer = layers[k];
      b->dag->nodes[b->dag->match[v]].layer = layers[!k];
      b->ties[i].send[k] = v;
      b->ties[i].receive[!k] = b->dag->match[v];
    }
  }
}

/* A block goes to another rank and comes back. */
static struct dag_move add_visit(struct dag_builder *b, int32_t *next, const struct plan_move *m, int64_t bytes) {
  int32_t stages[2] = {m->stage, m->stage}, own = plan_find_rank(b->plan, m->stage, m->micro);
  int32_t out = add_ends(b, next, NODE_ES, NODE_ER, stages, (const int32_t[2]){own, m->peer}, bytes);
  int32_t back = add_ends(b, next, NODE_LS, NODE_LR, stages, (const int32_t[2]){m->peer, own}, bytes);
  return (struct dag_move){out, b->dag->match[out], back, b->dag->match[back]};
}

/* A block goes to host memory, and on to disk, and comes back. */
static struct dag_move add_copies(struct dag_builder *b, int32_t *next, const struct plan_move *m) {
  int32_t own = plan_find_rank(b->plan, m->stage, m->micro);
  bool spills = m->tier == PLAN_TIER_DISK;
  int32_t out = add_node(b->dag, next, own, NODE_EV), in = add_node(b->dag, next, own, NODE_LD);
  return (struct dag_move){out, spills ? add_node(b->dag, next, own, NODE_SW) : -1,
                           spills ? add_node(b->dag, next, own, NODE_SR) : -1, in};
}

static void add_moves(struct dag_builder *b, int32_t *next) {
  b->moves = MEM_NEW(struct dag_move, b->plan->n_moves);
  dag_moves_measure(b);
  for (int32_t k = 0; k < b->plan->n_moves; k++) {
    const struct plan_move *m = &b->plan->moves[k];
    int64_t parts[DAG_BLOCK_PARTS], bytes = dag_builder_get_block(b, m->stage, m->micro, parts);
    b->moves[k] = m->tier == PLAN_TIER_RANK ? add_visit(b, next, m, bytes) : add_copies(b, next, m);
    int32_t nodes[] = {b->moves[k].out, b->moves[k].keep, b->moves[k].back, b->moves[k].in};
    for (int i = 0; i < 4; i++) {
      if (nodes[i] < 0) continue;
      b->dag->nodes[nodes[i]].stage = m->stage;
      b->dag->nodes[nodes[i]].micro = m->micro;
      b->dag->nodes[nodes[i]].bytes = bytes;
    }
  }
}

static void fill_streams(struct dag *dag) {
  int64_t n_lists = (int64_t)dag->n_ranks * STREAM_COUNT;
  dag->stream_offset = MEM_NEW(int32_t, n_lists + 1);
  dag->stream_nodes = MEM_NEW(int32_t, dag->n_nodes);
  for (int32_t v = 0; v < dag->n_nodes; v++)
    dag->stream_offset[dag->nodes[v].rank * STREAM_COUNT + dag->nodes[v].stream + 1]++;
  for (int64_t k = 0; k < n_lists; k++) dag->stream_offset[k + 1] += dag->stream_offset[k];
  int32_t *used = MEM_NEW(int32_t, n_lists);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    int32_t list = dag->nodes[v].rank * STREAM_COUNT + dag->nodes[v].stream;
    dag->nodes[v].position = used[list]++;
    dag->stream_nodes[dag->stream_offset[list] + dag->nodes[v].position] = v;
  }
  mem_free(used);
}

int dag_nodes_make(struct dag_builder *b) {
  find_shapes(b);
  make_tables(b);
  int status = size_graph(b);
  if (status) return status;
  int32_t *next = MEM_NEW(int32_t, b->plan->n_ranks);
  for (int32_t r = 0; r < b->plan->n_ranks; r++) next[r] = b->dag->rank_offset[r];
  add_actions(b, next);
  if (!b->plan->forward_only) add_updates(b, next);
  for (int32_t s = 0; s + 1 < b->plan->n_stages; s++) add_boundary(b, next, s);
  add_ties(b, next);
  add_moves(b, next);
  for (int32_t r = 0; r < b->plan->n_ranks && !b->plan->forward_only; r++)
    b->norm[r] = add_node(b->dag, next, r, NODE_N);
  mem_free(next);
  fill_streams(b->dag);
  return STATUS_OK;
}
