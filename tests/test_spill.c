/* Blocks of activations in a file: they come back as they were, or the failure says what is wrong with the file; the
 * file is HDF5 while it lasts, no larger on the disk than what is said to go there, and leaves nothing behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/h5.h"
#include "store/spill.h"
#include "t.h"

static const char folder[] = "test_spill-folder";
enum { MIB = 1 << 20 };

static struct spill *open_spill(int64_t limit, int64_t most) {
  struct spill *s = NULL;
  T_CHECK(!spill_open(folder, "runs/a", 3, limit, most, &s), "%s", error_text());
  return s;
}

static int count_files(void) {
  DIR *dir = opendir(folder);
  int n = 0;
  for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) n += e->d_name[0] != '.';
  if (dir) closedir(dir);
  return n;
}

/* The status of the job under way. */
static int finish(struct spill *s, double *seconds) {
  int status = -1;
  double start = 0, end = 0, begin = clock_now();
  while (!spill_test(s, &status, &start, &end) && clock_now() < begin + 10) clock_sleep(1e-4);
  T_CHECK(status >= 0, "a job does not end");
  T_CHECK(end >= start && (seconds || start > 0), "a job ran from %g to %g", start, end);
  if (seconds) *seconds = end - start;
  return status;
}

static int write_block(struct spill *s, int64_t place, const void *data) {
  spill_begin_write(s, place, data);
  return finish(s, NULL);
}

static int read_block(struct spill *s, int64_t place, void *data) {
  spill_begin_read(s, place, data);
  return finish(s, NULL);
}

static int64_t draw(struct rng_key *key, int64_t n) { return (int64_t)(rng_bits(key, key->b++) % (uint64_t)n); }

static unsigned char *make_data(struct rng_key *key, int64_t bytes) {
  unsigned char *data = mem_alloc((size_t)bytes);
  for (int64_t i = 0; i < bytes; i++) data[i] = (unsigned char)(rng_bits(key, (uint64_t)i) >> 7);
  key->a++;
  return data;
}

/* Bytes that the file has on the disk, 0: not to be found. */
static int64_t get_disk_bytes(const struct spill *s) {
  struct stat status;
  return stat(spill_get_path(s), &status) ? 0 : (int64_t)status.st_blocks * 512;
}

/* ---- blocks ---- */

struct held {
  int64_t place, bytes;
  unsigned char *data;
};

static void check_apart(const struct held *blocks, int n) {
  for (int a = 0; a < n; a++)
    for (int b = 0; b < a; b++)
      T_CHECK(blocks[a].place >= blocks[b].place + blocks[b].bytes ||
                  blocks[b].place >= blocks[a].place + blocks[a].bytes,
              "blocks of %lld bytes at %lld and %lld at %lld overlap", (long long)blocks[a].bytes,
              (long long)blocks[a].place, (long long)blocks[b].bytes, (long long)blocks[b].place);
}

/* Blocks of all sizes come and go; each is read back several times, in any order, as it was written. */
static void test_blocks(void) {
  enum { MOST = 24 };
  const int64_t limit = 2 * MIB;
  struct spill *s = open_spill(limit, limit);
  struct rng_key key = {.seed = 3, .purpose = RNG_TEST};
  struct held blocks[MOST];
  unsigned char *back = mem_alloc(200000);
  int64_t used = 0, peak = 0, n_read = 0;
  int n = 0;
  for (int turn = 0; turn < 1500; turn++) {
    int what = (int)draw(&key, 3);
    if (what == 0 && n < MOST) {
      struct held b = {.bytes = 1 + draw(&key, draw(&key, 2) ? 200000 : 6000)};
      if (used + b.bytes > limit) continue;
      b.place = spill_alloc(s, b.bytes, "a block");
      T_CHECK(b.place >= 0, "%s", error_text());
      b.data = make_data(&key, b.bytes);
      T_CHECK(!write_block(s, b.place, b.data), "%s", error_text());
      used += b.bytes;
      if (used > peak) peak = used;
      blocks[n++] = b;
    } else if (what == 1 && n > 0) {
      struct held *b = &blocks[draw(&key, n)];
      memset(back, 0, (size_t)b->bytes);
      T_CHECK(!read_block(s, b->place, back), "%s", error_text());
      T_CHECK(!memcmp(back, b->data, (size_t)b->bytes), "turn %d: a block is not what was written", turn);
      n_read++;
    } else if (what == 2 && n > 0) {
      struct held *b = &blocks[draw(&key, n)];
      spill_free(s, b->place);
      used -= b->bytes;
      mem_free(b->data);
      *b = blocks[--n];
    }
    T_CHECK(spill_get_peak(s) == peak, "peak %lld, not %lld", (long long)spill_get_peak(s), (long long)peak);
    if (turn % 100 == 99) {
      check_apart(blocks, n);
      spill_reset_peak(s);
      peak = used;
    }
  }
  T_CHECK(n_read > 200, "only %lld blocks were read", (long long)n_read);
  /* What was said to come, what rounding adds, and the file's own. */
  T_CHECK(get_disk_bytes(s) >= limit && get_disk_bytes(s) <= limit + MOST * SPILL_ALIGN + MIB / 8,
          "the file has %lld bytes on the disk for %lld", (long long)get_disk_bytes(s), (long long)limit);
  for (int i = 0; i < n; i++) mem_free(blocks[i].data);
  mem_free(back);
  spill_close(&s);
}

