#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static _Atomic int64_t live;

void *mem_alloc(size_t bytes) {
  if (bytes == 0) return NULL;
  void *memory = calloc(1, bytes);
  CHECK(memory, "out of host memory: %zu bytes asked for; give the job more memory or fewer ranks a node", bytes);
  atomic_fetch_add(&live, 1);
  return memory;
}

void *mem_resize(void *memory, size_t bytes) {
  if (bytes == 0) {
    mem_free(memory);
    return NULL;
  }
  void *grown = realloc(memory, bytes);
  CHECK(grown, "out of host memory: %zu bytes asked for; give the job more memory or fewer ranks a node", bytes);
  if (!memory) atomic_fetch_add(&live, 1);
  return grown;
}

char *mem_strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = mem_alloc(bytes);
  memcpy(copy, text, bytes);
  return copy;
}

char *mem_format(const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, list);
  va_end(list);
  CHECK(length >= 0, "bad format \"%s\"", format);
  char *text = mem_alloc((size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

void mem_free(void *memory) {
  if (!memory) return;
  atomic_fetch_sub(&live, 1);
  free(memory);
}

int64_t mem_balance(void) { return atomic_load(&live); }
