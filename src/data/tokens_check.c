#include "base/error.h"
#include "base/mem.h"
#include "data/tokens.h"
#include "data/tokens_impl.h"

#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_OF_A_KIND 5

static const bool fault_refused[TOKENS_FAULT_COUNT] = {
#define X(name, text, refused) refused,
    TOKENS_FAULTS(X)
#undef X
};

/* A check under way: where faults go, and how many of each kind there were. */
struct check {
  struct tokens *file;
  tokens_found *found;
  void *context;
  int64_t count[TOKENS_FAULT_COUNT];
};

static void report(struct check *check, enum tokens_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void report(struct check *check, enum tokens_fault fault, const char *format, ...) {
  if (++check->count[fault] > SHOWN_OF_A_KIND) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length >= 0) check->found(check->context, fault, fault_refused[fault], 1, text);
}

/* Tells how many were not shown, and returns the faults for which the file is refused. */
static int64_t finish(struct check *check) {
  int64_t total = 0;
  for (int k = 0; k < TOKENS_FAULT_COUNT; k++) {
    int64_t more = check->count[k] - SHOWN_OF_A_KIND;
    if (fault_refused[k]) total += check->count[k];
    if (more <= 0) continue;
    char *text = mem_format("%s: %" PRId64 " more like the last of these", check->file->prefix, more);
    check->found(check->context, (enum tokens_fault)k, fault_refused[k], more, text);
    mem_free(text);
  }
  return total;
}

static void check_type(struct check *check, int code, int64_t vocab) {
  struct tokens *file = check->file;
  const char *name = tokens_get_type_name(code);
  file->type = code;
  switch (code) {
#define X(type, number, text, bytes, readable)                                                                         \
  case number: file->token_bytes = readable ? bytes : 0; break;
    TOKENS_TYPES(X)
#undef X
  }
  if (!name)
    report(check, TOKENS_FAULT_TYPE, "%s.idx: type code is %d, expected 4 (int32) or 8 (uint16)", file->prefix, code);
  else if (!file->token_bytes)
    report(check, TOKENS_FAULT_TYPE,
           "%s.idx: tokens are %s (type code %d); int32 and uint16 are supported: write the file again as one of these",
           file->prefix, name, code);
  else if (code == TOKENS_UINT16 && vocab > TOKENS_VOCAB_UINT16)
    report(check, TOKENS_FAULT_TYPE,
           "%s: tokens are uint16, which cannot hold all ids of a vocabulary of %" PRId64
           " (at most %d): ids above 65535 were lost when it was written; build it again with int32",
           file->prefix, vocab, TOKENS_VOCAB_UINT16);
}

/* Magic, version, type. False when there is no whole header. */
static bool check_header(struct check *check, int64_t vocab) {
  struct tokens *file = check->file;
  uint8_t index[TOKENS_HEADER_BYTES];
  if (file->index_bytes < TOKENS_HEADER_BYTES) {
    report(check, TOKENS_FAULT_TRUNCATED, "%s.idx: file has %" PRId64 " bytes, the header alone takes %d", file->prefix,
           file->index_bytes, TOKENS_HEADER_BYTES);
    return false;
  }
  tokens_reader_fetch(file->reader, TOKENS_INDEX, 0, index, sizeof index);
  if (memcmp(index, TOKENS_MAGIC, TOKENS_MAGIC_BYTES) != 0) {
    char shown[4 * TOKENS_MAGIC_BYTES + 1], *at = shown;
    for (int i = 0; i < TOKENS_MAGIC_BYTES; i++) {
      bool plain = index[i] > 32 && index[i] < 127 && index[i] != '\\';
      at += snprintf(at, sizeof shown - (size_t)(at - shown), plain ? "%c" : "\\x%02x", index[i]);
    }
    report(check, TOKENS_FAULT_HEADER, "%s.idx: magic is \"%s\", expected \"MMIDIDX\\x00\\x00\"%s", file->prefix, shown,
           memcmp(index, "TNTIDX", 6) == 0 ? " (this is the older lazy/cached format: build the file again as mmap)"
                                           : "");
  }
  uint64_t version = (uint64_t)tokens_load_int64(index + 9);
  if (version != 1)
    report(check, TOKENS_FAULT_HEADER, "%s.idx: version is %" PRIu64 ", expected 1", file->prefix, version);
  check_type(check, index[17], vocab);
  return true;
}

