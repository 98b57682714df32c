/* Rows of /nodes as CSV. */
#include <inttypes.h>
#include <string.h>

#include "report/picture.h"
#include "store/rows.h"

static void write_value(FILE *out, const struct h5_column *column, const char *member) {
  int32_t i32;
  int64_t i64;
  double real;
  int8_t code = *member;
  switch (column->type) {
  case H5_INT8:
    if (column->enum_names)
      fputs(column->enum_names[code], out);
    else
      fprintf(out, "%d", code);
    break;
  case H5_INT32:
    memcpy(&i32, member, sizeof i32);
    fprintf(out, "%" PRId32, i32);
    break;
  case H5_INT64:
    memcpy(&i64, member, sizeof i64);
    fprintf(out, "%" PRId64, i64);
    break;
  default: memcpy(&real, member, sizeof real); fprintf(out, "%.17g", real);
  }
}

void picture_write_csv(FILE *out, const struct timeline *t) {
  const struct rows_table *table = trace_rows_get_nodes();
  for (int c = 0; c < table->n_columns; c++) fprintf(out, "%s%s", c ? "," : "", table->columns[c].column.name);
  fputc('\n', out);
  for (int64_t i = 0; i < t->n_rows; i++)
    for (int c = 0; c < table->n_columns; c++) {
      write_value(out, &table->columns[c].column, (const char *)&t->rows[i] + table->columns[c].offset);
      fputc(c + 1 < table->n_columns ? ',' : '\n', out);
    }
}
