#include "record/comparison.h"

#include <math.h>
#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "plan/plan.h"
#include "store/h5.h"
#include "store/rows.h"

#define X(id, name, ...) name,
static const char *const node_names[] = {NODE_KINDS(X) NULL};
static const char *const layer_names[] = {LAYER_KINDS(X) NULL};
#undef X
#define X(id, word, ...) #word,
static const char *const op_names[] = {OP_KINDS(X) NULL};
#undef X
static const char *const pass_names[] = {PASS_REPORT_NAMES, NULL};

#define K(member, type, unit) ROWS_COLUMN(kind_row, member, type, unit)
static const struct rows_column kind_columns[] = {
    ROWS_ENUM(kind_row, kind, node_names),
    K(count, H5_INT64, NULL),
    K(predicted_s, H5_FLOAT64, "s"),
    K(measured_s, H5_FLOAT64, "s"),
};
static const struct rows_table kinds = ROWS_TABLE("/kinds", kind_row, kind_columns);

#define O(member, type, unit) ROWS_COLUMN(op_row, member, type, unit)
static const struct rows_column op_columns[] = {
    ROWS_ENUM(op_row, layer, layer_names), O(op, H5_INT32, NULL),    ROWS_ENUM(op_row, kind, op_names),
    ROWS_ENUM(op_row, pass, pass_names),   O(count, H5_INT64, NULL), O(predicted_s, H5_FLOAT64, "s"),
    O(measured_s, H5_FLOAT64, "s"),
};
static const struct rows_table ops = ROWS_TABLE("/ops", op_row, op_columns);

/* The attributes that are numbers: X(member). */
#define NUMBERS(X) X(predicted_step_s) X(measured_step_s) X(predicted_bubble) X(measured_bubble)

static int write_rows(struct h5_file *file, const struct rows_table *table, const void *rows, int64_t n) {
  if (!h5_has(file, table->group)) return rows_write(file, table, rows, n);
  int status = rows_truncate(file, table, 0);
  return status ? status : rows_append(file, table, rows, n);
}

int comparison_write(struct h5_file *file, const struct comparison *c) {
  int status = write_rows(file, &kinds, c->kinds, c->n_kinds);
  if (!status) status = write_rows(file, &ops, c->ops, c->n_ops);
  if (!status && c->op_names) status = h5_write_text(file, "/ops/op", "names", c->op_names);
#define X(member)                                                                                                      \
  if (!status) status = h5_write_double(file, "/", #member, c->member);
  NUMBERS(X)
#undef X
  if (!status) status = h5_write_double(file, "/", "copy_cpu_s", c->copy_cpu_s);
  if (!status) status = h5_write_int(file, "/", "compared_steps", c->n_steps);
  if (!status) status = h5_write_text(file, "/", "cost_source", c->cost_source);
  if (!status) status = h5_write_int(file, "/", "cost_is_measured", c->cost_is_measured);
  return status;
}

int comparison_clear(struct h5_file *file) {
  int status = h5_has(file, kinds.group) ? rows_truncate(file, &kinds, 0) : STATUS_OK;
  return status || !h5_has(file, ops.group) ? status : rows_truncate(file, &ops, 0);
}

/* Names of kinds come from the rows: numbers beyond the lists must not reach them. */
static int check_rows(const char *path, const struct comparison *c) {
  for (int64_t i = 0; i < c->n_kinds; i++)
    if (c->kinds[i].kind < 0 || c->kinds[i].kind >= NODE_KIND_COUNT)
      return error_raise(STATUS_FAILED, "%s is damaged: a row of /kinds has kind %d", path, c->kinds[i].kind);
  for (int64_t i = 0; i < c->n_ops; i++) {
    const struct op_row *row = &c->ops[i];
    if (row->layer < 0 || row->layer >= LAYER_KIND_COUNT || row->op < 0 || row->op >= LAYER_MAX_OPS || row->pass < 0 ||
        row->pass >= PASS_REPORT_COUNT)
      return error_raise(STATUS_FAILED, "%s is damaged: a row of /ops has layer %d, op %d, pass %d", path, row->layer,
                         (int)row->op, row->pass);
  }
  return STATUS_OK;
}

static int read_file(struct h5_file *file, const char *path, struct comparison *c) {
  int64_t measured = 0;
  void *rows = NULL;
  if (!h5_has(file, kinds.group) || !h5_has(file, ops.group)) return STATUS_OK;
  int status = rows_read_all(file, &kinds, &rows, &c->n_kinds);
  c->kinds = rows;
  if (status || c->n_kinds == 0) return status;
  rows = NULL;
  status = rows_read_all(file, &ops, &rows, &c->n_ops);
  c->ops = rows;
#define X(member)                                                                                                      \
  if (!status) status = h5_read_double(file, "/", #member, &c->member);
  NUMBERS(X)
#undef X
  if (!status) status = h5_read_text(file, "/", "cost_source", &c->cost_source);
  if (!status) status = h5_read_int(file, "/", "cost_is_measured", &measured);
  if (!status) status = check_rows(path, c);
  if (!status) status = h5_read_int(file, "/", "compared_steps", &c->n_steps);
  c->cost_is_measured = measured != 0;
  if (!status && h5_read_double(file, "/", "copy_cpu_s", &c->copy_cpu_s)) { /* traces of before it was kept */
    c->copy_cpu_s = NAN;
    error_clear();
  }
  if (!status && h5_read_text(file, "/ops/op", "names", &c->op_names)) error_clear(); /* likewise */
  return status;
}

int comparison_read(const char *path, struct comparison *comparison) {
  struct h5_file *file = NULL;
  *comparison = (struct comparison){0};
  int status = h5_open(path, false, &file);
  if (!status) status = read_file(file, path, comparison);
  h5_discard(&file);
  return status;
}

int comparison_copy(struct h5_file *from, struct h5_file *to) {
  struct comparison c = {0};
  int status = read_file(from, "the trace", &c);
  if (!status && c.n_kinds > 0) status = comparison_write(to, &c);
  comparison_fini(&c);
  return status;
}

void comparison_fini(struct comparison *c) {
  mem_free(c->cost_source);
  mem_free(c->op_names);
  mem_free(c->kinds);
  mem_free(c->ops);
  *c = (struct comparison){0};
}
