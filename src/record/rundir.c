#include "record/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Files that are written under a temporary name first; one that is left is of a run that was killed. */
static const char *const written_whole[] = {"STATUS",     "manifest.txt", "used.yml",    "plan.h5",      "trace.h5",
                                            "report.txt", "report.html",  "metrics.csv", "metrics.jsonl"};
enum { N_WHOLE = sizeof written_whole / sizeof *written_whole };

char *rundir_path(const struct rundir *dir, const char *name) { return mem_format("%s/%s", dir->path, name); }

/* ---- opening ---- */

static bool starts_with(const char *text, const char *start) { return !strncmp(text, start, strlen(start)); }

/* Reads STATUS; without one, finds whether a run was ever here. An empty STATUS counts as none. */
static int read_state(const struct rundir *dir, enum run_state *state) {
  char *path = rundir_path(dir, "STATUS"), *manifest = rundir_path(dir, "manifest.txt"), *text;
  int status = disk_read_text(path, &text);
  if (!text || !*text)
    *state = access(manifest, F_OK) == 0 || access(dir->metrics_path, F_OK) == 0 ? RUN_BROKEN : RUN_NEW;
  else if (starts_with(text, "DONE"))
    *state = RUN_DONE;
  else if (starts_with(text, "CHECKPOINTED"))
    *state = RUN_CHECKPOINTED;
  else if (starts_with(text, "FAILED"))
    *state = RUN_FAILED;
  else
    status = error_raise(
        STATUS_MISTAKE,
        "%s is none of this program: it would be replaced; take another run.folder, or remove it if it was damaged",
        path);
  mem_free(text);
  mem_free(path);
  mem_free(manifest);
  return status;
}

/* The last step that metrics.csv has, 0 when there is none. */
static int read_last_step(const struct rundir *dir, int64_t *step) {
  struct metrics_row *rows;
  int64_t n;
  *step = 0;
  if (access(dir->metrics_path, F_OK)) return STATUS_OK;
  int status = metrics_read(dir->metrics_path, &rows, &n);
  for (int64_t i = 0; !status && i < n; i++)
    if (rows[i].step > *step) *step = rows[i].step;
  mem_free(rows);
  return status;
}

static int check_target(const struct rundir *dir, const char *name) {
  char *path = rundir_path(dir, name);
  int status = disk_check_target(path);
  mem_free(path);
  return status;
}

/* Checks that all files can be replaced or written on, before any of them is. */
static int check_targets(const struct rundir *dir) {
  int status = check_target(dir, "log.txt");
  for (int i = 0; i < N_WHOLE && !status; i++) status = check_target(dir, written_whole[i]);
  return status ? status : check_target(dir, "checkpoints/index.txt");
}

/* Writes STATUS for a start that fails before the caller has the folder, so that the STATUS of the life before does
 * not stand. Keeps the message. */
static void note_failure(const struct rundir *dir, int status) {
  char *reason = mem_strdup(error_text()), *text = mem_format("FAILED %s", reason);
  (void)rundir_write_status(dir, text);
  error_raise(status, "%s", reason);
  mem_free(text);
  mem_free(reason);
}

static struct rundir *create(const char *path) {
  struct rundir *dir = MEM_NEW(struct rundir, 1);
  dir->path = mem_strdup(path);
  dir->metrics_path = mem_format("%s/metrics.csv", path);
  dir->json_path = mem_format("%s/metrics.jsonl", path);
  dir->metrics = dir->json = dir->lock = -1;
  dir->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return dir;
}

int rundir_open(const char *path, const struct rundir_poll *poll, struct rundir **out, enum run_state *state,
                int64_t *last_step) {
  *out = NULL;
  bool is_new = access(path, F_OK) != 0;
  int status = disk_make_named_folder(path);
  if (status) return status;
  struct rundir *dir = create(path);
  dir->is_new = is_new;
  clock_gettime(CLOCK_REALTIME, &dir->start);
  if (dir->folder < 0)
    status = error_raise(disk_judge(errno), "cannot open the folder %s: %s", path, limits_reason(errno));
  if (!status) status = rundir_lock(dir, poll);
  if (!status) status = read_last_step(dir, last_step);
  if (!status) status = read_state(dir, state);
  if (!status) status = check_targets(dir);
  if (status) {
    if (status == STATUS_FAILED && dir->lock >= 0) note_failure(dir, status);
    rundir_close(&dir);
    return status;
  }
  *out = dir;
  return STATUS_OK;
}

