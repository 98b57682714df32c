#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

enum { BLOCK_BYTES = 1 << 20 };

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }

/* Feeds the rest of a file to the hash; adds up its bytes. Returns 0 or errno. */
static int read_all(int descriptor, XXH3_state_t *state, void (*poll)(void *context), void *context, int64_t *bytes) {
  char *block = mem_alloc(BLOCK_BYTES);
  ssize_t n;
  int failure = 0;
  while ((n = read(descriptor, block, BLOCK_BYTES)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      failure = errno;
      break;
    }
    XXH3_64bits_update(state, block, (size_t)n);
    *bytes += n;
    if (poll) poll(context);
  }
  mem_free(block);
  return failure;
}

int hash_file(const char *path, uint64_t *hash, int64_t *bytes) {
  return hash_file_polled(path, NULL, NULL, hash, bytes);
}

int hash_file_polled(const char *path, void (*poll)(void *context), void *context, uint64_t *hash, int64_t *bytes) {
  *hash = 0;
  *bytes = 0;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return error_raise(STATUS_FAILED, "cannot open %s: %s", path, limits_reason(errno));
  XXH3_state_t *state = XXH3_createState();
  CHECK(state, "out of host memory for the hash of %s", path);
  XXH3_64bits_reset_withSeed(state, 0);
  int failure = read_all(descriptor, state, poll, context, bytes);
  *hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  close(descriptor);
  if (failure) return error_raise(STATUS_FAILED, "cannot read %s: %s", path, limits_reason(failure));
  return STATUS_OK;
}
