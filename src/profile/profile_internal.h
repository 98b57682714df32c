/* Shared by the parts of the measurement: profile.c (order, time, notes), profile_ops.c and profile_run.c (passes),
 * profile_sweeps.c, profile_links.c, profile_copies.c. */
#ifndef PENSTOCK_PROFILE_PROFILE_INTERNAL_H
#define PENSTOCK_PROFILE_PROFILE_INTERNAL_H

#include "exec/rank_state.h"
#include "profile/profile_measure.h"
#include "profile/profile_samples.h"

struct counters;
struct op_batch;

/* Repetitions of one measurement: of large models few, of others no more than tell something. */
enum { PROFILE_LEAST_REPETITIONS = 2, PROFILE_MOST_REPETITIONS = 200 };

struct profile_work {
  const struct profile_config *config;
  struct comm *comm;
  int rank, size;
  struct device *device;
  struct counters *counters;
  int64_t limit;           /* of the rank that has least */
  double begin, end;       /* when measuring began; when its time is up */
  struct profile *profile; /* rank 0, else NULL */
  char *notes;
};

/* ---- profile.c ---- */

/* The largest of all ranks' values. Collective. */
double profile_get_most_all(const struct profile_work *w, double value);
/* How often to repeat what has just taken `once` seconds on this rank, to use `budget` seconds; the same on all ranks.
 * Collective. */
int profile_choose_repetitions_all(const struct profile_work *w, double once, double budget);
/* Says what is measured now and how much time is left. Then all ranks agree on `status`; one that was told to stop
 * makes it STATUS_STOPPED. Collective. */
int profile_begin_all(struct profile_work *w, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a line for people about what is missing. */
void profile_note(struct profile_work *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Rank 0 gets the rows of `count` rows of `bytes` that the slowest rank has, `total` being each rank's time for them:
 * in `rows` itself. Collective. */
void profile_take_slowest_all(const struct profile_work *w, double total, void *rows, int64_t bytes);

/* ---- profile_ops.c ---- */

/* Consecutive layers of a cut model that are measured together. */
struct profile_piece {
  const struct model *model;
  int32_t first_layer, n_layers;
};
/* Ops at all points and, unless only ops are wanted, sweeps. Collective. */
int profile_ops_all(struct profile_work *w, double budget);

/* ---- profile_run.c ---- */

/* A piece in device memory, and the times of its ops. */
struct profile_run;
/* A status of this rank alone. */
int profile_run_create(struct profile_work *w, const struct profile_piece *piece, struct profile_run **run);
void profile_run_destroy(struct profile_run **run);
struct rank_state *profile_run_get_state(const struct profile_run *run);
/* Bytes of the device that a piece takes for a micro-batch, parameters included. */
int64_t profile_run_get_peak(const struct profile_piece *piece, struct micro_shape point);
/* Forgets times, and makes a micro-batch of random tokens. */
void profile_run_set_point(struct profile_run *run, struct micro_shape point);
/* Forward, input and weight pass once; `*seconds` of them together. A status of this rank alone. */
enum profile_run_way { PROFILE_RUN_WARM, PROFILE_RUN_TIME, PROFILE_RUN_COUNT };
int profile_run_repeat(struct profile_run *run, enum profile_run_way way, double *seconds);
/* A row for each op of each kind of layer of the piece in each pass; returns how many, *total is the time of
 * a forward and a backward of the piece. */
enum { PROFILE_RUN_MAX_ROWS = LAYER_KIND_COUNT * LAYER_MAX_OPS * PASS_COUNT };
int profile_run_get_rows(struct profile_run *run, struct profile_op rows[PROFILE_RUN_MAX_ROWS], double *total);

/* ---- the others. Collective. ---- */

int profile_sweeps_all(struct profile_work *w, struct rank_state *state, double budget);
int profile_links_all(struct profile_work *w, double budget);
int profile_copies_all(struct profile_work *w, double budget);
int profile_disk_all(struct profile_work *w, double budget);

#endif
