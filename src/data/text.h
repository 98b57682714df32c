/* Text that becomes token documents: whole files, and lines of JSON. Read in pieces, so that memory holds a buffer, or
 * a line, whatever the size of the files.
 */
#ifndef PENSTOCK_DATA_TEXT_H
#define PENSTOCK_DATA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;
struct tokens_writer;

/* How files are read. */
struct text_request {
  const char *format; /* a name of TEXT_FORMATS for all files; NULL: each as its name and its beginning say */
  const char *key;    /* of lines of JSON: the key that holds the text */
  bool skip_bad;      /* lines of JSON without a text are counted and passed over */
};

/* The amount read so far; it adds up over calls. `progress` (NULL: none) is called after every piece; a status that is
 * not STATUS_OK, with its message, ends the reading. */
struct text_progress {
  int64_t bytes; /* of text, without what JSON puts around it */
  int64_t empty; /* files without a byte, JSON lines with an empty text: no documents, skipped */
  int64_t bad;   /* lines that skip_bad passed over */
  int (*progress)(void *context, const struct text_progress *so_far);
  void *context;
};

/* X(name, reader, what a file is then) */
#define TEXT_FORMATS(X)                                                                                                \
  X("text", text_write_whole, "a document, in UTF-8")                                                                  \
  X("jsonl", text_write_lines, "a document a line, the text of an object's key")                                       \
  X("bytes", text_write_bytes, "a document, whatever its bytes")

/* Returns true when there is a format of that name. */
bool text_has_format(const char *name);

/* Writes what a file holds as documents of the built-in tokenizer; "-" is standard input. Compressed files, tables and
 * all else that is no text are refused with what makes text of them. STATUS_MISTAKE names file, and line or byte, of
 * what cannot be read; or the writer's status, or that of `progress`. What is odd but was read is warned of. */
int text_write(const char *path, const struct text_request *request, struct tokens_writer *writer,
               struct text_progress *progress);

/* ---- the readers of the formats; the source is open and at its beginning, and stays open ---- */

/* A document, its bytes as they are, without the mark of UTF-8 that it may begin with. */
int text_write_whole(struct source *source, const struct text_request *request, struct tokens_writer *writer,
                     struct text_progress *progress);
/* A document for each line's string; blank lines are passed over, other keys are not looked at (text_lines.c). */
int text_write_lines(struct source *source, const struct text_request *request, struct tokens_writer *writer,
                     struct text_progress *progress);
/* A document, its bytes as they are. */
int text_write_bytes(struct source *source, const struct text_request *request, struct tokens_writer *writer,
                     struct text_progress *progress);

/* Between the files of this module: text of the document under way. */
int text_write_piece(struct tokens_writer *writer, const void *text, int64_t bytes, struct text_progress *progress);

/* Returns true when a line is an object with a text under `key`, as JSON has it (text_lines.c). */
bool text_is_object(const uint8_t *line, size_t bytes, const char *key);

#endif
