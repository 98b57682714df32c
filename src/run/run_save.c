/* Checkpoints of a run: when they fail, and where a run begins from. */
#include "run/run.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "record/checkpoint.h"

int run_check_folder(const struct run *run) { return run->rank == 0 ? rundir_check(run->dir) : STATUS_OK; }

static struct checkpoint_keep get_keep(const struct run *run) {
  return (struct checkpoint_keep){.newest = run->params->run.keep_checkpoints, .every = run->params->run.keep_every};
}

int run_save_all(struct run *run) {
  if (!trainer_computes(run->trainer)) { /* there is nothing to save */
    run->saved_step = run->step;
    return STATUS_OK;
  }
  int status = comm_agree_all(run->comm, run_check_folder(run));
  if (status) return status;
  char *folder = mem_format("%s/checkpoints", run->folder);
  double start = clock_now();
  struct checkpoint_part part = trainer_get_part(run->trainer);
  struct checkpoint_info info = {.step = run->step,
                                 .next_sample = run->next_sample,
                                 .tokens = run->tokens,
                                 .seed = (uint64_t)run->params->run.seed,
                                 .config = run->config,
                                 .row = run->row,
                                 .data = run->data,
                                 .validation = run->validation_data};
  status = checkpoint_write_all(run->comm, folder, run->model, run->model_json, run->deck, &info, &part, get_keep(run));
  double seconds = clock_now() - start;
  mem_free(folder);
  if (!status) {
    if (seconds > run->clock.save) run->clock.save = seconds;
    run->saved_step = run->step;
    log_line(RUN_SAVED_LINE "%lld written in %.2f s", (long long)run->step, seconds);
    return STATUS_OK;
  }
  if (run->params->run.on_save_error == PARAMS_ON_SAVE_ERROR_STOP) return status;
  log_warn("%s; training goes on (run.on_save_error: continue), the last good checkpoint is of step %lld", error_text(),
           (long long)run->saved_step);
  error_clear();
  return STATUS_OK;
}

/* Rank 0 marks the checkpoint of this step; a failure is one of a save. */
static int mark_best(struct run *run, double validation) {
  char *folder = mem_format("%s/checkpoints", run->folder);
  int status = checkpoint_set_best(folder, run->step, validation, get_keep(run));
  mem_free(folder);
  if (!status) {
    run->best_loss = validation;
    log_line(
        "the checkpoint of step %lld has the lowest validation loss so far: it is kept until another has a lower one",
        (long long)run->step);
  } else if (run->params->run.on_save_error != PARAMS_ON_SAVE_ERROR_STOP) {
    log_warn("%s; training goes on (run.on_save_error: continue)", error_text());
    error_clear();
    status = STATUS_OK;
  }
  return status;
}

int run_save_best_all(struct run *run, double validation) {
  if (!run->params->run.keep_best || !trainer_computes(run->trainer)) return STATUS_OK;
  int64_t is_best = run->rank == 0 && validation < run->best_loss; /* NaN is not */
  comm_broadcast_all(run->comm, 0, &is_best, sizeof is_best);
  if (!is_best) return STATUS_OK;
  int status = run->saved_step == run->step ? STATUS_OK : run_save_all(run);
  if (status || run->saved_step != run->step) return status;
  if (run->rank == 0) status = rundir_check(run->dir);
  if (run->rank == 0 && !status) status = mark_best(run, validation);
  return comm_agree_all(run->comm, status);
}

/* Says how the last life of the folder ended and where this one begins. */
static void log_resume(const struct run *run) {
  if (run->before == RUN_BROKEN) log_line("the last run here broke off after step %lld", (long long)run->broke_at);
  if (run->found)
    log_line("going on after step %lld from %s", (long long)run->found_step, run->found);
  else if (run->before != RUN_NEW)
    log_line(RUN_AGAIN_LINE "beginning again");
  if (run->found_step > run->params->run.steps)
    log_warn("the run has %lld steps already, more than run.steps, which is %lld: nothing is trained",
             (long long)run->found_step, (long long)run->params->run.steps);
}

static int read_checkpoint_all(struct run *run, const char *path, bool weights_only, struct checkpoint_info *info) {
  struct checkpoint_part part = trainer_get_part(run->trainer);
  return checkpoint_read_all(run->comm, path, run->model, weights_only, &part, info);
}

/* The checkpoint is of this run. That its index and used.yml are does not say so: files can be moved. */
static int check_origin(const struct run *run, const struct checkpoint_info *info) {
  if (info->seed != (uint64_t)run->params->run.seed)
    return error_raise(
        STATUS_MISTAKE,
        "%s is of a run with run.seed %llu, and this one has %lld: it is not gone on from; move it away, or "
        "take another run.folder",
        run->found, (unsigned long long)info->seed, (long long)run->params->run.seed);
  if (info->step != run->found_step)
    return error_raise(
        STATUS_MISTAKE,
        "%s is of step %lld, but by its name or its index.txt of step %lld: it is not gone on from; move it "
        "away",
        run->found, (long long)info->step, (long long)run->found_step);
  return STATUS_OK;
}

int run_restore_all(struct run *run) {
  struct checkpoint_info info = {0};
  int status = STATUS_OK;
  log_resume(run);
  if (run->rank == 0 && run->found) {
    char *folder = mem_format("%s/checkpoints", run->folder);
    if (!run->forgets_best) run->best_loss = checkpoint_get_best(folder);
    mem_free(folder);
  }
  trainer_init(run->trainer, (uint64_t)run->params->run.seed);
  const char *path = run->found, *from = run->params->model.init_from;
  if (path)
    status = read_checkpoint_all(run, path, false, &info);
  else if (from && trainer_computes(run->trainer))
    status = read_checkpoint_all(run, from, true, &info);
  if (!status && path) status = comm_agree_all(run->comm, check_origin(run, &info));
  if (!status && path) {
    run->step = run->saved_step = info.step;
    run->next_sample = info.next_sample;
    run->tokens = info.tokens;
    run->row = info.row;
  }
  return status;
}
