/* Shared by the parts of h5. Only store/h5*.c include it. */
#ifndef PENSTOCK_STORE_H5_IMPL_H
#define PENSTOCK_STORE_H5_IMPL_H

#include <hdf5.h>

#include "store/h5.h"

struct image;

struct h5_file {
  char *path;
  struct image *image;
  hid_t id;
  bool writable;
};

/* The type in memory and, little-endian, in files. */
hid_t h5_type_get_native(enum h5_type type);
hid_t h5_type_get_file(enum h5_type type);

/* Raises STATUS_FAILED: path of the file, "cannot VERB OBJECT", and HDF5's own innermost reason. */
int h5_raise(const struct h5_file *file, const char *verb, const char *object);

/* A property list that makes groups on the way; closed by the caller. */
hid_t h5_make_link_properties(void);

#endif
