#include "token_files.h"

const char *raw_path(const char *name) {
  static char paths[16][256];
  static int next;
  char *path = paths[next++ % 16];
  snprintf(path, sizeof paths[0], "%s/%s", scratch_make(), name);
  return path;
}

void raw_write(const char *prefix, const char *suffix, const void *data, size_t bytes) {
  char path[300];
  snprintf(path, sizeof path, "%s.%s", prefix, suffix);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
    perror(path);
    exit(1);
  }
}

uint8_t *raw_read(const char *prefix, const char *suffix, size_t *bytes) {
  char path[300];
  snprintf(path, sizeof path, "%s.%s", prefix, suffix);
  FILE *file = fopen(path, "rb");
  if (!file) {
    *bytes = 0;
    return NULL;
  }
  uint8_t *data = malloc(1 << 22);
  *bytes = fread(data, 1, 1 << 22, file);
  fclose(file);
  return data;
}

uint8_t *raw_put(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
  return at + bytes;
}

void raw_write_index(const char *prefix, const struct raw_index *index) {
  int64_t entries = index->entry ? index->n_entries : index->n + 1, byte = 0;
  size_t size = 34 + 12 * (size_t)index->n + 8 * (size_t)entries;
  uint8_t *data = malloc(size), *at = data;
  memcpy(at, index->magic ? index->magic : "MMIDIDX\0", 9);
  at = raw_put(at + 9, index->version ? index->version : 1, 8);
  at = raw_put(at, (uint64_t)index->type, 1);
  at = raw_put(at, (uint64_t)index->n, 8);
  at = raw_put(at, (uint64_t)entries, 8);
  for (int64_t s = 0; s < index->n; s++) at = raw_put(at, (uint64_t)(int64_t)index->length[s], 4);
  for (int64_t s = 0; s < index->n; s++) {
    at = raw_put(at, (uint64_t)(index->pointer ? index->pointer[s] : byte), 8);
    byte += (int64_t)index->length[s] * index->token_bytes;
  }
  for (int64_t d = 0; d < entries; d++) at = raw_put(at, (uint64_t)(index->entry ? index->entry[d] : d), 8);
  raw_write(prefix, "idx", data, size);
  free(data);
}

void raw_write_ids(const char *prefix, int type, const int32_t *ids, int64_t n) {
  int bytes = type == 8 ? 2 : 4;
  uint8_t *data = malloc((size_t)(n * bytes) + 1), *at = data;
  for (int64_t i = 0; i < n; i++) at = raw_put(at, (uint64_t)(int64_t)ids[i], bytes);
  raw_write(prefix, "bin", data, (size_t)(n * bytes));
  free(data);
}

void raw_write_documents(const char *prefix, int type, const int32_t *lengths, int64_t n, const int32_t *ids) {
  int64_t tokens = 0;
  for (int64_t d = 0; d < n; d++) tokens += lengths[d];
  raw_write_ids(prefix, type, ids, tokens);
  raw_write_index(prefix,
                  &(struct raw_index){.type = type, .token_bytes = type == 8 ? 2 : 4, .n = n, .length = lengths});
}
