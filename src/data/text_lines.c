#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "data/json_repair.h"
#include "data/source.h"
#include "data/text.h"
#include "data/tokenizer.h"
#include "data/tokens.h"

enum { SHOWN_BAD = 5 };

/* Numbers of other keys may be of any size, and a text may hold a zero character. */
#define LOAD_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY)

/* Reading of one file. */
struct lines {
  const struct source *source;
  const struct text_request *request;
  struct tokens_writer *writer;
  struct text_progress *progress;
  int64_t line;                       /* the one under way, from 1 */
  int64_t n_bad;                      /* passed over */
  int64_t n_replaced, first_replaced; /* lines in whose text something was read as U+FFFD */
};

static const char *name_type(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "an object";
  case JSON_ARRAY: return "a list";
  case JSON_STRING: return "a string";
  case JSON_INTEGER:
  case JSON_REAL: return "a number";
  case JSON_TRUE:
  case JSON_FALSE: return "true or false";
  case JSON_NULL: break;
  }
  return "null";
}

/* The first keys of an object, for the message that the wanted one is not among them. */
static int refuse_keys(const struct lines *lines, json_t *object) {
  char keys[256] = "";
  size_t used = 0;
  const char *key, *example = NULL;
  json_t *value;
  json_object_foreach(object, key, value) {
    if (!example && json_is_string(value)) example = key;
    int n = snprintf(keys + used, sizeof keys - used, "%s'%s'", used ? ", " : "", key);
    if (n < 0 || (size_t)n >= sizeof keys - used) {
      keys[used] = 0;
      break;
    }
    used += (size_t)n;
  }
  return error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": no key '%s' (the line has %s); --key %.64s names the one to take",
                     lines->source->path, lines->line, lines->request->key,
                     used ? keys : "no key that is short enough to show", example ? example : "NAME");
}

/* The object of a line; NULL when the line is no JSON, with the message. */
static json_t *load_line(const struct lines *lines, const uint8_t *text, size_t bytes, bool *replaced) {
  json_error_t error;
  json_t *root = json_loadb((const char *)text, bytes, LOAD_FLAGS, &error);
  if (root) return root;
  struct json_repair repair;
  json_repair(text, bytes, &repair);
  *replaced = repair.n_replaced > 0;
  if (repair.n_changed > 0) root = json_loadb(repair.text, repair.bytes, LOAD_FLAGS, &error);
  json_repair_fini(&repair);
  if (!root)
    error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": not valid JSON: %s (column %d)%s", lines->source->path, lines->line,
                error.text, error.column,
                json_error_code(&error) == json_error_premature_end_of_input
                    ? "; objects over several lines are read as `jq -c . FILE` writes them"
                    : "");
  return root;
}

/* The text of a line's object; NULL with the message when there is none. */
static const json_t *find_text(const struct lines *lines, json_t *root) {
  const char *key = lines->request->key;
  const json_t *value = json_object_get(root, key);
  if (!json_is_object(root))
    error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": the line is %s, an object with the key '%s' is needed",
                lines->source->path, lines->line, name_type(root), key);
  else if (!value)
    refuse_keys(lines, root);
  else if (!json_is_string(value))
    error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": '%s' is %s, a string is needed", lines->source->path, lines->line, key,
                name_type(value));
  else
    return value;
  return NULL;
}

/* The line has no text, and the message is recorded. */
static int pass_over(struct lines *lines) {
  if (!lines->request->skip_bad)
    return error_raise(STATUS_MISTAKE, "%s (--skip-bad passes such lines over)", error_text());
  if (lines->n_bad++ < SHOWN_BAD) log_warn("%s; passed over", error_text());
  lines->progress->bad++;
  error_clear();
  return STATUS_OK;
}

static int write_line(struct lines *lines, const uint8_t *text, size_t bytes) {
  bool replaced = false;
  json_t *root = load_line(lines, text, bytes, &replaced);
  const json_t *value = root ? find_text(lines, root) : NULL;
  int status = STATUS_OK;
  if (!value)
    status = pass_over(lines);
  else if (json_string_length(value) == 0)
    lines->progress->empty++;
  else {
    status =
        text_write_piece(lines->writer, json_string_value(value), (int64_t)json_string_length(value), lines->progress);
    if (!status) status = tokenizer_write_end(lines->writer);
    if (replaced && strstr(json_string_value(value), UTF8_UNKNOWN) && lines->n_replaced++ == 0)
      lines->first_replaced = lines->line;
  }
  json_decref(root);
  return status;
}

static void warn_of_file(const struct lines *lines) {
  if (lines->n_replaced > 0)
    log_warn("%s: in %" PRId64 " %s, %" PRId64 " the first, the text has bytes or escapes of no character, which are "
             "read as U+FFFD",
             lines->source->path, lines->n_replaced, lines->n_replaced == 1 ? "line" : "lines", lines->first_replaced);
  if (lines->n_bad > SHOWN_BAD) log_warn("%s: %" PRId64 " lines passed over in all", lines->source->path, lines->n_bad);
}

/* Files that were put together may have the mark before any line. */
static void skip_before(const uint8_t **text, size_t *bytes) {
  if (*bytes >= 3 && !memcmp(*text, UTF8_MARK, 3)) {
    *text += 3;
    *bytes -= 3;
  }
  while (*bytes > 0 && strchr(" \t\r", **text) && **text) {
    (*text)++;
    (*bytes)--;
  }
}

int text_write_lines(struct source *source, const struct text_request *request, struct tokens_writer *writer,
                     struct text_progress *progress) {
  struct lines lines = {source, request, writer, progress, 0, 0, 0, 0};
  const uint8_t *text;
  size_t bytes;
  int status = STATUS_OK;
  while (!status && source_take_line(source, &text, &bytes)) {
    lines.line++;
    skip_before(&text, &bytes);
    if (bytes > 0) status = write_line(&lines, text, bytes);
  }
  if (!status) warn_of_file(&lines);
  return status;
}

bool text_is_object(const uint8_t *line, size_t bytes, const char *key) {
  json_error_t error;
  json_t *root = json_loadb((const char *)line, bytes, LOAD_FLAGS, &error);
  bool is = json_is_string(json_object_get(root, key));
  json_decref(root);
  return is;
}
