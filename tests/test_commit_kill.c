/* A process that is killed at any instant of a commit leaves the file as it was or as it was to be: each commit of a
 * list is done by a child that dies before, or in the middle of, each of its writes and changes of files in turn.
 * Whoever opens the file then, to read or to write, finds one of both contents, and no damage.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/image.h"
#include "store/seal.h"
#include "t.h"

enum { PAGE = 1 << 16, SEAL = sizeof(struct seal), MOST = 5 * PAGE };

static const char path[] = "file.bin", journal_path[] = "file.bin.journal";

/* ---- death ---- */

static int64_t life = -1; /* operations until death; -1: none */
static bool halfway;      /* a write that is the last one is done in part */

static bool ends(void) { return life >= 0 && life-- == 0; }

static ssize_t write_some(int descriptor, const void *data, size_t bytes, off_t offset) {
  bool last = ends();
  if (last && halfway) syscall(SYS_pwrite64, descriptor, data, bytes - bytes / 3, offset);
  if (last) raise(SIGKILL);
  return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
  return write_some(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
  return write_some(descriptor, data, bytes, offset);
}

/* A process that dies takes nothing from the system's memory of the disk. */
int fdatasync(int descriptor) {
  if (ends()) raise(SIGKILL);
  return descriptor < 0 ? -1 : 0;
}

int fsync(int descriptor) { return fdatasync(descriptor); }

int ftruncate(int descriptor, off_t bytes) {
  if (ends()) raise(SIGKILL);
  return (int)syscall(SYS_ftruncate, descriptor, bytes);
}

int ftruncate64(int descriptor, off64_t bytes) {
  if (ends()) raise(SIGKILL);
  return (int)syscall(SYS_ftruncate, descriptor, bytes);
}

int unlink(const char *name) {
  if (ends()) raise(SIGKILL);
  return (int)syscall(SYS_unlink, name);
}

/* ---- contents ---- */

struct content {
  int64_t size;
  unsigned char bytes[MOST];
};

static void fill(struct content *content, int64_t size, unsigned seed) {
  content->size = size;
  memset(content->bytes, 0, MOST);
  for (int64_t i = 0; i < size; i++) content->bytes[i] = (unsigned char)(1 + (i * 31 + i / 251 + seed) % 255);
}

/* `append`: what is below the old end stays. */
static void make_after(const struct content *before, struct content *after, int64_t size, bool append) {
  fill(after, size, 77);
  if (append) memcpy(after->bytes, before->bytes, (size_t)(before->size < size ? before->size : size));
}

static void make_file(const struct content *before) {
  unlink(journal_path);
  struct image *image = image_create(path);
  image_write(image, 0, before->bytes, before->size);
  T_CHECK(!image_commit(image), "%s", error_text());
  image_close(&image);
}

/* The child: never returns. */
static void commit(const struct content *before, const struct content *after, int64_t operations) {
  struct image *image;
  if (image_open(path, true, &image)) _exit(3);
  for (int64_t i = 0; i < after->size; i += 4096) {
    int64_t n = after->size - i < 4096 ? after->size - i : 4096;
    if (i + n > before->size || memcmp(before->bytes + i, after->bytes + i, (size_t)n))
      image_write(image, i, after->bytes + i, n);
  }
  image_set_size(image, after->size);
  life = operations;
  _exit(image_commit(image) ? 4 : 0);
}

/* Whether the file's content is that; what a dead appender left beyond the end of `before` does no harm. */
static bool is_content(const struct image *image, const struct content *content, bool or_more) {
  unsigned char *data = mem_alloc(MOST);
  int64_t size = image_get_size(image);
  bool good = (size == content->size || (or_more && size > content->size)) &&
              !image_read(image, 0, data, content->size) && !memcmp(data, content->bytes, (size_t)content->size);
  mem_free(data);
  return good;
}

/* `is_later`: what this has appended before may be there. */
static void check_open(const struct content *before, const struct content *after, bool writable, bool is_later,
                       const char *what) {
  struct image *image;
  error_clear();
  bool good = !image_open(path, writable, &image);
  T_CHECK(good, "%s: opened to %s: %s", what, writable ? "write" : "read", error_text());
  if (!good) return;
  T_CHECK(is_content(image, before, true) || is_content(image, after, is_later), "%s: opened to %s: neither content",
          what, writable ? "write" : "read");
  if (writable) {
    image_write(image, image_get_size(image), "more", 4);
    T_CHECK(!image_commit(image), "%s: %s", what, error_text());
  }
  image_close(&image);
}

/* True when the child came to its end. */
static bool try(const struct content *before, const struct content *after, int64_t operations, const char *name) {
  char what[128];
  int status;
  snprintf(what, sizeof what, "%s, killed %s operation %lld", name, halfway ? "in" : "before", (long long)operations);
  make_file(before);
  pid_t child = fork();
  if (child == 0) commit(before, after, operations);
  T_CHECK(child > 0 && waitpid(child, &status, 0) == child, "%s: no child", what);
  bool ended = WIFEXITED(status);
  T_CHECK(ended ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL, "%s: status %d", what, status);
  check_open(before, after, false, false, what);
  check_open(before, after, true, false, what);
  check_open(before, after, true, true, what); /* what the last one committed is whole */
  return ended;
}

static void test_commit(const char *name, int64_t old_size, int64_t new_size, bool append) {
  static struct content before, after;
  fill(&before, old_size, 3);
  make_after(&before, &after, new_size, append);
  for (int part = 0; part < 2; part++) {
    int64_t operations = 0;
    halfway = part;
    while (operations < 100 && !try(&before, &after, operations, name)) operations++;
    T_CHECK(operations > 3 && operations < 100, "%s: %lld operations", name, (long long)operations);
  }
}

int main(void) {
  char folder[] = "test_commit_kill-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder)) return 1;
  test_commit("change", 3 * PAGE - 100, 3 * PAGE - 100, false);
  test_commit("append within a page", PAGE + 1000, PAGE + 3000, true);
  test_commit("append of pages", PAGE + 1000, 4 * PAGE + 500, true);
  test_commit("append up to a page's end", PAGE + 1000, 2 * PAGE, true);
  test_commit("a seal in two pages", PAGE + 1000, 3 * PAGE - SEAL / 2, true);
  test_commit("change and append", 2 * PAGE + 1, 4 * PAGE + 1, false);
  test_commit("from a page's end on", 2 * PAGE - SEAL, 2 * PAGE + 4000, true);
  test_commit("shrink", 4 * PAGE + 9, PAGE + 9, true);
  test_commit("shrink and change", 4 * PAGE + 9, 2 * PAGE - SEAL / 2, false);
  unlink(path);
  unlink(journal_path);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  if (chdir("..") || rmdir(folder)) return 1;
  return t_end();
}
