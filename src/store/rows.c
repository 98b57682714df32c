#include "store/rows.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* Rows that are turned into columns at a time. */
enum { BLOCK_ROWS = 1 << 16 };

/* The columns as h5 wants them; owned by the caller. */
static struct h5_column *list_columns(const struct rows_table *table) {
  struct h5_column *columns = MEM_NEW(struct h5_column, table->n_columns);
  for (int c = 0; c < table->n_columns; c++) columns[c] = table->columns[c].column;
  return columns;
}

int rows_create_for(struct h5_file *file, const struct rows_table *table, int64_t n) {
  struct h5_column *columns = list_columns(table);
  int status = h5_table_create_for(file, table->group, columns, table->n_columns, n);
  mem_free(columns);
  return status;
}

int rows_create(struct h5_file *file, const struct rows_table *table) {
  struct h5_column *columns = list_columns(table);
  int status = h5_table_create(file, table->group, columns, table->n_columns);
  mem_free(columns);
  return status;
}

int rows_write(struct h5_file *file, const struct rows_table *table, const void *rows, int64_t n) {
  int status = rows_create_for(file, table, n);
  return status ? status : rows_append(file, table, rows, n);
}

/* Copies one member of n rows to a column, or back. */
static void copy_column(const struct rows_table *table, int c, int64_t n, void *column, char *rows, bool to_rows) {
  size_t bytes = h5_type_get_size(table->columns[c].column.type);
  char *member = rows + table->columns[c].offset, *value = column;
  for (int64_t i = 0; i < n; i++, member += table->row_bytes, value += bytes)
    memcpy(to_rows ? member : value, to_rows ? value : member, bytes);
}

static int append_block(struct h5_file *file, const struct rows_table *table, const struct h5_column *columns,
                        const char *rows, int64_t n) {
  void **data = MEM_NEW(void *, table->n_columns);
  for (int c = 0; c < table->n_columns; c++) {
    data[c] = mem_alloc((size_t)n * h5_type_get_size(columns[c].type));
    copy_column(table, c, n, data[c], (char *)(uintptr_t)rows, false);
  }
  int status = h5_table_append(file, table->group, columns, table->n_columns, n, (const void *const *)data);
  for (int c = 0; c < table->n_columns; c++) mem_free(data[c]);
  mem_free(data);
  return status;
}

int rows_append(struct h5_file *file, const struct rows_table *table, const void *rows, int64_t n) {
  struct h5_column *columns = list_columns(table);
  int status = STATUS_OK;
  for (int64_t done = 0; done < n && !status; done += BLOCK_ROWS)
    status = append_block(file, table, columns, (const char *)rows + (size_t)done * table->row_bytes,
                          n - done < BLOCK_ROWS ? n - done : BLOCK_ROWS);
  mem_free(columns);
  return status;
}

int rows_count(struct h5_file *file, const struct rows_table *table, int64_t *n) {
  return h5_table_get_rows(file, table->group, table->columns[0].column.name, n);
}

int rows_truncate(struct h5_file *file, const struct rows_table *table, int64_t n) {
  struct h5_column *columns = list_columns(table);
  int status = h5_table_truncate(file, table->group, columns, table->n_columns, n);
  mem_free(columns);
  return status;
}

static bool lacks(struct h5_file *file, const struct rows_table *table, int c) {
  if (!table->columns[c].is_new) return false;
  char *path = mem_format("%s/%s", table->group, table->columns[c].column.name);
  bool there = h5_has(file, path);
  mem_free(path);
  return !there;
}

int rows_complete(struct h5_file *file, const struct rows_table *table) {
  int64_t n = 0;
  int status = rows_count(file, table, &n);
  for (int c = 0; c < table->n_columns && !status; c++) {
    const struct h5_column *column = &table->columns[c].column;
    if (!lacks(file, table, c)) continue;
    size_t bytes = (size_t)n * h5_type_get_size(column->type);
    void *data = mem_alloc(bytes);
    if (bytes) memset(data, 0xff, bytes);
    const void *columns[1] = {data};
    status = h5_table_create(file, table->group, column, 1);
    if (!status && n > 0) status = h5_table_append(file, table->group, column, 1, n, columns);
    mem_free(data);
  }
  return status;
}

int rows_read(struct h5_file *file, const struct rows_table *table, int64_t first, int64_t n, void *rows) {
  int status = STATUS_OK;
  for (int c = 0; c < table->n_columns && n > 0 && !status; c++) {
    const struct h5_column *column = &table->columns[c].column;
    void *data = mem_alloc((size_t)n * h5_type_get_size(column->type));
    if (lacks(file, table, c))
      memset(data, 0xff, (size_t)n * h5_type_get_size(column->type));
    else
      status = h5_table_read(file, table->group, column->name, column->type, first, n, data);
    if (!status) copy_column(table, c, n, data, rows, true);
    mem_free(data);
  }
  return status;
}

int rows_read_all(struct h5_file *file, const struct rows_table *table, void **rows, int64_t *n) {
  *rows = NULL;
  int status = rows_count(file, table, n);
  if (status || *n == 0) return status;
  *rows = mem_alloc((size_t)*n * table->row_bytes);
  status = rows_read(file, table, 0, *n, *rows);
  if (status) {
    mem_free(*rows);
    *rows = NULL;
    *n = 0;
  }
  return status;
}

int rows_read_steps(struct h5_file *file, const struct rows_table *table, int64_t first, int64_t n, int32_t *steps) {
  return h5_table_read(file, table->group, table->columns[0].column.name, H5_INT32, first, n, steps);
}

int rows_get_bytes(struct h5_file *file, const struct rows_table *table, int64_t *bytes) {
  struct h5_column *columns = list_columns(table);
  int status = h5_table_get_bytes(file, table->group, columns, table->n_columns, bytes);
  mem_free(columns);
  return status;
}

int rows_count_until(struct h5_file *file, const struct rows_table *table, int64_t step, int64_t *n) {
  int64_t low = 0, high = 0;
  int status = rows_count(file, table, &high);
  while (low < high && !status) {
    int64_t middle = low + (high - low) / 2;
    int32_t value;
    status = h5_table_read(file, table->group, table->columns[0].column.name, H5_INT32, middle, 1, &value);
    if (value <= step)
      low = middle + 1;
    else
      high = middle;
  }
  *n = low;
  return status;
}
