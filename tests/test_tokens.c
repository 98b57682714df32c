/* Megatron token files: what the writer makes against bytes put together by hand, reading against the ids that were
 * written, files beyond 4 GiB, text and JSON lines, and damaged indexes. */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/text.h"
#include "data/tokenizer.h"
#include "data/tokens.h"
#include "t.h"
#include "token_files.h"

static const struct rng_key random_key = {.seed = 11, .purpose = RNG_TEST};
static uint64_t random_index;

static int64_t pick(int64_t n) { return (int64_t)(rng_bits(&random_key, random_index++) % (uint64_t)n); }

/* ---- writing ---- */

static void test_bytes_of_a_file(void) {
  const char *prefix = raw_path("bytes");
  const int32_t ids[] = {65, 256, 66, 67, 256};
  struct tokens_writer *writer;
  T_CHECK(tokens_write_begin(prefix, TOKENIZER_VOCAB, &writer) == 0, "%s", error_text());
  tokenizer_write(writer, "A", 1);
  tokenizer_write_end(writer);
  tokenizer_write(writer, "BC", 2);
  tokenizer_write_end(writer);
  T_CHECK(tokens_write_end(&writer) == 0 && !writer, "%s", error_text());

  size_t sizes[4];
  uint8_t *data[4] = {raw_read(prefix, "idx", &sizes[0]), raw_read(prefix, "bin", &sizes[1])};
  raw_write_documents(prefix, 8, (const int32_t[]){2, 3}, 2, ids);
  data[2] = raw_read(prefix, "idx", &sizes[2]);
  data[3] = raw_read(prefix, "bin", &sizes[3]);
  for (int i = 0; i < 2; i++)
    T_CHECK(sizes[i] == sizes[i + 2] && !memcmp(data[i], data[i + 2], sizes[i]), "%s differs", i ? "bin" : "idx");
  T_CHECK(sizes[0] == 34 + 2 * 12 + 3 * 8 && !memcmp(data[0], "MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\2", 19), "header");
  for (int i = 0; i < 4; i++) free(data[i]);
}

/* Random documents, written whole or in pieces, with sequences of at most `limit` tokens. */
static void test_round_trip(int64_t vocab, int type, int64_t limit) {
  enum { DOCUMENTS = 700 };
  const char *prefix = raw_path("round");
  int32_t *ids = malloc(sizeof(int32_t) * DOCUMENTS * 40), *out = malloc(sizeof(int32_t) * DOCUMENTS * 40);
  int64_t start[DOCUMENTS + 1] = {0}, empty = 0, longest = 0;
  struct tokens_writer *writer;
  T_CHECK(tokens_write_begin(prefix, vocab, &writer) == 0, "%s", error_text());
  tokens_write_set_sequence_limit(writer, limit);
  for (int d = 0; d < DOCUMENTS; d++) {
    int64_t length = pick(4) ? pick(40) : 0;
    start[d + 1] = start[d] + length;
    empty += length == 0;
    longest = length > longest ? length : longest;
    for (int64_t i = start[d]; i < start[d + 1]; i++) ids[i] = i % 5 ? (int32_t)pick(vocab) : (int32_t)vocab - 1;
    int64_t half = length / 2;
    tokens_write_tokens(writer, ids + start[d], half);
    tokens_write_tokens(writer, ids + start[d] + half, length - half);
    T_CHECK(tokens_write_end_document(writer) == 0, "%s", error_text());
  }
  T_CHECK(tokens_write_end(&writer) == 0, "%s", error_text());

  struct tokens *file;
  T_CHECK(tokens_open(prefix, vocab, &file) == 0, "%s", error_text());
  if (!file) return;
  T_CHECK(file->type == type && file->n_notes == 0, "type %d, %d notes", file->type, file->n_notes);
  T_CHECK(file->n_documents == DOCUMENTS && file->n_tokens == start[DOCUMENTS] && file->n_empty_documents == empty &&
              file->longest == longest,
          "counts");
  T_CHECK(limit < 40 ? file->n_sequences > DOCUMENTS : file->n_sequences == DOCUMENTS, "sequences");
  tokens_read(file, 0, file->n_tokens, out);
  T_CHECK(!memcmp(ids, out, sizeof(int32_t) * (size_t)file->n_tokens), "all ids");
  for (int d = 0; d < DOCUMENTS; d++)
    T_CHECK(tokens_get_document_length(file, d) == start[d + 1] - start[d] &&
                tokens_get_document_start(file, d) == start[d],
            "document %d", d);
  for (int i = 0; i < 2000; i++) {
    int64_t position = pick(file->n_tokens), n = pick(100), offset, document = 0;
    if (n > file->n_tokens - position) n = file->n_tokens - position;
    tokens_read(file, position, n, out);
    T_CHECK(!memcmp(ids + position, out, sizeof(int32_t) * (size_t)n), "ids from %d", (int)position);
    while (start[document + 1] <= position) document++;
    T_CHECK(tokens_find_document(file, position, &offset) == document && offset == position - start[document],
            "document of place %d", (int)position);
  }
  T_CHECK(tokens_check_vocabulary(file, vocab, 0, 1) == 0, "%s", error_text());
  T_CHECK(tokens_check_vocabulary(file, vocab - 1, 0, 1) == STATUS_MISTAKE, "largest id is not found");
  int parts_that_find = 0;
  for (int part = 0; part < 3; part++) parts_that_find += tokens_check_vocabulary(file, vocab - 1, part, 3) != 0;
  T_CHECK(parts_that_find == 3, "ids are spread over all parts, found in %d", parts_that_find);
  tokens_close(&file);
  free(ids);
  free(out);
}

