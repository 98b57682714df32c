/* The end of a run before its last step: signals, the stop file, and what still fits into run.wall_time.
 *
 * What is to come is taken to last as long as the longest of its kind in this life, with some room. Of what this life
 * has not done yet there is a guess: a checkpoint from its bytes, trace and report from the nodes of a step; the first
 * evaluation looks at the clock while it runs. The first step of a life is always done, or a run whose wall time is too
 * short would be started again for ever. */
#include "run/run.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes a second of a checkpoint that is yet to be written for the first time: a slow network disk. */
static const double SAVE_RATE = 200e6;
/* Weights and two moments. */
static const double SAVE_BYTES = 12;
/* Seconds a node of the trace: to gather, write and flush it; to read it again and report on it. */
static const double FLUSH_NODE = 2e-6, REPORT_NODE = 2e-6;
/* Steps that a report reads at most. */
enum { REPORT_STEPS = 100 };

double run_clock_get_left(const struct run *run) {
  double limit = run->params->run.wall_time;
  return run->rank == 0 && limit > 0 ? limit - (clock_now() - run->clock.started) : INFINITY;
}

/* Returns the seconds kept in reserve for the launcher, the end of MPI and a machine that is busy for a moment. */
static double get_reserve(const struct run *run) {
  double share = 0.01 * run->params->run.wall_time;
  return 0.25 + (share < 60 ? share : 60);
}

static double count_nodes(const struct run *run, int64_t steps) {
  const struct dag *dag = run->trainer->train.dag;
  return run->trace && dag ? (double)dag->n_nodes * (double)steps : 0;
}

double run_clock_need_report(const struct run *run) {
  int64_t steps = run->step < REPORT_STEPS ? run->step : REPORT_STEPS;
  return run->conclude ? REPORT_NODE * count_nodes(run, steps) : 0;
}

static double need_save(const struct run *run) {
  if (run->clock.save > 0) return 2 * run->clock.save;
  return trainer_computes(run->trainer) ? SAVE_BYTES * (double)run->model->n_parameters / SAVE_RATE : 0;
}

double run_clock_need_end(const struct run *run) {
  int64_t steps = run->params->run.trace_every;
  double flush = run->clock.flush > 0 ? 1.5 * run->clock.flush : FLUSH_NODE * count_nodes(run, steps);
  double save = run->saved_step == run->step ? 0 : need_save(run);
  return save + flush + run_clock_need_report(run) + get_reserve(run);
}

double run_clock_need_step(const struct run *run) {
  double save = run->saved_step == run->step ? need_save(run) : 0; /* not yet in what the end takes */
  double need = 1.5 * run->clock.step + save + run_clock_need_end(run);
  if (!run_evaluation_is_due(run, run->step + 1)) return need;
  double evaluation = 1.1 * run->clock.evaluation;
  /* One that fits into no life is left out when its time has come: waiting for the next life would not help. */
  return need + evaluation > run->params->run.wall_time ? need : need + evaluation;
}

void run_clock_note(double *longest, double seconds) {
  /* One slow time, as the first often is, counts less and less. */
  double before = 0.9 * *longest + 0.1 * seconds;
  *longest = seconds > before ? seconds : before;
}

/* ---- reasons to stop ---- */

struct notice {
  int32_t stop; /* enum run_stop */
  char reason[RUN_REASON_BYTES];
};

/* Any rank may have a signal; rank 0 looks at the clock and, once a step was done, at the stop file. */
static struct notice look(const struct run *run, double need) {
  struct notice mine = {.stop = RUN_GO};
  const char *signal = interrupt_get_signal();
  bool file = run->rank == 0 && run->clock.step > 0 && rundir_take_stop(run->dir); /* not before the first step */
  if (signal || file) {
    mine.stop = RUN_STOP;
    snprintf(mine.reason, sizeof mine.reason, "%s", signal ? signal : "the stop file");
  } else if (need > run_clock_get_left(run)) {
    mine.stop = RUN_OUT_OF_TIME;
  }
  return mine;
}

enum run_stop run_find_stop_all(struct run *run, double need) {
  if (run->stop_reason[0]) return RUN_STOP; /* seen before, and the same on all ranks */
  struct notice mine = look(run, need), *all = MEM_NEW(struct notice, run->size);
  int64_t *offsets = MEM_NEW(int64_t, run->size + 1);
  comm_gather_all(run->comm, &mine, sizeof mine, all, offsets);
  enum run_stop stop = RUN_GO;
  for (int r = 0; r < run->size; r++) {
    if (all[r].stop <= (int32_t)stop) continue;
    stop = (enum run_stop)all[r].stop;
    memcpy(run->stop_reason, all[r].reason, sizeof run->stop_reason);
  }
  mem_free(all);
  mem_free(offsets);
  return stop;
}
