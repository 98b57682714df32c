#include "record/profile_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "store/h5.h"
#include "store/rows.h"

#define PROFILE_FORMAT "penstock-profile"
enum { PROFILE_VERSION = 1 };

/* ---- the tables ---- */

struct profile_file_op {
  int8_t layer, pass;
  int32_t op, rows, length;
  double seconds, spread;
#define X(name) double name;
  PROFILE_COUNTERS(X)
#undef X
};
struct profile_file_sweep {
  int8_t kind;
  int64_t floats;
  double seconds;
};
struct profile_file_link {
  int32_t from, to;
  int8_t across;
  int64_t bytes;
  double seconds;
};
struct profile_file_copy {
  int8_t kind;
  int64_t bytes;
  double seconds;
};

#define X(id, name) name,
static const char *const layer_names[] = {LAYER_KINDS(X) NULL};
#undef X
static const char *const pass_names[] = {PASS_NAMES, NULL};
static const char *const sweep_names[] = {PROFILE_SWEEP_NAMES, NULL};
static const char *const copy_names[] = {PROFILE_COPY_NAMES, NULL};

#define C(row, member, type, unit) ROWS_COLUMN(profile_file_##row, member, type, unit)
#define E(row, member, names) ROWS_ENUM(profile_file_##row, member, names)
static const struct rows_column op_columns[] = {E(op, layer, layer_names),
                                                C(op, op, H5_INT32, NULL),
                                                E(op, pass, pass_names),
                                                C(op, rows, H5_INT32, NULL),
                                                C(op, length, H5_INT32, "token"),
                                                C(op, seconds, H5_FLOAT64, "s"),
                                                C(op, spread, H5_FLOAT64, NULL),
#define X(name) C(op, name, H5_FLOAT64, NULL),
                                                PROFILE_COUNTERS(X)
#undef X
};
static const struct rows_column sweep_columns[] = {E(sweep, kind, sweep_names), C(sweep, floats, H5_INT64, NULL),
                                                   C(sweep, seconds, H5_FLOAT64, "s")};
static const struct rows_column link_columns[] = {C(link, from, H5_INT32, NULL), C(link, to, H5_INT32, NULL),
                                                  C(link, across, H5_INT8, NULL), C(link, bytes, H5_INT64, "byte"),
                                                  C(link, seconds, H5_FLOAT64, "s")};
static const struct rows_column copy_columns[] = {E(copy, kind, copy_names), C(copy, bytes, H5_INT64, "byte"),
                                                  C(copy, seconds, H5_FLOAT64, "s")};

static const struct rows_table op_table = ROWS_TABLE("/ops", profile_file_op, op_columns);
static const struct rows_table sweep_table = ROWS_TABLE("/sweeps", profile_file_sweep, sweep_columns);
static const struct rows_table link_table = ROWS_TABLE("/links", profile_file_link, link_columns);
static const struct rows_table copy_table = ROWS_TABLE("/copies", profile_file_copy, copy_columns);

/* ---- rows of the file and of the profile ---- */

static struct profile_file_op pack_op(const struct profile_op *op) {
  struct profile_file_op row = {.layer = (int8_t)op->layer,
                                .pass = (int8_t)op->pass,
                                .op = op->op,
                                .rows = op->rows,
                                .length = op->length,
                                .seconds = op->seconds,
                                .spread = op->spread};
#define X(name) row.name = op->counters[PROFILE_COUNTER_##name];
  PROFILE_COUNTERS(X)
#undef X
  return row;
}

static struct profile_op unpack_op(const struct profile_file_op *row) {
  struct profile_op op = {.layer = (enum layer_kind)row->layer,
                          .op = row->op,
                          .pass = (enum pass)row->pass,
                          .rows = row->rows,
                          .length = row->length,
                          .seconds = row->seconds,
                          .spread = row->spread};
#define X(name) op.counters[PROFILE_COUNTER_##name] = row->name;
  PROFILE_COUNTERS(X)
#undef X
  return op;
}

