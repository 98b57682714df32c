/* Between tokens.c, tokens_check.c and tokens_check_ids.c: mapping, and the tables of the index as they lie in the file. */
#ifndef PENSTOCK_DATA_TOKENS_IMPL_H
#define PENSTOCK_DATA_TOKENS_IMPL_H

#include "data/tokens.h"

#define TOKENS_MAGIC "MMIDIDX\0" /* and the terminating zero: 9 bytes */
#define TOKENS_MAGIC_BYTES 9
#define TOKENS_HEADER_BYTES 34

/* Entries of the tables, unchecked: the caller knows that they lie in the file. */
int32_t tokens_load_length(const struct tokens *file, int64_t s);
int64_t tokens_load_pointer(const struct tokens *file, int64_t s);
int64_t tokens_load_entry(const struct tokens *file, int64_t d);

#define TOKENS_VOCAB_UNKNOWN ((int64_t)INT32_MAX + 1) /* only negative ids are outside it */

/* Called for an id outside 0..vocab-1 at a place of the stream; false ends the scan. */
typedef bool tokens_outside(void *context, int64_t position, int64_t id);

/* Looks at all ids of sequences first .. end-1; sets least and most. */
void tokens_scan_ids(const struct tokens *file, int64_t first, int64_t end, int64_t vocab, tokens_outside *found,
                     void *context, struct tokens_scan *result);

/* Maps both files as far as they are there; what is not goes to `found`. The caller closes with tokens_close. */
struct tokens *tokens_map(const char *prefix, tokens_found *found, void *context);

#endif