static void test_write_refusals(void) {
  struct tokens_writer *writer;
  T_CHECK(tokens_write_begin(raw_path("none/there"), 257, &writer) == STATUS_MISTAKE && !writer, "no folder");
  T_CHECK(strstr(error_text(), "none/there.lock"), "%s", error_text());
  const char *prefix = raw_path("refused");
  T_CHECK(tokens_write_begin(prefix, 257, &writer) == 0, "%s", error_text());
  T_CHECK(tokens_write_tokens(writer, (const int32_t[]){257}, 1) == STATUS_MISTAKE, "id outside");
  tokens_write_abandon(&writer);
  size_t bytes;
  T_CHECK(!raw_read(prefix, "bin.tmp", &bytes) && !raw_read(prefix, "idx.tmp", &bytes), "temporary files are left");
}

/* Documents {7, 1, 2, 9}, {7, 3, 9} and so on as given; what begins and ends all of them, and is nowhere else. */
static void check_edges(const char *what, const int32_t *ids, const int *lengths, int n, int32_t begin, int32_t end) {
  const char *prefix = raw_path("edges");
  struct tokens_writer *writer;
  struct tokens *file = NULL;
  int32_t found[2] = {-2, -2};
  T_CHECK(tokens_write_begin(prefix, 257, &writer) == 0, "%s", error_text());
  for (int d = 0; d < n; ids += lengths[d++]) {
    tokens_write_tokens(writer, ids, lengths[d]);
    tokens_write_end_document(writer);
  }
  T_CHECK(tokens_write_end(&writer) == 0 && tokens_open(prefix, 257, &file) == 0, "%s", error_text());
  if (!file) return;
  tokens_find_edges(file, &found[0], &found[1]);
  T_CHECK(found[0] == begin && found[1] == end, "%s: %d and %d", what, found[0], found[1]);
  tokens_close(&file);
}

static void test_edges(void) {
  check_edges("both", (const int32_t[]){7, 1, 2, 9, 7, 3, 9}, (const int[]){4, 3}, 2, 7, 9);
  check_edges("an end", (const int32_t[]){1, 2, 9, 3, 9}, (const int[]){3, 2}, 2, -1, 9);
  check_edges("one document", (const int32_t[]){7, 1, 2, 9}, (const int[]){4}, 1, -1, 9);
  check_edges("an end that is inside too", (const int32_t[]){1, 9, 9, 3, 9}, (const int[]){3, 2}, 2, -1, -1);
  check_edges("other ends", (const int32_t[]){7, 2, 9, 7, 8}, (const int[]){3, 2}, 2, 7, -1);
  check_edges("empty documents", (const int32_t[]){7, 2, 9, 9, 7, 9}, (const int[]){3, 0, 1, 2}, 4, 7, 9);
  check_edges("nothing", (const int32_t[]){9}, (const int[]){1}, 1, -1, -1);
}

