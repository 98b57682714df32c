#include "data/tokens.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/tokens_impl.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *tokens_get_type_name(int type) {
  switch (type) {
#define X(name, code, text, bytes, readable)                                                                           \
  case code: return text;
    TOKENS_TYPES(X)
#undef X
  }
  return NULL;
}

int64_t tokens_get_sequence_length(const struct tokens *file, int64_t s) { return tokens_load_length(file, s); }

void tokens_get_document(const struct tokens *file, int64_t d, int64_t *first, int64_t *end) {
  int64_t indexed = file->n_entries > 0 ? file->n_entries - 1 : 0;
  if (d < indexed) {
    *first = tokens_load_entry(file, d);
    *end = tokens_load_entry(file, d + 1);
  } else {
    *first = (file->n_entries > 0 ? tokens_load_entry(file, indexed) : 0) + (d - indexed);
    *end = *first + 1;
  }
  /* Checked when it was opened; a file that was written over since must not lead anybody astray before that is seen. */
  if (*first < 0 || *first > file->n_sequences) *first = file->n_sequences;
  if (*end < *first || *end > file->n_sequences) *end = *first;
}

int64_t tokens_get_document_length(const struct tokens *file, int64_t d) {
  int64_t first, end, length = 0;
  tokens_get_document(file, d, &first, &end);
  for (int64_t s = first; s < end; s++) length += tokens_load_length(file, s);
  return length;
}

int64_t tokens_get_document_start(const struct tokens *file, int64_t d) {
  int64_t first, end;
  tokens_get_document(file, d, &first, &end);
  return cumulative_get(&file->lengths, first);
}

int64_t tokens_find_document(const struct tokens *file, int64_t position, int64_t *offset) {
  int64_t sequence = cumulative_find(&file->lengths, position, offset);
  /* The last document that begins at or before the sequence: several may begin there, all but the last empty. */
  int64_t low = 0, high = file->n_documents - 1, first, end;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    tokens_get_document(file, middle, &first, &end);
    if (first <= sequence)
      low = middle;
    else
      high = middle - 1;
  }
  tokens_get_document(file, low, &first, &end);
  for (int64_t s = first; s < sequence; s++) *offset += tokens_load_length(file, s);
  return low;
}

/* Ids of the file's type from `from`, which may lie at the end of `out`: each is read before its place is written. */
static void convert(const struct tokens *file, const uint8_t *from, int64_t n, int32_t *out) {
  for (int64_t i = 0; i < n && file->type == TOKENS_UINT16; i++) {
    uint16_t id;
    memcpy(&id, from + 2 * i, sizeof id);
    out[i] = le16toh(id);
  }
  for (int64_t i = 0; i < n && file->type != TOKENS_UINT16; i++) out[i] = (int32_t)le32toh((uint32_t)out[i]);
}

/* Ids of one sequence; false when they are not there. */
static bool read_run(const struct tokens *file, int64_t byte, int64_t n, int32_t *out) {
  uint8_t *raw = (uint8_t *)out + (4 - file->token_bytes) * n;
  if (!tokens_reader_fetch(file->reader, TOKENS_BIN, byte, raw, n * file->token_bytes)) return false;
  convert(file, raw, n, out);
  return true;
}

int tokens_check_unchanged(const struct tokens *file) { return tokens_reader_check(file->reader); }

int tokens_read(const struct tokens *file, int64_t position, int64_t n, int32_t *out) {
  if (n <= 0) return STATUS_OK;
  int64_t offset, s = cumulative_find(&file->lengths, position, &offset);
  bool good = true;
  for (; n > 0 && s < file->n_sequences && good; s++) {
    int64_t run = tokens_load_length(file, s) - offset;
    if (run > n) run = n;
    /* The pointer of an empty sequence may be anything. */
    if (run > 0) good = read_run(file, tokens_load_pointer(file, s) + offset * file->token_bytes, run, out);
    if (run > 0) out += run, n -= run;
    offset = 0;
  }
  int status = tokens_check_unchanged(file);
  if (!status && n > 0) status = error_raise(STATUS_FAILED, "%s.idx changed while it was read", file->prefix);
  return status;
}

/* People name the file that they see in the folder. */
static const char *hint_at_prefix(const char *prefix) {
  size_t length = strlen(prefix);
  bool suffix = length > 4 && (!strcmp(prefix + length - 4, ".bin") || !strcmp(prefix + length - 4, ".idx"));
  return suffix ? " (give the prefix, without .bin or .idx)" : "";
}

struct tokens *tokens_open_parts(const char *prefix, tokens_found *found, void *context) {
  struct tokens *file = MEM_NEW(struct tokens, 1);
  int reasons[TOKENS_PARTS];
  file->prefix = mem_strdup(prefix);
  file->reader = tokens_reader_open(prefix, reasons);
  file->index_bytes = file->reader->parts[TOKENS_INDEX].bytes;
  file->bin_bytes = file->reader->parts[TOKENS_BIN].bytes;
  for (int i = 0; i < TOKENS_PARTS; i++) {
    if (file->reader->parts[i].bytes >= 0) continue;
    char *text = mem_format("%s: %s%s", file->reader->parts[i].path, limits_reason(reasons[i]), hint_at_prefix(prefix));
    found(context, TOKENS_FAULT_FILE, true, 1, text);
    mem_free(text);
  }
  return file;
}

/* The verdict of tokens_open on the faults: the first refusal is the error, tolerated faults become notes. */
struct verdict {
  struct tokens *file;
  char *refusal, **notes;
  int64_t n_refused;
  int n_notes;
};

static void judge(void *context, enum tokens_fault fault, bool refused, int64_t n, const char *text) {
  struct verdict *verdict = context;
  (void)fault, (void)n;
  if (refused) {
    if (verdict->n_refused++ == 0) verdict->refusal = mem_strdup(text);
  } else {
    verdict->notes = mem_resize(verdict->notes, sizeof(char *) * (size_t)(verdict->n_notes + 1));
    verdict->notes[verdict->n_notes++] = mem_strdup(text);
  }
}

int tokens_open(const char *prefix, int64_t vocab, struct tokens **out) {
  struct verdict verdict = {0};
  int status = STATUS_OK;
  *out = NULL;
  struct tokens *file = tokens_open_parts(prefix, judge, &verdict);
  if (verdict.n_refused == 0) {
    tokens_check_index(file, vocab, judge, &verdict);
    if (verdict.n_refused == 0) file->fingerprint = tokens_reader_get_fingerprint(file->reader);
    status = tokens_check_unchanged(file); /* else faults are not those of the file */
  }
  file->notes = verdict.notes;
  file->n_notes = verdict.n_notes;
  if (!status && verdict.n_refused)
    status = error_raise(STATUS_MISTAKE, "%s%s", verdict.refusal,
                         verdict.n_refused > 1 ? "; `penstock data check PREFIX` lists all faults" : "");
  mem_free(verdict.refusal);
  if (status) tokens_close(&file);
  *out = file;
  return status;
}

void tokens_close(struct tokens **file) {
  struct tokens *f = *file;
  if (!f) return;
  tokens_reader_close(&f->reader);
  for (int i = 0; i < f->n_notes; i++) mem_free(f->notes[i]);
  mem_free(f->notes);
  cumulative_fini(&f->lengths);
  mem_free(f->prefix);
  mem_free(f);
  *file = NULL;
}
