#include "store/h5.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/h5_driver.h"
#include "store/h5_impl.h"
#include "store/image.h"

/* Where ranks fill reserved datasets every allocation starts at a multiple of this, so that no two share a page;
 * metadata comes in blocks, or the rounding would blow it up. */
enum { ALIGNMENT = 4096, METADATA_BLOCK = 1 << 16 };
/* Packed files: a column has a chunk or a few, of which an index of usual size (64 entries) takes more than they do. */
enum { PACKED_BLOCK = 2048, INDEX_HALF = 4 };

/* ---- types: enum, type in memory, type in files ---- */
#define H5_TYPES(X)                                                                                                    \
  X(H5_INT8, H5T_NATIVE_INT8, H5T_STD_I8LE, 1)                                                                         \
  X(H5_INT32, H5T_NATIVE_INT32, H5T_STD_I32LE, 4)                                                                      \
  X(H5_INT64, H5T_NATIVE_INT64, H5T_STD_I64LE, 8)                                                                      \
  X(H5_FLOAT32, H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, 4)                                                                   \
  X(H5_FLOAT64, H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, 8)

size_t h5_type_get_size(enum h5_type type) {
#define X(id, native, file, bytes) [id] = bytes,
  static const size_t sizes[H5_TYPE_COUNT] = {H5_TYPES(X)};
#undef X
  return sizes[type];
}

/* The ids are variables of the library: no constant tables. */
hid_t h5_type_get_native(enum h5_type type) {
#define X(id, native, file, bytes) native,
  const hid_t ids[H5_TYPE_COUNT] = {H5_TYPES(X)};
#undef X
  return ids[type];
}

hid_t h5_type_get_file(enum h5_type type) {
#define X(id, native, file, bytes) file,
  const hid_t ids[H5_TYPE_COUNT] = {H5_TYPES(X)};
#undef X
  return ids[type];
}

/* ---- errors ---- */

static herr_t take_innermost(unsigned n, const H5E_error2_t *error, void *context) {
  if (n == 0) *(const char **)context = error->desc;
  return 0;
}

int h5_raise(const struct h5_file *file, const char *verb, const char *object) {
  const char *reason = NULL;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &reason);
  return error_raise(STATUS_FAILED, "%s: cannot %s %s: %s", file->path, verb, object,
                     reason ? reason : "HDF5 gives no reason");
}

hid_t h5_make_link_properties(void) {
  hid_t properties = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(properties, 1);
  return properties;
}

/* ---- files ---- */

static struct h5_file *new_file(const char *path, struct image *image, bool writable) {
  struct h5_file *file = MEM_NEW(struct h5_file, 1);
  *file = (struct h5_file){.path = mem_strdup(path), .image = image, .id = -1, .writable = writable};
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* also starts the library */
  return file;
}

static void free_file(struct h5_file **file) {
  image_close(&(*file)->image);
  mem_free((*file)->path);
  mem_free(*file);
  *file = NULL;
}

/* Property lists of a file, to be closed by the caller: how it is reached and how it is laid out. Negative: failed. */
static hid_t make_access(struct image *image, bool packed) {
  hid_t access = h5_driver_make_access(image);
  if (access >= 0 && H5Pset_meta_block_size(access, packed ? PACKED_BLOCK : METADATA_BLOCK) >= 0 &&
      (packed || H5Pset_alignment(access, 1, ALIGNMENT) >= 0))
    return access;
  if (access >= 0) H5Pclose(access);
  return -1;
}

static hid_t make_layout(bool packed) {
  hid_t layout = H5Pcreate(H5P_FILE_CREATE);
  if (layout >= 0 && packed) H5Pset_istore_k(layout, INDEX_HALF);
  return layout;
}

static int create(const char *path, bool packed, struct h5_file **out) {
  struct h5_file *file = new_file(path, image_create(path), true);
  *out = NULL;
  hid_t access = make_access(file->image, packed), layout = make_layout(packed);
  if (access >= 0 && layout >= 0) file->id = H5Fcreate(path, H5F_ACC_TRUNC, layout, access);
  /* The reason first: every later call of the library forgets it. */
  int status = file->id < 0 ? h5_raise(file, "create", "the file") : STATUS_OK;
  if (access >= 0) H5Pclose(access);
  if (layout >= 0) H5Pclose(layout);
  if (status)
    free_file(&file);
  else
    *out = file;
  return status;
}