/* ---- large files ---- */

static bool make_sparse(const char *prefix, int64_t bytes, int64_t at, const int32_t *ids, int n) {
  char path[300];
  snprintf(path, sizeof path, "%s.bin", prefix);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  bool made =
      fd >= 0 && ftruncate(fd, bytes) == 0 && pwrite(fd, ids, sizeof *ids * (size_t)n, at) == (ssize_t)sizeof *ids * n;
  if (fd >= 0) close(fd);
  return made;
}

/* Three documents, the last beyond 4 GiB (the second is all of what lies between, or there is a gap). */
static void test_beyond_4_gib(bool gap) {
  const int64_t total = 5LL << 30, last = total - 4 * 4;
  const int32_t ids[] = {7, 8, 9, 10};
  const char *prefix = raw_path("large");
  const int32_t lengths[] = {3, gap ? 5 : (int32_t)((last - 12) / 4), 4};
  const int64_t pointers[] = {0, 12, last};
  if (!make_sparse(prefix, total, last, ids, 4)) {
    printf("no file of 5 GiB can be made here: reading beyond 4 GiB is not tested\n");
    return;
  }
  raw_write_index(prefix,
                  &(struct raw_index){.type = 4, .token_bytes = 4, .n = 3, .length = lengths, .pointer = pointers});
  struct tokens *file;
  int32_t out[4] = {0};
  int64_t offset;
  T_CHECK(tokens_open(prefix, 257, &file) == 0, "%s", error_text());
  if (!file) return;
  T_CHECK(file->n_tokens == 3 + (int64_t)lengths[1] + 4, "tokens");
  T_CHECK(file->n_notes == gap, "%d notes", file->n_notes);
  tokens_read(file, tokens_get_document_start(file, 2), 4, out);
  T_CHECK(!memcmp(out, ids, sizeof ids), "last document: %d %d %d %d", out[0], out[1], out[2], out[3]);
  T_CHECK(tokens_find_document(file, file->n_tokens - 1, &offset) == 2 && offset == 3, "document of the last token");
  tokens_close(&file);
  char path[300];
  snprintf(path, sizeof path, "%s.bin", prefix);
  unlink(path);
}

/* A header that claims more than 2^31 sequences: exact 64-bit sizes in the refusal, nothing allocated for them. */
static void test_many_sequences(void) {
  const char *prefix = raw_path("many");
  const int64_t n = (1LL << 31) + 5;
  uint8_t header[34];
  char path[300];
  memcpy(header, "MMIDIDX\0", 9);
  raw_put(raw_put(raw_put(raw_put(header + 9, 1, 8), 4, 1), (uint64_t)n, 8), (uint64_t)n + 1, 8);
  raw_write(prefix, "idx", header, sizeof header);
  raw_write(prefix, "bin", "", 0);
  snprintf(path, sizeof path, "%s.idx", prefix);
  T_CHECK(truncate(path, 1 << 20) == 0, "truncate");
  struct tokens *file;
  T_CHECK(tokens_open(prefix, 257, &file) == STATUS_MISTAKE && !file, "opened");
  T_CHECK(strstr(error_text(), "2147483653") && strstr(error_text(), "42949673102"), "%s", error_text());
  raw_put(raw_put(header + 18, UINT64_MAX / 12 + 2, 8), UINT64_MAX / 8 + 2, 8);
  raw_write(prefix, "idx", header, sizeof header);
  T_CHECK(tokens_open(prefix, 257, &file) == STATUS_MISTAKE && strstr(error_text(), "more than any file"), "%s",
          error_text());
}

/* ---- content ---- */

static uint64_t get_fingerprint(const char *prefix) {
  struct tokens *file;
  uint64_t fingerprint = 0;
  T_CHECK(tokens_open(prefix, 0, &file) == 0, "%s", error_text());
  if (file) fingerprint = file->fingerprint;
  tokens_close(&file);
  return fingerprint;
}

