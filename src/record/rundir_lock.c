/* One job at a time in a run folder, on any file system.
 *
 * The lock is a file `.lock.N` that says who holds it; making it with O_EXCL is what decides, so two jobs that start at
 * once compete for one name and one wins. A lock whose holder is dead is not reused: its successor takes the name N+1,
 * for which again one job wins, and then removes the dead ones. Who has made a file looks again and gives way when
 * another live one is there. flock is held as well where it works, and believed only when it says that somebody lives.
 *
 * The folder is held open as long as the run lasts. By that a run knows its folder, whatever name it has meanwhile, and
 * by the lock in it that the folder is still its own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/rundir_impl.h"
#include "store/disk.h"

enum { TRIES = 20, NAME_BYTES = 256 };
static const char PREFIX[] = ".lock.";

/* ---- the lock files ---- */

struct locks {
  long highest;                /* number of the highest lock file, 0: none */
  bool alive;                  /* one that is not `own` has a live holder */
  struct rundir_holder holder; /* that one's */
  char path[4096];
};

/* Looks at one lock file; one without content is being made, or its maker died in between. */
static void look_at(struct locks *locks, const char *path, const struct rundir_poll *poll) {
  struct rundir_holder holder;
  char *text = NULL;
  bool known = false;
  for (int i = 0; i < TRIES && !known; i++) {
    if (disk_read_text(path, &text) || !text) return; /* gone */
    known = rundir_parse_holder(text, &holder);
    mem_free(text);
    if (!known) clock_sleep(0.1);
  }
  if (!known || !rundir_is_alive(path, &holder, poll)) return;
  locks->alive = true;
  locks->holder = holder;
  snprintf(locks->path, sizeof locks->path, "%s", path);
}

static int look_around(const struct rundir *dir, long own, const struct rundir_poll *poll, struct locks *locks) {
  DIR *stream = opendir(dir->path);
  memset(locks, 0, sizeof *locks);
  if (!stream) return error_raise(disk_judge(errno), "cannot read the folder %s: %s", dir->path, limits_reason(errno));
  for (struct dirent *item = readdir(stream); item; item = readdir(stream)) {
    if (strncmp(item->d_name, PREFIX, sizeof PREFIX - 1)) continue;
    long number = strtol(item->d_name + sizeof PREFIX - 1, NULL, 10);
    char *path = rundir_path(dir, item->d_name);
    if (number > locks->highest) locks->highest = number;
    if (number != own) look_at(locks, path, poll);
    mem_free(path);
  }
  closedir(stream);
  return STATUS_OK;
}

static int refuse(const struct rundir *dir, const struct locks *locks, int status) {
  bool has_job = strcmp(locks->holder.job, "-") != 0;
  return error_raise(status,
                     "another job runs in %s: process %ld on host %s%s%s%s; try again when it has ended, or use "
                     "another run.folder; if it is certainly gone, remove %s",
                     dir->path, locks->holder.pid, locks->holder.host, has_job ? " (job " : "",
                     has_job ? locks->holder.job : "", has_job ? ")" : "", locks->path);
}

/* Makes the file and writes who we are into it; EEXIST: somebody else was first. Returns 0 or errno. */
static int make_lock(struct rundir *dir, long number) {
  struct rundir_holder self;
  struct stat made;
  rundir_describe_self(&self);
  snprintf(dir->token.name, sizeof dir->token.name, "%s%ld", PREFIX, number);
  int bytes =
      snprintf(dir->token.text, sizeof dir->token.text, "host %s pid %ld started %llu boot %s job %s restart %ld\n",
               self.host, self.pid, self.started, self.boot, self.job, self.restart);
  int descriptor = openat(dir->folder, dir->token.name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  if (flock(descriptor, LOCK_EX | LOCK_NB)) errno = 0; /* it helps where it works */
  int failure = disk_write_at(descriptor, dir->token.text, bytes, 0);
  if (!failure && fstat(descriptor, &made)) failure = errno;
  if (failure) {
    unlinkat(dir->folder, dir->token.name, 0);
    close(descriptor);
    return failure;
  }
  dir->lock = descriptor;
  dir->lock_device = made.st_dev;
  dir->lock_inode = made.st_ino;
  return 0;
}

static void remove_older(const struct rundir *dir, long own) {
  DIR *stream = opendir(dir->path);
  for (struct dirent *item = stream ? readdir(stream) : NULL; item; item = readdir(stream)) {
    if (strncmp(item->d_name, PREFIX, sizeof PREFIX - 1) || strtol(item->d_name + sizeof PREFIX - 1, NULL, 10) >= own)
      continue;
    if (unlinkat(dir->folder, item->d_name, 0)) errno = 0; /* the next start tries again */
  }
  if (stream) closedir(stream);
}

/* ---- the sign of life ---- */

struct rundir_heart {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool ends; /* under the mutex */
  int lock;  /* descriptor of the file to touch */
};

static void *beat(void *context) {
  struct rundir_heart *heart = context;
  pthread_mutex_lock(&heart->mutex);
  while (!heart->ends) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RUNDIR_BEAT_SECONDS;
    if (pthread_cond_timedwait(&heart->changed, &heart->mutex, &until) != ETIMEDOUT || heart->ends) continue;
    pthread_mutex_unlock(&heart->mutex); /* a file server may take its time */
    if (futimens(heart->lock, NULL)) errno = 0;
    pthread_mutex_lock(&heart->mutex);
  }
  pthread_mutex_unlock(&heart->mutex);
  return NULL;
}