/* Bytes of the index for these counts; false when 64 bits do not hold them. */
static bool get_index_bytes(uint64_t sequences, uint64_t entries, int64_t *bytes) {
  int64_t tables, documents;
  return !__builtin_mul_overflow(sequences, 12, &tables) && !__builtin_mul_overflow(entries, 8, &documents) &&
         !__builtin_add_overflow(tables, documents, bytes) &&
         !__builtin_add_overflow(*bytes, TOKENS_HEADER_BYTES, bytes);
}

/* Checks the bytes after the tables: modes, one more document (older tools counted documents, not entries), or waste.
 */
static void check_trailing(struct check *check, int64_t extra) {
  struct tokens *file = check->file;
  struct tokens_reader *reader = file->reader;
  int64_t at = file->index_bytes - extra;
  int64_t last = file->n_entries > 0 ? tokens_load_entry(file, file->n_entries - 1) : -1;
  if (extra == 8 && last != file->n_sequences &&
      tokens_load_int64(tokens_reader_view(reader, TOKENS_ENTRIES, at)) == file->n_sequences) {
    report(check, TOKENS_FAULT_TRAILING,
           "%s.idx: header counts %" PRId64 " document index entries, found %" PRId64
           " (it counts documents, as older tools did); read with %" PRId64,
           file->prefix, file->n_entries, file->n_entries + 1, file->n_entries + 1);
    file->n_entries++;
  } else if (extra == file->n_sequences) {
    for (int64_t s = 0; s < extra; s++) {
      int8_t mode = (int8_t)*tokens_reader_view(reader, TOKENS_ENTRIES, at + s);
      if (mode)
        report(check, TOKENS_FAULT_MODE,
               "%s.idx: mode of sequence %" PRId64 " is %d, expected 0 (text): not a file of text tokens alone",
               file->prefix, s, mode);
    }
  } else {
    report(check, TOKENS_FAULT_TRAILING,
           "%s.idx: file has %" PRId64 " bytes, expected %" PRId64 " for its counts: the last %" PRId64 " are not used",
           file->prefix, file->index_bytes, file->index_bytes - extra, extra);
  }
}

/* Counts against the file's size, before anything is read or allocated for them. Sets the counts to what the file
 * really holds: *with_lengths when lengths and pointers are all there, *with_documents when the document index is. */
static void check_layout(struct check *check, bool *with_lengths, bool *with_documents) {
  struct tokens *file = check->file;
  uint64_t sequences = (uint64_t)tokens_load_int64(tokens_reader_view(file->reader, TOKENS_LENGTHS, 18)),
           entries = (uint64_t)tokens_load_int64(tokens_reader_view(file->reader, TOKENS_LENGTHS, 26));
  int64_t needed, of_sequences;
  *with_lengths = get_index_bytes(sequences, 0, &of_sequences) && of_sequences <= file->index_bytes;
  *with_documents = false;
  if (*with_lengths) file->n_sequences = (int64_t)sequences;
  if (!get_index_bytes(sequences, entries, &needed)) {
    report(check, TOKENS_FAULT_TRUNCATED,
           "%s.idx: header counts %" PRIu64 " sequences and %" PRIu64
           " document index entries, more than any file holds; file has %" PRId64 " bytes",
           file->prefix, sequences, entries, file->index_bytes);
  } else if (needed > file->index_bytes) {
    bool fairseq = *with_lengths && of_sequences == file->index_bytes + 8;
    report(check, TOKENS_FAULT_TRUNCATED,
           "%s.idx: header counts %" PRIu64 " sequences and %" PRIu64 " document index entries, which take %" PRId64
           " bytes; file has %" PRId64 "%s",
           file->prefix, sequences, entries, needed, file->index_bytes,
           fairseq ? " (it has no document index, as fairseq writes it)" : "");
  } else {
    *with_documents = true;
    file->n_entries = (int64_t)entries;
    if (needed < file->index_bytes) check_trailing(check, file->index_bytes - needed);
  }
}

