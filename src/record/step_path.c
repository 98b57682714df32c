#include "record/step_path.h"

#include "base/mem.h"

static int32_t find_last(const struct step_view *v) {
  int32_t last = -1;
  for (int32_t i = 0; i < v->n_nodes; i++)
    if (last < 0 || v->end[i] > v->end[last]) last = i;
  return last;
}

/* Puts a node before the first run, or into it. Runs are in reverse order for now. */
static void add_node(struct step_path *path, int64_t *room, const struct step_view *v, int32_t i, double from,
                     double until) {
  struct step_path_run *run = path->n_runs ? &path->runs[path->n_runs - 1] : NULL;
  const struct dag_node *n = &v->nodes[i];
  if (!run || v->nodes[run->first].rank != n->rank || v->nodes[run->first].stream != n->stream) {
    if (path->n_runs == *room) {
      *room = *room ? 2 * *room : 64;
      path->runs = mem_resize(path->runs, sizeof *path->runs * (size_t)*room);
    }
    run = &path->runs[path->n_runs++];
    *run = (struct step_path_run){.last = i, .until = until};
  }
  run->first = i;
  run->from = from;
  run->n_nodes++;
  path->n_nodes++;
  if (n->kind < NODE_KIND_COUNT) path->seconds[n->kind] += until - from;
}

static void reverse_runs(struct step_path *path) {
  for (int64_t k = 0; k < path->n_runs / 2; k++) {
    struct step_path_run run = path->runs[k];
    path->runs[k] = path->runs[path->n_runs - 1 - k];
    path->runs[path->n_runs - 1 - k] = run;
  }
}

struct step_path step_path_find(const struct step_view *v, bool *on_path) {
  struct step_path path = {0};
  int64_t room = 0;
  int32_t i = find_last(v);
  double until = i < 0 ? 0 : v->end[i];
  for (int32_t steps = 0; i >= 0 && steps < v->n_nodes; steps++) {
    int32_t before = v->after[i];
    double from = before >= 0 && v->end[before] > v->start[i] ? v->end[before] : v->start[i];
    if (from > until) from = until;
    add_node(&path, &room, v, i, from, until);
    if (on_path) on_path[i] = true;
    until = from;
    i = before;
  }
  reverse_runs(&path);
  return path;
}

void step_path_fini(struct step_path *path) {
  mem_free(path->runs);
  *path = (struct step_path){0};
}
