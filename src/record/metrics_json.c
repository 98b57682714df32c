/* metrics.jsonl of a run folder: cutting it back to where a run goes on. Rows are written by metrics.c, beside those of
 * metrics.csv. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/rundir_impl.h"
#include "store/disk.h"

/* The step of a line that is a row; -1 for any other line. */
static int64_t get_step(const char *line, size_t bytes) {
  json_t *row = json_loadb(line, bytes, JSON_DISABLE_EOF_CHECK, NULL), *step = json_object_get(row, "step");
  int64_t number = json_is_integer(step) ? (int64_t)json_integer_value(step) : -1;
  json_decref(row);
  return number;
}

/* Takes rows of later steps and a last line without an end out of the text. The last step that stays; 0: none. */
static int64_t cut(char *text, int64_t last_step) {
  char *out = text;
  int64_t last = 0;
  for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    size_t bytes = (size_t)(end - line) + 1;
    int64_t step = get_step(line, bytes);
    if (step > last_step) continue;
    if (step > last) last = step;
    memmove(out, line, bytes);
    out += bytes;
  }
  *out = '\0';
  return last;
}

int metrics_json_cut(const char *path, int64_t last_step, int64_t *last) {
  char *text;
  *last = 0;
  int status = disk_read_text(path, &text);
  if (status || !text) return status;
  size_t bytes = strlen(text);
  *last = cut(text, last_step);
  if (strlen(text) != bytes) status = disk_write_text(path, text);
  mem_free(text);
  return status;
}
