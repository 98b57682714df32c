#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"

static _Atomic int64_t live;

#define EXHAUSTED "out of host memory: %zu bytes asked for; give the job more memory or fewer ranks a node%s"

/* The limits that a process has on what it maps: what /proc/self/statm counts against each, by column. */
static const struct {
  int resource, column;
  const char *option;
} limits[] = {{RLIMIT_AS, 0, "-v"}, {RLIMIT_DATA, 5, "-d"}};

int64_t mem_get_room(void) {
  long long pages[6] = {0};
  FILE *file = fopen("/proc/self/statm", "re");
  for (int i = 0; file && i < 6; i++)
    if (fscanf(file, "%lld", &pages[i]) != 1) pages[i] = 0;
  if (file) fclose(file);
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit) != 0 || limit.rlim_cur >= INT64_MAX) continue;
    int64_t left = (int64_t)limit.rlim_cur - pages[limits[i].column] * sysconf(_SC_PAGESIZE);
    if (left < least) least = left > 0 ? left : 0;
  }
  return least;
}

const char *mem_describe_limits(void) {
  static _Thread_local char text[96];
  int n = 0;
  text[0] = '\0';
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit) != 0 || limit.rlim_cur >= INT64_MAX) continue;
    n += snprintf(text + n, sizeof text - (size_t)n, "%sulimit %s is %lld kB", n ? ", " : " (", limits[i].option,
                  (long long)limit.rlim_cur / 1024);
  }
  if (n > 0) snprintf(text + n, sizeof text - (size_t)n, ")");
  return text;
}

void *mem_alloc(size_t bytes) {
  if (bytes == 0) return NULL;
  void *memory = calloc(1, bytes);
  CHECK(memory, EXHAUSTED, bytes, mem_describe_limits());
  atomic_fetch_add(&live, 1);
  return memory;
}

void *mem_resize(void *memory, size_t bytes) {
  if (bytes == 0) {
    mem_free(memory);
    return NULL;
  }
  void *grown = realloc(memory, bytes);
  CHECK(grown, EXHAUSTED, bytes, mem_describe_limits());
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
