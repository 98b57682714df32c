#include "store/trace_read.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/h5.h"

enum { BLOCK_ROWS = 1 << 16, TRIES = 5 };

/* A column of a table into one member of an array of structs. */
struct field {
  const char *column;
  enum h5_type type;
  size_t offset;
};

#define FIELD(row, member, column, type)                                                                               \
  { column, type, offsetof(struct row, member) }

static const struct field row_fields[] = {
    FIELD(trace_row, step, "step", H5_INT32),        FIELD(trace_row, rank, "rank", H5_INT32),
    FIELD(trace_row, stage, "stage", H5_INT32),      FIELD(trace_row, micro, "microbatch", H5_INT32),
    FIELD(trace_row, layer, "layer", H5_INT32),      FIELD(trace_row, peer, "peer", H5_INT32),
    FIELD(trace_row, stream, "stream", H5_INT8),     FIELD(trace_row, kind, "kind", H5_INT8),
    FIELD(trace_row, start, "start_s", H5_FLOAT64),  FIELD(trace_row, end, "end_s", H5_FLOAT64),
};
static const struct field step_fields[] = {
    FIELD(trace_step_row, step, "step", H5_INT64),
    FIELD(trace_step_row, tokens, "tokens", H5_INT64),
    FIELD(trace_step_row, loss, "loss", H5_FLOAT64),
    FIELD(trace_step_row, seconds, "seconds", H5_FLOAT64),
};
static const struct field peak_fields[] = {
    FIELD(trace_peak, step, "step", H5_INT32),
    FIELD(trace_peak, rank, "rank", H5_INT32),
    FIELD(trace_peak, device_bytes, "device_bytes", H5_INT64),
};

/* A table as rows. */
struct table {
  const char *group;
  const struct field *fields;
  int n_fields;
  size_t row_bytes;
};

#define TABLE(group, fields, row)                                                                                      \
  { group, fields, sizeof(fields) / sizeof *(fields), sizeof(struct row) }
static const struct table node_table = TABLE("/nodes", row_fields, trace_row);
static const struct table step_table = TABLE("/steps", step_fields, trace_step_row);
static const struct table peak_table = TABLE("/peaks", peak_fields, trace_peak);

/* Rows first..end-1 of a table, read in blocks; owned by the caller, also on failure. */
static int read_rows(struct h5_file *file, const struct table *table, int64_t first, int64_t end, void **rows) {
  int status = STATUS_OK;
  char *out = mem_alloc(table->row_bytes * (size_t)(end - first));
  char *block = mem_alloc(BLOCK_ROWS * sizeof(double));
  for (int f = 0; f < table->n_fields; f++) {
    const struct field *field = &table->fields[f];
    size_t size = h5_type_get_size(field->type);
    for (int64_t at = first; at < end && !status; at += BLOCK_ROWS) {
      int64_t n = end - at < BLOCK_ROWS ? end - at : BLOCK_ROWS;
      status = h5_table_read(file, table->group, field->column, field->type, at, n, block);
      for (int64_t i = 0; i < n && !status; i++)
        memcpy(out + (size_t)(at - first + i) * table->row_bytes + field->offset, block + (size_t)i * size, size);
    }
  }
  mem_free(block);
  *rows = out;
  return status;
}

/* Rows are appended in the order of steps, up to what one flush mixes: the first row of steps from `step` on lies after the
 * last block that has only earlier ones. */
static int find_first_row(struct h5_file *file, const char *group, int64_t step, int64_t n, int64_t *first) {
  int32_t *block = MEM_NEW(int32_t, BLOCK_ROWS);
  int status = STATUS_OK;
  bool found = true;
  *first = n;
  while (*first > 0 && found && !status) {
    int64_t size = *first < BLOCK_ROWS ? *first : BLOCK_ROWS;
    status = h5_table_read(file, group, "step", H5_INT32, *first - size, size, block);
    found = false;
    for (int64_t i = 0; i < size && !found; i++) found = block[i] >= step;
    if (found) *first -= size;
  }
  mem_free(block);
  return status;
}

