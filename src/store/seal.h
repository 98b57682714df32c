/* The last bytes of a file of ours: what its content has as hash, so that damage is found before a library reads it. A
 * seal is made of one hash a page, so that a change costs the pages that it touches. Files without one are of older
 * programs, or were written by others.
 */
#ifndef PENSTOCK_STORE_SEAL_H
#define PENSTOCK_STORE_SEAL_H

#include <stdbool.h>
#include <stdint.h>

struct seal {
  char magic[8];
  int64_t size;   /* bytes of content; the seal follows them */
  uint64_t hash;  /* of the pages' hashes */
  uint64_t check; /* of the above */
};

/* hashes[n]: those of the content's pages, the last one filled up with zeros. */
struct seal seal_make(int64_t size, const uint64_t *hashes, int64_t n);

/* Returns true when the last bytes of a file of `size` bytes, the seal's included, are a seal; `whole` says whether
 * it is undamaged and of this file's size. */
bool seal_is_one(const struct seal *seal, int64_t size, bool *whole);

#endif
