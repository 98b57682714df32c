#include "data/tokens_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

enum { TRIES = 1000 };

static bool is_there(const char *prefix, const char *suffix) {
  char *path = mem_format("%s.%s", prefix, suffix);
  struct stat status;
  bool there = lstat(path, &status) == 0;
  mem_free(path);
  return there;
}

/* Returns true when a path still leads to an open file. */
static bool is_at(int descriptor, const char *path) {
  struct stat opened, named;
  return fstat(descriptor, &opened) == 0 && stat(path, &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/* ---- builds ---- */

static int rename_file(const char *prefix, const char *from, const char *to) {
  char *old = mem_format("%s.%s", prefix, from), *new = mem_format("%s.%s", prefix, to);
  int status = STATUS_OK;
  if (rename(old, new) != 0)
    status = error_raise(STATUS_FAILED, "cannot rename %s to %s: %s", old, new, limits_reason(errno));
  mem_free(old);
  mem_free(new);
  return status;
}

static int remove_file(const char *prefix, const char *suffix) {
  char *path = mem_format("%s.%s", prefix, suffix);
  int status = STATUS_OK;
  if (unlink(path) != 0 && errno != ENOENT)
    status = error_raise(STATUS_FAILED, "cannot replace %s: %s", path, limits_reason(errno));
  mem_free(path);
  return status;
}

/* Syncs the folder. Not every file system can; then the files in it are as safe as they can be. */
static void sync_folder(const char *prefix) {
  const char *slash = strrchr(prefix, '/');
  char *folder = slash ? mem_format("%.*s", (int)(slash - prefix) + 1, prefix) : mem_strdup(".");
  int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    (void)fsync(descriptor);
    close(descriptor);
  }
  mem_free(folder);
}

/* Finishes a build that has PREFIX.idx.new: renames both files. */
static int finish(const char *prefix) {
  int status = remove_file(prefix, "idx");
  if (!status && is_there(prefix, "bin.tmp")) status = rename_file(prefix, "bin.tmp", "bin");
  if (!status) status = rename_file(prefix, "idx.new", "idx");
  sync_folder(prefix);
  return status;
}

int tokens_pair_replace(const struct tokens_pair *pair) {
  int status = rename_file(pair->prefix, "idx.tmp", "idx.new");
  sync_folder(pair->prefix);
  return status ? status : finish(pair->prefix);
}

/* Removes what a killed build left. Where PREFIX.idx is there, nothing of the new pair was in place. */
static int clear(const char *prefix) {
  if (!is_there(prefix, "idx.new")) return STATUS_OK;
  return is_there(prefix, "idx") ? remove_file(prefix, "idx.new") : finish(prefix);
}

/* Refuses a locked pair. On a file system without locks, the file itself is the lock. */
static int refuse_lock(const char *path, int reason, bool was_there, const char *prefix) {
  if (reason == EWOULDBLOCK)
    return error_raise(STATUS_MISTAKE, "another build writes %s: wait for it, or take another --output", prefix);
  if (!was_there) return STATUS_OK;
  return error_raise(
      STATUS_MISTAKE,
      "%s is there and cannot be locked (%s): another build writes %s; if none does, one was killed, and "
      "the file is to be removed",
      path, limits_reason(reason), prefix);
}

int tokens_pair_lock(const char *prefix, struct tokens_pair *pair) {
  char *path = mem_format("%s.lock", prefix);
  *pair = (struct tokens_pair){.prefix = mem_strdup(prefix), .lock = -1};
  int status = STATUS_OK;
  for (int try = 0; try < TRIES && !status; try++) { /* a build that ends may remove the file between open and lock */
    bool was_there = is_there(prefix, "lock");
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
      status = error_raise(STATUS_MISTAKE, "cannot write %s: %s%s", path, limits_reason(errno),
                           errno == ENOENT ? " (the folder must exist)" : "");
    else if (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
      status = refuse_lock(path, errno, was_there, prefix);
    if (!status && is_at(descriptor, path)) {
      pair->lock = descriptor;
      break;
    }
    if (descriptor >= 0) close(descriptor);
  }
  mem_free(path);
  if (status) return status;
  return pair->lock >= 0 ? clear(prefix) : error_raise(STATUS_FAILED, "%s.lock: other builds come and go", prefix);
}

void tokens_pair_unlock(struct tokens_pair *pair) {
  if (pair->lock >= 0) {
    char *path = mem_format("%s.lock", pair->prefix);
    unlink(path);
    mem_free(path);
    close(pair->lock);
  }
  mem_free(pair->prefix);
  *pair = (struct tokens_pair){.lock = -1};
}

/* ---- readers ---- */

static int open_file(const char *path, int *reason) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  *reason = descriptor < 0 ? errno : 0;
  return descriptor;
}

void tokens_pair_open(const char *prefix, int descriptors[2], int reasons[2]) {
  for (int try = 0;; try++) {
    bool moving = !is_there(prefix, "idx") && is_there(prefix, "idx.new");
    char *index = mem_format("%s.idx%s", prefix, moving ? ".new" : "");
    char *bin = mem_format("%s.bin%s", prefix, moving && is_there(prefix, "bin.tmp") ? ".tmp" : "");
    descriptors[0] = open_file(index, &reasons[0]);
    descriptors[1] = open_file(bin, &reasons[1]);
    /* A build may have moved on in between; before tokens change their name, the old index is gone. */
    bool whole = descriptors[0] >= 0 ? is_at(descriptors[0], index)
                                     : is_there(prefix, "idx") == false && is_there(prefix, "idx.new") == false;
    mem_free(index);
    mem_free(bin);
    if (whole || try == TRIES || (reasons[0] && reasons[0] != ENOENT)) return;
    for (int i = 0; i < 2; i++)
      if (descriptors[i] >= 0) close(descriptors[i]);
  }
}