/* Reads a table's rows of steps from `step` on (all rows begin with an int32 step). */
static int read_table(struct h5_file *file, const struct table *table, int64_t step, void **rows, int64_t *n) {
  int64_t total, first;
  int status = h5_table_get_rows(file, table->group, "step", &total);
  if (!status) status = find_first_row(file, table->group, step, total, &first);
  if (!status) status = read_rows(file, table, first, total, rows);
  if (status) return status;
  *n = 0;
  for (int64_t i = 0; i < total - first; i++) {
    char *from = (char *)*rows + (size_t)i * table->row_bytes;
    int32_t row_step;
    memcpy(&row_step, from, sizeof row_step);
    if (row_step >= step) memmove((char *)*rows + (size_t)(*n)++ * table->row_bytes, from, table->row_bytes);
  }
  return STATUS_OK;
}

static int compare_rows(const void *left, const void *right) {
  const struct trace_row *a = left, *b = right;
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
  return (a->start > b->start) - (a->start < b->start);
}

static int read_content(struct h5_file *file, const char *path, int64_t n_steps, struct trace_content *c) {
  if (!h5_has(file, "/nodes") || !h5_has(file, "/steps"))
    return error_raise(STATUS_MISTAKE, "%s is no trace: it has no /nodes and /steps", path);
  int64_t total;
  void *rows = NULL;
  int status = h5_table_get_rows(file, "/steps", "step", &total);
  int64_t first = total > n_steps ? total - n_steps : 0;
  if (!status) status = read_rows(file, &step_table, first, total, &rows);
  c->steps = rows;
  c->n_steps = total - first;
  if (status || !c->n_steps) return status;
  status = read_table(file, &node_table, c->steps[0].step, &rows, &c->n_rows);
  c->rows = rows == c->steps ? NULL : rows;
  if (!status && h5_has(file, "/peaks")) {
    status = read_table(file, &peak_table, c->steps[0].step, &rows, &c->n_peaks);
    c->peaks = rows == c->rows ? NULL : rows;
  }
  if (!status) qsort(c->rows, (size_t)c->n_rows, sizeof *c->rows, compare_rows);
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
  mem_free(content->rows);
  mem_free(content->peaks);
  *content = (struct trace_content){0};
}

static int read_limits(struct h5_file *file, struct plan_summary *summary) {
  int64_t n;
  int status = h5_table_get_rows(file, "/limits", "device_bytes", &n);
  if (status) return status;
  int32_t *rank = MEM_NEW(int32_t, n);
  int64_t *bytes = MEM_NEW(int64_t, n);
  status = h5_table_read(file, "/limits", "rank", H5_INT32, 0, n, rank);
  if (!status) status = h5_table_read(file, "/limits", "device_bytes", H5_INT64, 0, n, bytes);
  summary->n_ranks = (int32_t)n;
  summary->device_limit = MEM_NEW(int64_t, n);
  for (int64_t i = 0; i < n; i++) summary->device_limit[i] = INT64_MAX;
  for (int64_t i = 0; i < n && !status; i++)
    if (rank[i] >= 0 && rank[i] < n && bytes[i] >= 0) summary->device_limit[rank[i]] = bytes[i];
  mem_free(rank);
  mem_free(bytes);
  return status;
}

int plan_summary_read(const char *path, struct plan_summary *summary) {
  *summary = (struct plan_summary){0};
  if (access(path, F_OK)) return STATUS_OK;
  struct h5_file *file = NULL;
  int status = h5_open(path, false, &file);
  if (!status) status = h5_read_text(file, "/", "planner", &summary->planner);
  if (!status) status = read_limits(file, summary);
  h5_discard(&file);
  if (status) plan_summary_fini(summary);
  return status;
}

void plan_summary_fini(struct plan_summary *summary) {
  mem_free(summary->planner);
  mem_free(summary->device_limit);
  *summary = (struct plan_summary){0};
}
