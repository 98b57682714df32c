/* The bytes of a pair of token files, without mapping them: a file that is cut while it is mapped ends the process with
 * a signal, and one that is read tells. Both files stay open. Of the index small windows are kept, as it may be larger
 * than memory; of the tokens nothing. Reading never fails at once: what cannot be read is zeros, and the first trouble
 * is remembered for tokens_reader_check. Internal to data; a reader belongs to one thread.
 */
#ifndef PENSTOCK_DATA_TOKENS_READER_H
#define PENSTOCK_DATA_TOKENS_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum tokens_part { TOKENS_INDEX, TOKENS_BIN, TOKENS_PARTS };

/* One a table of the index, each of which is walked through by itself. */
enum tokens_table { TOKENS_LENGTHS, TOKENS_POINTERS, TOKENS_ENTRIES, TOKENS_TABLES };

struct tokens_window {
  int64_t first, end; /* bytes of the index */
  uint8_t *bytes;
};

struct tokens_reader {
  struct tokens_part_file {
    char *path;
    int descriptor; /* -1: not open */
    int64_t bytes;  /* when it was opened; -1: not open */
    struct timespec changed;
  } parts[TOKENS_PARTS];
  struct tokens_window windows[TOKENS_TABLES];
  char *trouble;        /* NULL: none so far */
  double checked;       /* clock */
  uint64_t fingerprint; /* 0: not computed */
};

/* Opens both files of a prefix. One that cannot be opened has bytes -1 and its errno in reasons. */
struct tokens_reader *tokens_reader_open(const char *prefix, int reasons[TOKENS_PARTS]);
void tokens_reader_close(struct tokens_reader **reader);

/* Reads `bytes` bytes from `at` on, all inside the file as it was opened. False when they are not there any more. */
bool tokens_reader_fetch(struct tokens_reader *reader, enum tokens_part part, int64_t at, void *out, int64_t bytes);

/* Returns at most 8 bytes of the index, through a table's window; beyond the index they are zeros. Valid until the
 * next call. */
const uint8_t *tokens_reader_move_window(struct tokens_reader *reader, enum tokens_table table, int64_t at);
static inline const uint8_t *tokens_reader_view(struct tokens_reader *reader, enum tokens_table table, int64_t at) {
  const struct tokens_window *window = &reader->windows[table];
  bool inside = at >= window->first && at + 8 <= window->end;
  return inside ? window->bytes + (at - window->first) : tokens_reader_move_window(reader, table, at);
}

/* The fingerprint of both files' content: 64 bits of the whole index, of the sizes, and of the tokens; of more than 32
 * MiB of these, of 512 blocks that lie evenly in the file, its ends among them. The same for equal content wherever it
 * lies. */
uint64_t tokens_reader_get_fingerprint(struct tokens_reader *reader);

/* STATUS_FAILED when something could not be read so far, or the files are not those that were opened: other sizes, or
 * written to and of another content. A file that only has another date is taken. The look at the disk is left out when
 * the last one was a moment ago. */
int tokens_reader_check(struct tokens_reader *reader);

#endif
