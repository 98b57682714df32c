/* The training loop: batches in, steps, evaluations, checkpoints, and the ways to end early. */
#include "run/run.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "record/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_status(const struct run *run, const char *text) {
  if (run->dir && rundir_write_status(run->dir, text) && !run->has_lost_folder) log_error("%s", error_text());
}

/* "FAILED reason" on one line. People have the reason from the error's line. */
static void write_failure(const struct run *run, const char *reason) {
  char text[512];
  snprintf(text, sizeof text, "FAILED %s", reason);
  text[strcspn(text, "\n")] = '\0';
  write_status(run, text);
  log_file_line("penstock: %s", text);
}

/* Other ranks may wait for this one in the middle of a step: they are told. */
_Noreturn void run_die(struct run *run, int status) {
  if (run->rank != 0) error_wrap("on rank %d (%s)", run->rank, comm_get_host(run->comm, run->rank));
  watchdog_end_job(run->comm, status, error_text());
}

/* Runs on every rank before the watchdog ends the job. */
static void on_end(void *context, const char *reason) {
  struct run *run = context;
  if (run->trainer) trainer_abandon(run->trainer);
  write_failure(run, reason);
  if (run->trace && !run_check_folder(run)) trace_flush_alone(run->trace);
}

/* Names what was not finite; all ranks know it. */
static int raise_not_finite(const struct run *run, int64_t step, const struct trainer_result *result) {
  char what[192] = "the loss";
  if (result->bad_layer >= 0) {
    const struct layer *layer = &run->model->layers[result->bad_layer];
    int t = result->bad_tensor < 0 ? 0 : result->bad_tensor;
    snprintf(what, sizeof what, "the gradient of %s (layer %d, %s)", layer->tensors[t].name, result->bad_layer,
             layer_kind_get_name(layer->kind));
  }
  char saved[64] = "there is no checkpoint";
  if (run->saved_step >= 0)
    snprintf(saved, sizeof saved, "the last checkpoint is of step %lld", (long long)run->saved_step);
  return error_raise(
      STATUS_FAILED,
      "step %lld: %s is not finite (loss %g): nothing was updated; %s; try a lower optimizer.lr, a longer "
      "warm-up, or optimizer.clip",
      (long long)step, what, fabs(result->loss), saved); /* no loss is negative, but printf would give NaN a sign */
}

