#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/h5.h"
#include "store/h5_impl.h"

/* Rows of a chunk. The last chunk of a table that grows is packed anew at every flush, which is cheap up to CHUNK_ROWS.
 * Deflate is at its fastest: higher levels take several times as long for a tenth of the bytes. */
enum { LEAST_CHUNK = 64, CHUNK_ROWS = 4096, MOST_CHUNK = 1 << 16, DEFLATE_LEVEL = 1 };

/* "GROUP/COLUMN", owned by the caller. */
static char *dup_column_path(const char *group, const char *column) {
  return mem_format("%s/%s", strcmp(group, "/") ? group : "", column);
}

/* The column's type in the file; closed by the caller. */
static hid_t make_column_type(const struct h5_column *column) {
  if (!column->enum_names) return H5Tcopy(h5_type_get_file(column->type));
  hid_t type = H5Tenum_create(H5T_STD_I8LE);
  for (int8_t value = 0; column->enum_names[value]; value++) H5Tenum_insert(type, column->enum_names[value], &value);
  return type;
}

/* A library that was built without zlib leaves the rows as they are. */
static void set_filters(hid_t properties) {
  if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) {
    H5Pset_shuffle(properties);
    H5Pset_deflate(properties, DEFLATE_LEVEL);
  }
  H5Pset_fletcher32(properties);
}

static int create_column(struct h5_file *file, const char *path, const struct h5_column *column, hsize_t chunk) {
  const hsize_t none = 0, unlimited = H5S_UNLIMITED;
  hid_t space = H5Screate_simple(1, &none, &unlimited), properties = H5Pcreate(H5P_DATASET_CREATE);
  hid_t type = make_column_type(column), links = h5_make_link_properties();
  H5Pset_chunk(properties, 1, &chunk);
  set_filters(properties);
  hid_t dataset = H5Dcreate2(file->id, path, type, space, links, properties, H5P_DEFAULT);
  int status = dataset < 0 ? h5_raise(file, "create", path) : STATUS_OK;
  if (dataset >= 0) H5Dclose(dataset);
  H5Pclose(links);
  H5Tclose(type);
  H5Pclose(properties);
  H5Sclose(space);
  return status;
}

int h5_table_create_for(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns,
                        int64_t n_rows) {
  hsize_t chunk = (hsize_t)(n_rows < LEAST_CHUNK ? LEAST_CHUNK : n_rows > MOST_CHUNK ? MOST_CHUNK : n_rows);
  int status = STATUS_OK;
  for (int c = 0; c < n_columns && !status; c++) {
    char *path = dup_column_path(group, columns[c].name);
    status = create_column(file, path, &columns[c], chunk);
    if (!status && columns[c].unit) status = h5_write_text(file, path, "unit", columns[c].unit);
    mem_free(path);
  }
  return status;
}

int h5_table_create(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns) {
  return h5_table_create_for(file, group, columns, n_columns, CHUNK_ROWS);
}

/* Opens a column and tells its rows; -1 with the message raised. */
static hid_t open_column(struct h5_file *file, const char *path, int64_t *rows, int *status) {
  if (!h5_has(file, path)) {
    *status = error_raise(STATUS_MISTAKE, "%s has no column %s", file->path, path);
    return -1;
  }
  hid_t dataset = H5Dopen2(file->id, path, H5P_DEFAULT);
  if (dataset < 0) {
    *status = h5_raise(file, "open", path);
    return -1;
  }
  hid_t space = H5Dget_space(dataset);
  int n_dims = H5Sget_simple_extent_ndims(space);
  *rows = n_dims == 1 ? (int64_t)H5Sget_simple_extent_npoints(space) : 0;
  H5Sclose(space);
  if (n_dims == 1) return dataset;
  *status = error_raise(STATUS_MISTAKE, "%s: %s is no column: it has %d dimensions", file->path, path, n_dims);
  H5Dclose(dataset);
  return -1;
}

int h5_table_get_rows(struct h5_file *file, const char *group, const char *column, int64_t *n) {
  char *path = dup_column_path(group, column);
  int status = STATUS_OK;
  *n = 0;
  hid_t dataset = open_column(file, path, n, &status);
  if (dataset >= 0) H5Dclose(dataset);
  mem_free(path);
  return status;
}