/* ---- on the other ranks ---- */

struct rundir_token rundir_get_token(const struct rundir *dir) {
  return dir->token;
}

/* The folder is there, its lock is rank 0's, and this rank may write there. Returns what is wrong, or NULL. */
static const char *compare_token(const struct rundir *dir) {
  if (dir->folder < 0) return limits_reason(errno);
  int descriptor = openat(dir->folder, dir->token.name, O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    return errno == ENOENT ? "a folder of this name is there, but it is another one" : limits_reason(errno);
  close(descriptor);
  return rundir_holds_lock(dir) ? NULL : "a folder of this name is there, but it is another one";
}

int rundir_join(const char *path, const struct rundir_token *token, double patience, const struct rundir_poll *poll,
                struct rundir **out) {
  double begin = clock_now();
  for (;;) {
    struct rundir *dir = create(path);
    dir->token = *token;
    const char *wrong = compare_token(dir);
    *out = dir;
    if (!wrong) return STATUS_OK;
    rundir_close(out);
    if (clock_now() - begin >= patience) {
      char *here = path[0] == '/' ? NULL : realpath(".", NULL);
      int status = error_raise(STATUS_MISTAKE,
                               "the run folder %s%s%s is not the one that rank 0 writes to: %s; run.folder must be one "
                               "folder that all ranks see and may write to",
                               here ? here : "", here ? "/" : "", path, wrong);
      free(here);
      return status;
    }
    clock_sleep(0.1);
    if (poll && poll->call) poll->call(poll->context);
  }
}

/* Makes the path of a trial file. Should it stay, it is removed like a file of a broken save. */
static char *make_mark_path(const struct rundir *dir, const char *name) {
  return mem_format("%s/%s/index.txt.seen.tmp", dir->path, name);
}

static bool may_lie_elsewhere(const struct rundir *dir, const char *name) {
  struct stat own, part;
  if (fstatat(dir->folder, name, &part, AT_SYMLINK_NOFOLLOW)) return false;
  return S_ISLNK(part.st_mode) || (S_ISDIR(part.st_mode) && !fstat(dir->folder, &own) && own.st_dev != part.st_dev);
}

int rundir_mark(struct rundir *dir, const char *name) {
  if (!may_lie_elsewhere(dir, name)) return STATUS_OK;
  char *path = make_mark_path(dir, name);
  int status = disk_write_text(path, dir->token.text);
  mem_free(path);
  return status;
}

int rundir_find_mark(const struct rundir *dir, const char *name, double patience, const struct rundir_poll *poll) {
  if (!may_lie_elsewhere(dir, name)) return STATUS_OK;
  char *path = make_mark_path(dir, name), *text = NULL;
  double begin = clock_now();
  bool found = false;
  for (;;) {
    found = !disk_read_text(path, &text) && text && !strcmp(text, dir->token.text) && access(path, W_OK) == 0;
    mem_free(text);
    if (found || clock_now() - begin >= patience) break;
    clock_sleep(0.1);
    if (poll && poll->call) poll->call(poll->context);
  }
  mem_free(path);
  if (found) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "%s/%s is not the folder that rank 0 writes to, or this rank may not write there: it must be one "
                     "folder that all ranks see",
                     dir->path, name);
}

void rundir_unmark(struct rundir *dir, const char *name) {
  if (!may_lie_elsewhere(dir, name)) return;
  char *path = make_mark_path(dir, name);
  if (unlink(path)) errno = 0;
  mem_free(path);
}

/* ---- from the beginning to the end ---- */

static void remove_temporaries(const struct rundir *dir) {
  for (int i = 0; i < N_WHOLE; i++) {
    char *path = mem_format("%s/%s.tmp", dir->path, written_whole[i]);
    if (unlink(path) && errno != ENOENT) log_warn("cannot remove %s: %s", path, limits_reason(errno));
    mem_free(path);
  }
}

