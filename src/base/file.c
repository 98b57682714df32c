#include "base/file.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20 };

int file_read_text(const char *path, char **text) {
  FILE *file = fopen(path, "rb");
  if (!file) return error_raise(STATUS_MISTAKE, "%s: cannot be read: %s", path, limits_reason(errno));
  size_t used = 0, room = 1 << 14, got;
  char *buffer = mem_alloc(room);
  while (used <= MOST_BYTES && (got = fread(buffer + used, 1, room - used - 1, file)) > 0) {
    used += got;
    if (room - used < 2) buffer = mem_resize(buffer, room *= 2);
  }
  int failed = ferror(file) ? errno : 0;
  fclose(file);
  if (failed || used > MOST_BYTES) {
    mem_free(buffer);
    return error_raise(STATUS_MISTAKE, "%s: cannot be read: %s", path,
                       failed ? limits_reason(failed) : "it has more than 256 MiB, is it a text?");
  }
  buffer[used] = '\0';
  if (!strncmp(buffer, "\xef\xbb\xbf", 3)) memmove(buffer, buffer + 3, used - 2);
  *text = buffer;
  return STATUS_OK;
}
