/* Base: errors, log lines, counted memory, hashes, random numbers, clock. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "t.h"

/* ---- random numbers ---- */

/* Known answers of the Random123 distribution for philox4x32-10. */
static void test_philox(void) {
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    uint32_t out[4];
    rng_philox(known[k].counter, known[k].key, out);
    T_CHECK(memcmp(out, known[k].out, sizeof out) == 0, "vector %zu gives %08x %08x %08x %08x", k, out[0], out[1],
            out[2], out[3]);
  }
}

static void test_keys(void) {
  const struct rng_key base = {.seed = 7, .purpose = RNG_TEST, .a = 1, .b = 2};
  struct rng_key others[] = {base, base, base, base};
  others[0].seed = 8;
  others[1].purpose = RNG_INIT;
  others[2].a = 2;
  others[3].b = 1;
  for (int k = 0; k < 4; k++) {
    int bits = 0;
    for (uint64_t i = 0; i < 1000; i++) bits += __builtin_popcountll(rng_bits(&base, i) ^ rng_bits(&others[k], i));
    /* 64000 fair coins: standard deviation 126 */
    T_CHECK(abs(bits - 32000) < 700, "key field %d: %d of 64000 bits differ", k, bits);
  }
  T_CHECK(rng_bits(&base, 5) != rng_bits(&base, 5 + (UINT64_C(1) << 32)), "index cut to 32 bits");
}

static void test_uniform(void) {
  struct rng_key key = {.seed = 1, .purpose = RNG_TEST};
  enum { N = 256000, BINS = 256 };
  int bins[BINS] = {0}, outside = 0;
  for (uint64_t i = 0; i < N; i++) {
    double u = rng_uniform(&key, i);
    outside += !(u >= 0 && u < 1);
    bins[(int)(u * BINS) & (BINS - 1)]++;
  }
  double chi = 0, expected = (double)N / BINS;
  for (int b = 0; b < BINS; b++) chi += (bins[b] - expected) * (bins[b] - expected) / expected;
  T_CHECK(outside == 0, "%d values outside [0, 1)", outside);
  /* 255 degrees of freedom: mean 255, standard deviation 22.6 */
  T_CHECK(chi > 145 && chi < 370, "chi square %g", chi);
}

static void test_normal(void) {
  struct rng_key key = {.seed = 2, .purpose = RNG_TEST};
  enum { N = 400000 };
  double sum = 0, square = 0, fourth = 0, pairs = 0, last = 0;
  int within = 0;
  for (uint64_t i = 0; i < N; i++) {
    double x = rng_normal(&key, i);
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
    pairs += x * last;
    within += fabs(x) < 1;
    last = x;
  }
  double root = sqrt(N);
  T_CHECK(fabs(sum / N) < 5 / root, "mean %g", sum / N);
  T_CHECK(fabs(square / N - 1) < 5 * sqrt(2) / root, "variance %g", square / N);
  T_CHECK(fabs(fourth / N - 3) < 5 * sqrt(96) / root, "fourth moment %g", fourth / N);
  T_CHECK(fabs(pairs / N) < 5 / root, "neighbours correlate: %g", pairs / N);
  T_CHECK(fabs((double)within / N - 0.682689) < 5 * 0.4655 / root, "%d of %d within one", within, N);
}

static void test_bijection(int64_t n) {
  struct rng_key key = {.seed = 3, .purpose = RNG_SHUFFLE, .a = (uint32_t)n};
  unsigned char *seen = mem_alloc((size_t)n);
  int64_t bad = 0, fixed = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t image = rng_permute(&key, n, i);
    if (image < 0 || image >= n || seen[image]++) bad++;
    fixed += image == i;
  }
  T_CHECK(bad == 0, "%" PRId64 " images of %" PRId64 " outside or doubled", bad, n);
  T_CHECK(n < 20 || fixed < 12, "%" PRId64 " of %" PRId64 " elements stay", fixed, n);
  mem_free(seen);
}

