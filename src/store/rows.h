/* Tables whose rows are structs in memory and columns in the file: one list of members, one place that turns one into
 * the other. Only for store, and where a table is printed column by column. */
#ifndef PENSTOCK_STORE_ROWS_H
#define PENSTOCK_STORE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/h5.h"

/* A column and the member of the row that holds it; their types are the same. */
struct rows_column {
  struct h5_column column;
  size_t offset;
  bool is_new; /* older files may lack it: it is read as -1 there */
};
struct rows_table {
  const char *group;
  const struct rows_column *columns;
  int n_columns;
  size_t row_bytes;
};

#define ROWS_COLUMN(row, member, type, unit)                                                                           \
  { {#member, type, unit, NULL}, offsetof(struct row, member), false }
#define ROWS_NEW_COLUMN(row, member, type, unit)                                                                       \
  { {#member, type, unit, NULL}, offsetof(struct row, member), true }
#define ROWS_ENUM(row, member, names)                                                                                  \
  { {#member, H5_INT8, NULL, names}, offsetof(struct row, member), false }
#define ROWS_TABLE(group, row, columns)                                                                                \
  { group, columns, (int)(sizeof columns / sizeof *columns), sizeof(struct row) }

int rows_create(struct h5_file *file, const struct rows_table *table);
/* Creates a table with all the rows that it will have. */
int rows_write(struct h5_file *file, const struct rows_table *table, const void *rows, int64_t n);
/* Creates a table that about n rows will be appended to. */
int rows_create_for(struct h5_file *file, const struct rows_table *table, int64_t n);
/* Appends n rows; creates nothing. */
int rows_append(struct h5_file *file, const struct rows_table *table, const void *rows, int64_t n);
int rows_count(struct h5_file *file, const struct rows_table *table, int64_t *n);
int rows_truncate(struct h5_file *file, const struct rows_table *table, int64_t n);
/* Gives a table of an older file the columns that it lacks, -1 in all its rows. */
int rows_complete(struct h5_file *file, const struct rows_table *table);
/* Reads rows first..first+n-1 into the caller's array of structs. */
int rows_read(struct h5_file *file, const struct rows_table *table, int64_t first, int64_t n, void *rows);
/* All rows; *rows owned by the caller. */
int rows_read_all(struct h5_file *file, const struct rows_table *table, void **rows, int64_t *n);
/* The first column, int32 steps, of rows first..first+n-1. */
int rows_read_steps(struct h5_file *file, const struct rows_table *table, int64_t first, int64_t n, int32_t *steps);
/* Bytes that the table's rows take in the file. */
int rows_get_bytes(struct h5_file *file, const struct rows_table *table, int64_t *bytes);
/* Number of rows whose first column, ascending int32 steps, is at most `step`. */
int rows_count_until(struct h5_file *file, const struct rows_table *table, int64_t step, int64_t *n);

#endif
