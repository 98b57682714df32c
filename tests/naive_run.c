#include "naive_run.h"

#include "base/mem.h"

struct naive_run *naive_run_create(const struct dag *dag, const double *length, bool blocking) {
  struct naive_run *run = MEM_NEW(struct naive_run, 1);
  *run = (struct naive_run){dag,
                            blocking,
                            length,
                            MEM_NEW(double, dag->n_nodes),
                            MEM_NEW(double, dag->n_nodes),
                            MEM_NEW(bool, dag->n_nodes),
                            MEM_NEW(int32_t, dag->n_ranks * STREAM_COUNT)};
  return run;
}

void naive_run_destroy(struct naive_run **run) {
  mem_free((*run)->start);
  mem_free((*run)->end);
  mem_free((*run)->done);
  mem_free((*run)->head);
  mem_free(*run);
  *run = NULL;
}

/* Whether v could go as far as it alone is concerned; *start grows to when. `other`: an edge from there does not count.
 */
static bool naive_run_is_ready(const struct naive_run *run, int32_t v,
                               bool is_other(const struct dag *, int32_t, int32_t), double *start) {
  const struct dag *dag = run->dag;
  int32_t list = dag->nodes[v].rank * STREAM_COUNT + dag->nodes[v].stream;
  int32_t at = dag->stream_offset[list] + run->head[list];
  if (at >= dag->stream_offset[list + 1] || dag->stream_nodes[at] != v) return false;
  if (run->head[list] > 0 && run->end[dag->stream_nodes[at - 1]] > *start) *start = run->end[dag->stream_nodes[at - 1]];
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    int32_t from = dag->edge_from[e];
    if (is_other && is_other(dag, from, v)) continue;
    if (!run->done[from]) return false;
    if (run->end[from] > *start) *start = run->end[from];
  }
  return true;
}

bool naive_run_is_partner(const struct dag *dag, int32_t a, int32_t b) {
  return dag->match[a] == b || (dag->nodes[a].kind == NODE_N && dag->nodes[b].kind == NODE_N);
}

static void naive_run_finish(struct naive_run *run, int32_t v, double start, double length) {
  run->start[v] = start;
  run->end[v] = start + length;
  run->done[v] = true;
  run->head[run->dag->nodes[v].rank * STREAM_COUNT + run->dag->nodes[v].stream]++;
}

/* v with all its partners, or not at all. */
static bool naive_run_try_together(struct naive_run *run, int32_t v) {
  double start = 0;
  int32_t lead = v;
  for (int32_t u = 0; u < run->dag->n_nodes; u++)
    if (u == v || naive_run_is_partner(run->dag, v, u)) {
      if (!naive_run_is_ready(run, u, naive_run_is_partner, &start)) return false;
      if (run->length[u] > run->length[lead]) lead = u;
    }
  for (int32_t u = 0; u < run->dag->n_nodes; u++)
    if (u == v || naive_run_is_partner(run->dag, v, u)) naive_run_finish(run, u, start, run->length[lead]);
  return true;
}

static bool naive_run_try(struct naive_run *run, int32_t v) {
  const struct dag_node *n = &run->dag->nodes[v];
  double start = 0;
  if (run->blocking && dag_is_receive(n)) return false; /* its send takes it along */
  if (run->blocking && (dag_is_send(n) || n->kind == NODE_N)) return naive_run_try_together(run, v);
  if (!naive_run_is_ready(run, v, NULL, &start)) return false;
  naive_run_finish(run, v, start, dag_is_receive(n) ? 0 : run->length[v]);
  return true;
}

int32_t naive_run_go(struct naive_run *run) {
  const struct dag *dag = run->dag;
  int32_t n = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int32_t list = 0; list < dag->n_ranks * STREAM_COUNT; list++)
      while (dag->stream_offset[list] + run->head[list] < dag->stream_offset[list + 1] &&
             naive_run_try(run, dag->stream_nodes[dag->stream_offset[list] + run->head[list]]))
        moved = true;
  }
  for (int32_t v = 0; v < dag->n_nodes; v++) n += run->done[v];
  return n;
}