/* PREFIX.bin of one document of n int32 tokens, all zeros but for those at `at` (-1: none), a hole on the disk. */
static void write_long(const char *prefix, int64_t n, int64_t at) {
  const int32_t length = (int32_t)n, one = 1;
  char path[300];
  struct raw_index index = {.type = 4, .token_bytes = 4, .n = 1, .length = &length};
  raw_write_index(prefix, &index);
  snprintf(path, sizeof path, "%s.bin", prefix);
  FILE *out = fopen(path, "wb");
  T_CHECK(out && ftruncate(fileno(out), 4 * n) == 0, "%s", path);
  if (at >= 0) T_CHECK(pwrite(fileno(out), &one, sizeof one, 4 * at) == sizeof one, "%s", path);
  fclose(out);
}

/* A fingerprint is equal for equal content under any name, and another for any other token, length or document, while
 * the file is hashed whole; of a longer one for its ends and its size. */
static void test_fingerprint(void) {
  const char *a = raw_path("print-a"), *b = raw_path("print-b");
  const int32_t lengths[2][2] = {{3, 2}, {2, 3}}, ids[5] = {7, 8, 9, 10, 11}, others[5] = {7, 8, 9, 10, 12};
  raw_write_documents(a, 4, lengths[0], 2, ids);
  raw_write_documents(b, 4, lengths[0], 2, ids);
  uint64_t first = get_fingerprint(a);
  T_CHECK(first == get_fingerprint(b), "equal files differ");
  raw_write_documents(b, 4, lengths[1], 2, ids);
  T_CHECK(first != get_fingerprint(b), "other documents are not seen");
  raw_write_documents(b, 4, lengths[0], 2, others);
  T_CHECK(first != get_fingerprint(b), "another token is not seen");
  raw_write_documents(b, 8, lengths[0], 2, ids);
  T_CHECK(first != get_fingerprint(b), "another type is not seen");
  const int64_t n = (40 << 20) / 4;
  write_long(a, n, -1);
  first = get_fingerprint(a);
  write_long(b, n, -1);
  T_CHECK(first == get_fingerprint(b), "equal long files differ");
  const int64_t places[] = {0, 16383, n - 1, n - 16384};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    write_long(b, n, places[i]);
    T_CHECK(first != get_fingerprint(b), "the token at %d is not seen", (int)places[i]);
  }
  write_long(b, n + 1, -1);
  T_CHECK(first != get_fingerprint(b), "another size is not seen");
}

/* A file that is cut or written over while it is open is an error with its name, not a signal; one that was only
 * touched is read on. */
static void test_changes(void) {
  const char *prefix = raw_path("changes");
  int32_t lengths[2] = {3000, 5000}, *ids = calloc(8000, sizeof *ids), out[100];
  char path[300];
  struct tokens *file;
  for (int part = 0; part < 2; part++) {
    raw_write_documents(prefix, 8, lengths, 2, ids);
    T_CHECK(tokens_open(prefix, 257, &file) == 0 && tokens_read(file, 7000, 100, out) == 0, "%s", error_text());
    snprintf(path, sizeof path, "%s.%s", prefix, part ? "bin" : "idx");
    T_CHECK(truncate(path, 40) == 0, "truncate");
    clock_sleep(0.15);
    T_CHECK(tokens_read(file, 7000, 100, out) == STATUS_FAILED && strstr(error_text(), path) &&
                strstr(error_text(), "it has 40 bytes"),
            "%s", error_text());
    tokens_close(&file);
  }
  raw_write_documents(prefix, 8, lengths, 2, ids);
  T_CHECK(tokens_open(prefix, 257, &file) == 0, "%s", error_text());
  clock_sleep(0.15);
  raw_write_documents(prefix, 8, lengths, 2, ids);
  T_CHECK(tokens_read(file, 0, 100, out) == 0, "%s", error_text());
  ids[4000] = 5;
  clock_sleep(0.15);
  raw_write_documents(prefix, 8, lengths, 2, ids);
  T_CHECK(tokens_read(file, 0, 100, out) == STATUS_FAILED && strstr(error_text(), "its content is another"), "%s",
          error_text());
  tokens_close(&file);
  free(ids);
}

/* ---- text ---- */

static int write_text(const char *prefix, const char *path, const char *content, int64_t bytes, bool jsonl,
                      struct text_progress *progress) {
  FILE *out = fopen(path, "wb");
  fwrite(content, 1, (size_t)bytes, out);
  fclose(out);
  struct tokens_writer *writer;
  int status = tokens_write_begin(prefix, TOKENIZER_VOCAB, &writer);
  const struct text_request request = {.format = jsonl ? "jsonl" : "bytes", .key = "text"};
  if (!status) status = text_write(path, &request, writer, progress);
  if (!status) return tokens_write_end(&writer);
  tokens_write_abandon(&writer);
  return status;
}

