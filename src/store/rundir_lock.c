/* One job at a time in a run folder, on any file system.
 *
 * The lock is a file `.lock.N` that says who holds it; making it with O_EXCL is what decides, so two jobs that start at
 * once compete for one name and one wins. A lock whose holder is dead is not reused: its successor takes the name N+1, for
 * which again one job wins, and then removes the dead ones. Who has made a file looks again and gives way when another
 * live one is there. flock is held as well where it works, and believed only when it says that somebody lives.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/disk.h"
#include "store/rundir_impl.h"

enum { BEAT_SECONDS = 15, TRIES = 20, NAME_BYTES = 256 };
static const char PREFIX[] = ".lock.";

/* Who holds a lock, as its file says. */
struct holder {
  char host[NAME_BYTES];
  long pid;
  unsigned long long started; /* clock ticks after boot, so that a later process with the same id is another */
  char boot[64], job[64];
  long restart; /* of that job by its batch system */
};

/* ---- who am I, who is that ---- */

/* Start of a process in clock ticks after boot; 0 when there is none. */
static unsigned long long get_start(long pid) {
  char *path = mem_format("/proc/%ld/stat", pid), text[1024] = "";
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  mem_free(path);
  if (descriptor < 0) return 0;
  ssize_t n = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  /* The name in parentheses may hold anything; 19 fields stand between it and the start. */
  char *at = n > 0 ? strrchr(text, ')') : NULL;
  for (int field = 0; at && field < 20; field++) at = strchr(at + 1, ' ');
  return at ? strtoull(at, NULL, 10) : 0;
}

static void read_boot(char *boot, size_t size) {
  FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "r");
  boot[0] = '\0';
  if (stream && !fgets(boot, (int)size, stream)) boot[0] = '\0';
  if (stream) fclose(stream);
  boot[strcspn(boot, "\n")] = '\0';
  if (!boot[0]) snprintf(boot, size, "-");
}

static void describe_self(struct holder *self) {
  memset(self, 0, sizeof *self);
  if (gethostname(self->host, sizeof self->host - 1)) snprintf(self->host, sizeof self->host, "unknown");
  self->pid = (long)getpid();
  self->started = get_start(self->pid);
  read_boot(self->boot, sizeof self->boot);
  const char *job = getenv("SLURM_JOB_ID"), *restart = getenv("SLURM_RESTART_COUNT");
  if (!job) job = getenv("PBS_JOBID");
  snprintf(self->job, sizeof self->job, "%s", job && *job && !strchr(job, ' ') ? job : "-");
  self->restart = restart ? strtol(restart, NULL, 10) : 0;
}

static bool parse_holder(const char *text, struct holder *holder) {
  memset(holder, 0, sizeof *holder);
  return sscanf(text, "host %255s pid %ld started %llu boot %63s job %63s restart %ld", holder->host, &holder->pid,
                &holder->started, holder->boot, holder->job, &holder->restart) == 6;
}

