/* A run on a device that keeps time: what it says, and what it does without. */
#include "run/run.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "device/device.h"
#include "setup/costs.h"

/* Share of a step from which lateness is no detail. */
#define LATE_SHARE 0.01

int run_timed_open(struct run *run, int64_t saved) {
  if (device_of_deck(run->params)->computes) return STATUS_OK;
  if (saved >= 0)
    return error_raise(STATUS_MISTAKE,
                       "%s has checkpoints (the newest of step %lld): device.backend timed computes nothing and would "
                       "end that run; give it a run.folder of its own",
                       run->folder, (long long)saved);
  char *notes = NULL;
  int status = costs_open_all(run->comm, run->params, run->model, NULL, &run->cost, &notes);
  if (status) return status;
  log_line(
      "timed: nothing is computed; passes and messages take the times of %s, divided by %g; no loss, no checkpoints",
      cost_get_source(run->cost), run->params->device.time_scale);
  cost_put_sizes(run->cost, run->model);
  if (*notes) log_line("%s", notes);
  mem_free(notes);
  return STATUS_OK;
}

void run_timed_note(struct run *run, const struct trainer_result *result) {
  struct run_timed *t = &run->timed;
  if (!run->cost || result->skipped) return;
  t->n_steps++;
  t->measured += result->seconds;
  t->modelled += result->modelled;
  if (result->late <= t->late) return;
  t->late = result->late;
  t->late_share = result->late / result->modelled;
  t->late_step = run->step + 1;
}

void run_timed_report(const struct run *run) {
  const struct run_timed *t = &run->timed;
  if (!run->cost || t->n_steps == 0) return;
  double measured = t->measured / (double)t->n_steps, modelled = t->modelled / (double)t->n_steps;
  log_line("timed: a step took %.3f ms, modelled %.3f ms (%+.2f %%), mean of %lld steps", measured * 1e3,
           modelled * 1e3, modelled > 0 ? 100 * (measured / modelled - 1) : 0, (long long)t->n_steps);
  if (t->late_share > LATE_SHARE)
    log_warn(
        "timed: inputs came up to %.3f ms after their node was to end (step %lld, %.1f %% of the step): this machine "
        "is too busy for these times; set device.time_scale below %g, or use fewer ranks",
        t->late * 1e3, (long long)t->late_step, 100 * t->late_share, run->params->device.time_scale);
  else
    log_line("timed: inputs came at most %.3f ms after their node was to end (%.2f %% of a step)", t->late * 1e3,
             100 * t->late_share);
}
