/* HDF5 behind h5.h: what is written comes back and is plain HDF5 for others; a writer that dies at any byte of a flush
 * leaves the old rows or the new; a disk that is full at any byte does too, and the next flush succeeds; no lock is
 * asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "scratch.h"
#include "store/disk.h"
#include "store/h5.h"
#include "t.h"

/* ---- the disk under test: writes go through here ---- */

static int64_t budget = -1; /* bytes that may still be written; -1: no limit */
static bool deadly;         /* at the limit the process dies, else the disk is full */
static int n_locks;
static bool foreign; /* HDF5's own driver is at work, which does lock */

static ssize_t write_limited(int descriptor, const void *data, size_t bytes, off_t offset) {
  if (budget >= 0 && (int64_t)bytes > budget) {
    if (budget > 0) syscall(SYS_pwrite64, descriptor, data, (size_t)budget, offset);
    if (deadly) syscall(SYS_exit_group, 9);
    budget = 0;
    errno = ENOSPC;
    return -1;
  }
  if (budget >= 0) budget -= (int64_t)bytes;
  return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
  return write_limited(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
  return write_limited(descriptor, data, bytes, offset);
}

int flock(int descriptor, int operation) {
  if (foreign) return (int)syscall(SYS_flock, descriptor, operation);
  n_locks++;
  errno = ENOLCK;
  return -1;
}

/* ---- what is written comes back ---- */

static void test_attributes(const char *path) {
  struct h5_file *file;
  char *long_text = mem_alloc(200001), *text;
  memset(long_text, 'x', 200000);
  T_CHECK(h5_create(path, &file) == STATUS_OK, "%s", error_text());
  h5_write_text(file, "/", "deck", long_text);
  h5_write_text(file, "/", "name", "first");
  T_CHECK(h5_write_text(file, "/", "name", "second") == STATUS_OK, "%s", error_text());
  h5_write_int(file, "/", "seed", INT64_MIN + 1);
  h5_write_double(file, "/", "x", 0.1);
  T_CHECK(h5_close(&file) == STATUS_OK && !file, "%s", error_text());
  T_CHECK(h5_open(path, false, &file) == STATUS_OK, "%s", error_text());
  int64_t value = 0;
  double x = 0;
  T_CHECK(!h5_read_text(file, "/", "deck", &text) && !strcmp(text, long_text), "long text");
  mem_free(text);
  T_CHECK(!h5_read_text(file, "/", "name", &text) && !strcmp(text, "second"), "an attribute is replaced");
  mem_free(text);
  T_CHECK(!h5_read_int(file, "/", "seed", &value) && value == INT64_MIN + 1, "%" PRId64, value);
  T_CHECK(!h5_read_double(file, "/", "x", &x) && x == 0.1, "%g", x);
  T_CHECK(h5_read_int(file, "/", "none", &value) == STATUS_MISTAKE && strstr(error_text(), "none"), "%s", error_text());
  T_CHECK(h5_read_text(file, "/", "seed", &text) == STATUS_MISTAKE && !text, "%s", error_text());
  h5_close(&file);
  mem_free(long_text);
}

static int count_member(void *context, const char *name) {
  (void)name;
  ++*(int *)context;
  return STATUS_OK;
}

/* A dataset as other programs write it: in chunks, checksummed, through HDF5's own driver. */
static void write_foreign(hid_t file, const char *path, hid_t type, int n_dims, const hsize_t *dims, const void *data) {
  const hsize_t chunk[2] = {64, 100};
  hid_t links = H5Pcreate(H5P_LINK_CREATE), properties = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = H5Screate_simple(n_dims, dims, NULL);
  H5Pset_create_intermediate_group(links, 1);
  if (data) H5Pset_chunk(properties, n_dims, chunk);
  if (data) H5Pset_fletcher32(properties);
  hid_t dataset = H5Dcreate2(file, path, type, space, links, properties, H5P_DEFAULT);
  T_CHECK(dataset >= 0 && (!data || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0), "%s", path);
  H5Dclose(dataset);
  H5Sclose(space);
  H5Pclose(properties);
  H5Pclose(links);
}

static void add_foreign(const char *path, const hsize_t dims[2], const float *data) {
  const hsize_t none[1] = {0};
  foreign = true;
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  T_CHECK(file >= 0, "HDF5 does not open %s", path);
  write_foreign(file, "/a/b/whole", H5T_NATIVE_FLOAT, 2, dims, data);
  write_foreign(file, "/empty", H5T_NATIVE_INT32, 1, none, NULL);
  H5Fclose(file);
  foreign = false;
}

static void test_datasets(const char *path) {
  enum { ROWS = 700, COLUMNS = 600 };
  const int64_t dims[2] = {ROWS, COLUMNS}, other[2] = {COLUMNS, ROWS};
  float *data = MEM_NEW(float, ROWS *COLUMNS), *back = MEM_NEW(float, ROWS *COLUMNS);
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = (float)i * 0.5f;
  struct h5_file *file;
  int64_t offset = 0, got[2];
  int n_dims, members = 0;
  double *wide;
  T_CHECK(!h5_create(path, &file), "%s", error_text());
  T_CHECK(!h5_reserve_dataset(file, "/a/reserved", H5_FLOAT32, 2, dims, &offset) && offset % 4096 == 0, "%s",
          error_text());
  T_CHECK(!h5_close(&file), "%s", error_text());
  int descriptor = open(path, O_WRONLY);
  T_CHECK(disk_write_at(descriptor, data, (int64_t)sizeof(float) * ROWS * COLUMNS, offset) == 0, "write by hand");
  close(descriptor);
  add_foreign(path, (const hsize_t[2]){ROWS, COLUMNS}, data);
  T_CHECK(!h5_open(path, false, &file), "%s", error_text());
  T_CHECK(!h5_read_into(file, "/a/reserved", H5_FLOAT32, 2, dims, back) &&
              !memcmp(data, back, sizeof(float) * ROWS * COLUMNS),
          "reserved dataset");
  memset(back, 0, sizeof(float) * ROWS * COLUMNS);
  T_CHECK(!h5_read_into(file, "/a/b/whole", H5_FLOAT32, 2, dims, back) &&
              !memcmp(data, back, sizeof(float) * ROWS * COLUMNS),
          "chunked dataset");
  T_CHECK(h5_read_into(file, "/a/b/whole", H5_FLOAT32, 2, other, back) == STATUS_MISTAKE &&
              strstr(error_text(), "700 x 600") && strstr(error_text(), "600 x 700"),
          "%s", error_text());
  T_CHECK(!h5_read_dataset(file, "/a/b/whole", H5_FLOAT64, 2, &n_dims, got, (void **)&wide) && n_dims == 2 &&
              got[0] == ROWS && got[1] == COLUMNS && wide[ROWS * COLUMNS - 1] == (double)data[ROWS * COLUMNS - 1],
          "converted");
  mem_free(wide);
  T_CHECK(!h5_read_dataset(file, "/empty", H5_INT32, 1, &n_dims, got, (void **)&wide) && got[0] == 0 && !wide, "empty");
  T_CHECK(h5_read_into(file, "/a/none/x", H5_FLOAT32, 2, dims, back) == STATUS_MISTAKE, "%s", error_text());
  T_CHECK(h5_has(file, "/a/b/whole") && !h5_has(file, "/a/c/whole") && h5_has(file, "/"), "has");
  T_CHECK(!h5_list(file, "/a", count_member, &members) && members == 2, "%d", members);
  h5_close(&file);
  mem_free(data);
  mem_free(back);
}

static const char *const color_names[] = {"red", "green", NULL};
static const struct h5_column columns[] = {
    {"step", H5_INT32, NULL, NULL},
    {"color", H5_INT8, NULL, color_names},
    {"bytes", H5_INT64, "byte", NULL},
    {"start", H5_FLOAT64, "s", NULL},
};
enum { N_COLUMNS = 4 };

/* Rows first..first+n-1 of the test's table: all columns follow from the row's number. */
static int append_rows(struct h5_file *file, int64_t first, int64_t n) {
  int32_t *step = MEM_NEW(int32_t, n);
  int8_t *color = MEM_NEW(int8_t, n);
  int64_t *bytes = MEM_NEW(int64_t, n);
  double *start = MEM_NEW(double, n);
  for (int64_t i = 0; i < n; i++) {
    step[i] = (int32_t)(first + i);
    color[i] = (int8_t)((first + i) % 2);
    bytes[i] = (first + i) * 3000000000;
    start[i] = (double)(first + i) / 3;
  }
  int status = h5_table_append(file, "/t", columns, N_COLUMNS, n, (const void *const[]){step, color, bytes, start});
  mem_free(step);
  mem_free(color);
  mem_free(bytes);
  mem_free(start);
  return status;
}

/* Number of rows of the table, all of them right; -1 when something is wrong. */
static int64_t check_rows(struct h5_file *file) {
  int64_t n, other, wrong = 0;
  if (h5_table_get_rows(file, "/t", "step", &n)) return -1;
  for (int c = 0; c < N_COLUMNS; c++)
    if (h5_table_get_rows(file, "/t", columns[c].name, &other) || other != n) return -1;
  int32_t *step = MEM_NEW(int32_t, n + 1);
  int8_t *color = MEM_NEW(int8_t, n + 1);
  int64_t *bytes = MEM_NEW(int64_t, n + 1);
  double *start = MEM_NEW(double, n + 1);
  wrong += h5_table_read(file, "/t", "step", H5_INT32, 0, n, step) != STATUS_OK;
  wrong += h5_table_read(file, "/t", "color", H5_INT8, 0, n, color) != STATUS_OK;
  wrong += h5_table_read(file, "/t", "bytes", H5_INT64, 0, n, bytes) != STATUS_OK;
  wrong += h5_table_read(file, "/t", "start", H5_FLOAT64, 0, n, start) != STATUS_OK;
  for (int64_t i = 0; i < n && !wrong; i++)
    wrong += step[i] != i || color[i] != i % 2 || bytes[i] != i * 3000000000 || start[i] != (double)i / 3;
  mem_free(step);
  mem_free(color);
  mem_free(bytes);
  mem_free(start);
  return wrong ? -1 : n;
}

static void test_table(const char *path) {
  struct h5_file *file;
  int64_t some[3];
  T_CHECK(!h5_create(path, &file), "%s", error_text());
  T_CHECK(!h5_table_create(file, "/t", columns, N_COLUMNS), "%s", error_text());
  T_CHECK(!append_rows(file, 0, 10000) && !append_rows(file, 10000, 1) && !append_rows(file, 10001, 20000), "%s",
          error_text());
  T_CHECK(check_rows(file) == 30001, "rows before the flush");
  T_CHECK(!h5_close(&file), "%s", error_text());
  T_CHECK(!h5_open(path, true, &file) && check_rows(file) == 30001, "rows after reopening: %s", error_text());
  T_CHECK(!h5_table_truncate(file, "/t", columns, N_COLUMNS, 9000) && check_rows(file) == 9000, "truncated");
  T_CHECK(!append_rows(file, 9000, 5) && !h5_close(&file), "%s", error_text());
  T_CHECK(!h5_open(path, false, &file) && check_rows(file) == 9005, "%s", error_text());
  T_CHECK(!h5_table_read(file, "/t", "bytes", H5_INT64, 9002, 3, some) && some[2] == 9004 * 3000000000, "slice");
  T_CHECK(h5_table_read(file, "/t", "bytes", H5_INT64, 9004, 2, some) == STATUS_FAILED, "beyond the end");
  T_CHECK(h5_table_append(file, "/none", columns, N_COLUMNS, 1, (const void *const[]){some, some, some, some}),
          "no table");
  h5_close(&file);
}

/* The library's own driver reads our files, with checksums, enum and unit. */
static void test_foreign_reader(const char *path) {
  foreign = true;
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  T_CHECK(file >= 0, "default driver");
  hid_t dataset = H5Dopen2(file, "/t/color", H5P_DEFAULT), type = H5Dget_type(dataset),
        properties = H5Dget_create_plist(dataset);
  char name[16];
  int8_t one = 1;
  T_CHECK(H5Tget_class(type) == H5T_ENUM && H5Tenum_nameof(type, &one, name, sizeof name) >= 0 &&
              !strcmp(name, "green"),
          "enum");
  T_CHECK(H5Pall_filters_avail(properties) > 0 && H5Pget_nfilters(properties) == 3, "packed and checksummed");
  T_CHECK(H5Aexists_by_name(file, "/t/start", "unit", H5P_DEFAULT) > 0, "unit");
  H5Pclose(properties);
  H5Tclose(type);
  H5Dclose(dataset);
  H5Fclose(file);
  foreign = false;
}

static void test_refusals(const char *folder) {
  struct h5_file *file;
  char *path = mem_format("%s/text.h5", folder), *none = mem_format("%s/none/x.h5", folder);
  disk_write_text(path, "this is no HDF5 file");
  T_CHECK(h5_open(path, false, &file) == STATUS_MISTAKE && strstr(error_text(), path), "%s", error_text());
  T_CHECK(h5_open(none, false, &file) == STATUS_MISTAKE && strstr(error_text(), none), "%s", error_text());
  T_CHECK(h5_open(folder, false, &file) == STATUS_MISTAKE && !file && strstr(error_text(), "folder"), "a folder");
  T_CHECK(!h5_create(none, &file) && h5_close(&file) == STATUS_FAILED && strstr(error_text(), "No such file"), "%s",
          error_text());
  T_CHECK(!h5_create(path, &file), "%s", error_text());
  h5_discard(&file);
  char *text;
  T_CHECK(!disk_read_text(path, &text) && !strcmp(text, "this is no HDF5 file"), "a discarded file leaves the old one");
  mem_free(text);
  mem_free(path);
  mem_free(none);
}

/* A pipe, a device or a folder never gives way to a file; a link to a file stays one. */
static void test_targets(const char *folder) {
  char *pipe = mem_format("%s/pipe", folder), *below = mem_format("%s/below", folder), *text,
       *link = mem_format("%s/link", folder), *real = mem_format("%s/real", folder);
  const char *targets[] = {pipe, below};
  struct h5_file *file;
  struct stat status;
  T_CHECK(!mkfifo(pipe, 0600) && !mkdir(below, 0700) && !symlink("real", link), "%s", folder);
  for (int i = 0; i < 2; i++) {
    T_CHECK(disk_write_text(targets[i], "x") == STATUS_MISTAKE && strstr(error_text(), targets[i]), "%s", error_text());
    T_CHECK(disk_check_writable(targets[i]) == STATUS_MISTAKE, "%s", targets[i]);
    T_CHECK(!h5_create(targets[i], &file) && h5_close(&file) == STATUS_MISTAKE, "%s", error_text());
    T_CHECK(!stat(targets[i], &status) && (i ? S_ISDIR(status.st_mode) : S_ISFIFO(status.st_mode)), "it stays");
  }
  T_CHECK(!disk_write_text(real, "old") && !disk_check_writable(link) && !disk_write_text(link, "new"), "%s",
          error_text());
  T_CHECK(!lstat(link, &status) && S_ISLNK(status.st_mode), "the link stays");
  T_CHECK(!disk_read_text(real, &text) && !strcmp(text, "new"), "what it links to is written");
  mem_free(text);
  mem_free(pipe);
  mem_free(below);
  mem_free(link);
  mem_free(real);
}

/* ---- death and full disks ---- */

enum { OLD_ROWS = 9000, NEW_ROWS = 3000 };

static void make_old(const char *path) {
  struct h5_file *file;
  T_CHECK(!h5_create(path, &file) && !h5_table_create(file, "/t", columns, N_COLUMNS) &&
              !append_rows(file, 0, OLD_ROWS) && !h5_close(&file),
          "%s", error_text());
}

/* Bytes that a flush of the new rows writes. */
static int64_t measure_flush(const char *path) {
  struct h5_file *file;
  make_old(path);
  T_CHECK(!h5_open(path, true, &file) && !append_rows(file, OLD_ROWS, NEW_ROWS), "%s", error_text());
  budget = INT64_MAX;
  T_CHECK(!h5_flush(file), "%s", error_text());
  int64_t bytes = INT64_MAX - budget;
  budget = -1;
  h5_close(&file);
  return bytes;
}

static void append_and_die(const char *path, int64_t at) {
  struct h5_file *file;
  deadly = true;
  budget = -1;
  if (h5_open(path, true, &file) || append_rows(file, OLD_ROWS, NEW_ROWS)) _exit(1);
  budget = at;
  h5_flush(file);
  _exit(9);
}

static void test_death(const char *path, int64_t flush_bytes) {
  int n_old = 0, n_new = 0;
  for (int i = 0; i <= 40; i++) {
    int64_t at = i == 40 ? flush_bytes : flush_bytes * i / 40 + (i * 7919) % 977;
    make_old(path);
    pid_t child = fork();
    if (child == 0) append_and_die(path, at);
    int code = 0;
    waitpid(child, &code, 0);
    T_CHECK(WIFEXITED(code) && WEXITSTATUS(code) == 9, "the writer ended with %x", code);
    struct h5_file *file;
    int64_t before = -2, after = -3;
    T_CHECK(!h5_open(path, false, &file) && ((before = check_rows(file)) == OLD_ROWS || before == OLD_ROWS + NEW_ROWS),
            "killed at byte %" PRId64 ": %" PRId64 " rows: %s", at, before, error_text());
    h5_close(&file);
    /* A writer goes on from there, and then any reader of HDF5 is served. */
    T_CHECK(!h5_open(path, true, &file) && (after = check_rows(file)) == before, "%" PRId64 " rows, then %" PRId64,
            before, after);
    T_CHECK(!append_rows(file, after, 10) && !h5_close(&file), "%s", error_text());
    T_CHECK(!h5_open(path, false, &file) && check_rows(file) == after + 10, "appended after %" PRId64 " rows", after);
    h5_close(&file);
    char *journal = mem_format("%s.journal", path);
    T_CHECK(access(journal, F_OK) != 0, "a journal is left");
    mem_free(journal);
    before == OLD_ROWS ? n_old++ : n_new++;
  }
  T_CHECK(n_old > 5 && n_new > 5, "%d times the old rows, %d times the new", n_old, n_new);
}

/* A reader reads what was there when it opened the file, whatever others commit meanwhile. */
static void test_reader(const char *path) {
  struct h5_file *file, *reader;
  make_old(path);
  T_CHECK(!h5_open(path, false, &reader), "%s", error_text());
  T_CHECK(!h5_open(path, true, &file) && !append_rows(file, OLD_ROWS, NEW_ROWS) && !h5_close(&file), "%s",
          error_text());
  T_CHECK(check_rows(reader) == OLD_ROWS, "not the rows of when it was opened: %s", error_text());
  h5_close(&reader);
  T_CHECK(!h5_open(path, false, &reader) && check_rows(reader) == OLD_ROWS + NEW_ROWS, "%s", error_text());
  h5_close(&reader);
}

static void test_full_disk(const char *path, int64_t flush_bytes) {
  deadly = false;
  for (int i = 0; i < 20; i++) {
    struct h5_file *file, *reader;
    int64_t at = flush_bytes * i / 20, rows = -1;
    make_old(path);
    T_CHECK(!h5_open(path, true, &file) && !append_rows(file, OLD_ROWS, NEW_ROWS), "%s", error_text());
    budget = at;
    T_CHECK(h5_flush(file) == STATUS_FAILED && strstr(error_text(), "No space left") && strstr(error_text(), " free"),
            "full at byte %" PRId64 " of %" PRId64 ": %s", at, flush_bytes, error_text());
    budget = -1;
    T_CHECK(!h5_open(path, false, &reader) && ((rows = check_rows(reader)) == OLD_ROWS || rows == OLD_ROWS + NEW_ROWS),
            "full at byte %" PRId64 ": %" PRId64 " rows", at, rows);
    h5_close(&reader);
    T_CHECK(!h5_flush(file) && !h5_close(&file), "with room again: %s", error_text());
    T_CHECK(!h5_open(path, false, &reader) && check_rows(reader) == OLD_ROWS + NEW_ROWS, "%s", error_text());
    h5_close(&reader);
  }
}

int main(void) {
  const char *folder = scratch_make();
  char *path = mem_format("%s/x.h5", folder);
  test_attributes(path);
  test_datasets(path);
  test_table(path);
  test_foreign_reader(path);
  test_refusals(folder);
  test_targets(folder);
  int64_t flush_bytes = measure_flush(path);
  T_CHECK(flush_bytes > 200000, "%" PRId64 " bytes of a flush", flush_bytes);
  test_death(path, flush_bytes);
  test_reader(path);
  test_full_disk(path, flush_bytes);
  T_CHECK(n_locks == 0, "%d locks asked for", n_locks);
  T_CHECK(h5_balance() == 0, "%" PRId64 " HDF5 objects open", h5_balance());
  scratch_remove();
  mem_free(path);
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations live", mem_balance());
  return t_end();
}
