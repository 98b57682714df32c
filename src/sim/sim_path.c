#include "sim/sim_path.h"

#include "base/mem.h"

static int32_t find_last(const struct dag *dag, const struct sim_result *r) {
  int32_t last = -1;
  double end = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (last < 0 || r->end[v] > end) end = r->end[last = v];
  return last;
}

/* Puts a node before the first run, or into it. Runs are in reverse order for now. */
static void add_node(struct sim_path *path, int64_t *room, const struct dag *dag, int32_t v, double from,
                     double until) {
  struct sim_path_run *run = path->n_runs ? &path->runs[path->n_runs - 1] : NULL;
  const struct dag_node *n = &dag->nodes[v];
  if (!run || dag->nodes[run->first].rank != n->rank || dag->nodes[run->first].stream != n->stream) {
    if (path->n_runs == *room) {
      *room = *room ? 2 * *room : 64;
      path->runs = mem_resize(path->runs, sizeof *path->runs * (size_t)*room);
    }
    run = &path->runs[path->n_runs++];
    *run = (struct sim_path_run){.last = v, .until = until};
  }
  run->first = v;
  run->from = from;
  run->n_nodes++;
  path->n_nodes++;
  path->seconds[n->kind] += until - from;
}

struct sim_path sim_path_find(const struct dag *dag, const struct sim_result *r) {
  struct sim_path path = {0};
  int64_t room = 0;
  int32_t v = find_last(dag, r);
  double until = v < 0 ? 0 : r->end[v];
  for (int32_t steps = 0; v >= 0 && steps < dag->n_nodes; steps++) {
    int32_t before = r->binder[v];
    double from = before >= 0 && r->end[before] > r->start[v] ? r->end[before] : r->start[v];
    if (from > until) from = until;
    add_node(&path, &room, dag, v, from, until);
    until = from;
    v = before;
  }
  for (int64_t k = 0; k < path.n_runs / 2; k++) {
    struct sim_path_run run = path.runs[k];
    path.runs[k] = path.runs[path.n_runs - 1 - k];
    path.runs[path.n_runs - 1 - k] = run;
  }
  return path;
}

void sim_path_fini(struct sim_path *path) {
  mem_free(path->runs);
  *path = (struct sim_path){0};
}
