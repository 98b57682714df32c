/* Evaluations of a run: when one is due, and when it is broken off. */
#include "run/run.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "run/evaluate.h"

#include <math.h>
#include <stdio.h>

/* Batches from which the length of the whole is told; the first one, which is slower, does not count. */
enum { BATCHES_TO_TELL = 4 };
/* Share of that length that must fit for an evaluation to go on: a few batches tell it roughly. */
static const double SURE_SHARE = 0.8;

/* One evaluation on its way. */
struct watch {
  struct run *run;
  double started, first_end, last_end; /* of it, its first and its last batch */
  enum run_stop stop;
};

bool run_evaluation_is_due(const struct run *run, int64_t step) {
  int64_t every = run->params->run.evaluate_every;
  return run->validation && every > 0 && step % every == 0;
}

/* Seconds of the batches that are left, as far as this or an earlier evaluation tells; 0: not known. */
static double tell_rest(const struct watch *w, int64_t done, int64_t n_batches) {
  if (done >= BATCHES_TO_TELL) return (w->last_end - w->first_end) / (double)(done - 1) * (double)(n_batches - done);
  double spent = clock_now() - w->started, whole = w->run->clock.evaluation;
  return whole > spent ? whole - spent : 0;
}

static void log_broken(const struct watch *w, int64_t done, int64_t n_batches, double rest) {
  const struct run *run = w->run;
  char what[96], takes[64] = "";
  if (run->rank != 0) return;
  if (done == 0)
    snprintf(what, sizeof what, "the evaluation of step %lld is left out", (long long)run->step);
  else
    snprintf(what, sizeof what, "the evaluation of step %lld is broken off after %lld of %lld batches",
             (long long)run->step, (long long)done, (long long)n_batches);
  if (rest > 0) snprintf(takes, sizeof takes, "it takes %.1f s more, and ", rest);
  if (w->stop == RUN_STOP)
    log_line("%s: %s", what, run->stop_reason);
  else
    log_line("%s: %s%.1f s of run.wall_time are left, %.1f s of them for the end of the run", what, takes,
             run_clock_get_left(run), run_clock_need_end(run));
}

/* Before each batch: it must leave what the end takes, and so must the rest where its length is known. */
static bool go_on_all(void *context, int64_t done, int64_t n_batches) {
  struct watch *w = context;
  struct run *run = w->run;
  double now = clock_now();
  if (done == 0) {
    w->started = now;
  } else {
    run_clock_note(&run->clock.batch, now - w->last_end);
    if (done == 1) w->first_end = now;
  }
  w->last_end = now;
  double rest = tell_rest(w, done, n_batches);
  double batch = 1.5 * (run->clock.batch > 0 ? run->clock.batch : run->clock.step);
  double next = SURE_SHARE * rest > batch ? SURE_SHARE * rest : batch;
  w->stop = run_find_stop_all(run, next + run_clock_need_end(run));
  if (w->stop == RUN_GO) return true;
  log_broken(w, done, n_batches, rest);
  /* The time is noted, so that no evaluation is begun that has no time to end. */
  if (w->stop == RUN_OUT_OF_TIME && done >= BATCHES_TO_TELL)
    run_clock_note(&run->clock.evaluation, now - w->started + rest);
  return false;
}

double run_evaluate_all(struct run *run) {
  const struct params *p = run->params;
  int64_t rows = dataset_count_rows(run->validation), most = p->run.evaluate_steps * p->data.global_batch;
  struct watch watch = {.run = run};
  struct evaluation evaluation = {.trainer = run->trainer,
                                  .dataset = run->validation,
                                  .n_rows = rows < most ? rows : most,
                                  .batch_rows = p->data.global_batch,
                                  .micro_rows = p->data.micro_batch,
                                  .step = run->step,
                                  .go_on_all = go_on_all,
                                  .context = &watch};
  struct evaluation_sum sum;
  int status = evaluate_rows_all(&evaluation, &sum);
  if (status) run_die(run, status);
  if (!sum.is_whole) return NAN;
  run_clock_note(&run->clock.evaluation, clock_now() - watch.started);
  return evaluation_get_mean(&sum);
}
