/* One linear extension of compute nodes and messages orders every stream. The node with the smallest place that is not
 * finished has all its predecessors finished and nothing earlier in its streams on either side, so it can always go: no
 * deadlock, whatever blocks.
 */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag_fuse.h"

/* A full backward is its two passes; messages take no time. The last part of a pass stands for all. Lengths only need
 * to put what is needed first first; any give a correct order. */
static int64_t get_length(const struct plan *plan, const struct dag_node *node) {
  static const struct plan_pace usual = {.forward = 1, .input = 1, .weight = 1};
  if (node->kind > NODE_W || node->layer > plan->stages[node->stage].first_layer) return 0;
  const struct plan_pace *pace = &plan->pace[node->stage];
  if (!pace->forward && !pace->rebuild && !pace->input && !pace->weight) pace = &usual;
  switch (node->kind) {
  case NODE_F: return pace->forward;
  case NODE_R: return pace->rebuild;
  case NODE_B: return (int64_t)pace->input + pace->weight;
  case NODE_I: return pace->input;
  default: return pace->weight;
  }
}

/* start[v] of each leader: the longest path to it. Returns the largest. */
static int64_t find_starts(const struct dag_fused *fused, const struct plan *plan, const int32_t *order,
                           int64_t *start) {
  int64_t last = 0;
  for (int32_t k = 0; k < fused->n_leaders; k++) {
    int32_t v = order[k];
    int64_t end = start[v] + get_length(plan, &fused->dag->nodes[v]);
    if (start[v] > last) last = start[v];
    for (int64_t e = fused->out_offset[v]; e < fused->out_offset[v + 1]; e++)
      if (start[fused->out[e]] < end) start[fused->out[e]] = end;
  }
  return last;
}

/* Counting sort by start; equal starts keep their topological order. place[] of leaders only. */
static void place_leaders(const int32_t *order, int32_t n, const int64_t *start, int64_t last, int32_t *place) {
  int32_t *count = MEM_NEW(int32_t, last + 2);
  for (int32_t k = 0; k < n; k++) count[start[order[k]] + 1]++;
  for (int64_t t = 0; t <= last; t++) count[t + 1] += count[t];
  for (int32_t k = 0; k < n; k++) place[order[k]] = count[start[order[k]]]++;
  mem_free(count);
}

/* Streams but compute, and the sequence of all nodes, in the order of places. by_place[] is the leaders' inverse of
 * place[]. */
static void fill_streams(struct dag *dag, const struct dag_fused *fused, const int32_t *by_place) {
  int32_t *used = MEM_NEW(int32_t, dag->n_ranks * (int64_t)STREAM_COUNT);
  int32_t *next_norm = MEM_NEW(int32_t, dag->n_nodes); /* the N of all ranks as a list that starts at their leader */
  int32_t norm = -1, n_sequence = 0;
  for (int32_t v = dag->n_nodes - 1; v >= 0; v--)
    if (dag->nodes[v].kind == NODE_N) {
      next_norm[v] = norm;
      norm = v;
    }
  for (int32_t k = 0; k < fused->n_leaders; k++) {
    int32_t v = by_place[k];
    while (v >= 0) {
      struct dag_node *n = &dag->nodes[v];
      dag->sequence[n_sequence++] = v;
      int32_t list = n->rank * STREAM_COUNT + n->stream;
      if (n->stream != STREAM_COMPUTE) {
        n->position = used[list]++;
        dag->stream_nodes[dag->stream_offset[list] + n->position] = v;
      }
      if (n->kind == NODE_N)
        v = next_norm[v];
      else
        v = dag_is_send(n) ? dag->match[v] : -1;
    }
  }
  mem_free(used);
  mem_free(next_norm);
}

int dag_order_messages(struct dag *dag, const struct plan *plan, int32_t *place) {
  struct dag_fused *fused = dag_fuse(dag, false);
  int32_t *order = MEM_NEW(int32_t, dag->n_nodes);
  int status = STATUS_OK;
  if (dag_fused_sort(fused, order) < fused->n_leaders) {
    status = dag_fused_raise_cycle(fused, "the plan's orders contradict each other");
  } else {
    int64_t *start = MEM_NEW(int64_t, dag->n_nodes);
    int64_t last = find_starts(fused, plan, order, start);
    place_leaders(order, fused->n_leaders, start, last, place);
    for (int32_t v = 0; v < dag->n_nodes; v++)
      if (fused->leader[v] == v) order[place[v]] = v;
    for (int32_t v = 0; v < dag->n_nodes; v++) place[v] = place[fused->leader[v]];
    dag->sequence = MEM_NEW(int32_t, dag->n_nodes);
    fill_streams(dag, fused, order);
    mem_free(start);
  }
  mem_free(order);
  dag_fused_destroy(&fused);
  return status;
}
