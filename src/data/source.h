/* Bytes of a file, a pipe or standard input, with a look ahead: what a file is can be found out from its beginning and
 * all of it still be read, also where nothing can be read twice. Memory holds what is looked at: a piece, or a line.
 */
#ifndef PENSTOCK_DATA_SOURCE_H
#define PENSTOCK_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source {
  const char *path; /* as given, for messages; "-" is standard input */
  int fd;
  uint8_t *buffer;
  size_t begin, end, capacity; /* what is read and not yet taken lies at buffer[begin..end-1] */
  bool ended;
  int reason; /* errno of a read that failed, which ends the source */
};

/* Opens a path; "-" is standard input. STATUS_MISTAKE when it cannot be read, also of a folder. After a failure there
 * is nothing to close. */
int source_open(const char *path, struct source *source);

/* Closes. STATUS_MISTAKE when reading had failed: what came before the failure was given out as if it were all. */
int source_close(struct source *source);

/* Reads on until `wanted` bytes lie ahead, or no more come. Returns how many do, which may be more. */
size_t source_fill(struct source *source, size_t wanted);

/* Returns the bytes that lie ahead; they are valid until the next call of this module. */
const uint8_t *source_get(const struct source *source);

/* Takes `bytes` of what lies ahead. */
void source_skip(struct source *source, size_t bytes);

/* Takes a line: *line is without its newline and ends with the next call. False when nothing is left. */
bool source_take_line(struct source *source, const uint8_t **line, size_t *bytes);

#endif
