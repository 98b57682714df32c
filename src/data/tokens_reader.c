#include "data/tokens_reader.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/tokens_pair.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
  WINDOW_BYTES = 16 << 10,
  SLACK_BYTES = 8, /* so that an entry that begins in a window ends in it */
  PAGE_BYTES = 4096,
  PIECE_BYTES = 1 << 20,
  WHOLE_BYTES = 32 << 20, /* tokens up to here are hashed whole */
  N_SAMPLES = 512,
  SAMPLE_BYTES = WHOLE_BYTES / N_SAMPLES,
};
#define MOMENT 0.1 /* seconds: on a parallel file system a look at a file's size is a message */

/* ---- opening ---- */

/* A blend of many files takes two descriptors each, for which the usual limit is small and the hard one is not. */
static bool raise_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void open_pair(const char *prefix, int descriptors[2], int reasons[2]) {
  tokens_pair_open(prefix, descriptors, reasons);
  bool full = (descriptors[0] < 0 && reasons[0] == EMFILE) || (descriptors[1] < 0 && reasons[1] == EMFILE);
  if (!full || !raise_limit()) return;
  for (int i = 0; i < 2; i++)
    if (descriptors[i] >= 0) close(descriptors[i]);
  tokens_pair_open(prefix, descriptors, reasons);
}

/* Returns 0 or errno. */
static int open_part(struct tokens_part_file *part, int descriptor) {
  struct stat status;
  int reason = fstat(descriptor, &status) ? errno : 0;
  if (!reason && !S_ISREG(status.st_mode)) reason = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  if (reason) {
    close(descriptor);
    return reason;
  }
  part->descriptor = descriptor;
  part->bytes = status.st_size;
  part->changed = status.st_mtim;
  return 0;
}

struct tokens_reader *tokens_reader_open(const char *prefix, int reasons[TOKENS_PARTS]) {
  static const char *const suffixes[TOKENS_PARTS] = {[TOKENS_INDEX] = "idx", [TOKENS_BIN] = "bin"};
  struct tokens_reader *reader = MEM_NEW(struct tokens_reader, 1);
  int descriptors[TOKENS_PARTS];
  open_pair(prefix, descriptors, reasons);
  for (int i = 0; i < TOKENS_PARTS; i++) {
    struct tokens_part_file *part = &reader->parts[i];
    part->path = mem_format("%s.%s", prefix, suffixes[i]);
    part->descriptor = -1;
    part->bytes = -1;
    if (descriptors[i] >= 0) reasons[i] = open_part(part, descriptors[i]);
  }
  for (int t = 0; t < TOKENS_TABLES; t++) reader->windows[t].bytes = mem_alloc(WINDOW_BYTES + SLACK_BYTES);
  reader->checked = clock_now();
  return reader;
}

void tokens_reader_close(struct tokens_reader **reader) {
  struct tokens_reader *r = *reader;
  if (!r) return;
  for (int i = 0; i < TOKENS_PARTS; i++) {
    if (r->parts[i].descriptor >= 0) close(r->parts[i].descriptor);
    mem_free(r->parts[i].path);
  }
  for (int t = 0; t < TOKENS_TABLES; t++) mem_free(r->windows[t].bytes);
  mem_free(r->trouble);
  mem_free(r);
  *reader = NULL;
}

/* ---- reading ---- */

/* The first trouble is the cause of all others. */
static void note_trouble(struct tokens_reader *reader, char *text) {
  if (reader->trouble)
    mem_free(text);
  else
    reader->trouble = text;
}

static void note_size(struct tokens_reader *reader, const struct tokens_part_file *part, int64_t bytes) {
  note_trouble(reader, mem_format("%s changed while it was read: it has %" PRId64 " bytes, it had %" PRId64, part->path,
                                  bytes, part->bytes));
}

bool tokens_reader_fetch(struct tokens_reader *reader, enum tokens_part which, int64_t at, void *out, int64_t bytes) {
  const struct tokens_part_file *part = &reader->parts[which];
  int64_t done = 0;
  while (done < bytes) {
    ssize_t n = pread(part->descriptor, (char *)out + done, (size_t)(bytes - done), at + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) note_trouble(reader, mem_format("cannot read %s: %s", part->path, limits_reason(errno)));
    struct stat now;
    if (n == 0) note_size(reader, part, fstat(part->descriptor, &now) ? at + done : now.st_size);
    if (n <= 0) break;
    done += n;
  }
  memset((char *)out + done, 0, (size_t)(bytes - done));
  return done == bytes;
}