/* Blocks beyond what was reserved take disk only while they are there. */
static void test_beyond(void) {
  struct spill *s = open_spill(INT64_MAX, 64 << 10);
  struct rng_key key = {.seed = 4, .purpose = RNG_TEST};
  int64_t before = get_disk_bytes(s), place = spill_alloc(s, MIB, "a block");
  unsigned char *data = make_data(&key, MIB);
  T_CHECK(before > 0 && before < MIB / 2, "an empty file has %lld bytes on the disk", (long long)before);
  T_CHECK(!write_block(s, place, data), "%s", error_text());
  T_CHECK(get_disk_bytes(s) >= MIB, "a block of 1 MiB takes %lld bytes", (long long)get_disk_bytes(s));
  spill_free(s, place);
  T_CHECK(get_disk_bytes(s) <= before + SPILL_ALIGN, "%lld bytes stay for a block that is gone, %lld were there before",
          (long long)get_disk_bytes(s), (long long)before);
  mem_free(data);
  spill_close(&s);
}

static void test_limit(void) {
  struct spill *s = open_spill(10000, 10000);
  int64_t a = spill_alloc(s, 6000, "the first"), b = spill_alloc(s, 4001, "block X");
  T_CHECK(a >= 0 && b < 0, "10001 bytes within a limit of 10000");
  T_CHECK(strstr(error_text(), "block X needs 4001 bytes, 6000 of memory.spill_limit 10000"), "%s", error_text());
  T_CHECK(spill_get_peak(s) == 6000, "a refused block counts");
  T_CHECK(spill_alloc(s, 4000, "the last") >= 0, "%s", error_text());
  spill_close(&s);
  s = open_spill(INT64_MAX, 4096);
  T_CHECK(spill_alloc(s, INT64_C(1) << 40, "block Y") < 0 && strstr(error_text(), "block Y needs 1099511627776 bytes"),
          "%s", error_text());
  spill_close(&s);
}

/* ---- the file ---- */

static void test_hdf5(void) {
  struct spill *s = open_spill(INT64_MAX, MIB);
  struct rng_key key = {.seed = 5, .purpose = RNG_TEST};
  unsigned char *one = make_data(&key, 5000), *two = make_data(&key, 70000);
  int64_t a = spill_alloc(s, 5000, "one"), b = spill_alloc(s, 70000, "two"), dims[1];
  T_CHECK(!write_block(s, a, one) && !write_block(s, b, two), "%s", error_text());
  struct h5_file *file = NULL;
  void *content = NULL;
  int n_dims = 0;
  T_CHECK(!h5_open(spill_get_path(s), false, &file), "%s", error_text());
  T_CHECK(!h5_read_dataset(file, "/blocks", H5_INT8, 1, &n_dims, dims, &content), "%s", error_text());
  T_CHECK(n_dims == 1 && dims[0] >= MIB, "/blocks has %lld bytes", (long long)dims[0]);
  T_CHECK(!memcmp((char *)content + a, one, 5000) && !memcmp((char *)content + b, two, 70000),
          "/blocks has other bytes than those written");
  mem_free(content);
  h5_discard(&file);
  mem_free(one);
  mem_free(two);
  spill_close(&s);
  T_CHECK(count_files() == 0, "%d files are left", count_files());
}

