/* Checkpoints of a run: when they fail, and where a run begins from. */
#include "exec/run.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "store/checkpoint.h"

int run_save_all(struct run *run) {
  if (trainer_keeps_time(run->trainer)) { /* it has nothing to save */
    run->saved_step = run->step;
    return STATUS_OK;
  }
  char *folder = mem_format("%s/checkpoints", run->folder);
  double start = clock_now();
  struct checkpoint_part part = trainer_get_part(run->trainer);
  struct checkpoint_info info = {.step = run->step,
                                 .next_sample = run->next_sample,
                                 .tokens = run->tokens,
                                 .seed = (uint64_t)run->params->run.seed,
                                 .row = run->row,
                                 .data = run->data};
  int status = checkpoint_write_all(run->comm, folder, run->model, run->model_json, run->deck, &info, &part,
                                    run->params->run.keep_checkpoints);
  double seconds = clock_now() - start;
  mem_free(folder);
  if (!status) {
    if (seconds > run->clock.save) run->clock.save = seconds;
    run->saved_step = run->step;
    log_line("checkpoint of step %lld written in %.2f s", (long long)run->step, seconds);
    return STATUS_OK;
  }
  if (run->params->run.on_save_error == PARAMS_ON_SAVE_ERROR_STOP) return status;
  log_warn("%s; training goes on (run.on_save_error: continue), the last good checkpoint is of step %lld", error_text(),
           (long long)run->saved_step);
  error_clear();
  return STATUS_OK;
}

/* Says how the last life of the folder ended and where this one begins. */
static void log_resume(const struct run *run) {
  if (run->before == RUN_BROKEN) log_line("the last run here broke off after step %lld", (long long)run->broke_at);
  if (run->found)
    log_line("going on after step %lld from %s", (long long)run->found_step, run->found);
  else if (run->before != RUN_NEW)
    log_line("no checkpoint here: beginning again");
  if (run->found_step > run->params->run.steps)
    log_warn("the run has %lld steps already, more than run.steps, which is %lld: nothing is trained",
             (long long)run->found_step, (long long)run->params->run.steps);
}

static int read_checkpoint_all(struct run *run, const char *path, bool weights_only, struct checkpoint_info *info) {
  struct checkpoint_part part = trainer_get_part(run->trainer);
  return checkpoint_read_all(run->comm, path, run->model, weights_only, &part, info);
}

int run_restore_all(struct run *run) {
  struct checkpoint_info info = {0};
  int status = STATUS_OK;
  log_resume(run);
  trainer_init(run->trainer, (uint64_t)run->params->run.seed);
  const char *path = run->found, *from = run->params->model.init_from;
  if (path)
    status = read_checkpoint_all(run, path, false, &info);
  else if (from && !trainer_keeps_time(run->trainer))
    status = read_checkpoint_all(run, from, true, &info);
  if (!status && path) {
    run->step = run->saved_step = info.step;
    run->next_sample = info.next_sample;
    run->tokens = info.tokens;
    run->row = info.row;
  }
  return status;
}
