/* The run folder: STATUS, manifest.txt, log, metrics.csv and the names of everything in it. All by rank 0 unless said. */
#ifndef PENSTOCK_STORE_RUNDIR_H
#define PENSTOCK_STORE_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

/* How the last run in this folder ended. */
enum run_state { RUN_NEW, RUN_DONE, RUN_CHECKPOINTED, RUN_FAILED, RUN_BROKEN /* killed: a run without STATUS */ };

struct rundir;

/* A lock of another host counts as dead when its holder has not touched it for this long. */
enum { RUNDIR_STALE_SECONDS = 1800 };

/* Makes the folder where needed, takes its lock (a second job in the same folder is STATUS_MISTAKE naming host and pid of
 * the first; a lock left by a dead process of this host, by an earlier life of this very Slurm job, or not touched for
 * RUNDIR_STALE_SECONDS by another host is taken over), reads and then removes STATUS and temporary files that a killed run
 * left. *last_step: the last step in metrics.csv (0: none). */
int rundir_open(const char *path, struct rundir **dir, enum run_state *state, int64_t *last_step);
/* Releases the lock. */
void rundir_close(struct rundir **dir);
/* Path of a file in the folder ("trace.h5"); owned by the caller. */
char *rundir_path(const struct rundir *dir, const char *name);
/* True when the file `stop` is there (it is removed). Also keeps the lock alive: call it every step. */
bool rundir_take_stop(struct rundir *dir);
/* Writes folder/STATUS ("DONE", "CHECKPOINTED step 12", "FAILED reason", made one line) atomically: temporary name, sync,
 * rename. By any rank; of several at once one stands. */
int rundir_write_status(const char *folder, const char *text);
/* For commands that write into a folder that may be a run's (rundir_find.c): STATUS_MISTAKE when a job runs in it, or a run
 * has left results there (a good STATUS, metrics, a trace, checkpoints). what: the file that would be replaced. */
int rundir_check_free(const char *path, const char *what);
/* For files that options name: STATUS_MISTAKE where `path` is there and is a run's own file, or HDF5 (a plan, a trace, a
 * checkpoint, a profile). */
int rundir_check_output(const char *option, const char *path);
/* Version, configure summary, hosts, command line, start time. `text` is the body. */
int rundir_write_manifest(struct rundir *dir, const char *text);

/* The columns of metrics.csv in their order; new ones are added at the end. X(name, type): INTEGER is int64_t, REAL double. */
#define METRICS_COLUMNS(X)                                                                                             \
  X(step, INTEGER)                                                                                                     \
  X(loss, REAL)                                                                                                        \
  X(tokens, INTEGER)                                                                                                   \
  X(lr, REAL)                                                                                                          \
  X(grad_norm, REAL)                                                                                                   \
  X(step_ms, REAL)                                                                                                     \
  X(tokens_per_s, REAL)                                                                                                \
  X(tflops, REAL)                                                                                                      \
  X(validation_loss, REAL)                                                                                             \
  X(perplexity, REAL) /* exp(validation_loss) */                                                                       \
  X(tokens_per_s_device, REAL)

/* One row; NaN is an empty field. Reals are written with as many digits as read back the same. */
struct metrics_row {
#define METRICS_INTEGER int64_t
#define METRICS_REAL double
#define X(name, type) METRICS_##type name;
  METRICS_COLUMNS(X)
#undef X
};
/* Opens metrics.csv and metrics.jsonl (an object a row: the columns that are numbers) for appending, the first after removing rows of steps above last_step, and nothing else: comments, empty lines and
 * what is no row stay (the last with a warning), in the places and with the ends of lines that they have. Columns that an
 * older program did not know are added to its rows, empty. A file with other columns is STATUS_MISTAKE. The second loses the
 * rows of later steps and gets those that it lacks at its end. */
int metrics_open(struct rundir *dir, int64_t last_step);
/* Appends a row to both, to each whole or not at all. */
int metrics_append(struct rundir *dir, const struct metrics_row *row);
/* Reads all rows in the order of the file, passing over what is none (comments, broken lines); fields that a row lacks are
 * no number. *rows owned by the caller. */
int metrics_read(const char *path, struct metrics_row **rows, int64_t *n);

#endif
