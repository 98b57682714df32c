/* Faults of token files: each by name, with what was expected and found; all of a file in one go; ids by document. */
#include "base/error.h"
#include "base/mem.h"
#include "data/tokens.h"
#include "t.h"
#include "token_files.h"

struct seen {
  char text[16][512];
  enum tokens_fault fault[16];
  int n;
  int64_t faults; /* those that are not shown one by one too */
};

static void see(void *context, enum tokens_fault fault, bool refused, int64_t n, const char *text) {
  struct seen *seen = context;
  (void)refused;
  seen->faults += n;
  if (seen->n == 16) return;
  seen->fault[seen->n] = fault;
  snprintf(seen->text[seen->n++], sizeof seen->text[0], "%s", text);
}

static struct seen check_file(const char *prefix, int64_t vocab) {
  struct seen seen = {0};
  struct tokens *file;
  struct tokens_scan scan;
  int64_t n = tokens_check(prefix, vocab, see, &seen, &file, &scan);
  T_CHECK(n == seen.faults, "%d faults, %d seen", (int)n, (int)seen.faults);
  tokens_close(&file);
  return seen;
}

/* The check must report `fault`, and as the only one, with these words in it. */
static void expect(const char *what, const char *prefix, enum tokens_fault fault, const char *words, bool refused) {
  struct seen seen = check_file(prefix, 0);
  T_CHECK(seen.n == 1 && seen.fault[0] == fault, "%s: %d faults, first %d: %s", what, seen.n, (int)seen.fault[0],
          seen.text[0]);
  T_CHECK(strstr(seen.text[0], words), "%s: no '%s' in: %s", what, words, seen.text[0]);
  struct tokens *file;
  int status = tokens_open(prefix, 0, &file);
  T_CHECK((status == STATUS_MISTAKE) == refused, "%s: open gives %d", what, status);
  if (file) T_CHECK(file->n_notes == 1 && strstr(file->notes[0], words), "%s: note", what);
  tokens_close(&file);
}

/* Three sequences of 3, 0, 2 tokens, and one thing changed. */
static void test_faults(void) {
  const char *prefix = raw_path("fault");
  const int32_t ids[] = {1, 2, 3, 4, 5}, good[] = {3, 0, 2};
  const struct raw_index base = {.type = 8, .token_bytes = 2, .n = 3, .length = good};
  struct raw_index index = base;
  raw_write_index(prefix, &base);
  raw_write_ids(prefix, 8, ids, 5);
  T_CHECK(check_file(prefix, 0).n == 0, "a good file has no fault");

  const struct {
    const char *what;
    struct raw_index index;
    enum tokens_fault fault;
    const char *words;
    bool refused;
  } cases[] = {
#define CASE(what, fault, refused, words, ...) {what, {.n = 3, __VA_ARGS__}, TOKENS_FAULT_##fault, words, refused}
      CASE("magic", HEADER, true, "magic is \"MMIDIDY\\x00\\x00\", expected \"MMIDIDX", .magic = "MMIDIDY\0"),
      CASE("old format", HEADER, true, "lazy/cached", .magic = "TNTIDX\0\0"),
      CASE("version", HEADER, true, "version is 2, expected 1", .version = 2),
      CASE("unknown type", TYPE, true, "type code is 77", .type = 77),
      CASE("int64", TYPE, true, "int64", .type = 5, .token_bytes = 8),
      CASE("float", TYPE, true, "floating-point", .type = 6, .token_bytes = 8),
      CASE("negative length", LENGTH, true, "length of sequence 1 is -4", .length = (const int32_t[]){3, -4, 2},
           .pointer = (const int64_t[]){0, 6, 6}),
      CASE("too long", OUTSIDE, true, "sequence 2 has 3 tokens from byte 6; ", .length = (const int32_t[]){3, 0, 3}),
      CASE("length one more", OVERLAP, true, "pointer of sequence 2 is byte 6, expected 8",
           .length = (const int32_t[]){4, 0, 2}, .pointer = (const int64_t[]){0, 8, 6}),
      CASE("length one less", GAP, false, "pointer of sequence 1 is byte 6, expected 4",
           .length = (const int32_t[]){2, 0, 2}, .pointer = (const int64_t[]){0, 6, 6}),
      CASE("pointer outside", OUTSIDE, true, "from byte 4611686018427387904",
           .pointer = (const int64_t[]){0, 6, 1LL << 62}),
      CASE("pointer negative", OUTSIDE, true, "from byte -2", .pointer = (const int64_t[]){0, 6, -2}),
      CASE("pointer odd", OUTSIDE, true, "not at a whole token", .pointer = (const int64_t[]){0, 6, 5}),
      CASE("lengths short of the tokens", REST, false, "10 bytes, the lengths in the index account for 8",
           .length = (const int32_t[]){3, 0, 1}),
      CASE("first document not 0", DOCUMENT, true, "entry 0 is 1, expected 0", .n_entries = 4,
           .entry = (const int64_t[]){1, 1, 2, 3}),
      CASE("documents go back", DOCUMENT, true, "entry 2 is 1, expected 2", .n_entries = 4,
           .entry = (const int64_t[]){0, 2, 1, 3}),
      CASE("last document one more", DOCUMENT, true, "entry 3 (the last) is 4, expected 3", .n_entries = 4,
           .entry = (const int64_t[]){0, 1, 2, 4}),
      CASE("last document one less", DOCUMENT_END, false, "last document index entry is 2, expected 3", .n_entries = 3,
           .entry = (const int64_t[]){0, 1, 2}),
      CASE("merged without documents", DOCUMENT_END, false, "last document index entry is 0, expected 3",
           .n_entries = 1, .entry = (const int64_t[]){0}),
#undef CASE
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    index = cases[i].index;
    if (!index.type) index.type = 8, index.token_bytes = 2;
    if (!index.length) index.length = good;
    raw_write_index(prefix, &index);
    expect(cases[i].what, prefix, cases[i].fault, cases[i].words, cases[i].refused);
  }

  /* All at once: each is named in one go. */
  index = base;
  index.magic = "MMIDIDX\1";
  index.version = 3;
  index.length = (const int32_t[]){3, -1, 9};
  index.pointer = (const int64_t[]){2, 6, 6};
  index.n_entries = 4;
  index.entry = (const int64_t[]){0, 2, 1, 9};
  raw_write_index(prefix, &index);
  struct seen seen = check_file(prefix, 0);
  unsigned kinds = 0;
  for (int i = 0; i < seen.n; i++) kinds |= 1u << seen.fault[i];
  T_CHECK(seen.n == 7 && kinds == (1u << TOKENS_FAULT_HEADER | 1u << TOKENS_FAULT_LENGTH | 1u << TOKENS_FAULT_OUTSIDE |
                                   1u << TOKENS_FAULT_GAP | 1u << TOKENS_FAULT_DOCUMENT),
          "%d faults of kinds %x", seen.n, kinds);
}

