#include "data/tokens.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/tokens_impl.h"
#include "data/tokens_pair.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void convert(const struct tokens *file, const uint8_t *from, int64_t n, int32_t *out) {
  if (file->type == TOKENS_UINT16) {
    const uint16_t *ids = (const uint16_t *)(const void *)from;
    for (int64_t i = 0; i < n; i++) out[i] = le16toh(ids[i]);
  } else {
    const uint32_t *ids = (const uint32_t *)(const void *)from;
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t)le32toh(ids[i]);
  }
}

void tokens_read(const struct tokens *file, int64_t position, int64_t n, int32_t *out) {
  if (n <= 0) return;
  int64_t offset, s = cumulative_find(&file->lengths, position, &offset);
  while (n > 0) {
    int64_t run = tokens_load_length(file, s) - offset;
    if (run > n) run = n;
    /* The pointer of an empty sequence may be anything. */
    if (run > 0) convert(file, file->bin + tokens_load_pointer(file, s) + offset * file->token_bytes, run, out);
    out += run;
    n -= run;
    offset = 0;
    s++;
  }
}

/* Maps and closes one open file; an empty one gives NULL and 0 bytes. On failure -1 bytes and errno. */
static const uint8_t *map_file(int fd, int64_t *bytes) {
  const uint8_t *map = NULL;
  struct stat status;
  *bytes = -1;
  if (fd < 0) return NULL;
  if (fstat(fd, &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    } else if (status.st_size == 0) {
      *bytes = 0;
    } else {
      void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
      if (at != MAP_FAILED) {
        map = at;
        *bytes = status.st_size;
      }
    }
  }
  int reason = errno;
  close(fd);
  errno = reason;
  return map;
}

/* People name the file that they see in the folder. */
static const char *hint_at_prefix(const char *prefix) {
  size_t length = strlen(prefix);
  bool suffix = length > 4 && (!strcmp(prefix + length - 4, ".bin") || !strcmp(prefix + length - 4, ".idx"));
  return suffix ? " (give the prefix, without .bin or .idx)" : "";
}

struct tokens *tokens_map(const char *prefix, tokens_found *found, void *context) {
  struct tokens *file = MEM_NEW(struct tokens, 1);
  file->prefix = mem_strdup(prefix);
  const struct {
    const char *suffix;
    const uint8_t **map;
    int64_t *bytes;
  } parts[] = {{"idx", &file->index, &file->index_bytes}, {"bin", &file->bin, &file->bin_bytes}};
  int descriptors[2], reasons[2];
  tokens_pair_open(prefix, descriptors, reasons);
  for (int i = 0; i < 2; i++) {
    *parts[i].map = map_file(descriptors[i], parts[i].bytes);
    if (*parts[i].bytes < 0) {
      char *text = mem_format("%s.%s: %s%s", prefix, parts[i].suffix, strerror(reasons[i] ? reasons[i] : errno),
                              hint_at_prefix(prefix));
      found(context, TOKENS_FAULT_FILE, true, text);
      mem_free(text);
    }
  }
  return file;
}

/* What tokens_open makes of the faults: the first refusal is the error, what is tolerated becomes notes. */
struct verdict {
  struct tokens *file;
  char *refusal, **notes;
  int64_t n_refused;
  int n_notes;
};

static void judge(void *context, enum tokens_fault fault, bool refused, const char *text) {
  struct verdict *verdict = context;
  (void)fault;
  if (refused) {
    if (verdict->n_refused++ == 0) verdict->refusal = mem_strdup(text);
  } else {
    verdict->notes = mem_resize(verdict->notes, sizeof(char *) * (size_t)(verdict->n_notes + 1));
    verdict->notes[verdict->n_notes++] = mem_strdup(text);
  }
}

int tokens_open(const char *prefix, int64_t vocab, struct tokens **out) {
  struct verdict verdict = {0};
  *out = NULL;
  struct tokens *file = tokens_map(prefix, judge, &verdict);
  if (verdict.n_refused == 0) tokens_check_index(file, vocab, judge, &verdict);
  file->notes = verdict.notes;
  file->n_notes = verdict.n_notes;
  if (verdict.n_refused == 0) {
    *out = file;
    return STATUS_OK;
  }
  int status = error_raise(STATUS_MISTAKE, "%s%s", verdict.refusal,
                           verdict.n_refused > 1 ? "; there is more: `penstock data check` lists all faults" : "");
  mem_free(verdict.refusal);
  tokens_close(&file);
  return status;
}

void tokens_close(struct tokens **file) {
  struct tokens *f = *file;
  if (!f) return;
  if (f->index) munmap((void *)(uintptr_t)f->index, (size_t)f->index_bytes);
  if (f->bin) munmap((void *)(uintptr_t)f->bin, (size_t)f->bin_bytes);
  for (int i = 0; i < f->n_notes; i++) mem_free(f->notes[i]);
  mem_free(f->notes);
  cumulative_fini(&f->lengths);
  mem_free(f->prefix);
  mem_free(f);
  *file = NULL;
}