static bool is_before(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static void remove_old_stop(const struct rundir *dir) {
  struct stat found;
  char *path = rundir_path(dir, "stop");
  if (stat(path, &found) || !is_before(&found.st_mtim, &dir->start)) {
    mem_free(path);
    return;
  }
  if (unlink(path))
    log_warn("cannot remove %s (%s): it ends this run after its first step", path, limits_reason(errno));
  else
    log_line("%s was older than this start: it is taken away", path);
  mem_free(path);
}

int rundir_begin(struct rundir *dir) {
  char *path = rundir_path(dir, "STATUS");
  int status = STATUS_OK;
  if (unlink(path) && errno != ENOENT)
    status = error_raise(STATUS_FAILED, "cannot remove %s: %s", path, limits_reason(errno));
  mem_free(path);
  if (status) return status;
  dir->is_new = false;
  remove_temporaries(dir);
  remove_old_stop(dir);
  return STATUS_OK;
}

void rundir_close(struct rundir **dir) {
  struct rundir *self = *dir;
  if (!self) return;
  if (self->metrics >= 0 && close(self->metrics)) log_warn("%s: %s", self->metrics_path, limits_reason(errno));
  bool is_own = self->lock >= 0 && rundir_holds_lock(self);
  rundir_unlock(self);
  if (self->json >= 0 && close(self->json)) log_warn("%s: %s", self->json_path, limits_reason(errno));
  if (self->is_new && is_own && rmdir(self->path)) errno = 0; /* something is in it: it stays */
  if (self->folder >= 0) close(self->folder);
  mem_free(self->metrics_path);
  mem_free(self->json_path);
  mem_free(self->path);
  mem_free(self);
  *dir = NULL;
}

/* ---- while it runs ---- */

/* 0 when the path leads to the folder that is open, ENOENT when it does not, another errno when nobody can tell now. */
static int find_folder(const struct rundir *dir) {
  struct stat there, own;
  if (stat(dir->path, &there)) return errno == ENOTDIR || errno == ESTALE ? ENOENT : errno;
  if (fstat(dir->folder, &own)) return errno == ESTALE ? ENOENT : errno;
  return there.st_dev == own.st_dev && there.st_ino == own.st_ino ? 0 : ENOENT;
}

int rundir_check(const struct rundir *dir) {
  int failure = find_folder(dir);
  if (failure == ENOENT)
    return error_raise(
        STATUS_FAILED,
        "%s was renamed, removed or replaced while this run was in it: nothing more is written; to go on, "
        "start again with the folder in its place",
        dir->path);
  if (!failure && !rundir_holds_lock(dir))
    return error_raise(STATUS_FAILED,
                       "%s/%s, the lock of this run, was removed or taken by another job: nothing more is written; one "
                       "job at a time can use a run folder",
                       dir->path, dir->token.name);
  return STATUS_OK;
}

bool rundir_take_stop(struct rundir *dir) {
  char *path = rundir_path(dir, "stop");
  bool there = access(path, F_OK) == 0;
  if (there && unlink(path))
    log_warn("cannot remove %s (%s): the next start would stop at once", path, limits_reason(errno));
  mem_free(path);
  return there;
}

/* Like disk_write_text, in the folder that is open. Returns 0 or errno. */
static int write_whole(int folder, const char *name, const char *text) {
  char *temporary = mem_format("%s.tmp", name);
  int descriptor = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int failure = descriptor < 0 ? errno : 0;
  if (!failure) failure = disk_write_at(descriptor, text, (int64_t)strlen(text), 0);
  if (!failure && fsync(descriptor)) failure = errno;
  if (descriptor >= 0 && close(descriptor) && !failure) failure = errno;
  if (!failure && renameat(folder, temporary, folder, name)) failure = errno;
  if (failure && descriptor >= 0) unlinkat(folder, temporary, 0);
  if (!failure && fsync(folder)) errno = 0; /* not every file system has it for folders */
  mem_free(temporary);
  return failure;
}

int rundir_write_status(const struct rundir *dir, const char *text) {
  char *path = rundir_path(dir, "STATUS"), *line = mem_format("%s\n", text);
  int status = STATUS_OK;
  for (char *at = line; at[0] && at[1]; at++) /* one line, for scripts */
    if (*at == '\n') *at = ' ';
  if (!rundir_holds_lock(dir))
    status = error_raise(STATUS_FAILED, "%s is not written: the folder is not this run's any more", path);
  int failure = status ? 0 : write_whole(dir->folder, "STATUS", line);
  /* Ranks of a job that breaks may write it at once: one is enough. */
  if (failure && faccessat(dir->folder, "STATUS", F_OK, 0)) status = disk_raise_write(path, failure, 0);
  mem_free(path);
  mem_free(line);
  return status;
}

int rundir_write_manifest(struct rundir *dir, const char *text) {
  char *path = rundir_path(dir, "manifest.txt");
  int status = disk_write_text(path, text);
  mem_free(path);
  return status;
}
