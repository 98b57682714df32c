/* One training run on one rank: everything `penstock train` holds, passed down instead of globals. */
#ifndef PENSTOCK_RUN_RUN_H
#define PENSTOCK_RUN_RUN_H

#include "data/batch.h"
#include "data/dataset.h"
#include "exec/trainer.h"
#include "record/rundir.h"
#include "setup/setup.h"

struct cost;
struct run_compare;
struct trace;

/* Says whether the run goes on. */
enum run_stop { RUN_GO, RUN_OUT_OF_TIME /* what is to come does not fit into run.wall_time */, RUN_STOP };
enum { RUN_REASON_BYTES = 24 };

struct run {
  struct comm *comm;     /* borrowed */
  struct params *params; /* borrowed */
  const char *command;   /* command line, for the manifest; borrowed */
  void (*conclude)(const char *folder, const char *status);
  int rank, size;

  char *folder;          /* path of the run folder, on all ranks */
  struct rundir *dir;    /* the same folder, as it was opened; on rank 0 with its lock */
  bool has_begun;        /* rank 0: the folder has been changed */
  bool has_lost_folder;  /* on all ranks: it is not this run's any more */
  enum run_state before; /* how the last run in the folder ended */
  int64_t broke_at;      /* last step that it logged */
  char *found;           /* path of its newest whole checkpoint, on all ranks; NULL: none */
  int64_t found_step;    /* of that, -1: none */

  struct topo topo;
  struct model *model;
  char *model_json, *config; /* as it was given; whole */
  char *deck;                /* used.yml's text, stored in every HDF5 file */
  struct dataset *train, *validation;
  char *data;            /* what is trained on, for checkpoints (same_data.h) */
  char *validation_data; /* the same of what was evaluated on last; NULL: nothing */
  bool forgets_best;     /* that is other data than before: no earlier loss is held against new ones */
  struct plan *plan;
  char *plan_notes; /* what the planner says beside it, a line each; NULL on other ranks than 0 */
  struct trainer *trainer;
  struct cost *cost; /* what a device that keeps time asks for, else NULL */
  struct run_timed {
    int64_t n_steps;
    double measured, modelled; /* sums of seconds */
    double late, late_share;   /* of the worst step */
    int64_t late_step;
  } timed;
  struct trace *trace; /* NULL when run.trace_every is 0 */
  int64_t n_nodes;     /* of the plan's graph, on rank 0 */
  struct run_compare *compare;

  int64_t step, next_sample, tokens; /* done so far */
  double best_loss;                  /* lowest of a marked checkpoint, rank 0; INFINITY: none */
  int64_t saved_step;                /* of the newest checkpoint, -1: none */
  struct run_clock {
    double started; /* clock_now() when the process began */
    /* Seconds of the longest step, whole evaluation, batch of one, checkpoint and flush of the trace in this life, as
     * run_clock_note keeps them; 0: there was none. */
    double step, evaluation, batch, save, flush;
  } clock;
  char stop_reason[RUN_REASON_BYTES]; /* what ends the run, "SIGTERM"; "": nothing yet. On all ranks alike */
  /* Model FLOPs and seconds of this life's steps, without its first; of that one while it is alone. */
  double flops, flop_seconds;
  int64_t flop_steps;     /* of this life, its first included; on rank 0 */
  struct metrics_row row; /* of the last step, on rank 0; its step is 0 where there is none */
  bool owes_evaluation; /* on rank 0: the life before ended in or before the evaluation of the step that this one begins
                           from */
};

/* `penstock train`: sets up, resumes, trains, saves. Collective; returns the status that is the exit code of every
 * rank. The message of a failure has been printed and STATUS written; a start that is refused (STATUS_MISTAKE, or
 * STATUS_STOPPED: another job has the folder) leaves the folder as it was. `conclude` (may be NULL) is called on rank 0
 * when all files of the run are closed, before STATUS is written with the text that it is given. */
int run_train_all(struct comm *comm, struct params *params, const char *command,
                  void (*conclude)(const char *folder, const char *status));

/* run_setup.c: everything up to the first step. Collective, ends in agreement. *done is set when the folder is DONE and
 * nothing is to be done. */
int run_open_all(struct run *run, bool *done);
void run_close_all(struct run *run);

/* Checks that the folder at run.folder is still the one that was opened, and this run's. Rank 0 looks; the status is
 * of this rank alone. Called before anything is written there by name. */
int run_check_folder(const struct run *run);

/* run_past.c: what earlier lives left. Finds the newest whole checkpoint (run->found, run->found_step). *done: the
 * folder is DONE and run.steps did not grow. STATUS_MISTAKE where the run could only begin again although there were
 * checkpoints. Collective. */
