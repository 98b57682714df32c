#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/h5.h"
#include "store/h5_impl.h"

/* Writes a scalar attribute of this type, in place of one of that name. */
static int write_attribute(struct h5_file *file, const char *object, const char *name, hid_t file_type, hid_t type,
                           const void *value) {
  hid_t space = H5Screate(H5S_SCALAR), attribute = -1;
  if (H5Aexists_by_name(file->id, object, name, H5P_DEFAULT) > 0)
    H5Adelete_by_name(file->id, object, name, H5P_DEFAULT);
  attribute = H5Acreate_by_name(file->id, object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  bool good = attribute >= 0 && H5Awrite(attribute, type, value) >= 0;
  int status = good ? STATUS_OK : h5_raise(file, "write attribute", name);
  if (attribute >= 0) H5Aclose(attribute);
  H5Sclose(space);
  return status;
}

int h5_write_text(struct h5_file *file, const char *object, const char *name, const char *text) {
  /* The type has a variable length: texts over 64 KiB do not fit into an attribute itself. */
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  int status = write_attribute(file, object, name, type, type, &text);
  H5Tclose(type);
  return status;
}

int h5_write_int(struct h5_file *file, const char *object, const char *name, int64_t value) {
  return write_attribute(file, object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

int h5_write_double(struct h5_file *file, const char *object, const char *name, double value) {
  return write_attribute(file, object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

/* Opens an attribute with one element; -1 with the message raised. */
static hid_t open_scalar(struct h5_file *file, const char *object, const char *name, int *status) {
  hid_t attribute = H5Aopen_by_name(file->id, object, name, H5P_DEFAULT, H5P_DEFAULT);
  if (attribute < 0) {
    *status = error_raise(STATUS_MISTAKE, "%s: %s has no attribute '%s'", file->path, object, name);
    return -1;
  }
  hid_t space = H5Aget_space(attribute);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  H5Sclose(space);
  if (n == 1) return attribute;
  H5Aclose(attribute);
  *status = error_raise(STATUS_MISTAKE, "%s: attribute '%s' of %s has %lld values, not 1", file->path, name, object,
                        (long long)n);
  return -1;
}

/* Reads the string of an open attribute; NULL on failure. */
static char *read_string(hid_t attribute, hid_t file_type) {
  char *text = NULL;
  if (H5Tis_variable_str(file_type) > 0) {
    char *read = NULL;
    if (H5Aread(attribute, file_type, &read) >= 0) {
      text = mem_strdup(read ? read : "");
      H5free_memory(read);
    }
    return text;
  }
  size_t bytes = H5Tget_size(file_type);
  hid_t type = H5Tcopy(file_type); /* keeps the character set, which HDF5 does not convert */
  text = mem_alloc(bytes + 1);
  if (H5Tset_size(type, bytes + 1) < 0 || H5Tset_strpad(type, H5T_STR_NULLTERM) < 0 ||
      H5Aread(attribute, type, text) < 0) {
    mem_free(text);
    text = NULL;
  }
  H5Tclose(type);
  return text;
}

int h5_read_text(struct h5_file *file, const char *object, const char *name, char **text) {
  int status = STATUS_OK;
  *text = NULL;
  hid_t attribute = open_scalar(file, object, name, &status);
  if (attribute < 0) return status;
  hid_t type = H5Aget_type(attribute);
  if (H5Tget_class(type) != H5T_STRING)
    status = error_raise(STATUS_MISTAKE, "%s: attribute '%s' of %s is not a text", file->path, name, object);
  else if (!(*text = read_string(attribute, type)))
    status = h5_raise(file, "read attribute", name);
  H5Tclose(type);
  H5Aclose(attribute);
  return status;
}

static int read_number(struct h5_file *file, const char *object, const char *name, hid_t type, void *value) {
  int status = STATUS_OK;
  hid_t attribute = open_scalar(file, object, name, &status);
  if (attribute < 0) return status;
  if (H5Aread(attribute, type, value) < 0) status = h5_raise(file, "read attribute", name);
  H5Aclose(attribute);
  return status;
}

int h5_read_int(struct h5_file *file, const char *object, const char *name, int64_t *value) {
  return read_number(file, object, name, H5T_NATIVE_INT64, value);
}

int h5_read_double(struct h5_file *file, const char *object, const char *name, double *value) {
  return read_number(file, object, name, H5T_NATIVE_DOUBLE, value);
}
