/* Token files for tests, written byte by byte as the format says, without the program's own writer. */
#ifndef PENSTOCK_TESTS_TOKEN_FILES_H
#define PENSTOCK_TESTS_TOKEN_FILES_H

#include "scratch.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What goes into the index; NULL tables are made as they should be: pointers one after another, a document a sequence.
 */
struct raw_index {
  const char *magic; /* 9 bytes; NULL: the right one */
  uint64_t version;  /* 0: 1 */
  int type, token_bytes;
  int64_t n;
  const int32_t *length;
  const int64_t *pointer;
  int64_t n_entries; /* with entry NULL: 0, made */
  const int64_t *entry;
};

/* FOLDER/NAME in a ring of buffers. */
const char *raw_path(const char *name);
void raw_write(const char *prefix, const char *suffix, const void *data, size_t bytes);

/* Bytes of a file; the caller frees. */
uint8_t *raw_read(const char *prefix, const char *suffix, size_t *bytes);
uint8_t *raw_put(uint8_t *at, uint64_t value, int bytes);
void raw_write_index(const char *prefix, const struct raw_index *index);

/* PREFIX.bin of n ids; type 8 (uint16) or 4 (int32). */
void raw_write_ids(const char *prefix, int type, const int32_t *ids, int64_t n);

/* A whole pair, a document a sequence. */
void raw_write_documents(const char *prefix, int type, const int32_t *lengths, int64_t n, const int32_t *ids);

#endif
