#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/h5.h"
#include "store/h5_impl.h"
#include "store/image.h"

enum { MAX_DIMS = 4 };

/* "2 x 3" in the caller's buffer. */
static void format_dims(int n_dims, const hsize_t *dims, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (int d = 0; d < n_dims && at < size; d++)
    at += (size_t)snprintf(text + at, size - at, "%s%llu", d ? " x " : "", (unsigned long long)dims[d]);
}

/* Negative with the message raised: later calls of the library forget the reason. */
static hid_t create_dataset(struct h5_file *file, const char *path, enum h5_type type, hid_t space, hid_t properties) {
  hid_t links = h5_make_link_properties();
  hid_t dataset = H5Dcreate2(file->id, path, h5_type_get_file(type), space, links, properties, H5P_DEFAULT);
  if (dataset < 0) h5_raise(file, "create", path);
  H5Pclose(links);
  return dataset;
}

static void widen(int n_dims, const int64_t *dims, hsize_t *out) {
  CHECK(n_dims >= 1 && n_dims <= MAX_DIMS, "%d dimensions", n_dims);
  for (int d = 0; d < n_dims; d++) out[d] = (hsize_t)dims[d];
}

int h5_reserve_dataset(struct h5_file *file, const char *path, enum h5_type type, int n_dims, const int64_t *dims,
                       int64_t *offset) {
  hsize_t size[MAX_DIMS];
  widen(n_dims, dims, size);
  hid_t space = H5Screate_simple(n_dims, size, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_layout(properties, H5D_CONTIGUOUS);
  H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER);
  hid_t dataset = create_dataset(file, path, type, space, properties);
  haddr_t address = dataset >= 0 ? H5Dget_offset(dataset) : HADDR_UNDEF;
  int status = dataset < 0 ? error_status() : STATUS_OK;
  if (!status && address == HADDR_UNDEF) status = h5_raise(file, "reserve", path);
  *offset = (int64_t)address;
  image_leave_unsealed(file->image);
  if (dataset >= 0) H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
  return status;
}

/* Opens a dataset and fills in its dims; -1 with the message raised. */
static hid_t open_dataset(struct h5_file *file, const char *path, int *n_dims, hsize_t *dims, int *status) {
  if (!h5_has(file, path)) {
    *status = error_raise(STATUS_MISTAKE, "%s has no dataset %s", file->path, path);
    return -1;
  }
  hid_t dataset = H5Dopen2(file->id, path, H5P_DEFAULT);
  if (dataset < 0) {
    *status = h5_raise(file, "open", path);
    return -1;
  }
  hid_t space = H5Dget_space(dataset);
  *n_dims = H5Sget_simple_extent_ndims(space);
  if (*n_dims >= 0 && *n_dims <= MAX_DIMS) H5Sget_simple_extent_dims(space, dims, NULL);
  H5Sclose(space);
  if (*n_dims >= 0 && *n_dims <= MAX_DIMS) return dataset;
  *status = error_raise(STATUS_MISTAKE, "%s: %s has %d dimensions, more than %d", file->path, path, *n_dims, MAX_DIMS);
  H5Dclose(dataset);
  return -1;
}

/* Reads all of an open dataset and closes it. */
static int read_all(struct h5_file *file, const char *path, hid_t dataset, enum h5_type type, void *data) {
  int status = STATUS_OK;
  if (H5Dread(dataset, h5_type_get_native(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    status = h5_raise(file, "read", path);
  H5Dclose(dataset);
  return status;
}

int h5_read_dataset(struct h5_file *file, const char *path, enum h5_type type, int max_dims, int *n_dims, int64_t *dims,
                    void **data) {
  hsize_t size[MAX_DIMS], count = 1;
  int status = STATUS_OK;
  *data = NULL;
  hid_t dataset = open_dataset(file, path, n_dims, size, &status);
  if (dataset < 0) return status;
  if (*n_dims > max_dims) {
    H5Dclose(dataset);
    return error_raise(STATUS_MISTAKE, "%s: %s has %d dimensions, at most %d were expected", file->path, path, *n_dims,
                       max_dims);
  }
  for (int d = 0; d < *n_dims; d++) {
    dims[d] = (int64_t)size[d];
    count *= size[d];
  }
  if (count == 0) {
    H5Dclose(dataset);
    return STATUS_OK;
  }
  *data = mem_alloc(count * h5_type_get_size(type));
  status = read_all(file, path, dataset, type, *data);
  if (status) {
    mem_free(*data);
    *data = NULL;
  }
  return status;
}

int h5_read_into(struct h5_file *file, const char *path, enum h5_type type, int n_dims, const int64_t *dims,
                 void *data) {
  hsize_t size[MAX_DIMS] = {0}, wanted[MAX_DIMS] = {0};
  int status = STATUS_OK, n = 0;
  widen(n_dims, dims, wanted);
  hid_t dataset = open_dataset(file, path, &n, size, &status);
  if (dataset < 0) return status;
  if (n == n_dims && !memcmp(size, wanted, (size_t)n * sizeof *size)) return read_all(file, path, dataset, type, data);
  char is[128], should[128];
  format_dims(n, size, is, sizeof is);
  format_dims(n_dims, wanted, should, sizeof should);
  H5Dclose(dataset);
  return error_raise(STATUS_MISTAKE, "%s: %s has shape %s, the model wants %s", file->path, path, is, should);
}