/* One sequence against PREFIX.bin; `end` is where the one before it ends, -1 when that cannot be said. Returns where
 * this one ends: one wrong length or pointer is one fault, not a fault of all that follow. */
static int64_t check_place(struct check *check, int64_t s, int64_t length, int64_t end) {
  const struct tokens *file = check->file;
  int64_t pointer = tokens_load_pointer(file, s), unit = file->token_bytes;
  bool inside =
      pointer >= 0 && pointer % unit == 0 && pointer <= file->bin_bytes && length <= (file->bin_bytes - pointer) / unit;
  if (length > 0 && !inside) {
    report(check, TOKENS_FAULT_OUTSIDE,
           "%s.idx: sequence %" PRId64 " has %" PRId64 " tokens from byte %" PRId64 "%s; %s.bin has %" PRId64 " bytes",
           file->prefix, s, length, pointer, pointer % unit ? ", which is not at a whole token" : "", file->prefix,
           file->bin_bytes);
    return -1;
  }
  if (end >= 0 && pointer != end)
    report(check, length > 0 && pointer < end ? TOKENS_FAULT_OVERLAP : TOKENS_FAULT_GAP,
           "%s.idx: pointer of sequence %" PRId64 " is byte %" PRId64 ", expected %" PRId64
           " (the end of the sequence before it)",
           file->prefix, s, pointer, end);
  if (length == 0 && !(inside && pointer > end)) return end;
  return pointer + length * unit;
}

static void check_sequences(struct check *check) {
  struct tokens *file = check->file;
  bool with_bin = file->bin_bytes >= 0 && file->token_bytes > 0;
  uint64_t tokens = 0;
  int64_t end = 0;
  for (int64_t s = 0; s < file->n_sequences; s++) {
    int64_t length = tokens_load_length(file, s);
    if (length < 0) {
      report(check, TOKENS_FAULT_LENGTH, "%s.idx: length of sequence %" PRId64 " is %" PRId64 ", expected 0 or more",
             file->prefix, s, length);
      end = -1;
      continue;
    }
    tokens += (uint64_t)length;
    if (with_bin) end = check_place(check, s, length, end);
  }
  if (with_bin && end >= 0 && end < file->bin_bytes)
    report(check, TOKENS_FAULT_REST,
           "%s.bin: file has %" PRId64 " bytes, the lengths in the index account for %" PRId64 ": the last %" PRId64
           " bytes belong to no sequence",
           file->prefix, file->bin_bytes, end, file->bin_bytes - end);
  file->n_tokens = (int64_t)tokens;
}

static void check_documents(struct check *check) {
  const struct tokens *file = check->file;
  int64_t before = 0, entry = 0, sequences = file->n_sequences;
  for (int64_t d = 0; d < file->n_entries; d++, before = entry) {
    entry = tokens_load_entry(file, d);
    if (d == 0 && entry != 0)
      report(check, TOKENS_FAULT_DOCUMENT, "%s.idx: document index entry 0 is %" PRId64 ", expected 0", file->prefix,
             entry);
    else if (entry < 0 || entry > sequences)
      report(check, TOKENS_FAULT_DOCUMENT,
             "%s.idx: document index entry %" PRId64 "%s is %" PRId64 ", expected %s%" PRId64
             " (the number of sequences)",
             file->prefix, d, d == file->n_entries - 1 ? " (the last)" : "", entry,
             d == file->n_entries - 1 ? "" : "at most ", sequences);
    else if (entry < before)
      report(check, TOKENS_FAULT_DOCUMENT,
             "%s.idx: document index entry %" PRId64 " is %" PRId64 ", expected %" PRId64
             " (the entry before it) or more",
             file->prefix, d, entry, before);
  }
  if (!check->count[TOKENS_FAULT_DOCUMENT] && entry < sequences)
    report(check, TOKENS_FAULT_DOCUMENT_END,
           "%s.idx: last document index entry is %" PRId64 ", expected %" PRId64
           " (the number of sequences); each of the %" PRId64 " sequences after it is read as a document",
           file->prefix, entry, sequences, sequences - entry);
}

