/* params_write_used: the parameters of a run as a file. */
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "input/param_table.h"
#include "input/param_value.h"
#include "input/params_compare.h"
#include "input/params_print.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *params_make_absolute(const char *path) {
  char *real = realpath(path, NULL), *copy;
  const char *slash = strrchr(path, '/');
  if (real) {
    copy = mem_strdup(real);
    free(real);
    return copy;
  }
  char *folder = slash ? mem_format("%.*s", slash == path ? 1 : (int)(slash - path), path) : mem_strdup(".");
  real = realpath(folder, NULL);
  mem_free(folder);
  copy = real ? mem_format("%s/%s", strcmp(real, "/") ? real : "", slash ? slash + 1 : path) : NULL;
  free(real);
  return copy;
}

/* The path as seen from the folder of `file`, so that both can be moved together; owned by the caller. */
static char *make_relative(const char *path, const char *file) {
  char *target = params_make_absolute(path), *from = params_make_absolute(file);
  char *text;
  if (target && from) {
    size_t common = 0;
    for (size_t i = 0; target[i] && target[i] == from[i]; i++)
      if (target[i] == '/') common = i + 1;
    text = mem_strdup(target + common);
    for (const char *c = from + common; (c = strchr(c, '/')) != NULL; c++) {
      char *longer = mem_format("../%s", text);
      mem_free(text);
      text = longer;
    }
  } else
    text = mem_strdup(path);
  mem_free(target);
  mem_free(from);
  return text;
}

/* The value of a key as it stands in used.yml; owned by the caller, NULL when the key has none. */
static char *format_used(const struct params *params, enum param_id id, const char *path) {
  const struct param_row *row = &param_rows[id];
  if (!params_is_set(params, id)) return NULL;
  if (row->type != PARAM_DECK_PATH) return param_value_format(row, param_read(params, row));
  char *relative = make_relative(*(char *const *)param_read(params, row), path), *text = param_value_quote(relative);
  mem_free(relative);
  return text;
}

static void print_used(FILE *out, const struct params *params, const char *path) {
  fprintf(
      out,
      "# Every parameter of this run, after deck, -D and defaults. A deck by itself: it gives the same values when\n"
      "# it is run from the same working directory.\n");
  for (int id = 0; id < PARAM_COUNT; id++) {
    const struct param_row *row = &param_rows[id];
    if (id == 0 || strcmp(row->section, param_rows[id - 1].section)) fprintf(out, "\n%s:\n", row->section);
    char *value = format_used(params, (enum param_id)id, path);
    char *source = mem_strdup(params->sources[id].text ? params->sources[id].text : "default");
    param_value_make_printable(source);
    params_print_help(out, row);
    if (value)
      fprintf(out, "  %s: %s  # %s\n", row->key, value, source);
    else
      fprintf(out, "  # %s:  # not set: %s\n", row->key, row->standard);
    mem_free(source);
    mem_free(value);
  }
}

char *params_format_used(const struct params *params, const char *path) {
  char *buffer = NULL;
  size_t size;
  FILE *out = open_memstream(&buffer, &size);
  CHECK(out, "out of memory");
  print_used(out, params, path);
  CHECK(!fclose(out), "out of memory");
  char *text = mem_strdup(buffer);
  free(buffer);
  return text;
}

int params_write_used(const struct params *params, const char *path) {
  char *temporary = mem_format("%s.tmp", path);
  FILE *out = fopen(temporary, "w");
  bool good = out != NULL;
  if (out) {
    print_used(out, params, path);
    good = !fflush(out) && !ferror(out) && !fsync(fileno(out));
    int reason = errno;
    if (fclose(out) && good)
      good = false;
    else
      errno = reason;
  }
  if (good) good = !rename(temporary, path);
  int status = good ? STATUS_OK : error_raise(STATUS_FAILED, "%s cannot be written: %s", path, limits_reason(errno));
  if (!good) unlink(temporary);
  mem_free(temporary);
  return status;
}
