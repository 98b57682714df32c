#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/tokens.h"
#include "data/tokens_impl.h"
#include "data/tokens_pair.h"

enum { BUFFER_BYTES = 1 << 20 };

/* One of the two files while it is written. */
struct output {
  char *temporary;
  int fd;
  int64_t bytes; /* given to output_put so far */
  size_t used;
  uint8_t *buffer; /* [BUFFER_BYTES] */
};

/* The tables of the index follow each other and their lengths are known at the end only, so lengths are written as they
 * come, pointers are made from them when all are there, and of the documents only the sequences that do not begin one
 * are kept in memory: there are none unless a document is longer than a sequence may be. */
struct tokens_writer {
  struct tokens_pair pair;
  struct output index, bin;
  int64_t vocab, sequence_limit;
  int type;
  int64_t token_bytes, n_tokens, n_sequences, n_documents;
  int64_t length; /* tokens of the sequence under way */
  bool continues; /* that sequence continues the document of the one before it */
  bool complete;  /* the files are on the disk and tokens_pair's */
  int64_t *continuation;
  int64_t n_continuations, continuation_capacity;
};

static int output_open(struct output *output, const char *prefix, const char *suffix) {
  output->temporary = mem_format("%s.%s.tmp", prefix, suffix);
  output->buffer = mem_alloc(BUFFER_BYTES);
  output->fd = open(output->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (output->fd < 0)
    return error_raise(STATUS_MISTAKE, "cannot write %s: %s%s", output->temporary, limits_reason(errno),
                       errno == ENOENT ? " (the folder must exist)" : "");
  return STATUS_OK;
}

static int write_failed(const struct output *output, int reason) {
  return error_raise(STATUS_FAILED, "writing %s: %s after %" PRId64 " bytes; %s", output->temporary,
                     limits_reason(reason), output->bytes - (int64_t)output->used,
                     reason == ENOSPC || reason == EDQUOT || reason == EFBIG
                         ? "free space or a larger limit is needed, or another place (--output)"
                         : "nothing was kept");
}

static int write_at(const struct output *output, const uint8_t *data, size_t bytes, off_t offset) {
  while (bytes > 0) {
    ssize_t n = offset < 0 ? write(output->fd, data, bytes) : pwrite(output->fd, data, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return write_failed(output, n < 0 ? errno : ENOSPC);
    data += n;
    bytes -= (size_t)n;
    if (offset >= 0) offset += n;
  }
  return STATUS_OK;
}

static int output_flush(struct output *output) {
  int status = write_at(output, output->buffer, output->used, -1);
  output->used = 0;
  return status;
}

/* A place of `bytes` (at most a buffer) to be filled in; NULL when writing failed. */
static uint8_t *output_put(struct output *output, size_t bytes) {
  if (output->used + bytes > BUFFER_BYTES && output_flush(output)) return NULL;
  uint8_t *at = output->buffer + output->used;
  output->used += bytes;
  output->bytes += (int64_t)bytes;
  return at;
}

static int put_int64(struct output *output, int64_t value) {
  uint8_t *at = output_put(output, 8);
  if (!at) return error_status();
  uint64_t raw = htole64((uint64_t)value);
  memcpy(at, &raw, 8);
  return STATUS_OK;
}

/* Some file systems cannot sync (EINVAL), which is no failure of the write. */
static int sync_and_close(struct output *output) {
  int reason = 0;
  if (fsync(output->fd) != 0 && errno != EINVAL) reason = errno;
  if (close(output->fd) != 0 && !reason) reason = errno;
  output->fd = -1;
  return reason ? write_failed(output, reason) : STATUS_OK;
}

static void output_fini(struct output *output, bool remove) {
  if (output->fd >= 0) close(output->fd);
  if (remove && output->temporary) unlink(output->temporary);
  mem_free(output->buffer);
  mem_free(output->temporary);
}

int tokens_write_begin(const char *prefix, int64_t vocab, struct tokens_writer **out) {
  struct tokens_writer *writer = MEM_NEW(struct tokens_writer, 1);
  *out = writer;
  writer->index.fd = writer->bin.fd = -1;
  writer->vocab = vocab;
  writer->sequence_limit = INT32_MAX;
  writer->type = vocab <= TOKENS_VOCAB_UINT16 ? TOKENS_UINT16 : TOKENS_INT32;
  writer->token_bytes = writer->type == TOKENS_UINT16 ? 2 : 4;
  int status = tokens_pair_lock(prefix, &writer->pair);
  if (!status) status = output_open(&writer->bin, prefix, "bin");
  if (!status) status = output_open(&writer->index, prefix, "idx");
  /* The header is filled in at the end. */
  if (!status) memset(output_put(&writer->index, TOKENS_HEADER_BYTES), 0, TOKENS_HEADER_BYTES);
  if (status) tokens_write_abandon(out);
  return status;
}

void tokens_write_set_sequence_limit(struct tokens_writer *writer, int64_t limit) { writer->sequence_limit = limit; }
int64_t tokens_write_count_tokens(const struct tokens_writer *writer) { return writer->n_tokens; }
int64_t tokens_write_count_documents(const struct tokens_writer *writer) { return writer->n_documents; }
const char *tokens_write_get_type_name(const struct tokens_writer *writer) {
  return tokens_get_type_name(writer->type);
}

static int end_sequence(struct tokens_writer *writer) {
  uint8_t *at = output_put(&writer->index, 4);
  if (!at) return error_status();
  uint32_t raw = htole32((uint32_t)writer->length);
  memcpy(at, &raw, 4);
  if (writer->continues) {
    if (writer->n_continuations == writer->continuation_capacity) {
      writer->continuation_capacity = 2 * writer->continuation_capacity + 16;
      writer->continuation = mem_resize(writer->continuation, sizeof(int64_t) * (size_t)writer->continuation_capacity);
    }
    writer->continuation[writer->n_continuations++] = writer->n_sequences;
  }
  writer->n_sequences++;
  writer->length = 0;
  return STATUS_OK;
}

/* Writes ids, at most one buffer of them. */
static int put_ids(struct tokens_writer *writer, const int32_t *ids, int64_t n) {
  uint8_t *at = output_put(&writer->bin, (size_t)(n * writer->token_bytes));
  if (!at) return error_status();
  for (int64_t i = 0; i < n; i++) {
    if (ids[i] < 0 || ids[i] >= writer->vocab)
      return error_raise(STATUS_MISTAKE, "token id %d is outside the vocabulary of %" PRId64 " (ids 0 to %" PRId64 ")",
                         ids[i], writer->vocab, writer->vocab - 1);
    uint16_t narrow = htole16((uint16_t)ids[i]);
    uint32_t wide = htole32((uint32_t)ids[i]);
    if (writer->token_bytes == 2)
      memcpy(at + 2 * i, &narrow, 2);
    else
      memcpy(at + 4 * i, &wide, 4);
  }
  writer->length += n;
  writer->n_tokens += n;
  return STATUS_OK;
}

int tokens_write_tokens(struct tokens_writer *writer, const int32_t *ids, int64_t n) {
  while (n > 0) {
    if (writer->length == writer->sequence_limit) {
      int status = end_sequence(writer);
      if (status) return status;
      writer->continues = true;
    }
    int64_t part = n, room = writer->sequence_limit - writer->length, most = BUFFER_BYTES / writer->token_bytes;
    if (part > room) part = room;
    if (part > most) part = most;
    int status = put_ids(writer, ids, part);
    if (status) return status;
    ids += part;
    n -= part;
  }
  return STATUS_OK;
}

int tokens_write_end_document(struct tokens_writer *writer) {
  int status = end_sequence(writer);
  writer->continues = false;
  writer->n_documents++;
  return status;
}

/* Reads the lengths back and writes where each sequence begins. */
static int write_pointers(struct tokens_writer *writer) {
  int status = output_flush(&writer->index);
  uint32_t lengths[4096];
  int64_t byte = 0;
  for (int64_t s = 0; !status && s < writer->n_sequences;) {
    int64_t n = writer->n_sequences - s < 4096 ? writer->n_sequences - s : 4096;
    ssize_t got = pread(writer->index.fd, lengths, (size_t)n * 4, TOKENS_HEADER_BYTES + 4 * s);
    if (got != (ssize_t)n * 4)
      return error_raise(STATUS_FAILED, "reading back %s: %s", writer->index.temporary,
                         got < 0 ? limits_reason(errno) : "file is shorter than what was written");
    for (int64_t i = 0; !status && i < n; i++) {
      status = put_int64(&writer->index, byte);
      byte += le32toh(lengths[i]) * writer->token_bytes;
    }
    s += n;
  }
  return status;
}

static int write_documents(struct tokens_writer *writer) {
  int64_t next = 0;
  int status = STATUS_OK;
  for (int64_t s = 0; !status && s < writer->n_sequences; s++) {
    if (next < writer->n_continuations && writer->continuation[next] == s)
      next++;
    else
      status = put_int64(&writer->index, s);
  }
  return status ? status : put_int64(&writer->index, writer->n_sequences);
}

static int write_header(struct tokens_writer *writer) {
  uint8_t header[TOKENS_HEADER_BYTES] = TOKENS_MAGIC;
  const uint64_t version = htole64(1), sequences = htole64((uint64_t)writer->n_sequences),
                 entries = htole64((uint64_t)writer->n_documents + 1);
  memcpy(header + 9, &version, 8);
  header[17] = (uint8_t)writer->type;
  memcpy(header + 18, &sequences, 8);
  memcpy(header + 26, &entries, 8);
  return write_at(&writer->index, header, sizeof header, 0);
}

int tokens_write_end(struct tokens_writer **writer) {
  struct tokens_writer *w = *writer;
  int status = write_pointers(w);
  if (!status) status = write_documents(w);
  if (!status) status = output_flush(&w->index);
  if (!status) status = write_header(w);
  if (!status) status = output_flush(&w->bin);
  if (!status) status = sync_and_close(&w->bin);
  if (!status) status = sync_and_close(&w->index);
  w->complete = !status;
  if (!status) status = tokens_pair_replace(&w->pair);
  tokens_write_abandon(writer);
  return status;
}

void tokens_write_abandon(struct tokens_writer **writer) {
  if (!*writer) return;
  bool remove = (*writer)->pair.lock >= 0 && !(*writer)->complete;
  output_fini(&(*writer)->index, remove);
  output_fini(&(*writer)->bin, remove);
  tokens_pair_unlock(&(*writer)->pair);
  mem_free((*writer)->continuation);
  mem_free(*writer);
  *writer = NULL;
}
