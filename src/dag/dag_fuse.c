#include "dag/dag_fuse.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"

static void choose_leaders(struct dag_fused *fused) {
  const struct dag *dag = fused->dag;
  int32_t norm = -1;
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    int32_t leader = v;
    if (n->kind == NODE_N) leader = norm >= 0 ? norm : (norm = v);
    if (dag->match[v] >= 0 && dag_is_receive(n)) leader = dag->match[v];
    fused->leader[v] = leader;
    fused->n_leaders += leader == v;
  }
}

/* First walk: counts. Second walk (fused->out there): fills, moving each offset to the end of its list. */
static void add_arc(struct dag_fused *fused, int32_t from, int32_t to) {
  from = fused->leader[from];
  to = fused->leader[to];
  if (from == to) return;
  if (fused->out) {
    fused->out[fused->out_offset[from]++] = to;
  } else {
    fused->out_offset[from + 1]++;
    fused->n_in[to]++;
  }
}

static void walk_arcs(struct dag_fused *fused, bool all_streams) {
  const struct dag *dag = fused->dag;
  for (int64_t e = 0; e < dag->n_edges; e++) add_arc(fused, dag->edge_from[e], dag->edge_to[e]);
  for (int32_t list = 0; list < dag->n_ranks * STREAM_COUNT; list++) {
    if (!all_streams && list % STREAM_COUNT != STREAM_COMPUTE) continue;
    for (int32_t k = dag->stream_offset[list] + 1; k < dag->stream_offset[list + 1]; k++)
      add_arc(fused, dag->stream_nodes[k - 1], dag->stream_nodes[k]);
  }
}

struct dag_fused *dag_fuse(const struct dag *dag, bool all_streams) {
  struct dag_fused *fused = MEM_NEW(struct dag_fused, 1);
  int32_t n = dag->n_nodes;
  fused->dag = dag;
  fused->leader = MEM_NEW(int32_t, n);
  fused->n_in = MEM_NEW(int32_t, n);
  fused->out_offset = MEM_NEW(int64_t, n + (int64_t)1);
  choose_leaders(fused);
  walk_arcs(fused, all_streams);
  for (int32_t v = 0; v < n; v++) fused->out_offset[v + 1] += fused->out_offset[v];
  fused->out = MEM_NEW(int32_t, fused->out_offset[n] + 1); /* never NULL: it tells the walks apart */
  walk_arcs(fused, all_streams);
  for (int32_t v = n; v > 0; v--) fused->out_offset[v] = fused->out_offset[v - 1];
  fused->out_offset[0] = 0;
  return fused;
}

void dag_fused_destroy(struct dag_fused **fused) {
  if (!fused || !*fused) return;
  mem_free((*fused)->leader);
  mem_free((*fused)->n_in);
  mem_free((*fused)->out_offset);
  mem_free((*fused)->out);
  mem_free(*fused);
  *fused = NULL;
}

int32_t dag_fused_sort(struct dag_fused *fused, int32_t *order) {
  int32_t n = 0;
  for (int32_t v = 0; v < fused->dag->n_nodes; v++)
    if (fused->leader[v] == v && fused->n_in[v] == 0) order[n++] = v;
  for (int32_t k = 0; k < n; k++)
    for (int64_t e = fused->out_offset[order[k]]; e < fused->out_offset[order[k] + 1]; e++)
      if (--fused->n_in[fused->out[e]] == 0) order[n++] = fused->out[e];
  return n;
}

/* A node on a cycle: from any node left over, back through nodes left over until one comes again. */
static int32_t find_cycle(const struct dag_fused *fused, int32_t *before) {
  int32_t n = fused->dag->n_nodes, at = -1;
  for (int32_t v = 0; v < n; v++) before[v] = -1;
  for (int32_t v = 0; v < n; v++) {
    if (fused->n_in[v] <= 0) continue;
    at = v;
    for (int64_t e = fused->out_offset[v]; e < fused->out_offset[v + 1]; e++) before[fused->out[e]] = v;
  }
  for (int32_t steps = 0; at >= 0 && steps < n; steps++) at = before[at];
  return at;
}

int dag_fused_raise_cycle(const struct dag_fused *fused, const char *what) {
  enum { SHOWN = 8 };
  int32_t *before = MEM_NEW(int32_t, fused->dag->n_nodes);
  int32_t start = find_cycle(fused, before), v = start;
  char text[SHOWN * 128] = "";
  size_t length = 0;
  for (int k = 0; k < SHOWN && v >= 0; k++) {
    char name[80];
    dag_describe_node(&fused->dag->nodes[v], name, sizeof name);
    length += (size_t)snprintf(text + length, sizeof text - length, "%srank %d %s", k ? " waits for " : "",
                               (int)fused->dag->nodes[v].rank, name);
    v = before[v];
    if (k > 0 && fused->leader[v] == start) k = SHOWN;
  }
  mem_free(before);
  return error_raise(STATUS_FAILED, "%s: %s, and so on in a circle", what, text);
}