int run_past_find_all(struct run *run, bool *done);
/* Called when a run begins again: renames the results of before. Rank 0. */
int run_past_keep(const struct run *run);
/* How lines of the log begin that tell a later life what there was: a checkpoint was written; the run began again. */
#define RUN_SAVED_LINE "checkpoint of step "
#define RUN_AGAIN_LINE "no checkpoint here: "

/* run_timed.c: what is special about a run on a device that keeps time; nothing on others. Opens the costs, gives the
 * model their sizes, tells how such a run differs and refuses a folder with checkpoints (`saved` is the step of the
 * newest, -1: none); a status of this rank. */
int run_timed_open(struct run *run, int64_t saved);
/* Keeps a step's times for the end, where they are reported. */
void run_timed_note(struct run *run, const struct trainer_result *result);
void run_timed_report(const struct run *run);

/* run_compare.c: what steps were predicted to take. Opens the costs of cost.source; what they lack is said. Collective.
 */
int run_compare_open_all(struct run *run);
void run_compare_close(struct run *run);
/* Returns the costs that rank 0 predicts with; NULL on other ranks. */
const struct cost *run_compare_get_cost(const struct run *run);
/* Returns the number by which predicted times are divided: device.time_scale on a device that keeps time. */
double run_compare_get_scale(const struct run *run);
/* Keeps a step's times, before another graph takes its place. Returns the seconds predicted for it: rank 0, NaN
 * elsewhere. */
double run_compare_step(const struct run *run, const struct trainer_result *result);
/* Predicted beside measured, in the log and in the trace; nothing when no step was done. Collective; a status of this
 * rank alone: the trace cannot be written. */
int run_compare_end_all(const struct run *run);

/* run_clock.c: run.wall_time, and other reasons to stop. Seconds that are left: rank 0 alone keeps time, on others and
 * without a limit all is left (infinite). */
double run_clock_get_left(const struct run *run);
/* Seconds that the end of the run takes from here: checkpoint, trace, report, MPI; its report alone; one more step with
 * what follows it and the end. */
double run_clock_need_end(const struct run *run);
double run_clock_need_report(const struct run *run);
double run_clock_need_step(const struct run *run);
/* Takes a measured time into the longest of its kind. */
void run_clock_note(double *longest, double seconds);
/* RUN_STOP when a rank has a signal or there is a stop file, now or in an earlier call; stop_reason says which.
 * RUN_OUT_OF_TIME when `need` seconds are not left (rank 0's counts); the stop file counts once a step was
 * done. Collective, alike on all ranks. */
enum run_stop run_find_stop_all(struct run *run, double need);

/* run_evaluate.c: whether the step is one that an evaluation follows. */
bool run_evaluation_is_due(const struct run *run, int64_t step);
/* Mean loss over evaluate_steps batches of the validation rows, each row at most once. NaN, with a line in the log,
 * when it was broken off: a reason to stop came, or the rest of it would not leave the time that the end takes.
 * Collective. */
double run_evaluate_all(struct run *run);

/* run_save.c: a checkpoint of the current step; obeys run.on_save_error (a failure with `continue` is a warning and
 * OK). Collective. */
int run_save_all(struct run *run);
/* With run.keep_best: after an evaluation whose loss is the lowest so far the checkpoint of this step, which is written
 * where it is not there yet, is marked as the best. Collective. */
int run_save_best_all(struct run *run, double validation);
/* Loads the newest valid checkpoint of the folder, else model.init_from, else initial values. Collective. */
int run_restore_all(struct run *run);

/* run_report.c: the row of the step just done, kept in run->row; its speeds are those of the device that is timed. Rank
 * 0 acts, all may call. */
void run_report_note(struct run *run, const struct batch *batch, const struct trainer_result *result);
/* Reports a step, once everything of it is known: its line in the log and in metrics.csv. `validation` is NaN when
 * there was no evaluation. Rank 0 acts, all may call. */
int run_report_step(struct run *run, double validation);
/* Header of the log: versions, ranks and cores, model, data, plan, memory. Collective. */
void run_report_start_all(struct run *run);
/* manifest.txt. Collective. */
void run_report_manifest_all(struct run *run);
/* The share of device.peak_tflops that the steps reached, if there were any: "n/a" where no peak is given, a warning
 * above 100 %. */
void run_report_share(const struct run *run);
/* Names of the columns of the lines of steps. */
void run_report_head(void);
/* Reports the size that the trace will have. Rank 0. */
void run_report_trace(const struct run *run);

/* Ends the job from this rank alone with the recorded error: all ranks write STATUS, flush the trace and leave no spill
 * file. */
_Noreturn void run_die(struct run *run, int status);

#endif
