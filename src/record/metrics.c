/* metrics.csv and metrics.jsonl of a run folder (rundir.h): the rows of both from one table of columns. */
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
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/rundir_impl.h"
#include "store/disk.h"

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
enum { N_COLUMNS = sizeof columns / sizeof *columns, LINE_BYTES = 1024, MOST_NUMBER = 40 };

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

/* A column of a row as text; "" when it has no number. */
static void format_field(const struct metrics_row *row, int column, char text[MOST_NUMBER]) {
  const char *field = (const char *)row + columns[column].offset;
  if (columns[column].kind == INTEGER)
    snprintf(text, MOST_NUMBER, "%" PRId64, *(const int64_t *)field);
  else
    format_real(*(const double *)field, text, MOST_NUMBER);
}

static void format_row(const struct metrics_row *row, char *text, size_t size) {
  size_t at = 0;
  for (int c = 0; c < N_COLUMNS; c++) {
    char number[MOST_NUMBER];
    format_field(row, c, number);
    at += (size_t)snprintf(text + at, size - at, "%s%s", c ? "," : "", number);
  }
  snprintf(text + at, size - at, "\n");
}

/* Formats a row as a JSON object. A value that is no number, or infinite (JSON has no word for it), is left out. */
static void format_object(const struct metrics_row *row, char *text, size_t size) {
  size_t at = 0;
  for (int c = 0; c < N_COLUMNS; c++) {
    char number[MOST_NUMBER];
    format_field(row, c, number);
    if (!number[strspn(number, "-")] || strpbrk(number, "nN")) continue;
    at += (size_t)snprintf(text + at, size - at, "%s\"%s\": %s", at ? ", " : "{", columns[c].name, number);
  }
  snprintf(text + at, size - at, "}\n");
}

/* ---- lines of a file that others may have edited ---- */

struct line {
  const char *text; /* not terminated */
  size_t bytes;     /* without "\n" or "\r\n" */
  size_t end_bytes; /* of that; 0: the file ends without */
};

/* Takes the next line off *rest; false at the end. */
static bool take_line(const char **rest, struct line *line) {
  const char *text = *rest;
  if (!*text) return false;
  size_t bytes = strcspn(text, "\n"), ends = text[bytes] == '\n';
  *rest = text + bytes + ends;
  bool returns = bytes > 0 && text[bytes - 1] == '\r';
  *line = (struct line){text, bytes - returns, ends ? ends + returns : 0};
  return true;
}

static bool is_comment(const struct line *line) {
  size_t i = 0;
  while (i < line->bytes && (line->text[i] == ' ' || line->text[i] == '\t')) i++;
  return i == line->bytes || line->text[i] == '#';
}

static int count_fields(const struct line *line) {
  int n = 1;
  for (size_t i = 0; i < line->bytes; i++) n += line->text[i] == ',';
  return n;
}

/* The number in the first field; false when that is none. */
static bool get_step(const struct line *line, int64_t *step) {
  char *end;
  if (line->bytes == 0 || line->text[0] < '0' || line->text[0] > '9') return false;
  *step = strtoll(line->text, &end, 10);
  return end <= line->text + line->bytes && (end == line->text + line->bytes || *end == ',');
}

/* One field; an empty one is no number. */
static bool parse_field(const char *text, const char *end, enum column_kind kind, void *field) {
  while (end > text && end[-1] == ' ') end--;
  char *stop = (char *)text;
  if (kind == INTEGER)
    *(int64_t *)field = text < end ? strtoll(text, &stop, 10) : 0;
  else
    *(double *)field = text < end ? strtod(text, &stop) : NAN;
  return stop == end;
}

/* Fields beyond ours are of a newer program, those that lack at the end of an older one. */
static bool parse_row(const struct line *line, struct metrics_row *row) {
  const char *at = line->text, *end = at + line->bytes;
  int64_t step;
  if (!get_step(line, &step) || count_fields(line) < 2) return false;
  for (int c = 0; c < N_COLUMNS; c++) {
    const char *comma = at <= end ? memchr(at, ',', (size_t)(end - at)) : NULL, *stop = comma ? comma : end;
    if (!parse_field(at <= end ? at : end, stop, columns[c].kind, (char *)row + columns[c].offset)) return false;
    at = stop + 1;
  }
  return true;
}

/* The number of our columns that the line names, all or the first of them; 0: it is no header of ours. */
static int match_header(const struct line *line) {
  const char *at = line->text, *end = at + line->bytes;
  int c = 0;
  for (; c < N_COLUMNS && at < end; c++) {
    size_t bytes = strlen(columns[c].name);
    if ((size_t)(end - at) < bytes || memcmp(at, columns[c].name, bytes)) return 0;
    at += bytes;
    if (at < end && *at++ != ',') return 0;
  }
  return c < 2 ? 0 : c;
}