int h5_create(const char *path, struct h5_file **out) { return create(path, false, out); }

int h5_create_packed(const char *path, struct h5_file **out) { return create(path, true, out); }

void h5_set_sparse(struct h5_file *file) { image_set_sparse(file->image); }

int h5_open(const char *path, bool writable, struct h5_file **out) {
  struct image *image;
  *out = NULL;
  int status = image_open(path, writable, &image);
  if (status) return status;
  struct h5_file *file = new_file(path, image, writable);
  hid_t access = make_access(image, true);
  if (access >= 0) file->id = H5Fopen(path, writable ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access);
  if (file->id < 0) h5_raise(file, "open", "it as an HDF5 file");
  if (access >= 0) H5Pclose(access);
  if (file->id >= 0) {
    *out = file;
    return STATUS_OK;
  }
  free_file(&file);
  return error_raise(STATUS_MISTAKE, "%s", error_text());
}

int h5_flush(struct h5_file *file) {
  if (!file->writable) return STATUS_OK;
  if (H5Fflush(file->id, H5F_SCOPE_LOCAL) < 0) return h5_raise(file, "flush", "the file");
  return image_commit(file->image);
}

/* HDF5's half of closing. An object still open in the file is a bug of ours. */
static int close_id(struct h5_file *file) {
  CHECK(H5Fget_obj_count(file->id, H5F_OBJ_ALL | H5F_OBJ_LOCAL) == 1, "%s: objects are still open", file->path);
  return H5Fclose(file->id) < 0 ? h5_raise(file, "close", "the file") : STATUS_OK;
}

int64_t h5_get_size(const struct h5_file *file) {
  hsize_t bytes = 0;
  bool known = H5Fget_filesize(file->id, &bytes) >= 0;
  return image_measure(file->image, known ? (int64_t)bytes : image_get_size(file->image));
}

int h5_move(struct h5_file *file, const char *path) {
  if (H5Fflush(file->id, H5F_SCOPE_LOCAL) < 0) return h5_raise(file, "flush", "the file");
  int status = image_move(file->image, path);
  if (status) return status;
  mem_free(file->path);
  file->path = mem_strdup(path);
  return STATUS_OK;
}

int h5_close(struct h5_file **file) {
  if (!*file) return STATUS_OK;
  int status = close_id(*file);
  if (!status && (*file)->writable) status = image_commit((*file)->image);
  free_file(file);
  return status;
}

void h5_discard(struct h5_file **file) {
  if (!*file) return;
  close_id(*file);
  free_file(file);
}

int64_t h5_balance(void) { return (int64_t)H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL); }

/* ---- objects ---- */

bool h5_has_attribute(struct h5_file *file, const char *object, const char *name) {
  return H5Aexists_by_name(file->id, object, name, H5P_DEFAULT) > 0;
}

bool h5_has(struct h5_file *file, const char *object) {
  if (!strcmp(object, "/")) return true;
  char *part = mem_strdup(object);
  bool there = true;
  /* H5Lexists wants every group on the way to exist. */
  for (char *at = part + 1; there; at++) {
    if (*at != '/' && *at != '\0') continue;
    char end = *at;
    *at = '\0';
    there = H5Lexists(file->id, part, H5P_DEFAULT) > 0;
    *at = end;
    if (end == '\0') break;
  }
  mem_free(part);
  return there;
}

int h5_remove(struct h5_file *file, const char *object) {
  return H5Ldelete(file->id, object, H5P_DEFAULT) < 0 ? h5_raise(file, "remove", object) : STATUS_OK;
}

int h5_list(struct h5_file *file, const char *group, int (*visit)(void *context, const char *name), void *context) {
  H5G_info_t info;
  if (H5Gget_info_by_name(file->id, group, &info, H5P_DEFAULT) < 0) return h5_raise(file, "list", group);
  int status = STATUS_OK;
  for (hsize_t i = 0; i < info.nlinks && !status; i++) {
    ssize_t length = H5Lget_name_by_idx(file->id, group, H5_INDEX_NAME, H5_ITER_INC, i, NULL, 0, H5P_DEFAULT);
    if (length < 0) return h5_raise(file, "list", group);
    char *name = mem_alloc((size_t)length + 1);
    H5Lget_name_by_idx(file->id, group, H5_INDEX_NAME, H5_ITER_INC, i, name, (size_t)length + 1, H5P_DEFAULT);
    status = visit(context, name);
    mem_free(name);
  }
  return status;
}
