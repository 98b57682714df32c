/* Looks at what earlier lives of a run have left in its folder, and decides what follows: nothing to do, going on,
 * beginning, or a refusal, since results are never lost without being asked.
 */
#include "run/run.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "device/device.h"
#include "input/deck.h"
#include "record/checkpoint.h"
#include "record/trace_read.h"
#include "store/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *make_path(const struct run *run, const char *name) { return mem_format("%s/%s", run->folder, name); }

/* ---- what is known of the last life ---- */

struct past {
  int64_t steps;            /* that the last life was to reach or has reached, -1: unknown */
  int64_t checkpoint_every; /* of the last life, 0: none, or unknown */
  bool saves_nothing;       /* its device did not compute */
};

/* Reads the past from used.yml, if it can be read (compare_deck says whether it fits), and metrics.csv. */
static struct past read_past(const struct run *run) {
  struct past past = {.steps = run->broke_at > 0 ? run->broke_at : -1};
  struct params old;
  char *used = make_path(run, "used.yml"), *text = NULL;
  if (!deck_read_text(used, &text) && !params_parse(text, NULL, 0, &old)) {
    /* Only a given value counts: in a file that was cut, a default says nothing about the last life. */
    if (params_is_given(&old, PARAM_run_steps) && old.run.steps > past.steps) past.steps = old.run.steps;
    past.checkpoint_every = old.run.checkpoint_every;
    past.saves_nothing = !device_of_deck(&old)->computes;
    params_fini(&old);
  }
  error_clear();
  mem_free(text);
  mem_free(used);
  return past;
}

/* Returns 1 when log.txt has a line of a checkpoint since the run began last, 0 when it has none, -1 when there is no
 * log. */
static int find_saves_in_log(const struct run *run) {
  char *path = make_path(run, "log.txt"), *line = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "r");
  int found = file ? 0 : -1;
  while (file && getline(&line, &room, file) >= 0) {
    if (!strncmp(line, RUN_SAVED_LINE, strlen(RUN_SAVED_LINE))) found = 1;
    if (!strncmp(line, RUN_AGAIN_LINE, strlen(RUN_AGAIN_LINE))) found = 0;
  }
  if (file) fclose(file);
  free(line); /* getline's */
  mem_free(path);
  return found;
}

/* There were checkpoints, as far as anybody knows. */
static bool has_saved(const struct run *run, const struct past *past) {
  if (past->saves_nothing) return false;
  if (run->before == RUN_DONE || run->before == RUN_CHECKPOINTED) return true;
  if (run->broke_at == 0) return false; /* nothing to lose */
  int logged = find_saves_in_log(run);
  return logged >= 0 ? logged > 0 : past->checkpoint_every > 0 && run->broke_at >= past->checkpoint_every;
}

static int refuse(const struct run *run, const struct past *past) {
  static const char *const states[] = {[RUN_DONE] = "DONE",
                                       [RUN_CHECKPOINTED] = "CHECKPOINTED",
                                       [RUN_FAILED] = "FAILED",
                                       [RUN_BROKEN] = "broken off",
                                       [RUN_NEW] = "new"};
  char at[64] = "";
  int64_t step = run->before == RUN_DONE ? past->steps : run->broke_at;
  if (step > 0) snprintf(at, sizeof at, " at step %lld", (long long)step);
  return error_raise(
      STATUS_MISTAKE,
      "the run in %s is %s%s, but none of its checkpoints is there, so it can only begin again and would "
      "lose what it has: put %s/checkpoints back to go on; to begin from step 0 take another run.folder, or "
      "move this one away",
      run->folder, states[run->before], at, run->folder);
}

/* ---- deciding ---- */

/* A finished folder has nothing to do unless run.steps grew; whether its checkpoints are still there does not matter. A
 * run on a device that keeps time is measured anew. */
static bool is_finished(const struct run *run, const struct past *past) {
  int64_t steps = run->found_step > past->steps ? run->found_step : past->steps;
  return run->before == RUN_DONE && !past->saves_nothing && (steps >= run->params->run.steps || steps < 0);
}

/* A deck that asks a finished run for something else than it was is refused, as it would be if the run went on. */
static int compare_finished(const struct run *run) {
  if (run->rank != 0) return STATUS_OK;
  char *used = make_path(run, "used.yml"), *text = NULL;
  bool can_read = !deck_read_text(used, &text);
  error_clear();
  int status = can_read ? params_compare_resume(run->params, used, false) : STATUS_OK;
  mem_free(text);
  mem_free(used);
  return status;
}

static void tell_all(struct run *run, bool *flag) {
  int64_t told = *flag;
  comm_broadcast_all(run->comm, 0, &told, sizeof told);
  *flag = told != 0;
}

/* Once, as every byte of the checkpoint is read for it. */
static int find_checkpoint_all(struct run *run) {
  char *folder = make_path(run, "checkpoints");
  int status = checkpoint_find_all(run->comm, folder, &run->found, &run->found_step);
  if (!run->found) run->found_step = -1;
  mem_free(folder);
  return status;
}

int run_past_find_all(struct run *run, bool *done) {
  struct past past = {.steps = -1};
  run->found_step = -1;
  if (run->rank == 0 && run->before != RUN_NEW) past = read_past(run);
  *done = past.steps >= 0 && is_finished(run, &past);
  tell_all(run, done);
  int status = *done ? STATUS_OK : find_checkpoint_all(run);
  if (status) return status;
  if (!*done) *done = is_finished(run, &past);
  tell_all(run, done);
  if (*done) {
    int64_t steps = past.steps > run->found_step ? past.steps : run->found_step;
    status = comm_agree_all(run->comm, compare_finished(run));
    if (!status) log_line("%s: DONE at step %lld already; raise run.steps to go on", run->folder, (long long)steps);
    return status;
  }
  if (run->rank == 0 && !run->found && has_saved(run, &past)) status = refuse(run, &past);
  return comm_agree_all(run->comm, status);
}

/* ---- beginning again ---- */

static int put_aside(const struct run *run, const char *file) {
  char *path = make_path(run, file), *name = NULL;
  int status = disk_put_aside(path, &name);
  if (name) log_warn("the run begins from step 0: %s of before is now %s", path, name);
  mem_free(name);
  mem_free(path);
  return status;
}

/* A trace that cannot be read may have some. */
static bool has_traced(const struct run *run) {
  struct trace_content content;
  char *path = make_path(run, "trace.h5");
  bool has = true;
  if (trace_read(path, 1, &content)) {
    error_clear();
  } else {
    has = content.n_steps > 0;
    trace_content_fini(&content);
  }
  mem_free(path);
  return has;
}

int run_past_keep(const struct run *run) {
  if (run->found) return STATUS_OK;
  int status = run->broke_at > 0 ? put_aside(run, "metrics.csv") : STATUS_OK;
  if (!status && run->broke_at > 0) status = put_aside(run, "metrics.jsonl");
  if (!status && has_traced(run)) status = put_aside(run, "trace.h5");
  return status;
}
