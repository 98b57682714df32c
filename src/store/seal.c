#include "store/seal.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"

static const char SEAL_MAGIC[8] = "PSSEAL1";

struct seal seal_make(int64_t size, const uint64_t *hashes, int64_t n) {
  struct seal seal = {.size = size, .hash = hash_bytes(hashes, (size_t)n * sizeof *hashes, (uint64_t)size)};
  memcpy(seal.magic, SEAL_MAGIC, sizeof seal.magic);
  seal.check = hash_bytes(&seal, offsetof(struct seal, check), 0);
  return seal;
}

bool seal_is_one(const struct seal *seal, int64_t size, bool *whole) {
  *whole =
      seal->size == size - (int64_t)sizeof *seal && seal->check == hash_bytes(seal, offsetof(struct seal, check), 0);
  return !memcmp(seal->magic, SEAL_MAGIC, sizeof seal->magic);
}