/* Over many keys an element's image is uniform. */
static void test_permutation_uniform(int64_t n) {
  enum { KEYS = 4000 };
  int *bins = MEM_NEW(int, n);
  for (uint32_t k = 0; k < KEYS; k++) {
    struct rng_key key = {.seed = 4, .purpose = RNG_SHUFFLE, .b = k};
    bins[rng_permute(&key, n, n / 2)]++;
  }
  double chi = 0, expected = (double)KEYS / (double)n;
  for (int64_t b = 0; b < n; b++) chi += (bins[b] - expected) * (bins[b] - expected) / expected;
  double freedom = (double)(n - 1);
  T_CHECK(fabs(chi - freedom) < 6 * sqrt(2 * freedom) + 4, "n %" PRId64 ": chi square %g", n, chi);
  mem_free(bins);
}

static void test_permutation(void) {
  for (int64_t n = 1; n <= 140; n++) test_bijection(n);
  static const int64_t larger[] = {1000, 4095, 4096, 4097, 65537};
  for (size_t i = 0; i < sizeof larger / sizeof larger[0]; i++) test_bijection(larger[i]);
  static const int64_t small[] = {2, 3, 10, 100};
  for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) test_permutation_uniform(small[i]);
  struct rng_key key = {.seed = 5, .purpose = RNG_SHUFFLE};
  int64_t n = INT64_C(3) << 50, image = rng_permute(&key, n, n - 1);
  T_CHECK(image >= 0 && image < n, "large n: %" PRId64, image);
}

/* ---- hashes ---- */

static void test_hash(void) {
  T_CHECK(hash_bytes("", 0, 0) == UINT64_C(0x2D06800538D394C2), "hash of nothing is not XXH3's");
  static const size_t sizes[] = {0, 1, 1000, (1 << 20) - 1, 1 << 20, (2 << 20) + 7};
  struct rng_key key = {.seed = 6, .purpose = RNG_TEST};
  char path[] = "test_base-XXXXXX";
  int descriptor = mkstemp(path);
  T_CHECK(descriptor >= 0, "no temporary file");
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    unsigned char *data = mem_alloc(sizes[s] + 1);
    for (size_t i = 0; i < sizes[s]; i++) data[i] = (unsigned char)(rng_bits(&key, i / 8) >> (8 * (i % 8)));
    T_CHECK(ftruncate(descriptor, 0) == 0 && pwrite(descriptor, data, sizes[s], 0) == (ssize_t)sizes[s], "write");
    uint64_t hash;
    int64_t bytes;
    T_CHECK(hash_file(path, &hash, &bytes) == STATUS_OK, "%s", error_text());
    T_CHECK(hash == hash_bytes(data, sizes[s], 0) && bytes == (int64_t)sizes[s], "file of %zu bytes", sizes[s]);
    if (sizes[s]) {
      data[sizes[s] / 2] ^= 1;
      T_CHECK(hash != hash_bytes(data, sizes[s], 0), "one bit changed in %zu bytes", sizes[s]);
      T_CHECK(hash != hash_bytes(data, sizes[s] - 1, 0), "one byte less than %zu", sizes[s]);
    }
    mem_free(data);
  }
  close(descriptor);
  unlink(path);
  uint64_t hash;
  int64_t bytes;
  T_CHECK(hash_file(path, &hash, &bytes) == STATUS_FAILED, "a file that is not there");
  T_CHECK(strstr(error_text(), path), "message without the path: %s", error_text());
  T_CHECK(hash_file(".", &hash, &bytes) == STATUS_FAILED, "a folder");
}

/* ---- errors, log, memory, clock ---- */

static void test_error(void) {
  error_clear();
  T_CHECK(error_status() == STATUS_OK && error_text()[0] == '\0', "not clear");
  T_CHECK(error_raise(STATUS_MISTAKE, "key %s is %d", "a", 3) == STATUS_MISTAKE, "status");
  T_CHECK(error_wrap("while reading %s", "x.yml") == STATUS_MISTAKE, "wrapped status");
  T_CHECK(strcmp(error_text(), "while reading x.yml: key a is 3") == 0, "%s", error_text());
  error_raise(STATUS_FAILED, "[%s]", error_text());
  T_CHECK(strcmp(error_text(), "[while reading x.yml: key a is 3]") == 0, "%s", error_text());
  T_CHECK(error_status() == STATUS_FAILED, "status %d", error_status());
  char *large = mem_alloc(100001);
  memset(large, 'x', 100000);
  error_raise(STATUS_FAILED, "%s", large);
  size_t length = strlen(error_text());
  T_CHECK(length < 100000 && strcmp(error_text() + length - 3, "...") == 0, "cut text is not marked");
  error_wrap("in %s", large);
  T_CHECK(strlen(error_text()) < 100000, "wrapped cut text");
  mem_free(large);
  error_clear();
}

