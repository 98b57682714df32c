#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

enum { READ_BYTES = 1 << 20 };

static int read_failed(const char *path, int reason) {
  return error_raise(STATUS_MISTAKE, "cannot read %s: %s%s", path, limits_reason(reason),
                     reason == EISDIR ? " (name the files in it)" : "");
}

int source_open(const char *path, struct source *source) {
  struct stat status;
  *source = (struct source){.path = path, .fd = STDIN_FILENO};
  if (strcmp(path, "-") != 0) source->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (source->fd < 0) return read_failed(path, errno);
  if (fstat(source->fd, &status) == 0 && S_ISDIR(status.st_mode)) {
    if (source->fd != STDIN_FILENO) close(source->fd);
    return read_failed(path, EISDIR);
  }
  return STATUS_OK;
}

int source_close(struct source *source) {
  if (source->fd != STDIN_FILENO) close(source->fd);
  mem_free(source->buffer);
  source->buffer = NULL;
  return source->reason ? read_failed(source->path, source->reason) : STATUS_OK;
}

/* Room for a read behind what lies ahead. */
static void make_room(struct source *source) {
  if (source->begin > 0) memmove(source->buffer, source->buffer + source->begin, source->end - source->begin);
  source->end -= source->begin;
  source->begin = 0;
  if (source->capacity - source->end >= READ_BYTES) return;
  source->capacity = 2 * source->capacity > source->end + READ_BYTES ? 2 * source->capacity : source->end + READ_BYTES;
  source->buffer = mem_resize(source->buffer, source->capacity);
}

size_t source_fill(struct source *source, size_t wanted) {
  while (source->end - source->begin < wanted && !source->ended) {
    make_room(source);
    ssize_t n = read(source->fd, source->buffer + source->end, source->capacity - source->end);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) source->reason = errno;
    if (n <= 0) source->ended = true;
    if (n > 0) source->end += (size_t)n;
  }
  return source->end - source->begin;
}

const uint8_t *source_get(const struct source *source) { return source->buffer + source->begin; }
void source_skip(struct source *source, size_t bytes) { source->begin += bytes; }

bool source_take_line(struct source *source, const uint8_t **line, size_t *bytes) {
  size_t seen = 0, there = source_fill(source, 1);
  const uint8_t *newline = NULL;
  while (seen < there && !(newline = memchr(source_get(source) + seen, '\n', there - seen))) {
    seen = there;
    there = source_fill(source, there + 1);
  }
  if (there == 0) return false;
  *line = source_get(source);
  *bytes = newline ? (size_t)(newline - *line) : there;
  source_skip(source, newline ? *bytes + 1 : there);
  return true;
}