static void test_text(void) {
  const char *prefix = raw_path("text"), *path = raw_path("text.txt");
  struct text_progress progress = {0};
  struct tokens *file;
  uint8_t *content = malloc(3 << 20);
  int32_t *ids = malloc(sizeof(int32_t) * ((3 << 20) + 1));
  const int64_t n = (3 << 20) - 5;
  for (int64_t i = 0; i < n; i++) content[i] = (uint8_t)pick(256); /* any bytes: no valid UTF-8 is asked for */
  T_CHECK(write_text(prefix, path, (char *)content, n, false, &progress) == 0, "%s", error_text());
  T_CHECK(tokens_open(prefix, TOKENIZER_VOCAB, &file) == 0, "%s", error_text());
  T_CHECK(file->n_documents == 1 && file->n_tokens == n + 1 && progress.bytes == n, "counts");
  tokens_read(file, 0, n + 1, ids);
  int wrong = ids[n] != TOKENIZER_END_OF_DOCUMENT;
  for (int64_t i = 0; i < n; i++) wrong += ids[i] != content[i];
  T_CHECK(wrong == 0, "%d ids are not the bytes", wrong);
  tokens_close(&file);
  free(content);
  free(ids);
  T_CHECK(write_text(prefix, path, "", 0, false, &progress) == 0 && progress.empty == 1, "an empty file is skipped");
}