/* Of the good file of three sequences: bytes cut off or added, files absent. */
static void test_file_faults(void) {
  const char *prefix = raw_path("files");
  const int32_t ids[] = {1, 2, 3, 4, 5, 6}, lengths[] = {3, 0, 2};
  size_t size;
  raw_write_documents(prefix, 8, lengths, 3, ids);
  uint8_t *index = raw_read(prefix, "idx", &size), longer[200] = {0};
  T_CHECK(size == 34 + 3 * 12 + 4 * 8, "size of the index");
  memcpy(longer, index, size);
  for (size_t keep = 0; keep < size; keep++) {
    raw_write(prefix, "idx", index, keep);
    char *words = keep < 34 ? mem_format("file has %zu bytes, the header alone takes 34", keep)
                            : mem_format("which take %zu bytes; file has %zu", size, keep);
    expect("truncated", prefix, TOKENS_FAULT_TRUNCATED, words, true);
    mem_free(words);
  }
  raw_write(prefix, "idx", longer, size + 5);
  expect("trailing", prefix, TOKENS_FAULT_TRAILING, "file has 107 bytes, expected 102", false);
  raw_write(prefix, "idx", longer, size + 3);
  T_CHECK(check_file(prefix, 0).n == 0, "modes of text are no fault");
  longer[size + 1] = 1;
  raw_write(prefix, "idx", longer, size + 3);
  expect("image", prefix, TOKENS_FAULT_MODE, "mode of sequence 1 is 1, expected 0", true);
  raw_put(longer + 26, 3, 8);
  raw_write(prefix, "idx", longer, size);
  expect("documents counted, not entries", prefix, TOKENS_FAULT_TRAILING,
         "header counts 3 document index entries, found 4", false);

  raw_write_documents(prefix, 8, lengths, 3, ids);
  raw_write_ids(prefix, 8, ids, 4);
  expect("tokens cut off", prefix, TOKENS_FAULT_OUTSIDE, "sequence 2 has 2 tokens from byte 6; ", true);
  raw_write_ids(prefix, 8, ids, 6);
  expect("tokens added", prefix, TOKENS_FAULT_REST, "the last 2 bytes belong to no sequence", false);
  char path[300];
  snprintf(path, sizeof path, "%s.bin", prefix);
  unlink(path);
  expect("no tokens", prefix, TOKENS_FAULT_FILE, "files.bin: No such file", true);
  T_CHECK(check_file(raw_path("absent"), 0).n == 2, "both files absent");
  struct seen seen = check_file(path, 0);
  T_CHECK(strstr(seen.text[0], "give the prefix"), "%s", seen.text[0]);
  free(index);
}