/* Where a block lies in the file. */
static int64_t find_bytes(int descriptor, const unsigned char *data, int64_t bytes) {
  struct stat status;
  unsigned char *content;
  int64_t at = -1;
  if (fstat(descriptor, &status)) return -1;
  content = mem_alloc((size_t)status.st_size);
  if (pread(descriptor, content, (size_t)status.st_size, 0) == status.st_size)
    for (int64_t i = 0; i + bytes <= status.st_size && at < 0; i++)
      if (content[i] == data[0] && !memcmp(content + i, data, (size_t)bytes)) at = i;
  mem_free(content);
  return at;
}

/* Any byte of a block that is not what was written, and a file that was cut off. */
static void test_damage(void) {
  struct spill *s = open_spill(INT64_MAX, MIB);
  struct rng_key key = {.seed = 6, .purpose = RNG_TEST};
  unsigned char *data = make_data(&key, 9000), back[9000];
  int64_t place = spill_alloc(s, 9000, "a block");
  T_CHECK(!write_block(s, place, data), "%s", error_text());
  int descriptor = open(spill_get_path(s), O_RDWR);
  int64_t at = find_bytes(descriptor, data, 9000);
  T_CHECK(at >= 0 && at % 4096 == 0, "the block lies at %lld", (long long)at);
  for (int trial = 0; trial < 20; trial++) {
    int64_t where = trial == 0 ? 0 : trial == 1 ? 8999 : draw(&key, 9000);
    unsigned char bad = data[where] ^ (unsigned char)(1 << draw(&key, 8));
    T_CHECK(pwrite(descriptor, &bad, 1, (off_t)(at + where)) == 1, "%s", strerror(errno));
    T_CHECK(read_block(s, place, back) == STATUS_FAILED, "byte %lld is wrong and nobody sees it", (long long)where);
    T_CHECK(strstr(error_text(), spill_get_path(s)) && strstr(error_text(), "is damaged"), "%s", error_text());
    T_CHECK(pwrite(descriptor, &data[where], 1, (off_t)(at + where)) == 1, "%s", strerror(errno));
    T_CHECK(!read_block(s, place, back) && !memcmp(back, data, 9000), "%s", error_text());
  }
  T_CHECK(!ftruncate(descriptor, (off_t)(at + 100)), "%s", strerror(errno));
  T_CHECK(read_block(s, place, back) == STATUS_FAILED, "what was cut off is read");
  close(descriptor);
  mem_free(data);
  spill_close(&s);
}

/* A limit on the size of files stands for a full disk; in a child, as it cannot be lifted again. */
static void run_child(void (*body)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    t_failures = t_checks = 0;
    body();
    fflush(NULL);
    _exit(t_failures ? 1 : 0);
  }
  int how = 0;
  T_CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0, "a child ended with %x", how);
}

static void limit_files(rlim_t bytes) {
  struct rlimit limit = {bytes, bytes};
  signal(SIGXFSZ, SIG_IGN);
  T_CHECK(!setrlimit(RLIMIT_FSIZE, &limit), "%s", strerror(errno));
}

static void fill_while_running(void) {
  struct spill *s = open_spill(INT64_MAX, 4096);
  struct rng_key key = {.seed = 7, .purpose = RNG_TEST};
  unsigned char *data = make_data(&key, MIB);
  int64_t place = spill_alloc(s, MIB, "a block");
  limit_files(MIB / 2);
  T_CHECK(write_block(s, place, data) == STATUS_FAILED, "a file grows beyond its limit");
  T_CHECK(strstr(error_text(), spill_get_path(s)) && strstr(error_text(), "1048576 bytes needed") &&
              strstr(error_text(), "ulimit -f"),
          "%s", error_text());
  spill_close(&s);
}

static void fill_before(void) {
  struct spill *s = NULL;
  limit_files(MIB / 2);
  T_CHECK(spill_open(folder, "run", 0, INT64_MAX, MIB, &s) == STATUS_FAILED && !s, "a file is opened beyond its limit");
  T_CHECK(strstr(error_text(), "memory.spill_folder: cannot write") && strstr(error_text(), "ulimit -f"), "%s",
          error_text());
}

