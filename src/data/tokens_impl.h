/* Between tokens.c, tokens_check.c and tokens_check_ids.c: opening, and the tables of the index as they lie in the
 * file. */
#ifndef PENSTOCK_DATA_TOKENS_IMPL_H
#define PENSTOCK_DATA_TOKENS_IMPL_H

#include <endian.h>
#include <string.h>

#include "data/tokens.h"
#include "data/tokens_reader.h"

#define TOKENS_MAGIC "MMIDIDX\0" /* and the terminating zero: 9 bytes */
#define TOKENS_MAGIC_BYTES 9
#define TOKENS_HEADER_BYTES 34

static inline int64_t tokens_load_int64(const uint8_t *at) {
  uint64_t raw;
  memcpy(&raw, at, sizeof raw);
  return (int64_t)le64toh(raw);
}

/* Entries of the tables, unchecked: the caller knows that they lie in the file. The header's 34 bytes leave the tables
 * unaligned. Inline, as an index may have billions of entries, all of which are looked at when it is opened. */
static inline int32_t tokens_load_length(const struct tokens *file, int64_t s) {
  uint32_t raw;
  memcpy(&raw, tokens_reader_view(file->reader, TOKENS_LENGTHS, TOKENS_HEADER_BYTES + 4 * s), sizeof raw);
  return (int32_t)le32toh(raw);
}

static inline int64_t tokens_load_pointer(const struct tokens *file, int64_t s) {
  int64_t at = TOKENS_HEADER_BYTES + 4 * file->n_sequences + 8 * s;
  return tokens_load_int64(tokens_reader_view(file->reader, TOKENS_POINTERS, at));
}

static inline int64_t tokens_load_entry(const struct tokens *file, int64_t d) {
  int64_t at = TOKENS_HEADER_BYTES + 12 * file->n_sequences + 8 * d;
  return tokens_load_int64(tokens_reader_view(file->reader, TOKENS_ENTRIES, at));
}

#define TOKENS_VOCAB_UNKNOWN ((int64_t)INT32_MAX + 1) /* only negative ids are outside it */

/* Called for an id outside 0..vocab-1 at a place of the stream; false ends the scan. */
typedef bool tokens_outside(void *context, int64_t position, int64_t id);

/* Looks at all ids of sequences first .. end-1; sets least and most. What cannot be read ends it:
 * tokens_check_unchanged tells. */
void tokens_scan_ids(const struct tokens *file, int64_t first, int64_t end, int64_t vocab, tokens_outside *found,
                     void *context, struct tokens_scan *result);

/* Opens both files as far as they are there; what is not goes to `found`. The caller closes with tokens_close. */
struct tokens *tokens_open_parts(const char *prefix, tokens_found *found, void *context);

#endif
