#include "base/file.h"

#include "base/error.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int file_read_text(const char *path, char **text) {
  FILE *file = fopen(path, "rb");
  if (!file) return error_raise(STATUS_MISTAKE, "%s: cannot be read: %s", path, strerror(errno));
  size_t used = 0, room = 1 << 14, got;
  char *buffer = mem_alloc(room);
  while ((got = fread(buffer + used, 1, room - used - 1, file)) > 0) {
    used += got;
    if (room - used < 2) buffer = mem_resize(buffer, room *= 2);
  }
  int failed = ferror(file) ? errno : 0;
  fclose(file);
  if (failed) {
    mem_free(buffer);
    return error_raise(STATUS_MISTAKE, "%s: cannot be read: %s", path, strerror(failed));
  }
  buffer[used] = '\0';
  *text = buffer;
  return STATUS_OK;
}