static void test_jsonl(void) {
  const char *prefix = raw_path("jsonl"), *path = raw_path("text.jsonl");
  struct text_progress progress = {0};
  struct tokens *file;
  const char *good = "{\"id\": 123456789012345678901234567890, \"text\": \"a\\u00e9\\n\"}\n\n"
                     "{\"text\": \"\", \"x\": null}\r\n{\"text\":\"b\\u0000c\"}";
  const int32_t ids[] = {'a', 0xc3, 0xa9, '\n', 256, 'b', 0, 'c', 256};
  int32_t out[9] = {0};
  T_CHECK(write_text(prefix, path, good, (int64_t)strlen(good), true, &progress) == 0, "%s", error_text());
  T_CHECK(tokens_open(prefix, TOKENIZER_VOCAB, &file) == 0, "%s", error_text());
  T_CHECK(file && file->n_documents == 2 && file->n_tokens == 9 && progress.empty == 1, "counts");
  tokens_read(file, 0, 9, out);
  T_CHECK(!memcmp(ids, out, sizeof ids), "ids");
  tokens_close(&file);

  const struct {
    const char *line, *words;
  } bad[] = {
      {"{\"text\": \"a\"", "text.jsonl:3: not valid JSON"},
      {"{\"body\": \"a\", \"n\": 1}", "text.jsonl:3: no key 'text' (the line has 'body', 'n')"},
      {"{\"text\": [1]}", "text.jsonl:3: 'text' is a list, a string is needed"},
      {"{\"text\": null}", "text.jsonl:3: 'text' is null"},
      {"\"text\"", "text.jsonl:3: the line is a string, an object"},
      {"{\"text\": \"a\"} x", "text.jsonl:3: not valid JSON"},
      {"{\"text\": \"\xff}", "text.jsonl:3: not valid JSON"},
      {"{\"text\": NaNa}", "text.jsonl:3: not valid JSON"},
      {"{\"text\": NaN}", "text.jsonl:3: 'text' is a number"},
      {"plain words", "text.jsonl:3: not valid JSON"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *content = mem_format("{\"text\": \"a\"}\n\n%s\n{\"text\": \"b\"}\n", bad[i].line);
    int status = write_text(prefix, path, content, (int64_t)strlen(content), true, &progress);
    T_CHECK(status == STATUS_MISTAKE && strstr(error_text(), bad[i].words), "%d: %s", status, error_text());
    mem_free(content);
  }
  struct tokens_writer *writer;
  T_CHECK(tokens_write_begin(prefix, TOKENIZER_VOCAB, &writer) == 0, "%s", error_text());
  const char *formats[] = {"text", "jsonl", "bytes", NULL};
  for (int i = 0; i < 4; i++) {
    const struct text_request request = {.format = formats[i], .key = "text"};
    T_CHECK(text_write(raw_path("absent"), &request, writer, &progress) == STATUS_MISTAKE, "absent file");
    T_CHECK(text_write(scratch_make(), &request, writer, &progress) == STATUS_MISTAKE, "folder");
  }
  tokens_write_abandon(&writer);
}

/* ---- damaged indexes ---- */

static void ignore(void *context, enum tokens_fault fault, bool refused, int64_t n, const char *text) {
  (void)fault, (void)refused, (void)text;
  *(int *)context += (int)n;
}

/* Whatever is accepted must be readable to its last token and document. */
static int read_all(const char *prefix) {
  struct tokens *file;
  if (tokens_open(prefix, 257, &file)) return 0;
  int32_t out[64];
  int64_t sum = 0, offset;
  T_CHECK(file->n_tokens >= 0 && file->n_tokens < 1000, "tokens");
  for (int64_t d = 0; d < file->n_documents; d++) sum += tokens_get_document_length(file, d);
  T_CHECK(sum == file->n_tokens, "documents hold %d of %d tokens", (int)sum, (int)file->n_tokens);
  for (int64_t i = 0; i < file->n_tokens; i++) {
    tokens_read(file, i, file->n_tokens - i < 64 ? file->n_tokens - i : 64, out);
    int64_t d = tokens_find_document(file, i, &offset);
    T_CHECK(tokens_get_document_start(file, d) + offset == i, "place %d", (int)i);
  }
  tokens_check_vocabulary(file, 257, 0, 1);
  tokens_close(&file);
  return 1;
}

static void test_damage(void) {
  enum { N = 20 };
  const char *prefix = raw_path("damage");
  int32_t lengths[N], ids[N * 8];
  int64_t tokens = 0;
  size_t bytes;
  for (int d = 0; d < N; d++) tokens += lengths[d] = (int32_t)pick(8);
  for (int64_t i = 0; i < tokens; i++) ids[i] = (int32_t)pick(257);
  raw_write_documents(prefix, 8, lengths, N, ids);
  uint8_t *good = raw_read(prefix, "idx", &bytes), *bad = malloc(bytes);
  int accepted = 0;
  for (int round = 0; round < 1500; round++) {
    struct tokens *file;
    struct tokens_scan scan;
    int faults = 0;
    size_t keep = round % 5 == 4 ? (size_t)pick((int64_t)bytes) : bytes;
    memcpy(bad, good, bytes);
    for (int64_t flips = round % 5 == 4 ? 0 : 1 + pick(3); flips > 0; flips--)
      bad[pick((int64_t)bytes)] = pick(3) ? (uint8_t)pick(256) : (uint8_t)(pick(2) * 255);
    raw_write(prefix, "idx", bad, keep);
    int64_t found = tokens_check(prefix, 257, ignore, &faults, &file, &scan);
    T_CHECK(found == faults, "%d faults, %d seen", (int)found, faults);
    tokens_close(&file);
    int good_enough = read_all(prefix);
    T_CHECK(good_enough || faults > 0, "refused without a fault");
    T_CHECK(faults > 0 || !memcmp(bad + 34, good + 34, bytes - 34) || keep < bytes || bad[17] == 8, "unnoticed");
    accepted += good_enough;
  }
  T_CHECK(accepted > 10 && accepted < 1000, "%d of 1500 accepted", accepted);
  free(good);
  free(bad);
}

int main(void) {
  int64_t before = mem_balance();
  test_bytes_of_a_file();
  test_round_trip(257, TOKENS_UINT16, INT32_MAX);
  test_round_trip(65536, TOKENS_UINT16, 7);
  test_round_trip(65537, TOKENS_INT32, 3);
  test_round_trip(70000, TOKENS_INT32, INT32_MAX);
  test_write_refusals();
  test_edges();
  test_many_sequences();
  test_fingerprint();
  test_changes();
  test_text();
  test_jsonl();
  test_damage();
  T_CHECK(mem_balance() == before, "%d allocations are left", (int)(mem_balance() - before));
  test_beyond_4_gib(false);
  test_beyond_4_gib(true);
  scratch_remove();
  return t_end();
}