const uint8_t *tokens_reader_move_window(struct tokens_reader *reader, enum tokens_table table, int64_t at) {
  static const uint8_t nothing[SLACK_BYTES];
  struct tokens_window *window = &reader->windows[table];
  int64_t first = at - at % PAGE_BYTES, bytes = reader->parts[TOKENS_INDEX].bytes;
  if (at < 0 || at >= bytes) return nothing;
  int64_t n = bytes - first < WINDOW_BYTES + SLACK_BYTES ? bytes - first : WINDOW_BYTES + SLACK_BYTES;
  tokens_reader_fetch(reader, TOKENS_INDEX, first, window->bytes, n);
  memset(window->bytes + n, 0, (size_t)(WINDOW_BYTES + SLACK_BYTES - n));
  window->first = first;
  window->end = first + WINDOW_BYTES + SLACK_BYTES;
  return window->bytes + (at - first);
}

/* ---- what they are ---- */

/* Hash of a stretch, in pieces that follow each other. */
static uint64_t hash_stretch(struct tokens_reader *reader, enum tokens_part part, int64_t at, int64_t bytes,
                             uint8_t *piece, uint64_t hash) {
  for (int64_t done = 0; done < bytes && !reader->trouble; done += PIECE_BYTES) {
    int64_t n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
    tokens_reader_fetch(reader, part, at + done, piece, n);
    hash = hash_bytes(piece, (size_t)n, hash);
  }
  return hash;
}

static uint64_t compute_fingerprint(struct tokens_reader *reader) {
  uint8_t *piece = mem_alloc(PIECE_BYTES);
  int64_t sizes[2] = {reader->parts[TOKENS_INDEX].bytes, reader->parts[TOKENS_BIN].bytes};
  uint8_t bytes[sizeof sizes];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)((uint64_t)sizes[i / 8] >> (8 * (i % 8)));
  uint64_t hash = hash_stretch(reader, TOKENS_INDEX, 0, sizes[0], piece, hash_bytes(bytes, sizeof bytes, 0));
  if (sizes[1] <= WHOLE_BYTES)
    hash = hash_stretch(reader, TOKENS_BIN, 0, sizes[1], piece, hash);
  else
    for (int i = 0; i < N_SAMPLES; i++) {
      int64_t at = (int64_t)((__int128)(sizes[1] - SAMPLE_BYTES) * i / (N_SAMPLES - 1));
      hash = hash_stretch(reader, TOKENS_BIN, at, SAMPLE_BYTES, piece, hash);
    }
  mem_free(piece);
  return hash ? hash : 1;
}

uint64_t tokens_reader_get_fingerprint(struct tokens_reader *reader) {
  if (!reader->fingerprint) reader->fingerprint = compute_fingerprint(reader);
  return reader->fingerprint;
}

static void check_part(struct tokens_reader *reader, struct tokens_part_file *part) {
  struct stat now;
  if (part->descriptor < 0) return;
  if (fstat(part->descriptor, &now)) {
    note_trouble(reader, mem_format("cannot read %s: %s", part->path, limits_reason(errno)));
  } else if (now.st_size != part->bytes) {
    note_size(reader, part, now.st_size);
  } else if (now.st_mtim.tv_sec != part->changed.tv_sec || now.st_mtim.tv_nsec != part->changed.tv_nsec) {
    part->changed = now.st_mtim;
    if (reader->fingerprint && compute_fingerprint(reader) != reader->fingerprint)
      note_trouble(reader, mem_format("%s changed while it was read: its content is another than it was", part->path));
  }
}

int tokens_reader_check(struct tokens_reader *reader) {
  double now = clock_now();
  if (!reader->trouble && now > reader->checked + MOMENT) {
    for (int i = 0; i < TOKENS_PARTS && !reader->trouble; i++) check_part(reader, &reader->parts[i]);
    reader->checked = now;
  }
  return reader->trouble ? error_raise(STATUS_FAILED, "%s", reader->trouble) : STATUS_OK;
}