/* More than any disk has. */
static void test_no_room(void) {
  struct spill *s = NULL;
  int status = spill_open(folder, "run", 0, INT64_MAX, INT64_C(1) << 42, &s);
  if (!status) { /* a file system that reserves nothing, or a very large one */
    spill_close(&s);
    return;
  }
  T_CHECK(status == STATUS_FAILED && strstr(error_text(), "bytes needed") && strstr(error_text(), " free)"), "%s",
          error_text());
}

static void test_full(void) {
  run_child(fill_while_running);
  run_child(fill_before);
  test_no_room();
  T_CHECK(count_files() == 0, "%d files are left", count_files());
}

/* ---- the folder ---- */

static void check_refused(const char *path, const char *reason) {
  struct spill *s = NULL;
  T_CHECK(spill_open(path, "run", 0, INT64_MAX, 4096, &s) == STATUS_MISTAKE && !s, "%s is a folder", path);
  T_CHECK(strstr(error_text(), "memory.spill_folder: ") && strstr(error_text(), path) && strstr(error_text(), reason),
          "%s", error_text());
  spill_close(&s);
}

static void enter_closed_folder(void) {
  if (geteuid() == 0 && seteuid(65534)) return;
  if (access("test_spill-closed", W_OK)) check_refused("test_spill-closed", "Permission denied");
}

static void test_folder(void) {
  int descriptor = open("test_spill-file", O_WRONLY | O_CREAT, 0666);
  close(descriptor);
  check_refused("test_spill-file", "Not a directory");
  check_refused("test_spill-file/below", "Not a directory");
  unlink("test_spill-file");
  T_CHECK(!mkdir("test_spill-closed", 0500), "%s", strerror(errno));
  run_child(enter_closed_folder);
  rmdir("test_spill-closed");
  /* One that is made, parents too. */
  struct spill *s = NULL;
  T_CHECK(!spill_open("test_spill-new/a/b", "run", 0, INT64_MAX, 4096, &s), "%s", error_text());
  spill_close(&s);
  T_CHECK(!rmdir("test_spill-new/a/b") && !rmdir("test_spill-new/a") && !rmdir("test_spill-new"), "something is left");
}

/* A file whose name is gone serves its run to the end; one that has taken its name is not removed. */
static void test_vanished(void) {
  struct spill *s = open_spill(INT64_MAX, MIB);
  struct rng_key key = {.seed = 8, .purpose = RNG_TEST};
  unsigned char *data = make_data(&key, 30000), back[30000];
  int64_t place = spill_alloc(s, 30000, "a block");
  char *path = mem_strdup(spill_get_path(s));
  T_CHECK(!unlink(path) && !rmdir(folder), "%s", strerror(errno));
  T_CHECK(!write_block(s, place, data) && !read_block(s, place, back) && !memcmp(data, back, 30000), "%s",
          error_text());
  T_CHECK(!mkdir(folder, 0777), "%s", strerror(errno));
  int descriptor = open(path, O_WRONLY | O_CREAT, 0666);
  close(descriptor);
  spill_close(&s);
  T_CHECK(!unlink(path), "the file of another was removed");
  mem_free(path);
  mem_free(data);
}

/* ---- what others left ---- */