static const char *skip_mark(const char *text) { return strncmp(text, "\xef\xbb\xbf", 3) ? text : text + 3; }

/* Finds the header: *line, with *rest behind it. *n_named: our columns in it, 0 when the file has no line that counts.
 */
static int find_header(const char *path, const char *text, struct line *line, const char **rest, int *n_named) {
  *rest = skip_mark(text);
  *n_named = 0;
  while (take_line(rest, line))
    if (!is_comment(line)) {
      *n_named = match_header(line);
      if (*n_named) return STATUS_OK;
      return error_raise(STATUS_MISTAKE, "%s does not begin with the columns of this program; move it away", path);
    }
  return STATUS_OK;
}

int metrics_read(const char *path, struct metrics_row **rows, int64_t *n) {
  char *text;
  const char *rest;
  struct line line;
  int n_named;
  *rows = NULL;
  *n = 0;
  int status = disk_read_text(path, &text);
  if (status) return status;
  if (!text) return error_raise(STATUS_MISTAKE, "there is no %s", path);
  status = find_header(path, text, &line, &rest, &n_named);
  int n_fields = n_named ? count_fields(&line) : 0;
  while (!status && n_named && take_line(&rest, &line)) {
    struct metrics_row row;
    bool is_cut = line.end_bytes == 0 && count_fields(&line) < n_fields;
    if (is_cut || !parse_row(&line, &row)) continue;
    *rows = mem_resize(*rows, sizeof row * (size_t)(*n + 1));
    (*rows)[(*n)++] = row;
  }
  mem_free(text);
  return status;
}

/* ---- cutting it back ---- */

/* A text that grows; `room` is enough for all that is added. */
struct kept {
  char *text;
  size_t bytes;
};

static void keep(struct kept *kept, const char *text, size_t bytes) {
  memcpy(kept->text + kept->bytes, text, bytes);
  kept->bytes += bytes;
}

/* A line as it is, with `more` before its end; a last line gets the end that it lacks. */
static void keep_line(struct kept *kept, const struct line *line, const char *more) {
  keep(kept, line->text, line->bytes);
  keep(kept, more, strlen(more));
  if (line->end_bytes)
    keep(kept, line->text + line->bytes, line->end_bytes);
  else
    keep(kept, "\n", 1);
}

/* Room for a file to which every line may get all our columns. */
static struct kept make_kept(const char *text) {
  size_t lines = 2;
  for (const char *at = text; *at; at++) lines += *at == '\n';
  return (struct kept){.text = mem_alloc(strlen(text) + lines * (LINE_BYTES + 1))};
}

static void warn_odd(const char *path, const struct line *odd, int64_t n) {
  if (n == 0) return;
  int bytes = odd->bytes < 40 ? (int)odd->bytes : 40;
  log_warn("%s: what is no row of this program stays as it is: %" PRId64 " line%s, the last \"%.*s\"", path, n,
           n == 1 ? "" : "s", bytes, odd->text);
}

/* Chooses which lines behind the header stay: only rows of later steps go. Columns that the file did not have yet are
 * added, empty, to the rows that have all of its own. */
static void keep_rows(const char *path, const char *rest, int64_t last_step, int n_fields, const char *commas,
                      struct kept *kept) {
  struct line line, odd = {0};
  int64_t n_odd = 0, step;
  while (take_line(&rest, &line)) {
    struct metrics_row row;
    if (get_step(&line, &step) && step > last_step) continue;
    bool is_row = parse_row(&line, &row) && (line.end_bytes || count_fields(&line) >= n_fields);
    keep_line(kept, &line, is_row && count_fields(&line) == n_fields ? commas : "");
    if (is_row || is_comment(&line)) continue;
    odd = line;
    n_odd++;
  }
  warn_odd(path, &odd, n_odd);
}

/* The content with which the file goes on after last_step; owned by the caller. */
static int cut(const char *path, const char *text, int64_t last_step, struct kept *kept) {
  struct line line;
  const char *rest;
  char names[LINE_BYTES] = "", commas[N_COLUMNS + 1] = "";
  int n_named;
  *kept = (struct kept){0};
  int status = find_header(path, text, &line, &rest, &n_named);
  if (status) return status;
  *kept = make_kept(text);
  for (int c = n_named; n_named && c < N_COLUMNS; c++) {
    strcat(strcat(names, ","), columns[c].name);
    strcat(commas, ",");
  }
  if (n_named == 0) { /* comments at most */
    for (rest = text; take_line(&rest, &line);) keep_line(kept, &line, "");
    format_header(names, sizeof names);
    keep(kept, names, strlen(names));
    return STATUS_OK;
  }
  keep(kept, text, (size_t)(line.text - text));
  keep_line(kept, &line, names);
  keep_rows(path, rest, last_step, count_fields(&line), commas, kept);
  return STATUS_OK;
}

