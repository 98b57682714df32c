/* 64-bit hashes (XXH3) of bytes, streams of bytes and files. Stable across machines and versions. */
#ifndef PENSTOCK_BASE_HASH_H
#define PENSTOCK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed);

/* Hash of a whole file's content and its size; returns a status. */
int hash_file(const char *path, uint64_t *hash, int64_t *bytes);
/* Like hash_file; calls poll(context) every few MiB, for large files while others wait. */
int hash_file_polled(const char *path, void (*poll)(void *context), void *context, uint64_t *hash, int64_t *bytes);

#endif