/* A thread, as a step may take longer than others wait for a beat. */
static int start_heart(struct rundir *dir) {
  struct rundir_heart *heart = MEM_NEW(struct rundir_heart, 1);
  pthread_attr_t attributes;
  heart->lock = dir->lock;
  pthread_mutex_init(&heart->mutex, NULL);
  pthread_cond_init(&heart->changed, NULL);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  int failure = pthread_create(&heart->thread, &attributes, beat, heart);
  pthread_attr_destroy(&attributes);
  if (!failure) {
    dir->heart = heart;
    return STATUS_OK;
  }
  mem_free(heart);
  return error_raise(STATUS_FAILED, "cannot start the thread that keeps the lock of %s: %s", dir->path,
                     limits_reason(failure));
}

static void stop_heart(struct rundir *dir) {
  struct rundir_heart *heart = dir->heart;
  if (!heart) return;
  pthread_mutex_lock(&heart->mutex);
  heart->ends = true;
  pthread_cond_signal(&heart->changed);
  pthread_mutex_unlock(&heart->mutex);
  pthread_join(heart->thread, NULL);
  pthread_cond_destroy(&heart->changed);
  pthread_mutex_destroy(&heart->mutex);
  mem_free(heart);
  dir->heart = NULL;
}

/* ---- taking it, holding it, giving it back ---- */

int rundir_lock(struct rundir *dir, const struct rundir_poll *poll) {
  struct locks locks;
  for (int i = 0; i < TRIES; i++) {
    int status = look_around(dir, 0, poll, &locks);
    if (status) return status;
    if (locks.alive) return refuse(dir, &locks, STATUS_STOPPED);
    long own = locks.highest + 1;
    int failure = make_lock(dir, own);
    if (failure == EEXIST) continue;
    if (failure) {
      status = disk_raise_write(dir->path, failure, NAME_BYTES);
      return error_raise(disk_judge(failure), "%s", error_text());
    }
    status = look_around(dir, own, poll, &locks);
    if (!status && locks.alive) status = refuse(dir, &locks, STATUS_STOPPED);
    if (!status) status = start_heart(dir);
    if (status) {
      rundir_unlock(dir);
      return status;
    }
    remove_older(dir, own);
    return STATUS_OK;
  }
  return error_raise(STATUS_STOPPED, "%s: other jobs keep taking the lock of this folder; start again", dir->path);
}

/* Rank 0 knows its lock by the file itself; other ranks, which did not make it, by its text. */
bool rundir_holds_lock(const struct rundir *dir) {
  struct stat found;
  char text[sizeof dir->token.text] = "";
  if (dir->lock >= 0)
    return !fstatat(dir->folder, dir->token.name, &found, AT_SYMLINK_NOFOLLOW) && found.st_dev == dir->lock_device &&
           found.st_ino == dir->lock_inode;
  int descriptor = openat(dir->folder, dir->token.name, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  ssize_t n = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  return n > 0 && !strcmp(text, dir->token.text);
}

int rundir_check_lock(const char *path) {
  struct rundir dir = {.path = (char *)(uintptr_t)path};
  struct locks locks;
  int status = look_around(&dir, 0, NULL, &locks);
  return status ? status : locks.alive ? refuse(&dir, &locks, STATUS_STOPPED) : STATUS_OK;
}

void rundir_unlock(struct rundir *dir) {
  if (dir->lock < 0) return;
  stop_heart(dir);
  if (rundir_holds_lock(dir) && unlinkat(dir->folder, dir->token.name, 0))
    log_warn("cannot remove %s/%s: %s", dir->path, dir->token.name, limits_reason(errno));
  close(dir->lock);
  dir->lock = -1;
}