/* The type in memory of an open column: an enum column takes the plain integers of its values. */
static hid_t make_memory_type(hid_t dataset, enum h5_type type) {
  hid_t file_type = H5Dget_type(dataset), result = -1;
  if (H5Tget_class(file_type) == H5T_ENUM && type == H5_INT8)
    result = H5Tcopy(file_type);
  else
    result = H5Tcopy(h5_type_get_native(type));
  H5Tclose(file_type);
  return result;
}

/* Moves rows first..first+n-1 of an open column, n > 0. */
static int transfer(struct h5_file *file, const char *path, hid_t dataset, enum h5_type type, int64_t first, int64_t n,
                    bool write, const void *in, void *out) {
  const hsize_t start = (hsize_t)first, count = (hsize_t)n;
  hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &count, NULL);
  hid_t memory_type = make_memory_type(dataset, type);
  bool good = space >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0;
  if (good && write) good = H5Dwrite(dataset, memory_type, memory, space, H5P_DEFAULT, in) >= 0;
  if (good && !write) good = H5Dread(dataset, memory_type, memory, space, H5P_DEFAULT, out) >= 0;
  int status = good ? STATUS_OK : h5_raise(file, write ? "append to" : "read", path);
  H5Tclose(memory_type);
  H5Sclose(memory);
  if (space >= 0) H5Sclose(space);
  return status;
}

int h5_table_append(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns, int64_t n,
                    const void *const *data) {
  int status = STATUS_OK;
  int64_t rows = 0, other;
  if (n == 0) return STATUS_OK;
  /* The first column's length counts, so that the columns stay equal. */
  status = h5_table_get_rows(file, group, columns[0].name, &rows);
  for (int c = 0; c < n_columns && !status; c++) {
    const hsize_t size = (hsize_t)(rows + n);
    char *path = dup_column_path(group, columns[c].name);
    hid_t dataset = open_column(file, path, &other, &status);
    if (dataset >= 0) {
      if (H5Dset_extent(dataset, &size) < 0)
        status = h5_raise(file, "append to", path);
      else
        status = transfer(file, path, dataset, columns[c].type, rows, n, true, data[c], NULL);
      H5Dclose(dataset);
    }
    mem_free(path);
  }
  return status;
}

int h5_table_read(struct h5_file *file, const char *group, const char *column, enum h5_type type, int64_t first,
                  int64_t n, void *data) {
  char *path = dup_column_path(group, column);
  int status = STATUS_OK;
  int64_t rows;
  hid_t dataset = open_column(file, path, &rows, &status);
  if (dataset >= 0) {
    if (first < 0 || first + n > rows)
      status =
          error_raise(STATUS_FAILED, "%s: %s has %" PRId64 " rows, not %" PRId64, file->path, path, rows, first + n);
    else if (n)
      status = transfer(file, path, dataset, type, first, n, false, NULL, data);
    H5Dclose(dataset);
  }
  mem_free(path);
  return status;
}

int h5_table_get_bytes(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns,
                       int64_t *bytes) {
  int status = STATUS_OK;
  *bytes = 0;
  for (int c = 0; c < n_columns && !status; c++) {
    char *path = dup_column_path(group, columns[c].name);
    int64_t rows;
    hid_t dataset = open_column(file, path, &rows, &status);
    if (dataset >= 0) {
      *bytes += (int64_t)H5Dget_storage_size(dataset);
      H5Dclose(dataset);
    }
    mem_free(path);
  }
  return status;
}

int h5_table_truncate(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns,
                      int64_t n) {
  int status = STATUS_OK;
  for (int c = 0; c < n_columns && !status; c++) {
    const hsize_t size = (hsize_t)n;
    char *path = dup_column_path(group, columns[c].name);
    int64_t rows;
    hid_t dataset = open_column(file, path, &rows, &status);
    if (dataset >= 0) {
      if (rows != n && H5Dset_extent(dataset, &size) < 0) status = h5_raise(file, "cut", path);
      H5Dclose(dataset);
    }
    mem_free(path);
  }
  return status;
}