/* Holds a file until it is killed, a block in it and a job under way. */
static pid_t start_holder(void) {
  int ends[2];
  char ready = 0;
  T_CHECK(!pipe(ends), "%s", strerror(errno));
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    struct spill *s = NULL;
    char *data = mem_alloc(MIB);
    if (spill_open(folder, "other", 0, INT64_MAX, MIB, &s)) _exit(1);
    spill_begin_write(s, spill_alloc(s, MIB, "a block"), data);
    if (write(ends[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ends[1]);
  T_CHECK(read(ends[0], &ready, 1) == 1, "the other process holds no file");
  close(ends[0]);
  return child;
}

static void make_file(const char *name, double age) {
  char *path = mem_format("%s/%s", folder, name);
  int descriptor = open(path, O_WRONLY | O_CREAT, 0666);
  struct timespec times[2] = {{.tv_sec = time(NULL) - (time_t)age}, {.tv_sec = time(NULL) - (time_t)age}};
  T_CHECK(descriptor >= 0 && !futimens(descriptor, times), "%s", strerror(errno));
  close(descriptor);
  mem_free(path);
}

static bool has_file(const char *name) {
  char *path = mem_format("%s/%s", folder, name);
  bool there = !access(path, F_OK);
  mem_free(path);
  return there;
}

static void test_stale(void) {
  pid_t other = start_holder();
  struct spill *s = open_spill(INT64_MAX, MIB);
  T_CHECK(count_files() == 2, "%d files: a live one was removed", count_files());
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  T_CHECK(count_files() == 2, "%d files: a killed process has cleaned up?", count_files());
  make_file("notes.h5", 1e5);
  make_file("penstock-spill-of-mine.txt", 1e5);
  make_file("penstock-spill-x-host-1-0.h5.tmp", 0); /* process 1 lives */
  make_file("penstock-spill-y-host-1-0.h5.tmp", 1e5);
  make_file("penstock-spill-z-host-1-0.h5", 0);
  make_file("penstock-spill-y-host-1-1.h5", 1e5);
  struct spill *next = NULL;
  T_CHECK(!spill_open(folder, "next", 0, INT64_MAX, MIB, &next), "%s", error_text());
  T_CHECK(count_files() == 6, "%d files: two of this process and four others are to be there", count_files());
  T_CHECK(has_file("notes.h5") && has_file("penstock-spill-of-mine.txt"), "a file that is no run's was removed");
  T_CHECK(has_file("penstock-spill-x-host-1-0.h5.tmp") && has_file("penstock-spill-z-host-1-0.h5") &&
              !has_file("penstock-spill-y-host-1-0.h5.tmp") && !has_file("penstock-spill-y-host-1-1.h5"),
          "a file that is being made is left alone, one that was not finished is removed");
  spill_close(&next);
  spill_close(&s);
  static const char *const names[] = {"notes.h5", "penstock-spill-of-mine.txt", "penstock-spill-x-host-1-0.h5.tmp",
                                      "penstock-spill-z-host-1-0.h5"};
  for (int k = 0; k < 4; k++) {
    char *path = mem_format("%s/%s", folder, names[k]);
    unlink(path);
    mem_free(path);
  }
  T_CHECK(count_files() == 0, "%d files are left", count_files());
}

/* Ranks of a node that start at once look at each other's files while these are being made. */
static void start_together(void) {
  for (int i = 0; i < 40; i++) {
    struct spill *s = NULL;
    T_CHECK(!spill_open(folder, "together", 0, INT64_MAX, 4096, &s), "%s", error_text());
    T_CHECK(!s || !access(spill_get_path(s), F_OK), "a live file was removed");
    spill_close(&s);
  }
}

static void test_together(void) {
  enum { N = 6 };
  pid_t children[N];
  fflush(NULL);
  for (int i = 0; i < N; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      t_failures = 0;
      start_together();
      fflush(NULL);
      _exit(t_failures ? 1 : 0);
    }
  }
  for (int i = 0; i < N; i++) {
    int how = 0;
    T_CHECK(waitpid(children[i], &how, 0) == children[i] && WIFEXITED(how) && WEXITSTATUS(how) == 0, "child %d: %x", i,
            how);
  }
  T_CHECK(count_files() == 0, "%d files are left", count_files());
}

/* Closing waits for the job under way; abandoning takes the name at once. */
static void test_close(void) {
  struct spill *s = open_spill(INT64_MAX, 8 * MIB);
  char *data = mem_alloc(8 * MIB);
  spill_begin_write(s, spill_alloc(s, 8 * MIB, "a block"), data);
  spill_abandon(s);
  T_CHECK(count_files() == 0, "an abandoned file is there");
  spill_close(&s);
  T_CHECK(!s && count_files() == 0, "a closed file is there");
  mem_free(data);
  spill_close(&s);
}

int main(void) {
  test_blocks();
  test_beyond();
  test_limit();
  test_hdf5();
  test_damage();
  test_full();
  test_folder();
  test_vanished();
  test_stale();
  test_together();
  test_close();
  rmdir(folder);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  T_CHECK(h5_balance() == 0, "%lld HDF5 objects left", (long long)h5_balance());
  return t_end();
}
