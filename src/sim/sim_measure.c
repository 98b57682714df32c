#include "sim/sim_measure.h"

/* Where a rank stands while its compute nodes are gone through. */
struct progress {
  double at; /* end of the last node */
  bool in_backward;
};

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

static bool is_backward(uint8_t kind) { return kind == NODE_B || kind == NODE_I || kind == NODE_W; }

static void measure_node(const struct dag *dag, int32_t v, struct progress *p, struct sim_result *r) {
  const struct dag_node *n = &dag->nodes[v];
  if (r->start[v] > p->at) {
    r->exposed_seconds += get_exposed(dag, r, v, p->at);
    struct sim_stage *stage = n->micro < 0 ? NULL : &r->stages[n->stage];
    if (stage && p->in_backward)
      stage->backward_bubble += r->start[v] - p->at;
    else if (stage)
      stage->forward_bubble += r->start[v] - p->at;
  }
  p->in_backward |= is_backward(n->kind);
  p->at = r->end[v];
}

/* Measures what rows alone do not tell: when the rank begins and ends, bubbles by stage, exposed messages. */
static void measure_rank(const struct dag *dag, int32_t rank, struct sim_result *r) {
  const int32_t *offset = &dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  struct sim_rank *out = &r->ranks[rank];
  out->first_start = out->last_end = 0;
  if (offset[0] == offset[1]) return;
  out->first_start = r->start[dag->stream_nodes[offset[0]]];
  struct progress p = {.at = out->first_start};
  /* Messages before a rank's first pass are exposed like any later ones. */
  r->exposed_seconds += get_exposed(dag, r, dag->stream_nodes[offset[0]], 0);
  for (int32_t k = offset[0]; k < offset[1]; k++) measure_node(dag, dag->stream_nodes[k], &p, r);
  out->last_end = p.at;
}

/* Busy, idle and blocks of all ranks, as of any step. */
static void measure_parts(const struct dag *dag, int32_t n_stages, struct step_rank *ranks, struct step_stage *stages,
                          struct sim_result *r) {
  struct step_view view;
  for (int32_t k = 0; k < dag->n_ranks; k++) ranks[k] = (struct step_rank){0};
  step_view_init_graph(&view, dag, n_stages, r->start, r->end, r->binder);
  r->message_seconds = view.message_seconds;
  step_parts_add(&view, ranks, dag->n_ranks, stages, NULL, NULL);
  for (int32_t k = 0; k < dag->n_ranks; k++) {
    r->ranks[k].busy = ranks[k].busy;
    r->ranks[k].idle = step_parts_get_idle(&ranks[k]);
    r->block_seconds += ranks[k].block_seconds;
    r->block_exposed_seconds += ranks[k].block_exposed;
  }
}

void sim_measure(const struct dag *dag, int32_t n_stages, struct step_rank *ranks, struct step_stage *stages,
                 struct sim_result *r) {
  r->exposed_seconds = r->block_seconds = r->block_exposed_seconds = 0;
  for (int32_t s = 0; s < n_stages; s++) r->stages[s] = (struct sim_stage){0};
  for (int32_t k = 0; k < dag->n_ranks; k++) measure_rank(dag, k, r);
  measure_parts(dag, n_stages, ranks, stages, r);
}