static struct profile_file_sweep pack_sweep(const struct profile_sweep *s) {
  return (struct profile_file_sweep){(int8_t)s->kind, s->floats, s->seconds};
}
static struct profile_sweep unpack_sweep(const struct profile_file_sweep *row) {
  return (struct profile_sweep){(enum profile_sweep_kind)row->kind, row->floats, row->seconds};
}
static struct profile_file_link pack_link(const struct profile_link *l) {
  return (struct profile_file_link){l->from, l->to, l->across, l->bytes, l->seconds};
}
static struct profile_link unpack_link(const struct profile_file_link *row) {
  return (struct profile_link){row->from, row->to, row->across != 0, row->bytes, row->seconds};
}
static struct profile_file_copy pack_copy(const struct profile_copy *c) {
  return (struct profile_file_copy){(int8_t)c->kind, c->bytes, c->seconds};
}
static struct profile_copy unpack_copy(const struct profile_file_copy *row) {
  return (struct profile_copy){(enum profile_copy_kind)row->kind, row->bytes, row->seconds};
}

/* ---- what a measurement can give ---- */

static bool is_time(double seconds) { return isfinite(seconds) && seconds > 0; }
static bool is_below(int64_t value, int64_t end) { return value >= 0 && value < end; }

static bool is_op(const struct profile_file_op *row) {
  return is_below(row->layer, LAYER_KIND_COUNT) && is_below(row->pass, PASS_COUNT) &&
         is_below(row->op, LAYER_MAX_OPS) && row->rows > 0 && row->length > 0 && is_time(row->seconds);
}
static bool is_sweep(const struct profile_file_sweep *row) {
  return is_below(row->kind, PROFILE_TIE + 1) && row->floats > 0 && is_time(row->seconds);
}
static bool is_link(const struct profile_file_link *row) {
  return row->from >= 0 && row->to >= 0 && row->from != row->to && row->bytes > 0 && is_time(row->seconds);
}
static bool is_copy(const struct profile_file_copy *row) {
  return is_below(row->kind, PROFILE_DISK_READ + 1) && row->bytes > 0 && is_time(row->seconds);
}

/* ---- tables there and back: X(name, member of the profile) ---- */

#define TABLES(X) X(op, ops) X(sweep, sweeps) X(link, links) X(copy, copies)

