/* Finds who holds the lock of a run folder, and whether that process can still be running.
 *
 * A holder on this host is asked of the kernel. One on another host can only be judged by its sign of life, the time
 * of its lock file, which a thread of it renews every RUNDIR_BEAT_SECONDS whatever it computes. After a crash of a
 * node the batch system starts the same job again elsewhere: its own earlier life is believed dead sooner than a
 * stranger is, but never while it beats, since two runs of one job may have been given one folder by mistake.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/rundir_impl.h"
#include "store/disk.h"

/* Variables that batch systems set for a job; those of the first system that is there count. The number of a task tells
 * the jobs of an array apart where they share one id; the count of starts, where there is one, tells the lives of a job
 * apart. */
static const struct {
  const char *id, *task, *starts;
} batch_systems[] = {
    {"SLURM_JOB_ID", NULL, "SLURM_RESTART_COUNT"},
    {"PBS_JOBID", NULL, NULL},
    {"LSB_JOBID", "LSB_JOBINDEX", NULL},
    {"COBALT_JOBID", NULL, NULL},
    {"PJM_JOBID", "PJM_BULKNUM", NULL},
    {"OAR_JOB_ID", NULL, NULL},
    {"LOADL_STEP_ID", NULL, NULL},
    {"FLUX_JOB_ID", NULL, NULL},
    {"JOB_ID", "SGE_TASK_ID", "RESTARTED"}, /* SGE and its children; last, as others may use that name */
};

/* ---- who am I, who is that ---- */

/* Start of a process in clock ticks after boot; 0 when there is none, or one that has ended and was not asked for yet.
 */
static unsigned long long get_start(long pid) {
  char *path = mem_format("/proc/%ld/stat", pid), text[1024] = "";
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  mem_free(path);
  if (descriptor < 0) return 0;
  ssize_t n = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  /* The name in parentheses may hold anything; 19 fields stand between it and the start. */
  char *at = n > 0 ? strrchr(text, ')') : NULL;
  if (at && at[1] && strchr("ZXx", at[2])) return 0;
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

static bool is_word(const char *text) { return text && *text && !strpbrk(text, " \t\n"); }

/* The batch job that this process belongs to, "-" for none. */
static void describe_job(struct rundir_holder *self) {
  snprintf(self->job, sizeof self->job, "-");
  for (size_t i = 0; i < sizeof batch_systems / sizeof *batch_systems; i++) {
    const char *id = getenv(batch_systems[i].id);
    if (!is_word(id)) continue;
    const char *task = batch_systems[i].task ? getenv(batch_systems[i].task) : NULL;
    const char *starts = batch_systems[i].starts ? getenv(batch_systems[i].starts) : NULL;
    bool is_task = is_word(task) && strcmp(task, "undefined") && strcmp(task, "0"); /* what no array has */
    snprintf(self->job, sizeof self->job, "%s%s%s", id, is_task ? ":" : "", is_task ? task : "");
    self->restart = starts ? strtol(starts, NULL, 10) : 0;
    return;
  }
}

void rundir_describe_self(struct rundir_holder *self) {
  memset(self, 0, sizeof *self);
  if (gethostname(self->host, sizeof self->host - 1)) snprintf(self->host, sizeof self->host, "unknown");
  self->pid = (long)getpid();
  self->started = get_start(self->pid);
  read_boot(self->boot, sizeof self->boot);
  describe_job(self);
}

bool rundir_parse_holder(const char *text, struct rundir_holder *holder) {
  memset(holder, 0, sizeof *holder);
  return sscanf(text, "host %255s pid %ld started %llu boot %63s job %127s restart %ld", holder->host, &holder->pid,
                &holder->started, holder->boot, holder->job, &holder->restart) == 6;
}

/* ---- does it live ---- */

/* Somebody has a flock on the file. */
static bool is_flocked(const char *path) {
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  bool locked = flock(descriptor, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
  close(descriptor);
  return locked;
}

/* When the file was touched last; false when it is gone. It is opened, so that a network file system asks its server.
 */
static bool get_beat(const char *path, struct timespec *beat) {
  struct stat found;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  bool there = !fstat(descriptor, &found);
  close(descriptor);
  if (there) *beat = found.st_mtim;
  return there;
}

/* Looks on for `seconds` whether the file is touched. Clocks of hosts do not matter to this. */
static bool watch(const char *path, const struct timespec *first, double seconds, const struct rundir_poll *poll) {
  double begin = clock_now(), looked = begin;
  while (clock_now() - begin < seconds) {
    clock_sleep(0.1);
    if (poll->call) poll->call(poll->context);
    if (clock_now() - looked < 1) continue;
    struct timespec beat;
    looked = clock_now();
    if (!get_beat(path, &beat)) return false;
    if (beat.tv_sec != first->tv_sec || beat.tv_nsec != first->tv_nsec) return true;
  }
  return false;
}

/* True when the batch job of this run also has the lock on another host and gives signs of life there: then it is a run
 * beside this one, not an earlier life. */
static bool is_other_life_alive(const char *path, const struct rundir_holder *holder, const struct rundir_holder *self,
                                const struct timespec *beat, const struct rundir_poll *poll) {
  double age = (double)(time(NULL) - beat->tv_sec);
  if (holder->restart < self->restart || age >= RUNDIR_SILENT_SECONDS) return false;
  if (!poll) return true;
  double left = age > 0 ? RUNDIR_SILENT_SECONDS - age : RUNDIR_SILENT_SECONDS;
  log_line("%s is of this batch job (%s) on host %s: waiting up to %.0f s for a sign of life", path, holder->job,
           holder->host, left);
  return watch(path, beat, left, poll);
}

bool rundir_is_alive(const char *path, const struct rundir_holder *holder, const struct rundir_poll *poll) {
  struct rundir_holder self;
  struct timespec beat;
  rundir_describe_self(&self);
  if (!strcmp(holder->host, self.host)) {
    if (is_flocked(path)) return true;
    if (strcmp(holder->boot, self.boot)) return false;
    return holder->started == 0 || get_start(holder->pid) == holder->started;
  }
  if (!get_beat(path, &beat)) return false;
  /* A file server may keep the flock of a node that crashed: of the own job the beat alone counts. */
  if (strcmp(self.job, "-") && !strcmp(holder->job, self.job))
    return is_other_life_alive(path, holder, &self, &beat, poll);
  return is_flocked(path) || time(NULL) - beat.tv_sec < RUNDIR_STALE_SECONDS;
}
