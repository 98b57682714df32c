/* The run folder: STATUS, manifest.txt, log, metrics.csv and the names of everything in it. By rank 0 unless said. */
#ifndef PENSTOCK_RECORD_RUNDIR_H
#define PENSTOCK_RECORD_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

/* How the last run in this folder ended. */
enum run_state { RUN_NEW, RUN_DONE, RUN_CHECKPOINTED, RUN_FAILED, RUN_BROKEN /* killed: a run without STATUS */ };

struct rundir;

enum {
  RUNDIR_BEAT_SECONDS = 15,    /* a holder touches its lock so often */
  RUNDIR_SILENT_SECONDS = 60,  /* without a beat a lock of this very batch job counts as that of its earlier life */
  RUNDIR_STALE_SECONDS = 1800, /* and one of another job on another host as that of a dead one */
};

/* Identifies a folder on the other ranks: the name and the content of its lock. */
struct rundir_token {
  char name[64], text[640];
};

/* Called every 0.1 s while something is waited for. Where it is NULL rundir_open waits for no sign of life. */
struct rundir_poll {
  void (*call)(void *context);
  void *context;
};

/* Makes the folder where needed, takes its lock and tells what was there. Nothing else is changed: who closes the
 * folder again without rundir_begin leaves it as it was. A second job in the same folder is STATUS_STOPPED (try again)
 * naming host and pid of the first; a lock left by a dead process of this host, by an earlier life of this very batch
 * job, or not touched for RUNDIR_STALE_SECONDS by another host is taken over. A STATUS or metrics.csv that no run of
 * this program has written is STATUS_MISTAKE. *last_step: the last step in metrics.csv (0: none). On STATUS_FAILED
 * behind the lock STATUS says so. */
int rundir_open(const char *path, const struct rundir_poll *poll, struct rundir **dir, enum run_state *state,
                int64_t *last_step);
struct rundir_token rundir_get_token(const struct rundir *dir);
/* For other ranks than 0: opens the folder at `path` as this rank sees it, when it is the one that rank 0 has opened.
 * Waits up to `patience` seconds for it to appear, as network file systems need. STATUS_MISTAKE says what is there
 * instead. */
int rundir_join(const char *path, const struct rundir_token *token, double patience, const struct rundir_poll *poll,
                struct rundir **dir);
/* Finds out whether all ranks see one folder within the run folder, which may lie elsewhere (a link, a mount): rank 0
 * marks it, the others look for the mark, rank 0 takes it away. One that is not there, or is a plain part of the
 * folder, gets no mark and needs none.
 */
int rundir_mark(struct rundir *dir, const char *name);
int rundir_find_mark(const struct rundir *dir, const char *name, double patience, const struct rundir_poll *poll);
void rundir_unmark(struct rundir *dir, const char *name);
/* Everything that can be refused was passed, the run begins: removes STATUS, the file `stop` where it is older than
 * rundir_open (the log says so), and temporary files that a killed run left. */
int rundir_begin(struct rundir *dir);
/* Releases the lock, if it is still this run's. Any rank. */
void rundir_close(struct rundir **dir);
/* Path of a file in the folder ("trace.h5"); owned by the caller. Any rank. */
char *rundir_path(const struct rundir *dir, const char *name);
/* Checks that the path still leads to the folder that was opened, and its lock is this run's: called before files are
 * written there by name. STATUS_FAILED says what became of it. Cheap. */
int rundir_check(const struct rundir *dir);
/* True when the file `stop` is there (it is removed). */
bool rundir_take_stop(struct rundir *dir);
/* Writes STATUS ("DONE", "CHECKPOINTED step 12", "FAILED reason", made one line) atomically: temporary name, sync,
 * rename. Into the folder that was opened, whatever its name is now; STATUS_FAILED where its lock is not this run's any
 * more. By any rank; of several at once one stands. */
int rundir_write_status(const struct rundir *dir, const char *text);
/* For commands that write into a folder that may be a run's (rundir_find.c): STATUS_STOPPED when a job runs in it,
 * STATUS_MISTAKE when a run has left results there (a good STATUS, metrics, a trace, checkpoints). what: the file that
 * would be replaced. */
int rundir_check_free(const char *path, const char *what);
/* Says how a run folder stands: the first line of STATUS, else "running" or that it was killed. Owned by the caller. */
char *rundir_describe_state(const char *path);
/* For files that options name, before the work for them: STATUS_MISTAKE where `path` is a run's own file, or HDF5 (a
 * plan, a trace, a checkpoint, a profile), or a folder, or where its folder takes no files. A device or a pipe is left
 * to who writes it. */
int rundir_check_output(const char *option, const char *path);
/* Version, configure summary, hosts, command line, start time. `text` is the body. */
int rundir_write_manifest(struct rundir *dir, const char *text);

/* The columns of metrics.csv in their order; new ones are added at the end. X(name, type): INTEGER is int64_t, REAL
 * double. */
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
/* Opens metrics.csv and metrics.jsonl (an object a row: the columns that are numbers) for appending, the first after
 * removing rows of steps above last_step, and nothing else: comments, empty lines and what is no row stay (the last
 * with a warning), in the places and with the ends of lines that they have. Columns that an older program did not know
 * are added to its rows, empty. A file with other columns is STATUS_MISTAKE. The second loses the rows of later steps
 * and gets those that it lacks at its end. */
int metrics_open(struct rundir *dir, int64_t last_step);
/* Appends a row to both, to each whole or not at all. */
int metrics_append(struct rundir *dir, const struct metrics_row *row);
/* Reads all rows in the order of the file, passing over what is none (comments, broken lines); fields that a row lacks
 * are no number. *rows owned by the caller. */
int metrics_read(const char *path, struct metrics_row **rows, int64_t *n);

#endif