/* What `act` writes to standard output and error in a process of its own; returns its wait status. */
static int capture(void (*act)(void), char *text, size_t bytes) {
  int ends[2], status = -1;
  if (pipe(ends) != 0) return -1;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    act();
    _exit(0);
  }
  close(ends[1]);
  size_t used = 0;
  ssize_t n;
  while (used < bytes - 1 && (n = read(ends[0], text + used, bytes - 1 - used)) > 0) used += (size_t)n;
  text[used] = '\0';
  close(ends[0]);
  waitpid(child, &status, 0);
  return status;
}

static void leave_with(int status) { _exit(40 + status); }

static void fail_check(void) {
  log_init(3);
  error_set_abort(leave_with);
  CHECK(1 + 1 == 2, "never");
  CHECK(1 + 1 == 3, "sum is %d", 2);
}

static void fail_check_alone(void) {
  error_set_abort(NULL);
  CHECK(0, "alone");
}

static void speak(void) {
  log_line("line %d", 1);
  log_warn("careful");
  log_rank("here");
  log_error("bad");
}

static void speak_on_two(void) {
  log_init(2);
  speak();
}

static void speak_at_length(void) {
  static char large[50000];
  memset(large, 'y', sizeof large - 1);
  log_line("%s", large);
  log_line("next");
}

static void test_check_and_log(void) {
  char text[65536];
  int status = capture(fail_check, text, sizeof text);
  T_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 41, "abort hook not called: status %x", status);
  T_CHECK(strstr(text, "penstock: rank 3: ") == text && strstr(text, "test_base.c:") && strstr(text, ": sum is 2\n"),
          "%s", text);
  status = capture(fail_check_alone, text, sizeof text);
  T_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x", status);
  capture(speak, text, sizeof text);
  T_CHECK(strcmp(text, "line 1\npenstock: warning: careful\npenstock: rank 0: here\npenstock: error: bad\n") == 0, "%s",
          text);
  capture(speak_on_two, text, sizeof text);
  T_CHECK(strcmp(text, "penstock: rank 2: here\npenstock: error: bad\n") == 0, "%s", text);
  capture(speak_at_length, text, sizeof text);
  size_t length = strlen(text);
  T_CHECK(length > 6 && strcmp(text + length - 6, "\nnext\n") == 0, "a long line runs into the next");
}

static void speak_to_file(void) {
  if (log_open_file("test_base.log") != STATUS_OK) _exit(1);
  speak();
  log_open_file(NULL);
  log_line("not in it");
}

static void test_log_file(void) {
  char text[4096];
  unlink("test_base.log");
  int status = capture(speak_to_file, text, sizeof text);
  T_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
  FILE *file = fopen("test_base.log", "r");
  T_CHECK(file, "no log file");
  if (!file) return;
  size_t n = fread(text, 1, sizeof text - 1, file);
  text[n] = '\0';
  fclose(file);
  unlink("test_base.log");
  T_CHECK(strcmp(text, "line 1\npenstock: warning: careful\npenstock: rank 0: here\npenstock: error: bad\n") == 0, "%s",
          text);
  T_CHECK(log_open_file("no-such-folder/log.txt") == STATUS_FAILED, "log in a folder that is not there");
}

/* A child that speaks and aborts into a pipe or socket: it waits for its reader, though not for ever. */
static void check_wait_read(const int ends[2], bool reads) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    log_error("the last line");
    double began = clock_now();
    log_wait_read(reads ? 20 : 0.05);
    double took = clock_now() - began;
    _exit(reads ? took > 10 : took < 0.05);
  }
  char text[100];
  int status = -1;
  if (reads) {
    clock_sleep(0.1);
    T_CHECK(waitpid(child, &status, WNOHANG) == 0, "it did not wait for its reader");
    ssize_t n = read(ends[0], text, sizeof text);
    T_CHECK(n > 0, "nothing to read");
  }
  waitpid(child, &status, 0);
  T_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d, reads %d", status, reads);
  close(ends[0]);
  close(ends[1]);
}

