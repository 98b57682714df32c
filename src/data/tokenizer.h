/* The built-in tokenizer: every byte is a token. Byte b has id b; 256 ends a document. It needs no file, loses nothing,
 * and takes any text in any encoding.
 */
#ifndef PENSTOCK_DATA_TOKENIZER_H
#define PENSTOCK_DATA_TOKENIZER_H

#include <stdint.h>

enum {
  TOKENIZER_END_OF_DOCUMENT = 256,
  TOKENIZER_VOCAB = 257, /* ids 0 to 256 */
};

struct tokens_writer;

/* Appends the ids of `bytes` bytes to the writer's current document; returns the writer's status. */
int tokenizer_write(struct tokens_writer *writer, const void *text, int64_t bytes);

/* Appends the end of a document and ends it. */
int tokenizer_write_end(struct tokens_writer *writer);

#endif
