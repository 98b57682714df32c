#include "data/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/tokenizer.h"
#include "data/tokens.h"

enum { PIECE_BYTES = 1 << 20 };

static int write_piece(struct tokens_writer *writer, const void *text, int64_t bytes, struct text_progress *progress) {
  int status = tokenizer_write(writer, text, bytes);
  progress->bytes += bytes;
  if (!status && progress->progress) progress->progress(progress->context, progress);
  return status;
}

static int read_failed(const char *path) {
  return error_raise(STATUS_MISTAKE, "cannot read %s: %s", path, strerror(errno));
}

int text_write_file(const char *path, struct tokens_writer *writer, struct text_progress *progress) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return read_failed(path);
  uint8_t *piece = mem_alloc(PIECE_BYTES);
  int64_t bytes = 0;
  int status = STATUS_OK;
  while (!status) {
    ssize_t n = read(fd, piece, PIECE_BYTES);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = read_failed(path);
    if (n <= 0) break;
    bytes += n;
    status = write_piece(writer, piece, n, progress);
  }
  mem_free(piece);
  close(fd);
  if (status) return status;
  if (bytes > 0) return tokenizer_write_end(writer);
  progress->empty++;
  return STATUS_OK;
}

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
static int refuse_keys(const char *path, int64_t line, json_t *object) {
  char keys[256] = "";
  size_t used = 0;
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    int n = snprintf(keys + used, sizeof keys - used, "%s'%s'", used ? ", " : "", key);
    if (n < 0 || (size_t)n >= sizeof keys - used) {
      keys[used] = 0;
      break;
    }
    used += (size_t)n;
  }
  return error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": no key 'text' (the line has %s)", path, line,
                     used ? keys : "no key that is short enough to show");
}

static int write_line(const char *path, int64_t line, const char *text, size_t bytes, struct tokens_writer *writer,
                      struct text_progress *progress) {
  json_error_t error;
  /* Numbers of other keys may be of any size, and a text may hold a zero character. */
  json_t *root = json_loadb(text, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &error);
  if (!root)
    return error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": not valid JSON: %s (column %d)", path, line, error.text,
                       error.column);
  json_t *value = json_object_get(root, "text");
  int status = STATUS_OK;
  if (!json_is_object(root))
    status = error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": the line is %s, an object with the key 'text' is needed",
                         path, line, name_type(root));
  else if (!value)
    status = refuse_keys(path, line, root);
  else if (!json_is_string(value))
    status =
        error_raise(STATUS_MISTAKE, "%s:%" PRId64 ": 'text' is %s, a string is needed", path, line, name_type(value));
  else if (json_string_length(value) == 0)
    progress->empty++;
  else {
    status = write_piece(writer, json_string_value(value), (int64_t)json_string_length(value), progress);
    if (!status) status = tokenizer_write_end(writer);
  }
  json_decref(root);
  return status;
}

int text_write_jsonl(const char *path, struct tokens_writer *writer, struct text_progress *progress) {
  FILE *stream = fopen(path, "re");
  if (!stream) return read_failed(path);
  char *line = NULL; /* getline's, hence free() */
  size_t capacity = 0;
  ssize_t length;
  int status = STATUS_OK;
  for (int64_t number = 1; !status && (length = getline(&line, &capacity, stream)) >= 0; number++) {
    ssize_t blank = 0;
    while (blank < length && strchr(" \t\r\n", line[blank]) && line[blank]) blank++;
    if (blank < length) status = write_line(path, number, line, (size_t)length, writer, progress);
  }
  if (!status && ferror(stream)) status = read_failed(path);
  free(line);
  fclose(stream);
  return status;
}