static void test_wait_read(void) {
  int ends[2];
  for (int reads = 0; reads < 2; reads++) {
    if (pipe(ends) == 0) check_wait_read(ends, reads);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) check_wait_read(ends, reads);
  }
}

static void test_memory(void) {
  int64_t before = mem_balance();
  T_CHECK(mem_alloc(0) == NULL && mem_balance() == before, "nothing is NULL");
  unsigned char *p = mem_alloc(1000), any = 0;
  for (int i = 0; i < 1000; i++) any |= p[i];
  T_CHECK(any == 0, "not zeroed");
  memset(p, 7, 1000);
  p = mem_resize(p, 100000);
  T_CHECK(p[0] == 7 && p[999] == 7 && mem_balance() == before + 1, "grown");
  p = mem_resize(p, 0);
  T_CHECK(p == NULL && mem_balance() == before, "shrunk to nothing");
  p = mem_resize(NULL, 10);
  char *copy = mem_strdup("text"), *text = mem_format("%s %05d", copy, 42);
  T_CHECK(strcmp(text, "text 00042") == 0, "%s", text);
  T_CHECK(mem_balance() == before + 3, "balance %" PRId64, mem_balance() - before);
  mem_free(p);
  mem_free(copy);
  mem_free(text);
  mem_free(NULL);
  T_CHECK(mem_balance() == before, "balance %" PRId64, mem_balance() - before);
}

static void ignore_signal(int number) { (void)number; }

static void test_clock(void) {
  signal(SIGALRM, ignore_signal);
  ualarm(5000, 5000); /* signals must not shorten the sleep */
  double start = clock_now();
  clock_sleep(0.03);
  double slept = clock_now() - start;
  ualarm(0, 0);
  T_CHECK(slept >= 0.03 && slept < 5, "slept %g s", slept);
  clock_sleep(-1);
  char text[32];
  clock_format(text);
  int year, month, day, hour, minute, second, used = 0;
  int n = sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &used);
  T_CHECK(n == 6 && used == 20 && text[20] == '\0' && year > 2000 && month <= 12 && hour < 24, "%s", text);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  T_CHECK(file && fputs(text, file) >= 0 && !fclose(file), "%s", path);
}

/* What spreadsheets put before a text is none of it; a device without an end is refused, not read for ever. */
static void test_file_text(void) {
  static const char path[] = "test_base.text";
  static const char *const texts[][2] = {{"layer,1\n", "layer,1\n"}, {"\xef\xbb\xbflayer,1\n", "layer,1\n"},
                                         {"\xef\xbb\xbf", ""},       {"", ""},
                                         {"\xef\xbb", "\xef\xbb"},   {"a\xef\xbb\xbf", "a\xef\xbb\xbf"}};
  char *text;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    write_file(path, texts[i][0]);
    T_CHECK(!file_read_text(path, &text), "%s", error_text());
    T_CHECK(!strcmp(text, texts[i][1]), "text %zu is '%s'", i, text);
    mem_free(text);
  }
  remove(path);
  T_CHECK(file_read_text(path, &text) == STATUS_MISTAKE && strstr(error_text(), path), "%s", error_text());
  T_CHECK(file_read_text("/dev/zero", &text) == STATUS_MISTAKE && strstr(error_text(), "256 MiB"), "%s", error_text());
}

static void test_json_text(void) {
  static const char *const texts[][2] = {{"", ""},
                                         {"a\"b\n", "a\"b\n"},
                                         {"\xc3\xa4", "\xc3\xa4"},
                                         {"l\xe4.bin", "l\xef\xbf\xbd.bin"},
                                         {"x\xe4", "x\xef\xbf\xbd"},
                                         {"\xed\xa0\x80\xc3\xa4", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xc3\xa4"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    json_t *value = json_make_text(texts[i][0]);
    T_CHECK(value && !strcmp(json_string_value(value), texts[i][1]), "text %d", (int)i);
    json_decref(value);
  }
  T_CHECK(json_is_null(json_make_text(NULL)), "no text");
}

int main(void) {
  test_philox();
  test_keys();
  test_uniform();
  test_normal();
  test_permutation();
  test_hash();
  test_error();
  test_check_and_log();
  test_log_file();
  test_wait_read();
  test_memory();
  test_clock();
  test_file_text();
  test_json_text();
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations left", mem_balance());
  return t_end();
}
