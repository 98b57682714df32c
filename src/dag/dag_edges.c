/* The edges that dag.h lists. */
#include "base/mem.h"
#include "dag/dag_builder.h"
#include "model/model.h"

void dag_edges_add(struct dag_builder *b, int32_t from, int32_t to) {
  if (b->n_edges == b->max_edges) {
    b->max_edges = b->max_edges ? 2 * b->max_edges : 1024;
    b->edge_from = mem_resize(b->edge_from, sizeof *b->edge_from * (size_t)b->max_edges);
    b->edge_to = mem_resize(b->edge_to, sizeof *b->edge_to * (size_t)b->max_edges);
  }
  b->edge_from[b->n_edges] = from;
  b->edge_to[b->n_edges++] = to;
}

/* Connects a compute node with the one that uses its result, through a message (its send) or directly (-1). */
static void connect(struct dag_builder *b, int32_t producer, int32_t consumer, int32_t send) {
  if (send < 0) {
    dag_edges_add(b, producer, consumer);
    return;
  }
  int32_t receive = b->dag->match[send];
  dag_edges_add(b, producer, send);
  dag_edges_add(b, send, receive);
  /* Compute nodes of a rank have consecutive ids. */
  if (b->dag->nodes[consumer].position >= 2) dag_edges_add(b, consumer - 2, receive);
  dag_edges_add(b, receive, consumer);
}

static void connect_stages(struct dag_builder *b) {
  for (int32_t s = 0; s + 1 < b->plan->n_stages; s++)
    for (int32_t i = 0; i < b->plan->n_micro; i++) {
      size_t lower = dag_builder_at(b, s, i), upper = dag_builder_at(b, s + 1, i);
      connect(b, b->forward[lower], b->forward[upper], b->send_forward[lower]);
      if (!b->plan->forward_only)
        connect(b, b->input[upper], dag_builder_get_gradient_user(b, lower), b->send_backward[upper]);
    }
}

/* The last weight pass of a stage. */
static int32_t get_last_pass(const struct dag_builder *b, int32_t stage) {
  int32_t last = b->weight[dag_builder_at(b, stage, b->plan->n_micro - 1)];
  for (int32_t i = 0; i < b->plan->n_micro && b->plan->free_order; i++) {
    int32_t v = b->weight[dag_builder_at(b, stage, i)]; /* compute nodes of a rank have ascending ids */
    if (v > last) last = v;
  }
  return last;
}

static void connect_updates(struct dag_builder *b) {
  const struct plan *plan = b->plan;
  for (int32_t s = 0; s < plan->n_stages; s++)
    for (int32_t k = 0; k < plan->stages[s].n_layers; k++) {
      int32_t update = b->update[plan->stages[s].first_layer + k];
      dag_edges_add(b, get_last_pass(b, s), update);
      if (plan->clip) dag_edges_add(b, b->norm[b->dag->nodes[update].rank], update);
    }
}

/* A node that comes before every rank's norm: the hub's, and that of its own rank, which sees it without a message. */
static void add_before_norm(struct dag_builder *b, int32_t v) {
  int32_t rank = b->dag->nodes[v].rank;
  dag_edges_add(b, v, b->norm[0]);
  if (rank > 0) dag_edges_add(b, v, b->norm[rank]);
}

static void connect_tie(struct dag_builder *b, const struct tie *tie, const struct dag_tie *nodes) {
  int32_t layers[2] = {tie->layer, tie->user};
  for (int k = 0; k < 2; k++) {
    int32_t send = nodes->send[k], receive = nodes->receive[k];
    dag_edges_add(b, get_last_pass(b, plan_get_stage(b->plan, layers[k])), send);
    dag_edges_add(b, send, nodes->receive[!k]);
    /* The update adds the other's sum to its own, which must have left by then. */
    dag_edges_add(b, send, b->update[layers[k]]);
    dag_edges_add(b, receive, b->update[layers[k]]);
    if (b->plan->clip) add_before_norm(b, send);
    if (b->plan->clip) add_before_norm(b, receive);
  }
}

static void connect_ties(struct dag_builder *b) {
  for (int32_t i = 0; i < b->model->n_ties; i++)
    if (b->ties[i].send[0] >= 0) connect_tie(b, &b->model->ties[i], &b->ties[i]);
}

/* All ranks meet in rank 0's norm, and leave from it. What comes last on a rank's compute stream stands for all before.
 */
static void connect_norms(struct dag_builder *b) {
  const struct dag *dag = b->dag;
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    int32_t first = dag->stream_offset[r * STREAM_COUNT + STREAM_COMPUTE];
    int32_t last = dag->stream_offset[r * STREAM_COUNT + STREAM_COMPUTE + 1] - 1;
    while (b->plan->clip && last >= first && dag->nodes[dag->stream_nodes[last]].kind == NODE_U) last--;
    if (last >= first) add_before_norm(b, dag->stream_nodes[last]);
    if (r > 0) dag_edges_add(b, b->norm[0], b->norm[r]);
  }
}

void dag_edges_make(struct dag_builder *b) {
  connect_stages(b);
  if (b->plan->forward_only) return;
  connect_updates(b);
  connect_ties(b);
  connect_norms(b);
  if (b->plan->n_moves) dag_moves_connect(b);
}

void dag_edges_sort(struct dag_builder *b) {
  struct dag *dag = b->dag;
  mem_free(dag->edge_from);
  mem_free(dag->edge_to);
  mem_free(dag->in_offset);
  dag->n_edges = b->n_edges;
  dag->edge_from = MEM_NEW(int32_t, b->n_edges);
  dag->edge_to = MEM_NEW(int32_t, b->n_edges);
  dag->in_offset = MEM_NEW(int64_t, dag->n_nodes + (int64_t)1);
  for (int64_t e = 0; e < b->n_edges; e++) dag->in_offset[b->edge_to[e] + 1]++;
  for (int32_t v = 0; v < dag->n_nodes; v++) dag->in_offset[v + 1] += dag->in_offset[v];
  for (int64_t e = 0; e < b->n_edges; e++) {
    int64_t at = dag->in_offset[b->edge_to[e]]++;
    dag->edge_from[at] = b->edge_from[e];
    dag->edge_to[at] = b->edge_to[e];
  }
  for (int32_t v = dag->n_nodes; v > 0; v--) dag->in_offset[v] = dag->in_offset[v - 1];
  dag->in_offset[0] = 0;
}
