/* Text that becomes token documents: whole files, and JSON lines. Read in pieces, so that memory holds a buffer, or a
 * line, whatever the size of the files.
 */
#ifndef PENSTOCK_DATA_TEXT_H
#define PENSTOCK_DATA_TEXT_H

#include <stdint.h>

struct tokens_writer;

/* What was read so far; adds up over calls. `progress` (NULL: none) is called after every piece. */
struct text_progress {
  int64_t bytes; /* of text, without what JSON puts around it */
  int64_t empty; /* files without a byte, JSON lines with an empty text: no documents, skipped */
  void (*progress)(void *context, const struct text_progress *so_far);
  void *context;
};

/* Writes a file as one document of the built-in tokenizer, bytes as they are. STATUS_MISTAKE when it cannot be read, or
 * the writer's status. */
int text_write_file(const char *path, struct tokens_writer *writer, struct text_progress *progress);

/* Writes a document for each line's string `text`; blank lines are passed over, other keys ignored. STATUS_MISTAKE names
 * file and line of what is not a JSON object with that key. */
int text_write_jsonl(const char *path, struct tokens_writer *writer, struct text_progress *progress);

#endif
