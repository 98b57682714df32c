#include "record/trace_read.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/h5.h"
#include "store/rows.h"

enum { TRIES = 5, MOST_RANKS = 1 << 20 };

/* Rows first..end-1 of a table; owned by the caller, NULL when there are none. */
static int read_range(struct h5_file *file, const struct rows_table *table, int64_t first, int64_t end, void **rows,
                      int64_t *n) {
  *rows = mem_alloc(table->row_bytes * (size_t)(end - first));
  *n = end - first;
  return rows_read(file, table, first, *n, *rows);
}

/* Rows of the steps first..last. */
static int read_steps(struct h5_file *file, const struct rows_table *table, int64_t first, int64_t last, void **rows,
                      int64_t *n) {
  int64_t begin, end;
  int status = rows_count_until(file, table, first - 1, &begin);
  if (!status) status = rows_count_until(file, table, last, &end);
  return status ? status : read_range(file, table, begin, end, rows, n);
}

static int compare_nodes(const void *left, const void *right) {
  const struct node_row *a = left, *b = right;
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
  return (a->start_s > b->start_s) - (a->start_s < b->start_s);
}

/* Readers count ranks from the rows: a damaged one must not cost memory. */
static int check_nodes(const char *path, const struct node_row *nodes, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (nodes[i].rank < 0 || nodes[i].rank >= MOST_RANKS)
      return error_raise(STATUS_FAILED, "%s is damaged: a row of /nodes has rank %d", path, (int)nodes[i].rank);
  return STATUS_OK;
}

static int read_content(struct h5_file *file, const char *path, int64_t n_steps, struct trace_content *c) {
  const struct rows_table *steps = trace_rows_get_steps();
  int64_t total;
  void *rows = NULL;
  if (!h5_has(file, "/nodes") || !h5_has(file, "/steps") || !h5_has(file, "/peaks"))
    return error_raise(STATUS_MISTAKE, "%s is no trace: it lacks /nodes, /steps or /peaks", path);
  int status = h5_read_int(file, "/", "n_ranks", &c->n_ranks);
  if (!status) status = rows_count(file, steps, &total);
  if (!status) status = read_range(file, steps, total > n_steps ? total - n_steps : 0, total, &rows, &c->n_steps);
  c->steps = rows;
  if (status || c->n_steps == 0) return status;
  int64_t first = c->steps[0].step, last = c->steps[c->n_steps - 1].step;
  rows = NULL;
  status = read_steps(file, trace_rows_get_nodes(), first, last, &rows, &c->n_nodes);
  c->nodes = rows;
  rows = NULL;
  if (!status) status = read_steps(file, trace_rows_get_peaks(), first, last, &rows, &c->n_peaks);
  c->peaks = rows;
  if (!status) status = check_nodes(path, c->nodes, c->n_nodes);
  if (!status && c->n_nodes) qsort(c->nodes, (size_t)c->n_nodes, sizeof *c->nodes, compare_nodes);
  return status;
}

int trace_read(const char *path, int64_t n_steps, struct trace_content *content) {
  int status = STATUS_OK;
  for (int i = 0; i < TRIES; i++) {
    struct h5_file *file = NULL;
    *content = (struct trace_content){0};
    if (i > 0) clock_sleep(0.2);
    status = h5_open(path, false, &file);
    if (!status) status = read_content(file, path, n_steps, content);
    h5_discard(&file);
    if (!status) return STATUS_OK;
    trace_content_fini(content);
    if (status == STATUS_MISTAKE) break;
  }
  return status;
}

void trace_content_fini(struct trace_content *content) {
  mem_free(content->steps);
  mem_free(content->nodes);
  mem_free(content->peaks);
  *content = (struct trace_content){0};
}

int trace_read_nodes(const char *path, int64_t step, struct node_row **nodes, int64_t *n) {
  struct h5_file *file = NULL;
  void *rows = NULL;
  *n = 0;
  int status = h5_open(path, false, &file);
  if (!status) status = read_steps(file, trace_rows_get_nodes(), step, step, &rows, n);
  h5_discard(&file);
  if (status) mem_free(rows);
  *nodes = status ? NULL : rows;
  return status;
}
