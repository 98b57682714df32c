#include "data/text.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "data/sniff.h"
#include "data/source.h"
#include "data/tokenizer.h"
#include "data/tokens.h"

enum { PIECE_BYTES = 1 << 20, FIRST_LINE_BYTES = 1 << 24 };

int text_write_piece(struct tokens_writer *writer, const void *text, int64_t bytes, struct text_progress *progress) {
  int status = tokenizer_write(writer, text, bytes);
  progress->bytes += bytes;
  if (!status && progress->progress) status = progress->progress(progress->context, progress);
  return status;
}

/* ---- whole files ---- */

static int write_document(struct source *source, struct sniff *sniff, struct tokens_writer *writer,
                          struct text_progress *progress) {
  int64_t bytes = 0;
  for (size_t n; (n = source_fill(source, PIECE_BYTES)) > 0;) {
    if (n > PIECE_BYTES) n = PIECE_BYTES;
    if (sniff && n == PIECE_BYTES) n = sniff_cut(source_get(source), n);
    int status = sniff ? sniff_look(sniff, source->path, source_get(source), n) : STATUS_OK;
    if (!status) status = text_write_piece(writer, source_get(source), (int64_t)n, progress);
    if (status) return status;
    source_skip(source, n);
    bytes += (int64_t)n;
  }
  if (bytes > 0) return tokenizer_write_end(writer);
  progress->empty++;
  return STATUS_OK;
}

static void skip_mark(struct source *source) {
  if (source_fill(source, 3) >= 3 && !memcmp(source_get(source), UTF8_MARK, 3)) source_skip(source, 3);
}

int text_write_whole(struct source *source, const struct text_request *request, struct tokens_writer *writer,
                     struct text_progress *progress) {
  (void)request;
  struct sniff sniff = {0};
  skip_mark(source);
  int status = write_document(source, &sniff, writer, progress);
  if (!status && sniff.n_wrong > 0)
    log_warn("%s: %" PRId64 " %s of no character of UTF-8, the first at %" PRId64 "; taken as they are", source->path,
             sniff.n_wrong, sniff.n_wrong == 1 ? "byte is" : "bytes are", sniff.first_wrong);
  return status;
}

int text_write_bytes(struct source *source, const struct text_request *request, struct tokens_writer *writer,
                     struct text_progress *progress) {
  (void)request;
  return write_document(source, NULL, writer, progress);
}

/* ---- formats ---- */

struct format {
  const char *name;
  int (*write)(struct source *source, const struct text_request *request, struct tokens_writer *writer,
               struct text_progress *progress);
};

static const struct format formats[] = {
#define X(name, write, help) {name, write},
    TEXT_FORMATS(X)
#undef X
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static const struct format *find_format(const char *name) {
  for (int i = 0; i < N_FORMATS; i++)
    if (!strcmp(name, formats[i].name)) return &formats[i];
  return NULL;
}

bool text_has_format(const char *name) { return find_format(name) != NULL; }

static bool is_named_json(const char *path) {
  static const char *const suffixes[] = {".jsonl", ".ndjson", ".json"};
  size_t length = strlen(path);
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(suffixes[i]);
    if (length > n && !strcasecmp(path + length - n, suffixes[i])) return true;
  }
  return false;
}

/* Place of the first byte that is no blank, `bytes` without one. */
static size_t skip_blanks(const uint8_t *text, size_t bytes, size_t at) {
  while (at < bytes && strchr(" \t\r\n", text[at]) && text[at]) at++;
  return at;
}

/* A list of objects is JSON, but a program would have to hold all of it to read it. */
static int refuse_list(const struct source *source, const char *filter, bool named) {
  return error_raise(STATUS_MISTAKE,
                     "%s is a list in JSON, an object a line is needed: jq -c '%s' %s | penstock data build --format "
                     "jsonl --output PREFIX -%s",
                     source->path, filter, strcmp(source->path, "-") ? source->path : "FILE",
                     named ? "" : " (or --format text, if it is meant as text)");
}

/* Chooses the format of a file for which none was given: by its name, else by its first line. */
static int choose_format(struct source *source, const struct text_request *request, const char **name) {
  bool named = is_named_json(source->path);
  size_t n = source_fill(source, SNIFF_BYTES);
  const uint8_t *text = source_get(source);
  size_t first = n >= 3 && !memcmp(text, UTF8_MARK, 3) ? 3 : 0;
  first = skip_blanks(text, n, first);
  if (request->format && !strcmp(request->format, "jsonl")) named = true;
  *name = request->format ? request->format : named ? "jsonl" : "text";
  if (first == n || strcmp(*name, named ? "jsonl" : "text") != 0) return STATUS_OK;
  size_t second = skip_blanks(text, n, first + 1);
  bool list = text[first] == '[' && second < n && (text[second] == '{' || (named && text[second] == '"'));
  if (list && (named || !request->format))
    return refuse_list(source, text[second] == '"' ? ".[] | {text: .}" : ".[]", named);
  if (named || request->format || text[first] != '{') return STATUS_OK;
  const uint8_t *end = memchr(text + first, '\n', n - first);
  for (size_t seen = n; !end && n < FIRST_LINE_BYTES; seen = n) {
    n = source_fill(source, n + 1);
    text = source_get(source);
    if (n == seen) break;
    end = memchr(text + seen, '\n', n - seen);
  }
  if (!text_is_object(text + first, end ? (size_t)(end - text) - first : n - first, request->key)) return STATUS_OK;
  *name = "jsonl";
  if (strcmp(source->path, "-") != 0)
    log_warn("%s has lines of JSON and is read as such (--format text takes it as it is)", source->path);
  return STATUS_OK;
}

int text_write(const char *path, const struct text_request *request, struct tokens_writer *writer,
               struct text_progress *progress) {
  struct source source;
  int status = source_open(path, &source);
  if (status) return status;
  const char *name = request->format;
  if (!name || strcmp(name, "bytes") != 0) {
    size_t n = source_fill(&source, SNIFF_BYTES);
    status = sniff_refuse_kind(path, source_get(&source), n);
    if (!status) status = choose_format(&source, request, &name);
  }
  if (!status) status = find_format(name)->write(&source, request, writer, progress);
  int end = source_close(&source);
  return status ? status : end;
}