static bool is_multiple(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* The step's times and trace rows; all ranks write them together every trace_every steps. */
static int add_trace(struct run *run, const struct trainer_result *result) {
  double predicted = run_compare_step(run, result);
  if (!run->trace) return STATUS_OK;
  const struct step_graph *graph = &run->trainer->train;
  struct trace_step row = {.step = run->step,
                           .loss = result->loss,
                           .tokens = 0,
                           .seconds = result->seconds,
                           .predicted_seconds = predicted,
                           .plan_hash = graph->plan->hash,
                           .starts = run->flop_steps == 1,
                           .start = result->start,
                           .host_peak = result->host_peak,
                           .disk_peak = result->disk_peak};
  for (int32_t i = 0; i < graph->plan->n_micro; i++) row.tokens += graph->plan->micro[i].tokens;
  return trace_add(run->trace, graph->dag, run->trainer->spans, &row, result->peak,
                   graph->dag->device_static[run->rank]);
}

/* Metrics or trace that cannot be written: run.on_save_error decides, as of a checkpoint. */
static int weigh_output(const struct run *run, int status) {
  if (!status || run->params->run.on_save_error == PARAMS_ON_SAVE_ERROR_STOP) return status;
  log_warn("%s; training goes on (run.on_save_error: continue)", error_text());
  error_clear();
  return STATUS_OK;
}

static int train_step_all(struct run *run, struct batch *batch, bool *skipped) {
  const struct params *p = run->params;
  struct trainer_result result;
  int64_t step = run->step + 1;
  int status =
      trainer_build_batch(run->trainer, run->train, run->next_sample, p->data.global_batch, p->data.micro_batch, batch);
  if (!status) status = trainer_step(run->trainer, batch, step, &result);
  if (status) run_die(run, status);
  run_timed_note(run, &result);
  if (!result.finite) return raise_not_finite(run, step, &result);
  *skipped = result.skipped;
  if (result.skipped) log_warn("step %lld has no label: it is skipped", (long long)step);
  run->step = step;
  run->next_sample += p->data.global_batch;
  run->tokens += batch->tokens;
  run->row.step = 0;
  if (result.skipped) return STATUS_OK;
  run_report_note(run, batch, &result);
  return add_trace(run, &result);
}

static int flush_trace_all(struct run *run) {
  if (!run->trace || !is_multiple(run->step, run->params->run.trace_every)) return STATUS_OK;
  double start = clock_now();
  int status = trace_flush_all(run->trace);
  run_clock_note(&run->clock.flush, clock_now() - start);
  return weigh_output(run, status);
}

/* Does what is due after a step. A checkpoint that is due comes before the evaluation: whoever kills the run in there
 * takes nothing of it away. */
static int follow_step_all(struct run *run, bool skipped) {
  double validation = NAN;
  int status = comm_agree_all(run->comm, run_check_folder(run));
  if (!status) status = flush_trace_all(run);
  if (!status && is_multiple(run->step, run->params->run.checkpoint_every)) status = run_save_all(run);
  if (status || skipped) return status;
  bool evaluates = run_evaluation_is_due(run, run->step);
  if (evaluates) validation = run_evaluate_all(run);
  status = weigh_output(run, run_report_step(run, validation));
  if (evaluates) status = comm_agree_all(run->comm, status);
  return evaluates && !status ? run_save_best_all(run, validation) : status;
}

/* Does what the last life still owed to its last step when it ended after the checkpoint: the evaluation, and the
 * mark of the best checkpoint. *evaluated: an evaluation has taken time. */
static int catch_up_all(struct run *run, bool *evaluated) {
  int64_t owes = run->owes_evaluation;
  /* A loss of other rows than those of now is none to compare. */
  double validation = run->row.step > 0 && !run->forgets_best ? run->row.validation_loss : NAN;
  int status = STATUS_OK;
  comm_broadcast_all(run->comm, 0, &owes, sizeof owes);
  *evaluated = owes;
  if (owes) {
    validation = run_evaluate_all(run);
    status = comm_agree_all(run->comm, weigh_output(run, run_report_step(run, validation)));
  }
  return status ? status : run_save_best_all(run, validation);
}

/* Trains until the last step or a reason to stop, which is returned in *stopped. */
static int train_all(struct run *run, const char **stopped) {
  struct batch batch = {0};
  bool skipped = false, evaluated = false;
  int status = catch_up_all(run, &evaluated);
  /* A signal may have come while the run was set up. */
  enum run_stop stop = run_find_stop_all(run, evaluated ? run_clock_need_step(run) : -INFINITY);
  while (!status && stop == RUN_GO && run->step < run->params->run.steps) {
    double start = clock_now();
    status = comm_agree_all(run->comm, train_step_all(run, &batch, &skipped));
    run_clock_note(&run->clock.step, clock_now() - start);
    if (!status) status = comm_agree_all(run->comm, follow_step_all(run, skipped));
    if (!status) stop = run_find_stop_all(run, run_clock_need_step(run));
  }
  batch_fini(&batch);
  /* After the last step nothing is left to stop. */
  bool early = !status && run->step < run->params->run.steps;
  *stopped = !early ? NULL : stop == RUN_STOP ? run->stop_reason : "run.wall_time";
  return status;
}

/* The checkpoint of the last step. An end without it is no end, whatever on_save_error says of the way there. */
static int save_last_all(struct run *run) {
  if (run->saved_step == run->step) return STATUS_OK;
  int status = run_save_all(run);
  if (status || run->saved_step == run->step) return status;
  return comm_agree_all(run->comm, error_raise(STATUS_FAILED, "the checkpoint of the last step could not be written"));
}

/* Returns the status that the run has with it; an earlier failure keeps its message. */
static int close_trace_all(struct run *run, int status) {
  char *reason = status ? mem_strdup(error_text()) : NULL;
  int traced = weigh_output(run, trace_close_all(&run->trace));
  if (status) error_raise(status, "%s", reason);
  mem_free(reason);
  return status ? status : traced;
}

/* The report, where there is time for it. */
static void write_report(const struct run *run, const char *text) {
  if (!run->conclude || run->step == 0) return;
  if (run_clock_need_report(run) > run_clock_get_left(run))
    log_line("no time is left for report.txt: penstock report %s makes it", run->folder);
  else
    run->conclude(run->folder, text);
}

/* A run that keeps time has saved nothing: one that is stopped cannot go on, and a job that is started again would
 * never end. What it measured is reported. */
static int give_up_timed(struct run *run, const char *stopped) {
  char *text = mem_format("FAILED stopped by %s after step %lld of %lld; a timed run has no checkpoint to go on from",
                          stopped, (long long)run->step, (long long)run->params->run.steps);
  if (run->rank == 0) write_report(run, text);
  int status = error_raise(STATUS_FAILED, "%s", text + strlen("FAILED "));
  mem_free(text);
  return status;
}

/* A folder that is not this run's any more: all ranks know, and nobody writes there. */
static int check_folder_all(struct run *run, int status) {
  int64_t lost = run_check_folder(run);
  comm_broadcast_all(run->comm, 0, &lost, sizeof lost);
  run->has_lost_folder = lost;
  if (!lost) return status;
  trace_discard(&run->trace);
  return comm_agree_all(run->comm, (int)lost);
}

/* Everything after the last step: checkpoint, trace, STATUS. */
static int finish_all(struct run *run, int status, const char *stopped) {
  status = check_folder_all(run, status);
  if (!status) status = save_last_all(run);
  if (!status) status = comm_agree_all(run->comm, weigh_output(run, run_compare_end_all(run)));
  if (run->trace) status = close_trace_all(run, status);
  run_timed_report(run);
  run_report_share(run);
  if (!status && stopped && run->cost) status = give_up_timed(run, stopped);
  if (!status) status = check_folder_all(run, status);
  if (run->rank != 0) return status ? status : stopped ? STATUS_STOPPED : STATUS_OK;
  if (status) {
    log_error("%s", error_text());
    write_failure(run, error_text());
    return status;
  }
  char text[128] = "DONE";
  if (stopped) {
    snprintf(text, sizeof text, "CHECKPOINTED step %lld", (long long)run->step);
    log_line("stopped by %s after step %lld; start the same command again to go on", stopped, (long long)run->step);
  }
  write_report(run, text);
  write_status(run, text);
  log_line("penstock: %s", text);
  return stopped ? STATUS_STOPPED : STATUS_OK;
}

/* A start that was refused leaves no trace in the folder; one that failed, or was under way, says so there. */
static void end_start(struct run *run, int status) {
  char *reason = mem_strdup(error_text());
  bool is_told = run->dir && (run->has_begun || status == STATUS_FAILED);
  if (is_told && !run->has_begun) {
    char *log = rundir_path(run->dir, "log.txt");
    if (log_open_file(log)) log_warn("%s", error_text());
    mem_free(log);
  }
  log_error("%s", reason);
  if (is_told) write_failure(run, reason);
  mem_free(reason);
}

int run_train_all(struct comm *comm, struct params *params, const char *command,
                  void (*conclude)(const char *folder, const char *status)) {
  struct run run = {.comm = comm,
                    .params = params,
                    .command = command,
                    .conclude = conclude,
                    .rank = comm_get_rank(comm),
                    .size = comm_get_size(comm),
                    .saved_step = -1,
                    .best_loss = INFINITY,
                    .clock = {.started = clock_get_start()}};
  watchdog_set_timeout(comm, params->run.hang_timeout);
  watchdog_set_hook(comm, on_end, &run);
  bool done = false;
  const char *stopped = NULL;
  int status = run_open_all(&run, &done);
  if (status && run.rank == 0) end_start(&run, status);
  if (!status && !done) {
    status = train_all(&run, &stopped);
    status = finish_all(&run, status, stopped);
  }
  run_close_all(&run);
  watchdog_set_hook(comm, NULL, NULL);
  error_clear();
  return status;
}