/* Gives the file its content: most often only its end goes, which needs no room on the disk. */
static int put_content(const char *path, const char *old, struct kept *kept) {
  size_t bytes = strlen(old);
  if (bytes >= kept->bytes && !memcmp(old, kept->text, kept->bytes))
    return bytes == kept->bytes || !truncate(path, (off_t)kept->bytes)
               ? STATUS_OK
               : disk_raise_write(path, errno, (int64_t)kept->bytes);
  kept->text[kept->bytes] = '\0';
  return disk_write_text(path, kept->text);
}

/* Text behind a zero byte cannot be read (a file system that lost power leaves such); the file is kept under another
 * name. */
static int keep_unreadable(const char *path, const char *text) {
  struct stat found;
  char *kept = NULL;
  if (stat(path, &found) || found.st_size == (off_t)strlen(text)) return STATUS_OK;
  int status = disk_put_aside(path, &kept);
  if (!status) log_warn("%s has zero bytes: what stands before them goes on, the whole file is now %s", path, kept);
  mem_free(kept);
  return status ? status : disk_write_text(path, text);
}

static int open_table(struct rundir *dir, int64_t last_step) {
  const char *path = dir->metrics_path;
  char header[LINE_BYTES], *text;
  struct kept kept = {0};
  int status = disk_read_text(path, &text), failure = 0;
  if (status) return status;
  /* Before anything is changed: a file that may not be written is not to be replaced by one that may. */
  dir->metrics = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (dir->metrics < 0) failure = errno;
  if (!failure && !text) {
    format_header(header, sizeof header);
    failure = disk_write_at(dir->metrics, header, (int64_t)strlen(header), 0);
  }
  if (failure) status = disk_raise_write(path, failure, LINE_BYTES);
  if (!status && text) status = keep_unreadable(path, text);
  if (!status && text) status = cut(path, text, last_step, &kept);
  if (!status && text) status = put_content(path, text, &kept);
  mem_free(kept.text);
  mem_free(text);
  if (status || dir->metrics < 0) return status;
  close(dir->metrics); /* it may be another file now */
  dir->metrics = open(path, O_RDWR | O_CLOEXEC);
  return dir->metrics < 0 ? disk_raise_write(path, errno, LINE_BYTES) : STATUS_OK;
}

/* Whole, or not at all: a row would continue half a line. */
static int append_line(int descriptor, const char *path, const char *line) {
  struct stat status;
  int64_t bytes = (int64_t)strlen(line);
  int failure = fstat(descriptor, &status) ? errno : 0;
  if (!failure) failure = disk_write_at(descriptor, line, bytes, status.st_size);
  if (!failure) return STATUS_OK;
  if (ftruncate(descriptor, status.st_size)) log_warn("%s: %s", path, limits_reason(errno));
  return disk_raise_write(path, failure, bytes);
}

static int append_object(const struct rundir *dir, const struct metrics_row *row) {
  char line[LINE_BYTES];
  format_object(row, line, sizeof line);
  return append_line(dir->json, dir->json_path, line);
}

/* Rows that metrics.csv has beyond the last of metrics.jsonl (of a run that began without that file) are added. */
static int open_objects(struct rundir *dir, int64_t last_step) {
  struct metrics_row *rows = NULL;
  int64_t n = 0, last;
  int status = metrics_json_cut(dir->json_path, last_step, &last);
  if (status) return status;
  dir->json = open(dir->json_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (dir->json < 0) return disk_raise_write(dir->json_path, errno, LINE_BYTES);
  status = metrics_read(dir->metrics_path, &rows, &n);
  for (int64_t i = 0; i < n && !status; i++)
    if (rows[i].step > last) status = append_object(dir, &rows[i]);
  mem_free(rows);
  return status;
}

int metrics_open(struct rundir *dir, int64_t last_step) {
  int status = open_table(dir, last_step);
  return status ? status : open_objects(dir, last_step);
}

int metrics_append(struct rundir *dir, const struct metrics_row *row) {
  char line[LINE_BYTES];
  format_row(row, line, sizeof line);
  int status = append_line(dir->metrics, dir->metrics_path, line);
  return status ? status : append_object(dir, row);
}
