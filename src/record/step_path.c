#include "record/step_path.h"

#include "base/mem.h"

/* row_of[node]: the row of a node, -1: none. Owned by the caller. */
static int64_t *map_nodes(const struct node_row *rows, int64_t n, int64_t *n_nodes) {
  *n_nodes = 0;
  for (int64_t i = 0; i < n; i++)
    if (rows[i].node >= *n_nodes) *n_nodes = (int64_t)rows[i].node + 1;
  int64_t *row_of = MEM_NEW(int64_t, *n_nodes);
  for (int64_t v = 0; v < *n_nodes; v++) row_of[v] = -1;
  for (int64_t i = 0; i < n; i++)
    if (rows[i].node >= 0) row_of[rows[i].node] = i;
  return row_of;
}

static int64_t find_last(const struct node_row *rows, int64_t n) {
  int64_t last = -1;
  for (int64_t i = 0; i < n; i++)
    if (last < 0 || rows[i].end_s > rows[last].end_s) last = i;
  return last;
}

/* Puts a row before the first run, or into it. Runs are in reverse order for now. */
static void add_row(struct step_path *path, int64_t *room, const struct node_row *rows, int64_t i, double from,
                    double until) {
  struct step_path_run *run = path->n_runs ? &path->runs[path->n_runs - 1] : NULL;
  if (!run || rows[run->first].rank != rows[i].rank || rows[run->first].stream != rows[i].stream) {
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
  path->seconds[rows[i].kind] += until - from;
}

static void reverse_runs(struct step_path *path) {
  for (int64_t k = 0; k < path->n_runs / 2; k++) {
    struct step_path_run run = path->runs[k];
    path->runs[k] = path->runs[path->n_runs - 1 - k];
    path->runs[path->n_runs - 1 - k] = run;
  }
}

struct step_path step_path_find(const struct node_row *rows, int64_t n, bool *on_path) {
  struct step_path path = {0};
  int64_t room = 0, n_nodes, *row_of = map_nodes(rows, n, &n_nodes), i = find_last(rows, n);
  double until = i < 0 ? 0 : rows[i].end_s;
  for (int64_t steps = 0; i >= 0 && steps < n; steps++) {
    int32_t after = rows[i].after;
    int64_t before = after >= 0 && after < n_nodes ? row_of[after] : -1;
    double from = before >= 0 && rows[before].end_s > rows[i].start_s ? rows[before].end_s : rows[i].start_s;
    if (from > until) from = until;
    add_row(&path, &room, rows, i, from, until);
    if (on_path) on_path[i] = true;
    until = from;
    i = before;
  }
  mem_free(row_of);
  reverse_runs(&path);
  return path;
}

void step_path_fini(struct step_path *path) {
  mem_free(path->runs);
  *path = (struct step_path){0};
}