/* Old merges leave the later sequences out of the document index: nothing is lost. */
static void test_short_document_index(void) {
  const char *prefix = raw_path("short");
  const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7}, lengths[] = {1, 2, 3, 0, 1}, documents[] = {3, 3, 0, 1};
  const struct raw_index index = {
      .type = 4, .token_bytes = 4, .n = 5, .length = lengths, .n_entries = 2, .entry = (const int64_t[]){0, 2}};
  raw_write_ids(prefix, 4, ids, 7);
  raw_write_index(prefix, &index);
  struct tokens *file;
  T_CHECK(tokens_open(prefix, 10, &file) == 0, "%s", error_text());
  T_CHECK(file->n_documents == 4 && file->n_tokens == 7 && file->n_empty_documents == 1, "counts");
  for (int d = 0; d < 4; d++) T_CHECK(tokens_get_document_length(file, d) == documents[d], "document %d", d);
  tokens_close(&file);
}

/* ---- ids ---- */

static void test_ids(void) {
  const char *prefix = raw_path("ids");
  const int32_t lengths[] = {2, 0, 1, 5, 1};
  static int32_t ids[] = {1, 2, 3, 4, 5, 127, 6, 7, 8};
  const struct {
    int32_t id;
    bool fits;
  } cases[] = {{127, true}, {128, false}, {-1, false}, {65535, false}};
  for (int i = 0; i < 4; i++) {
    ids[6] = cases[i].id;
    raw_write_documents(prefix, 4, lengths, 5, ids);
    struct tokens *file;
    T_CHECK(tokens_open(prefix, 128, &file) == 0, "%s", error_text());
    int status = tokens_check_vocabulary(file, 128, 0, 1);
    T_CHECK(status == (cases[i].fits ? STATUS_OK : STATUS_MISTAKE), "id %d: %d", cases[i].id, status);
    char *words =
        mem_format("ids.bin: document 3, position 3: token id %d is outside the vocabulary of 128", cases[i].id);
    T_CHECK(cases[i].fits || strstr(error_text(), words), "%s", error_text());
    struct seen seen = check_file(prefix, 128);
    T_CHECK(seen.n == !cases[i].fits && (cases[i].fits || strstr(seen.text[0], words)), "check: %s", seen.text[0]);
    T_CHECK(check_file(prefix, 0).n == (cases[i].id < 0), "without a vocabulary");
    mem_free(words);
    tokens_close(&file);
  }
  for (int i = 0; i < 9; i++) ids[i] = 200 + i;
  raw_write_documents(prefix, 8, lengths, 5, ids);
  struct seen seen = check_file(prefix, 200);
  T_CHECK(seen.n == 6 && strstr(seen.text[5], "4 more"), "%d lines, last: %s", seen.n, seen.text[5]);
  T_CHECK(strstr(seen.text[2], "document 2, position 0: token id 202"), "%s", seen.text[2]);
}

/* An id in the middle of a file that is read in blocks, at any place. */
static void test_id_anywhere(void) {
  enum { N = 200000 };
  const char *prefix = raw_path("anywhere");
  int32_t *ids = calloc(N, sizeof(int32_t));
  const int32_t lengths[] = {70001, N - 70001 - 3, 3};
  for (int type = 4; type <= 8; type += 4)
    for (int64_t at = 0; at < N; at += 7919) {
      ids[at] = 500;
      raw_write_documents(prefix, type, lengths, 3, ids);
      ids[at] = 0;
      struct tokens *file;
      T_CHECK(tokens_open(prefix, 300, &file) == 0, "%s", error_text());
      T_CHECK(tokens_check_vocabulary(file, 501, 0, 1) == 0, "%s", error_text());
      T_CHECK(tokens_check_vocabulary(file, 500, 0, 1) == STATUS_MISTAKE, "id at %d is not seen", (int)at);
      int64_t document = at < 70001 ? 0 : at < N - 3 ? 1 : 2;
      int64_t place = at - (document == 0 ? 0 : document == 1 ? 70001 : N - 3);
      char *words = mem_format("document %d, position %d: token id 500", (int)document, (int)place);
      T_CHECK(strstr(error_text(), words), "no '%s' in: %s", words, error_text());
      mem_free(words);
      tokens_close(&file);
    }
  free(ids);
}

static void test_16_bits(void) {
  const char *prefix = raw_path("narrow");
  raw_write_documents(prefix, 8, (const int32_t[]){2}, 1, (const int32_t[]){65535, 1});
  struct tokens *file;
  T_CHECK(tokens_open(prefix, 65536, &file) == 0, "%s", error_text());
  tokens_close(&file);
  T_CHECK(tokens_open(prefix, 70000, &file) == STATUS_MISTAKE, "16 bits for 70000 ids");
  T_CHECK(strstr(error_text(), "uint16") && strstr(error_text(), "70000"), "%s", error_text());
}

int main(void) {
  int64_t before = mem_balance();
  test_faults();
  test_file_faults();
  test_short_document_index();
  test_ids();
  test_id_anywhere();
  test_16_bits();
  T_CHECK(mem_balance() == before, "%d allocations are left", (int)(mem_balance() - before));
  scratch_remove();
  return t_end();
}
