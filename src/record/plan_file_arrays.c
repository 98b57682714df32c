/* Group /plan of plan.h5: the plan's sizes as attributes and its arrays as tables, by the lists of plan.h. */
#include "record/plan_file_arrays.h"

#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/plan.h"
#include "store/rows.h"

#define TYPE(row, member)                                                                                              \
  _Generic(((struct row *)0)->member, int32_t : H5_INT32, uint32_t : H5_INT32, int64_t : H5_INT64)
#define FIELD(row, member) {{#member, TYPE(row, member), NULL, NULL}, offsetof(struct row, member), false},
#define X(member, count, fields, since) static const struct rows_column member##_columns[] = {fields(FIELD)};
PLAN_ARRAYS(X)
#undef X

enum array {
#define X(member, count, fields, since) ARRAY_##member,
  PLAN_ARRAYS(X)
#undef X
};

static const struct rows_table tables[] = {
#define X(member, count, fields, since)                                                                                \
  [ARRAY_##member] = {"/plan/" #member, member##_columns, (int)(sizeof member##_columns / sizeof *member##_columns),   \
                      sizeof *((struct plan *)0)->member},
    PLAN_ARRAYS(X)
#undef X
};

static int write_array(struct h5_file *file, enum array array, const void *elements, int64_t n) {
  return n > 0 ? rows_write(file, &tables[array], elements, n) : STATUS_OK;
}

/* A table that has other rows than the sizes say is refused before memory is taken for them. */
static int check_array(struct h5_file *file, enum array array, int64_t n) {
  int64_t n_rows = 0;
  int status = n > 0 ? rows_count(file, &tables[array], &n_rows) : STATUS_OK;
  if (status || n_rows == n) return status;
  return error_raise(STATUS_MISTAKE, "%s has %lld rows, should have %lld", tables[array].group, (long long)n_rows,
                     (long long)n);
}

static int check_arrays(struct h5_file *file, int32_t version, const struct plan *p) {
  int status = STATUS_OK;
#define X(member, count, fields, since)                                                                                \
  if (!status && version >= since) status = check_array(file, ARRAY_##member, count);
  PLAN_ARRAYS(X)
#undef X
  return status;
}

static int read_arrays(struct h5_file *file, int32_t version, struct plan *p) {
  int status = STATUS_OK;
#define X(member, count, fields, since)                                                                                \
  if (!status && version >= since) status = rows_read(file, &tables[ARRAY_##member], 0, count, p->member);
  PLAN_ARRAYS(X)
#undef X
  return status;
}

int plan_file_write_plan(struct h5_file *file, const struct plan *p) {
  int status = STATUS_OK;
#define X(member, count, fields, since)                                                                                \
  if (!status) status = write_array(file, ARRAY_##member, p->member, count);
  PLAN_ARRAYS(X)
#undef X
#define X(size, since)                                                                                                 \
  if (!status) status = h5_write_int(file, "/plan", #size, p->size);
  PLAN_SIZES(X)
#undef X
  return status;
}

/* A size that the file gives, as wide as the plan's member. */
#define READ_SIZE(size, since)                                                                                         \
  if (!status && version >= since) {                                                                                   \
    int64_t value = 0;                                                                                                 \
    status = h5_read_int(file, "/plan", #size, &value);                                                                \
    p->size = (__typeof__(p->size))value;                                                                              \
    if (!status && p->size != value) status = error_raise(STATUS_MISTAKE, "%s is %lld", #size, (long long)value);      \
  }

static int read_sizes(struct h5_file *file, int32_t version, struct plan *p) {
  int status = STATUS_OK;
  PLAN_SIZES(READ_SIZE)
  return status ? status : plan_check_sizes(p);
}

int plan_file_read_plan(struct h5_file *file, int32_t version, struct plan **plan) {
  struct plan *made = MEM_NEW(struct plan, 1);
  *plan = NULL;
  int status = read_sizes(file, version, made);
  if (!status) status = check_arrays(file, version, made);
  if (!status) {
    plan_allocate(made);
    status = read_arrays(file, version, made);
  }
  if (!status) status = plan_check_offsets(made);
  if (status)
    plan_destroy(&made);
  else
    *plan = made;
  return status;
}