/* Somebody has a flock on the file. */
static bool is_flocked(const char *path) {
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  bool locked = flock(descriptor, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
  close(descriptor);
  return locked;
}

/* Whether the holder of a lock file can still be running. */
static bool is_alive(const char *path, const struct holder *holder) {
  struct holder self;
  struct stat status;
  describe_self(&self);
  if (is_flocked(path)) return true;
  if (!strcmp(holder->host, self.host)) {
    if (strcmp(holder->boot, self.boot)) return false;
    return holder->started == 0 || get_start(holder->pid) == holder->started;
  }
  /* The batch system has started the same job again: its earlier life is over. */
  if (strcmp(self.job, "-") && !strcmp(holder->job, self.job) && holder->restart < self.restart) return false;
  return !stat(path, &status) && time(NULL) - status.st_mtime < RUNDIR_STALE_SECONDS;
}

/* ---- the lock files ---- */

struct locks {
  long highest;         /* number of the highest lock file, 0: none */
  bool alive;           /* one that is not `own` has a live holder */
  struct holder holder; /* that one's */
  char path[4096];
};

/* Looks at one lock file; one without content is being made, or its maker died in between. */
static void look_at(struct locks *locks, const char *path) {
  struct holder holder;
  char *text = NULL;
  bool known = false;
  for (int i = 0; i < TRIES && !known; i++) {
    if (disk_read_text(path, &text) || !text) return; /* gone */
    known = parse_holder(text, &holder);
    mem_free(text);
    if (!known) clock_sleep(0.1);
  }
  if (!known || !is_alive(path, &holder)) return;
  locks->alive = true;
  locks->holder = holder;
  snprintf(locks->path, sizeof locks->path, "%s", path);
}

static int look_around(const struct rundir *dir, long own, struct locks *locks) {
  DIR *stream = opendir(dir->path);
  memset(locks, 0, sizeof *locks);
  if (!stream) return error_raise(STATUS_FAILED, "cannot read the folder %s: %s", dir->path, strerror(errno));
  for (struct dirent *item = readdir(stream); item; item = readdir(stream)) {
    if (strncmp(item->d_name, PREFIX, sizeof PREFIX - 1)) continue;
    long number = strtol(item->d_name + sizeof PREFIX - 1, NULL, 10);
    char *path = rundir_path(dir, item->d_name);
    if (number > locks->highest) locks->highest = number;
    if (number != own) look_at(locks, path);
    mem_free(path);
  }
  closedir(stream);
  return STATUS_OK;
}

static int refuse(const struct rundir *dir, const struct locks *locks) {
  return error_raise(STATUS_MISTAKE,
                     "another job runs in %s: process %ld on host %s (job %s); wait until it has ended, or use another "
                     "run.folder; if it is certainly gone, remove %s",
                     dir->path, locks->holder.pid, locks->holder.host, locks->holder.job, locks->path);
}

/* Makes the file and writes who we are into it; EEXIST: somebody else was first. Returns 0 or errno. */
static int make_lock(struct rundir *dir, long number) {
  struct holder self;
  describe_self(&self);
  char *path = mem_format("%s/%s%ld", dir->path, PREFIX, number);
  char *text = mem_format("host %s pid %ld started %llu boot %s job %s restart %ld\n", self.host, self.pid,
                          self.started, self.boot, self.job, self.restart);
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  int failure = descriptor < 0 ? errno : 0;
  if (!failure) {
    if (flock(descriptor, LOCK_EX | LOCK_NB)) errno = 0; /* it helps where it works */
    failure = disk_write_at(descriptor, text, (int64_t)strlen(text), 0);
    if (failure) {
      unlink(path);
      close(descriptor);
    }
  }
  if (!failure) {
    dir->lock = descriptor;
    dir->lock_path = path;
    path = NULL;
  }
  mem_free(path);
  mem_free(text);
  return failure;
}

static void remove_older(const struct rundir *dir, long own) {
  DIR *stream = opendir(dir->path);
  for (struct dirent *item = stream ? readdir(stream) : NULL; item; item = readdir(stream)) {
    if (strncmp(item->d_name, PREFIX, sizeof PREFIX - 1) || strtol(item->d_name + sizeof PREFIX - 1, NULL, 10) >= own)
      continue;
    char *path = rundir_path(dir, item->d_name);
    if (unlink(path)) errno = 0; /* the next start tries again */
    mem_free(path);
  }
  if (stream) closedir(stream);
}

int rundir_lock(struct rundir *dir) {
  struct locks locks;
  dir->lock = -1;
  for (int i = 0; i < TRIES; i++) {
    int status = look_around(dir, 0, &locks);
    if (status) return status;
    if (locks.alive) return refuse(dir, &locks);
    long own = locks.highest + 1;
    int failure = make_lock(dir, own);
    if (failure == EEXIST) continue;
    if (failure) return disk_raise_write(dir->path, failure, NAME_BYTES);
    status = look_around(dir, own, &locks);
    if (!status && locks.alive) status = refuse(dir, &locks);
    if (status) {
      rundir_unlock(dir);
      return status;
    }
    remove_older(dir, own);
    dir->beat = clock_now();
    return STATUS_OK;
  }
  return error_raise(STATUS_FAILED, "%s: other jobs keep taking the lock of this folder; start again", dir->path);
}

int rundir_check_lock(const char *path) {
  struct rundir dir = {.path = (char *)(uintptr_t)path};
  struct locks locks;
  int status = look_around(&dir, 0, &locks);
  return status ? status : locks.alive ? refuse(&dir, &locks) : STATUS_OK;
}

void rundir_unlock(struct rundir *dir) {
  if (!dir->lock_path) return;
  if (unlink(dir->lock_path)) log_warn("cannot remove %s: %s", dir->lock_path, strerror(errno));
  close(dir->lock);
  mem_free(dir->lock_path);
  dir->lock_path = NULL;
}

void rundir_beat(struct rundir *dir) {
  if (clock_now() - dir->beat < BEAT_SECONDS) return;
  dir->beat = clock_now();
  if (futimens(dir->lock, NULL)) log_warn("cannot touch %s: %s", dir->lock_path, strerror(errno));
}
