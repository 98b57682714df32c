#include "store/h5_driver.h"

#include <stdlib.h>
#include <string.h>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include "store/image.h"

/* The data in the property list: HDF5 copies it. */
struct driver_info {
  struct image *image;
};

struct driver_file {
  H5FD_t base; /* HDF5's own part comes first */
  struct image *image;
  haddr_t end; /* of what HDF5 has allocated */
};

static const haddr_t MAX_ADDRESS = ((haddr_t)1 << 62) - 1;

static struct driver_file *cast(H5FD_t *file) { return (struct driver_file *)file; }
static const struct driver_file *cast_const(const H5FD_t *file) { return (const struct driver_file *)file; }

static H5FD_t *open_file(const char *name, unsigned flags, hid_t access, haddr_t max_address) {
  (void)name, (void)max_address;
  const struct driver_info *info = H5Pget_driver_info(access);
  struct driver_file *file = info ? calloc(1, sizeof *file) : NULL;
  if (!file) return NULL;
  file->image = info->image;
  if (flags & H5F_ACC_TRUNC) image_set_size(file->image, 0);
  return &file->base;
}

static herr_t close_file(H5FD_t *file) {
  free(file);
  return 0;
}

static int compare(const H5FD_t *a, const H5FD_t *b) {
  uintptr_t x = (uintptr_t)cast_const(a)->image, y = (uintptr_t)cast_const(b)->image;
  return (x > y) - (x < y);
}

static herr_t query(const H5FD_t *file, unsigned long *flags) {
  (void)file;
  /* Small data is not packed: every dataset starts at its own aligned address (h5_reserve_dataset). */
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE;
  return 0;
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type) {
  (void)type;
  return cast_const(file)->end;
}

static herr_t set_end(H5FD_t *file, H5FD_mem_t type, haddr_t address) {
  (void)type;
  cast(file)->end = address;
  return 0;
}

static haddr_t get_size(const H5FD_t *file, H5FD_mem_t type) {
  (void)type;
  return (haddr_t)image_get_size(cast_const(file)->image);
}

static herr_t read_bytes(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t bytes, void *data) {
  (void)type, (void)transfer;
  return image_read(cast(file)->image, (int64_t)address, data, (int64_t)bytes) ? -1 : 0;
}

static herr_t write_bytes(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t bytes,
                          const void *data) {
  (void)type, (void)transfer;
  image_write(cast(file)->image, (int64_t)address, data, (int64_t)bytes);
  return 0;
}

/* The size becomes what is allocated: an allocated but unwritten dataset at the end is part of the file. */
static herr_t truncate_file(H5FD_t *file, hid_t transfer, hbool_t closing) {
  (void)transfer, (void)closing;
  image_set_size(cast(file)->image, (int64_t)cast(file)->end);
  return 0;
}

static const H5FD_class_t driver_class = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)511, /* of the range for drivers that are not registered */
#endif
    .name = "penstock",
    .maxaddr = MAX_ADDRESS,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(struct driver_info),
    .open = open_file,
    .close = close_file,
    .cmp = compare,
    .query = query,
    .get_eoa = get_end,
    .set_eoa = set_end,
    .get_eof = get_size,
    .read = read_bytes,
    .write = write_bytes,
    .truncate = truncate_file,
    .fl_map = H5FD_FLMAP_SINGLE,
};

hid_t h5_driver_make_access(struct image *image) {
  static hid_t driver = -1; /* one registration a process; it ends with the library */
  if (driver < 0) driver = H5FDregister(&driver_class);
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  struct driver_info info = {.image = image};
  if (driver >= 0 && access >= 0 && H5Pset_driver(access, driver, &info) >= 0) return access;
  if (access >= 0) H5Pclose(access);
  return -1;
}
