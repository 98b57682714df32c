#include "base/error.h"
#include "base/mem.h"
#include "data/tokens.h"
#include "data/tokens_impl.h"

#include <endian.h>
#include <inttypes.h>

#define BLOCK_TOKENS 32768

struct scan {
  const struct tokens *file;
  int64_t vocab;
  tokens_outside *found;
  void *context;
  struct tokens_scan *result;
  uint8_t *block; /* of BLOCK_TOKENS tokens */
};

static int64_t load_id(const struct tokens *file, const uint8_t *at, int64_t i) {
  if (file->type == TOKENS_UINT16) return le16toh(((const uint16_t *)(const void *)at)[i]);
  return (int32_t)le32toh(((const uint32_t *)(const void *)at)[i]);
}

/* Least and most id of a block. Plain loops over one type each, so that the compiler makes vector code of them. */
static void find_range(const struct tokens *file, const uint8_t *at, int64_t n, int64_t *least, int64_t *most) {
  if (file->type == TOKENS_UINT16) {
    const uint16_t *ids = (const uint16_t *)(const void *)at;
    uint16_t low = UINT16_MAX, high = 0;
    for (int64_t i = 0; i < n; i++) {
      uint16_t id = le16toh(ids[i]);
      low = id < low ? id : low;
      high = id > high ? id : high;
    }
    *least = low;
    *most = high;
  } else {
    const uint32_t *ids = (const uint32_t *)(const void *)at;
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (int64_t i = 0; i < n; i++) {
      int32_t id = (int32_t)le32toh(ids[i]);
      low = id < low ? id : low;
      high = id > high ? id : high;
    }
    *least = low;
    *most = high;
  }
}

/* Tokens that lie together in PREFIX.bin from `byte` on; the first has place `position` in the stream. */
static bool scan_run(struct scan *scan, int64_t byte, int64_t n, int64_t position) {
  for (int64_t i = 0; i < n; i += BLOCK_TOKENS) {
    int64_t block = n - i < BLOCK_TOKENS ? n - i : BLOCK_TOKENS, least, most;
    const uint8_t *at = scan->block;
    int64_t unit = scan->file->token_bytes;
    if (!tokens_reader_fetch(scan->file->reader, TOKENS_BIN, byte + i * unit, scan->block, block * unit)) return false;
    find_range(scan->file, at, block, &least, &most);
    if (least < scan->result->least) scan->result->least = least;
    if (most > scan->result->most) scan->result->most = most;
    if (least >= 0 && most < scan->vocab) continue;
    for (int64_t k = 0; k < block; k++) {
      int64_t id = load_id(scan->file, at, k);
      if ((id < 0 || id >= scan->vocab) && !scan->found(scan->context, position + i + k, id)) return false;
    }
  }
  return true;
}

/* Sequences that follow each other in the file (all, as a rule) are looked at as one run. */
void tokens_scan_ids(const struct tokens *file, int64_t first, int64_t end, int64_t vocab, tokens_outside *found,
                     void *context, struct tokens_scan *result) {
  struct scan scan = {.file = file, .vocab = vocab, .found = found, .context = context, .result = result};
  scan.block = mem_alloc(BLOCK_TOKENS * sizeof(int32_t));
  int64_t unit = file->token_bytes, position = cumulative_get(&file->lengths, first), byte = 0, n = 0;
  *result = (struct tokens_scan){.least = INT64_MAX, .most = INT64_MIN};
  bool goes_on = true;
  for (int64_t s = first; s < end && goes_on; s++) {
    int64_t length = tokens_get_sequence_length(file, s), pointer = tokens_load_pointer(file, s);
    if (length == 0) continue;
    if (n > 0 && pointer != byte + n * unit) {
      goes_on = scan_run(&scan, byte, n, position);
      position += n;
      n = 0;
    }
    if (n == 0) byte = pointer;
    n += length;
  }
  if (goes_on) scan_run(&scan, byte, n, position);
  mem_free(scan.block);
}

char *tokens_describe_id(const struct tokens *file, int64_t position, int64_t id, int64_t vocab) {
  int64_t offset, document = tokens_find_document(file, position, &offset);
  if (vocab >= TOKENS_VOCAB_UNKNOWN)
    return mem_format("%s.bin: document %" PRId64 ", position %" PRId64 ": token id %" PRId64
                      " is negative (documents and positions count from 0)",
                      file->prefix, document, offset, id);
  return mem_format("%s.bin: document %" PRId64 ", position %" PRId64 ": token id %" PRId64
                    " is outside the vocabulary of %" PRId64 " (ids 0 to %" PRId64
                    "; documents and positions count from 0)",
                    file->prefix, document, offset, id, vocab, vocab - 1);
}

struct first_outside {
  bool any;
  int64_t position, id;
};

static bool stop_at_first(void *context, int64_t position, int64_t id) {
  struct first_outside *first = context;
  *first = (struct first_outside){true, position, id};
  return false;
}

int tokens_check_vocabulary(const struct tokens *file, int64_t vocab, int part, int n_parts) {
  struct first_outside first = {0};
  struct tokens_scan result;
  /* The stream is cut by bytes, not by numbers of sequences, as lengths differ; a part begins with a whole sequence. */
  int64_t bound[2];
  for (int i = 0; i < 2; i++) {
    int64_t offset, place = (int64_t)((__int128)file->n_tokens * (part + i) / n_parts);
    bound[i] = place == file->n_tokens ? file->n_sequences : cumulative_find(&file->lengths, place, &offset);
  }
  tokens_scan_ids(file, bound[0], bound[1], vocab, stop_at_first, &first, &result);
  if (!first.any) return tokens_check_unchanged(file);
  char *text = tokens_describe_id(file, first.position, first.id, vocab);
  error_raise(STATUS_MISTAKE, "%s: was the file made with another tokenizer than the model's?", text);
  mem_free(text);
  return STATUS_MISTAKE;
}