#define X(name, member)                                                                                                \
  static int write_##member(struct h5_file *file, const struct profile *profile) {                                     \
    struct profile_file_##name *rows = MEM_NEW(struct profile_file_##name, profile->n_##member);                       \
    for (int64_t i = 0; i < profile->n_##member; i++) rows[i] = pack_##name(&profile->member[i]);                      \
    int status = rows_write(file, &name##_table, rows, profile->n_##member);                                           \
    mem_free(rows);                                                                                                    \
    return status;                                                                                                     \
  }                                                                                                                    \
  static int read_##member(struct h5_file *file, const char *path, struct profile *profile) {                          \
    void *read = NULL;                                                                                                 \
    int64_t n;                                                                                                         \
    int status = rows_read_all(file, &name##_table, &read, &n);                                                        \
    if (status) return status;                                                                                         \
    const struct profile_file_##name *rows = read;                                                                     \
    profile->member = MEM_NEW(struct profile_##name, n);                                                               \
    profile->n_##member = n;                                                                                           \
    for (int64_t i = 0; i < n && !status; i++) {                                                                       \
      if (!is_##name(&rows[i]))                                                                                        \
        status = error_raise(STATUS_FAILED, "%s: row %lld of %s is no measurement", path, (long long)i,                \
                             name##_table.group);                                                                      \
      profile->member[i] = unpack_##name(&rows[i]);                                                                    \
    }                                                                                                                  \
    mem_free(read);                                                                                                    \
    return status;                                                                                                     \
  }
TABLES(X)
#undef X

/* ---- the file ---- */

static int write_all(struct h5_file *file, const struct profile *profile) {
  int status = h5_write_text(file, "/", "format", PROFILE_FORMAT);
  if (!status) status = h5_write_int(file, "/", "version", PROFILE_VERSION);
  if (!status) status = h5_write_text(file, "/", "device", profile->device);
  if (!status) status = h5_write_text(file, "/", "model", profile->model);
  if (!status) status = h5_write_text(file, "/", "date", profile->date);
#define X(name, member)                                                                                                \
  if (!status) status = write_##member(file, profile);
  TABLES(X)
#undef X
  if (!status && profile->op_names) status = h5_write_text(file, "/ops/op", "names", profile->op_names);
  return status;
}

int profile_file_write(const char *path, const struct profile *profile) {
  struct h5_file *file;
  int status = h5_create_packed(path, &file);
  if (status) return status;
  status = write_all(file, profile);
  if (!status) return h5_close(&file);
  h5_discard(&file);
  return status;
}

static int check_format(struct h5_file *file, const char *path) {
  char *format = NULL;
  int64_t version = 0;
  if (h5_read_text(file, "/", "format", &format))
    return error_raise(STATUS_MISTAKE, "%s is no profile: it has no attribute 'format'", path);
  int status = STATUS_OK;
  if (strcmp(format, PROFILE_FORMAT))
    status = error_raise(STATUS_MISTAKE, "%s is no profile: its format is '%s'", path, format);
  mem_free(format);
  if (status) return status;
  status = h5_read_int(file, "/", "version", &version);
  if (status) return error_raise(STATUS_FAILED, "%s", error_text());
  if (version != PROFILE_VERSION)
    status = error_raise(STATUS_FAILED, "%s is a profile of version %lld, this program reads version %d", path,
                         (long long)version, PROFILE_VERSION);
  return status;
}

static int read_all(struct h5_file *file, const char *path, struct profile *profile) {
  char *date = NULL;
  int status = h5_read_text(file, "/", "device", &profile->device);
  if (!status) status = h5_read_text(file, "/", "model", &profile->model);
  if (!status) status = h5_read_text(file, "/", "date", &date);
  if (!status) snprintf(profile->date, sizeof profile->date, "%s", date);
  mem_free(date);
#define X(name, member)                                                                                                \
  if (!status) status = read_##member(file, path, profile);
  TABLES(X)
#undef X
  return status;
}

/* Checks that the file is HDF5. Another file was never a profile; an empty one may be left by a full disk. */
static int check_kind(const char *path) {
  static const unsigned char signature[8] = "\x89HDF\r\n\x1a\n";
  unsigned char start[sizeof signature];
  FILE *file = fopen(path, "rb");
  if (!file) return error_raise(STATUS_MISTAKE, "%s: cannot be read: %s", path, limits_reason(errno));
  size_t n = fread(start, 1, sizeof start, file);
  int failure = ferror(file) ? errno : 0;
  fclose(file);
  if (failure) return error_raise(STATUS_MISTAKE, "%s: cannot be read: %s", path, limits_reason(failure));
  if (memcmp(start, signature, n)) return error_raise(STATUS_MISTAKE, "%s is no profile: it is no HDF5 file", path);
  return STATUS_OK;
}

int profile_file_read(const char *path, struct profile **profile) {
  struct h5_file *file;
  *profile = NULL;
  if (access(path, F_OK) && errno == ENOENT) return STATUS_OK;
  int status = check_kind(path);
  if (status) return status;
  if (h5_open(path, false, &file)) return error_raise(STATUS_FAILED, "%s", error_text());
  struct profile *read = MEM_NEW(struct profile, 1);
  status = check_format(file, path);
  if (!status && read_all(file, path, read)) status = error_raise(STATUS_FAILED, "%s", error_text());
  h5_discard(&file);
  if (status) profile_destroy(&read);
  *profile = read;
  return status;
}
