/* HDF5 behind a thin contract: no HDF5 type appears here. HDF5 is not thread-safe as packaged: one thread of a rank
 * uses it. Its own error printing is off; every failure returns a status with file, object and reason. Files go through
 * our own driver (h5_driver.h): nothing is locked (files on NFS and Lustre), and what is written stays in memory until
 * h5_flush or h5_close put all of it on the disk or nothing (image.h), so a file is whole whenever its writer is
 * killed, and a full disk leaves no file open that HDF5 cannot close. All functions are for one rank alone.
 */
#ifndef PENSTOCK_STORE_H5_H
#define PENSTOCK_STORE_H5_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h5_file;

enum h5_type { H5_INT8, H5_INT32, H5_INT64, H5_FLOAT32, H5_FLOAT64, H5_TYPE_COUNT };
size_t h5_type_get_size(enum h5_type type);

/* `create` replaces what is there, at the first flush. A file that is not there or is not HDF5 is STATUS_MISTAKE. */
int h5_create(const char *path, struct h5_file **file);
/* Creates a file for many small tables, without h5_reserve_dataset: packed, with small indices. */
int h5_create_packed(const char *path, struct h5_file **file);
int h5_open(const char *path, bool writable, struct h5_file **file);
/* Bytes that the file has once it is flushed. */
int64_t h5_get_size(const struct h5_file *file);
/* Flushes, and gives the file another name, of a file that it takes the place of; it stays open. On failure the other
 * one stands. */
int h5_move(struct h5_file *file, const char *path);
/* For a file just created: its first flush reserves no room for what has no content yet. */
void h5_set_sparse(struct h5_file *file);
/* Puts everything written so far on the disk. On failure the disk has what the last flush left, and the next flush
 * tries again. */
int h5_flush(struct h5_file *file);
/* Flushes, closes and frees, also on failure (then the disk has what the last flush left). NULL is allowed. */
int h5_close(struct h5_file **file);
/* Closes and frees without a flush. NULL is allowed. */
void h5_discard(struct h5_file **file);

/* Attributes of an object ("/" for the root). */
int h5_write_text(struct h5_file *file, const char *object, const char *name, const char *text);
int h5_write_int(struct h5_file *file, const char *object, const char *name, int64_t value);
int h5_write_double(struct h5_file *file, const char *object, const char *name, double value);
/* The text is owned by the caller. Reads fixed and variable length strings. */
int h5_read_text(struct h5_file *file, const char *object, const char *name, char **text);
int h5_read_int(struct h5_file *file, const char *object, const char *name, int64_t *value);
int h5_read_double(struct h5_file *file, const char *object, const char *name, double *value);
bool h5_has(struct h5_file *file, const char *object);
bool h5_has_attribute(struct h5_file *file, const char *object, const char *name);
/* Takes a group or dataset away; its room is used again while the file is open. */
int h5_remove(struct h5_file *file, const char *object);

/* Whole datasets of up to 4 dimensions, however others have written them. Reading converts to the type asked for.
 * h5_read_dataset allocates *data (owned by the caller) and fills in dims. */
int h5_read_dataset(struct h5_file *file, const char *path, enum h5_type type, int max_dims, int *n_dims, int64_t *dims,
                    void **data);
/* Reads into the caller's array of exactly these dims; other dims are STATUS_MISTAKE. */
int h5_read_into(struct h5_file *file, const char *path, enum h5_type type, int n_dims, const int64_t *dims,
                 void *data);
/* A contiguous dataset whose content is written later by other means (pwrite at *offset in the file); it starts at a
 * multiple of 4096. Until then its content is undefined. dims above 0. */
int h5_reserve_dataset(struct h5_file *file, const char *path, enum h5_type type, int n_dims, const int64_t *dims,
                       int64_t *offset);
/* Names of the members of a group; visit returns a status, the first that is not OK stops. */
int h5_list(struct h5_file *file, const char *group, int (*visit)(void *context, const char *name), void *context);

/* A table: a group of 1-D extendible datasets of equal length, one a column, chunked, compressed (shuffle and deflate,
 * which every HDF5 reads) and checksummed, units as attribute "unit". Enum columns (int8) carry their names as an HDF5
 * enum type. */
struct h5_column {
  const char *name;
  enum h5_type type;
  const char *unit;              /* NULL: none */
  const char *const *enum_names; /* H5_INT8 only: NULL-terminated names of the values 0, 1, ... */
};
/* Creates the empty table, for about so many rows: of a few a chunk holds all. */
int h5_table_create_for(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns,
                        int64_t n_rows);
/* Creates the empty table, which grows by some hundred or thousand rows at a time. */
int h5_table_create(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns);
/* Appends n rows; columns[i] is an array of column i's type. */
int h5_table_append(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns, int64_t n,
                    const void *const *data);
int h5_table_get_rows(struct h5_file *file, const char *group, const char *column, int64_t *n);
/* Reads n rows from row `first` of one column into the caller's array, converted to `type`. */
int h5_table_read(struct h5_file *file, const char *group, const char *column, enum h5_type type, int64_t first,
                  int64_t n, void *data);
/* Bytes that the rows of a table take in the file, as they are packed. */
int h5_table_get_bytes(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns,
                       int64_t *bytes);
/* Cuts every column to n rows. */
int h5_table_truncate(struct h5_file *file, const char *group, const struct h5_column *columns, int n_columns,
                      int64_t n);

/* Number of HDF5 objects open in this process, for the balance at exit. */
int64_t h5_balance(void);

#endif
