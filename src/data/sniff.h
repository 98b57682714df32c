/* Finds from a file's content what it is, so that nothing but text is taken as text: compressed files, tables,
 * pictures, other encodings.
 */
#ifndef PENSTOCK_DATA_SNIFF_H
#define PENSTOCK_DATA_SNIFF_H

#include <stddef.h>
#include <stdint.h>

enum { SNIFF_BYTES = 512 }; /* of the beginning, which are enough for every kind that is known */

/* STATUS_MISTAKE when the first bytes of a file are those of a known kind that is no text (UTF-8, or another encoding
 * of a byte a character); the message says what it is and which command makes text of it. */
int sniff_refuse_kind(const char *path, const uint8_t *first, size_t bytes);

/* Looks at text as it passes, piece by piece. */
struct sniff {
  int64_t bytes;       /* seen so far */
  int64_t n_wrong;     /* bytes that belong to no character of UTF-8 */
  int64_t first_wrong; /* place of the first */
};

/* How many of `bytes` bytes ahead make a piece that ends with a character, 0 for none ahead; at most `bytes`. */
size_t sniff_cut(const uint8_t *text, size_t bytes);

/* STATUS_MISTAKE when a stretch of the piece is plainly no text: zero bytes, or mostly what is no character. */
int sniff_look(struct sniff *sniff, const char *path, const uint8_t *text, size_t bytes);

#endif
