#include "data/tokenizer.h"

#include "base/error.h"
#include "data/tokens.h"

enum { CHUNK = 8192 };

int tokenizer_write(struct tokens_writer *writer, const void *text, int64_t bytes) {
  const uint8_t *from = text;
  int32_t ids[CHUNK];
  while (bytes > 0) {
    int64_t n = bytes < CHUNK ? bytes : CHUNK;
    for (int64_t i = 0; i < n; i++) ids[i] = from[i];
    int status = tokens_write_tokens(writer, ids, n);
    if (status) return status;
    from += n;
    bytes -= n;
  }
  return STATUS_OK;
}

int tokenizer_write_end(struct tokens_writer *writer) {
  const int32_t end = TOKENIZER_END_OF_DOCUMENT;
  int status = tokens_write_tokens(writer, &end, 1);
  return status ? status : tokens_write_end_document(writer);
}
