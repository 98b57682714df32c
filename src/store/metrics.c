/* metrics.csv of a run folder (rundir.h). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/disk.h"
#include "store/rundir_impl.h"

/* The columns in their order; new ones are added at the end. Type: int64_t or double. */
#define METRICS_COLUMNS(X)                                                                                             \
  X(step, INTEGER)                                                                                                     \
  X(loss, REAL)                                                                                                        \
  X(tokens, INTEGER)                                                                                                   \
  X(lr, REAL)                                                                                                          \
  X(grad_norm, REAL)                                                                                                   \
  X(step_ms, REAL)                                                                                                     \
  X(tokens_per_s, REAL)                                                                                                \
  X(tflops, REAL)                                                                                                      \
  X(validation_loss, REAL)

enum column_kind { INTEGER, REAL };
static const struct {
  const char *name;
  enum column_kind kind;
  size_t offset;
} columns[] = {
#define X(name, kind) {#name, kind, offsetof(struct metrics_row, name)},
    METRICS_COLUMNS(X)
#undef X
};
enum { N_COLUMNS = sizeof columns / sizeof *columns, LINE_BYTES = 512 };

static void format_header(char *text, size_t size) {
  size_t at = 0;
  for (int c = 0; c < N_COLUMNS; c++)
    at += (size_t)snprintf(text + at, size - at, "%s%s", c ? "," : "", columns[c].name);
  snprintf(text + at, size - at, "\n");
}

/* The shortest text that reads back as the same number. */
static void format_real(double value, char *text, size_t size) {
  text[0] = '\0';
  if (isnan(value)) return;
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, size, "%.*g", digits, value);
    if (strtod(text, NULL) == value) return;
  }
}

static void format_row(const struct metrics_row *row, char *text, size_t size) {
  size_t at = 0;
  for (int c = 0; c < N_COLUMNS; c++) {
    const char *field = (const char *)row + columns[c].offset;
    char number[40];
    if (columns[c].kind == INTEGER)
      snprintf(number, sizeof number, "%" PRId64, *(const int64_t *)field);
    else
      format_real(*(const double *)field, number, sizeof number);
    at += (size_t)snprintf(text + at, size - at, "%s%s", c ? "," : "", number);
  }
  snprintf(text + at, size - at, "\n");
}

/* A line without its newline; false when it is no row. Fields beyond ours are of a newer program. */
static bool parse_row(const char *line, struct metrics_row *row) {
  for (int c = 0; c < N_COLUMNS; c++) {
    char *field = (char *)row + columns[c].offset, *end;
    bool empty = *line == ',' || *line == '\0';
    if (columns[c].kind == INTEGER)
      *(int64_t *)field = strtoll(line, &end, 10);
    else
      *(double *)field = empty ? NAN : strtod(line, &end);
    if (empty && columns[c].kind == REAL) end = (char *)line;
    if (columns[c].kind == INTEGER && end == line) return false;
    if (*end != (c + 1 < N_COLUMNS ? ',' : '\0') && !(c + 1 == N_COLUMNS && *end == ',')) return false;
    line = end + 1;
  }
  return true;
}

/* The whole file as rows; *good_bytes is where what can be used ends: before the first broken line, or the first row
 * beyond last_step. */
static int parse_file(const char *path, char *text, int64_t last_step, struct metrics_row **rows, int64_t *n,
                      int64_t *good_bytes) {
  char header[LINE_BYTES];
  format_header(header, sizeof header);
  *rows = NULL;
  *n = *good_bytes = 0;
  if (!*text) return STATUS_OK;
  char *line = strchr(text, '\n');
  if (!line) return STATUS_OK;
  if (strncmp(text, header, strlen(header) - 1))
    return error_raise(STATUS_MISTAKE, "%s does not begin with the columns of this program; move it away", path);
  *good_bytes = ++line - text;
  for (char *end = strchr(line, '\n'); end; end = strchr(line, '\n')) {
    struct metrics_row row;
    *end = '\0';
    if (!parse_row(line, &row) || row.step > last_step) break;
    *rows = mem_resize(*rows, sizeof row * (size_t)(*n + 1));
    (*rows)[(*n)++] = row;
    line = end + 1;
    *good_bytes = line - text;
  }
  return STATUS_OK;
}

int metrics_read(const char *path, struct metrics_row **rows, int64_t *n) {
  char *text;
  int64_t good_bytes;
  *rows = NULL;
  *n = 0;
  int status = disk_read_text(path, &text);
  if (status) return status;
  if (!text) return error_raise(STATUS_MISTAKE, "there is no %s", path);
  status = parse_file(path, text, INT64_MAX, rows, n, &good_bytes);
  mem_free(text);
  return status;
}

/* Cuts the file at its end of use, or begins it. Returns 0 or errno. */
static int prepare(int descriptor, int64_t good_bytes) {
  char header[LINE_BYTES];
  format_header(header, sizeof header);
  if (ftruncate(descriptor, (off_t)good_bytes)) return errno;
  if (good_bytes > 0) return 0;
  return disk_write_at(descriptor, header, (int64_t)strlen(header), 0);
}

int metrics_open(struct rundir *dir, int64_t last_step) {
  char *text;
  struct metrics_row *rows = NULL;
  int64_t n, good_bytes = 0;
  int status = disk_read_text(dir->metrics_path, &text);
  if (!status && text) status = parse_file(dir->metrics_path, text, last_step, &rows, &n, &good_bytes);
  mem_free(rows);
  mem_free(text);
  if (status) return status;
  dir->metrics = open(dir->metrics_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  int failure = dir->metrics < 0 ? errno : prepare(dir->metrics, good_bytes);
  return failure ? disk_raise_write(dir->metrics_path, failure, LINE_BYTES) : STATUS_OK;
}

int metrics_append(struct rundir *dir, const struct metrics_row *row) {
  char line[LINE_BYTES];
  format_row(row, line, sizeof line);
  rundir_beat(dir);
  struct stat status;
  int failure = fstat(dir->metrics, &status) ? errno : 0;
  if (!failure) failure = disk_write_at(dir->metrics, line, (int64_t)strlen(line), status.st_size);
  if (!failure) return STATUS_OK;
  /* No half line: the next row would continue it. */
  if (ftruncate(dir->metrics, status.st_size)) log_warn("%s: %s", dir->metrics_path, strerror(errno));
  return disk_raise_write(dir->metrics_path, failure, (int64_t)strlen(line));
}
