#include "sim/sim_measure.h"

#include <stddef.h>

/* Where a rank stands while its compute nodes are gone through. */
struct progress {
  double at; /* end of the last node */
  bool in_backward;
};

/* When the pass that made a message's data ended; at the latest when the message left. */
static double find_made(const struct dag *dag, const struct sim_result *r, int32_t send) {
  double made = 0;
  bool found = false;
  for (int64_t e = dag->in_offset[send]; e < dag->in_offset[send + 1]; e++) {
    int32_t u = dag->edge_from[e];
    if (dag->nodes[u].stream != STREAM_COMPUTE) continue;
    if (!found || r->end[u] > made) made = r->end[u];
    found = true;
  }
  return found ? made : r->start[send];
}

/* Adds the idle time from..until, which the end of node u closes (-1: none). Until the data was made it was waited for,
 * from then on its message, under way or behind another. The norm waits for the last pass of all ranks. */
static void add_wait(const struct dag *dag, const struct sim_result *r, int32_t u, double from, double until,
                     struct sim_idle *idle) {
  double gap = until - from;
  enum stream stream = u < 0 ? STREAM_COMPUTE : (enum stream)dag->nodes[u].stream;
  if (u >= 0 && dag->nodes[u].kind == NODE_N) {
    idle->drain += gap;
  } else if (stream == STREAM_RECEIVE) {
    double made = find_made(dag, r, dag->match[u]), message = until - (made > from ? made : from);
    idle->message += message;
    idle->data += gap - message;
  } else if (stream == STREAM_COMPUTE) {
    idle->data += gap;
  } else {
    idle->other += gap;
  }
}

/* What a compute node needs beside blocks of activations, as it ended last; -1: none. */
static int32_t find_last_need(const struct dag *dag, const struct sim_result *r, int32_t v) {
  int32_t last = -1;
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    int32_t u = dag->edge_from[e];
    if (dag->nodes[u].stream < STREAM_COPY_OUT && (last < 0 || r->end[u] > r->end[last])) last = u;
  }
  return last;
}

/* Splits the idle time before a compute node by what ended last before it. Where that is a block's way, only the time
 * that the rest of its needs leaves is the block's. */
static void add_gap(const struct dag *dag, const struct sim_result *r, int32_t v, double from, struct sim_idle *idle) {
  int32_t u = r->binder[v];
  if (u < 0 || dag->nodes[u].stream < STREAM_COPY_OUT) {
    add_wait(dag, r, u, from, r->start[v], idle);
    return;
  }
  int32_t need = find_last_need(dag, r, v);
  double ready = need >= 0 && r->end[need] > from ? r->end[need] : from;
  if (ready > from) add_wait(dag, r, need, from, ready, idle);
  idle->offload += r->start[v] - ready;
}

/* Idle directly before the consumer of a message, inside the message's own time. */
static double get_exposed(const struct dag *dag, const struct sim_result *r, int32_t v, double from) {
  double exposed = 0;
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    int32_t u = dag->edge_from[e];
    if (dag->nodes[u].kind != NODE_RF && dag->nodes[u].kind != NODE_RB) continue;
    double sent = r->start[dag->match[u]], begin = sent > from ? sent : from;
    double end = r->end[u] < r->start[v] ? r->end[u] : r->start[v];
    if (end - begin > exposed) exposed = end - begin;
  }
  return exposed;
}

/* Carries a block of activations; of a message between ranks the end that takes the time. */
static bool moves_block(const struct dag_node *n) {
  return n->stream == STREAM_COPY_OUT || n->stream == STREAM_DISK ||
         (n->stream == STREAM_COPY_IN && !dag_is_receive(n));
}

/* Idle before a compute node that a block on its way let start, while it was that. */
static double get_block_wait(const struct sim_result *r, const struct dag *dag, int32_t v, double from) {
  int32_t u = r->binder[v];
  if (u < 0 || dag->nodes[u].stream < STREAM_COPY_OUT) return 0;
  int32_t way = dag_is_receive(&dag->nodes[u]) ? dag->match[u] : u;
  double begin = r->start[way] > from ? r->start[way] : from;
  return r->start[v] > begin ? r->start[v] - begin : 0;
}

static bool is_backward(uint8_t kind) { return kind == NODE_B || kind == NODE_I || kind == NODE_W; }

static void measure_node(const struct dag *dag, int32_t v, struct progress *p, struct sim_result *r) {
  const struct dag_node *n = &dag->nodes[v];
  struct sim_rank *rank = &r->ranks[n->rank];
  if (r->start[v] > p->at) {
    add_gap(dag, r, v, p->at, &rank->idle);
    r->exposed_seconds += get_exposed(dag, r, v, p->at);
    r->block_exposed_seconds += get_block_wait(r, dag, v, p->at);
    struct sim_stage *stage = n->kind == NODE_U ? NULL : &r->stages[n->stage];
    if (stage && p->in_backward)
      stage->backward_bubble += r->start[v] - p->at;
    else if (stage)
      stage->forward_bubble += r->start[v] - p->at;
  }
  rank->busy += r->end[v] - r->start[v];
  p->in_backward |= is_backward(n->kind);
  p->at = r->end[v];
}

static void measure_rank(const struct dag *dag, int32_t rank, double step_end, struct sim_result *r) {
  const int32_t *offset = &dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  struct sim_rank *out = &r->ranks[rank];
  *out = (struct sim_rank){0};
  if (offset[0] == offset[1]) {
    out->idle.fill = step_end;
    return;
  }
  out->first_start = out->idle.fill = r->start[dag->stream_nodes[offset[0]]];
  struct progress p = {.at = out->first_start};
  /* What a rank waits for before its first pass is exposed as anything later. */
  r->exposed_seconds += get_exposed(dag, r, dag->stream_nodes[offset[0]], 0);
  for (int32_t k = offset[0]; k < offset[1]; k++) measure_node(dag, dag->stream_nodes[k], &p, r);
  out->last_end = p.at;
  out->idle.drain += step_end - p.at;
}

void sim_measure(const struct dag *dag, int32_t n_stages, struct sim_result *r) {
  double step_end = 0;
  r->message_seconds = r->exposed_seconds = r->block_seconds = r->block_exposed_seconds = 0;
  for (int32_t s = 0; s < n_stages; s++) r->stages[s] = (struct sim_stage){0};
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    if (r->end[v] > step_end) step_end = r->end[v];
    if (moves_block(&dag->nodes[v])) r->block_seconds += r->end[v] - r->start[v];
    if (dag->nodes[v].kind == NODE_SF || dag->nodes[v].kind == NODE_SB) r->message_seconds += r->end[v] - r->start[v];
  }
  for (int32_t k = 0; k < dag->n_ranks; k++) measure_rank(dag, k, step_end, r);
}