static int64_t get_length(const void *context, int64_t s) { return tokens_get_sequence_length(context, s); }

static void count_documents(struct tokens *file) {
  int64_t indexed = file->n_entries > 0 ? file->n_entries - 1 : 0;
  int64_t covered = file->n_entries > 0 ? tokens_load_entry(file, indexed) : 0;
  file->n_documents = indexed + (file->n_sequences - covered);
  for (int64_t d = 0, s = 0; d < file->n_documents; d++) {
    int64_t end = d < indexed ? tokens_load_entry(file, d + 1) : s + 1, length = 0;
    for (; s < end; s++) length += tokens_load_length(file, s);
    if (length == 0) file->n_empty_documents++;
    if (length > file->longest) file->longest = length;
  }
}

int64_t tokens_check_index(struct tokens *file, int64_t vocab, tokens_found *found, void *context) {
  struct check check = {.file = file, .found = found, .context = context};
  bool with_lengths = false, with_documents = false;
  if (check_header(&check, vocab)) check_layout(&check, &with_lengths, &with_documents);
  if (with_lengths) check_sequences(&check);
  if (with_documents) check_documents(&check);
  int64_t refused = finish(&check);
  if (refused == 0) {
    cumulative_init(&file->lengths, file->n_sequences, get_length, file);
    count_documents(file);
  }
  return refused;
}

/* ---- everything at once ---- */

/* Passes faults on and counts them. */
struct counter {
  tokens_found *found;
  void *context;
  int64_t n;
  bool refused;
};

static void count_found(void *context, enum tokens_fault fault, bool refused, int64_t n, const char *text) {
  struct counter *counter = context;
  counter->n += n;
  counter->refused |= refused;
  counter->found(counter->context, fault, refused, n, text);
}

struct id_report {
  struct check *check;
  int64_t vocab;
};

static bool report_id(void *context, int64_t position, int64_t id) {
  struct id_report *ids = context;
  /* Finding the document costs a search: done for those that are shown only. */
  if (ids->check->count[TOKENS_FAULT_ID] >= SHOWN_OF_A_KIND) {
    ids->check->count[TOKENS_FAULT_ID]++;
    return true;
  }
  char *text = tokens_describe_id(ids->check->file, position, id, ids->vocab);
  report(ids->check, TOKENS_FAULT_ID, "%s", text);
  mem_free(text);
  return true;
}

int64_t tokens_check(const char *prefix, int64_t vocab, tokens_found *found, void *context, struct tokens **file,
                     struct tokens_scan *scan) {
  struct counter counter = {.found = found, .context = context};
  *scan = (struct tokens_scan){.least = INT64_MAX, .most = INT64_MIN};
  *file = tokens_open_parts(prefix, count_found, &counter);
  if ((*file)->index_bytes >= 0) tokens_check_index(*file, vocab, count_found, &counter);
  if (!counter.refused) {
    struct check check = {.file = *file, .found = count_found, .context = &counter};
    struct id_report ids = {.check = &check, .vocab = vocab > 0 ? vocab : TOKENS_VOCAB_UNKNOWN};
    tokens_scan_ids(*file, 0, (*file)->n_sequences, ids.vocab, report_id, &ids, scan);
    scan->n_outside = check.count[TOKENS_FAULT_ID];
    if (tokens_check_unchanged(*file)) report(&check, TOKENS_FAULT_FILE, "%s", error_text());
    finish(&check);
  }
  return counter.n;
}
