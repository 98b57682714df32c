#include "store/rundir.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/disk.h"
#include "store/rundir_impl.h"

/* Files that are written under a temporary name first; one that is left is of a run that was killed. */
static const char *const written_whole[] = {"STATUS",     "manifest.txt", "used.yml",    "plan.h5",      "trace.h5",
                                            "report.txt", "report.html",  "metrics.csv", "metrics.jsonl"};

char *rundir_path(const struct rundir *dir, const char *name) { return mem_format("%s/%s", dir->path, name); }

/* ---- opening ---- */

static void remove_temporaries(const struct rundir *dir) {
  for (size_t i = 0; i < sizeof written_whole / sizeof *written_whole; i++) {
    char *path = mem_format("%s/%s.tmp", dir->path, written_whole[i]);
    if (unlink(path) && errno != ENOENT) log_warn("cannot remove %s: %s", path, strerror(errno));
    mem_free(path);
  }
}

static bool starts_with(const char *text, const char *start) { return !strncmp(text, start, strlen(start)); }

/* What STATUS says; without one, whether a run was ever here. */
static int read_state(const struct rundir *dir, enum run_state *state) {
  char *path = rundir_path(dir, "STATUS"), *manifest = rundir_path(dir, "manifest.txt"), *text;
  int status = disk_read_text(path, &text);
  if (text)
    *state = starts_with(text, "DONE") ? RUN_DONE : starts_with(text, "CHECKPOINTED") ? RUN_CHECKPOINTED : RUN_FAILED;
  else
    *state = access(manifest, F_OK) == 0 || access(dir->metrics_path, F_OK) == 0 ? RUN_BROKEN : RUN_NEW;
  if (!status && text && unlink(path))
    status = error_raise(STATUS_FAILED, "cannot remove %s: %s", path, strerror(errno));
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

/* Of a start that fails before there is a rundir: the STATUS of the life before must not stand. Keeps the message. */
static void note_failure(const char *path, int status) {
  char *reason = mem_strdup(error_text()), *text = mem_format("FAILED %s", reason);
  (void)rundir_write_status(path, text);
  error_raise(status, "%s", reason);
  mem_free(text);
  mem_free(reason);
}

int rundir_open(const char *path, struct rundir **out, enum run_state *state, int64_t *last_step) {
  *out = NULL;
  int status = disk_make_folder(path);
  if (status) return status;
  struct rundir *dir = MEM_NEW(struct rundir, 1);
  dir->path = mem_strdup(path);
  dir->metrics_path = mem_format("%s/metrics.csv", path);
  dir->json_path = mem_format("%s/metrics.jsonl", path);
  dir->metrics = dir->json = -1;
  status = rundir_lock(dir);
  bool is_ours = !status;
  if (!status) status = read_last_step(dir, last_step);
  if (!status) status = read_state(dir, state);
  if (status) {
    if (is_ours) note_failure(path, status);
    rundir_close(&dir);
    return status;
  }
  remove_temporaries(dir);
  *out = dir;
  return STATUS_OK;
}

void rundir_close(struct rundir **dir) {
  struct rundir *self = *dir;
  if (!self) return;
  if (self->metrics >= 0 && close(self->metrics)) log_warn("%s: %s", self->metrics_path, strerror(errno));
  rundir_unlock(self);
  if (self->json >= 0 && close(self->json)) log_warn("%s: %s", self->json_path, strerror(errno));
  mem_free(self->metrics_path);
  mem_free(self->json_path);
  mem_free(self->path);
  mem_free(self);
  *dir = NULL;
}

/* ---- while it runs ---- */

bool rundir_take_stop(struct rundir *dir) {
  rundir_beat(dir);
  char *path = rundir_path(dir, "stop");
  bool there = access(path, F_OK) == 0;
  if (there && unlink(path))
    log_warn("cannot remove %s (%s): the next start would stop at once", path, strerror(errno));
  mem_free(path);
  return there;
}

int rundir_write_status(const char *folder, const char *text) {
  char *path = mem_format("%s/STATUS", folder), *line = mem_format("%s\n", text);
  for (char *at = line; at[0] && at[1]; at++) /* one line, for scripts */
    if (*at == '\n') *at = ' ';
  int status = disk_write_text(path, line);
  if (status && access(path, F_OK) == 0) { /* ranks of a job that breaks may write it at once: one is enough */
    error_clear();
    status = STATUS_OK;
  }
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
