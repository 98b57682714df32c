/* Shared by the parts of rundir. Only record/rundir*.c and record/metrics.c include it. */
#ifndef PENSTOCK_RECORD_RUNDIR_IMPL_H
#define PENSTOCK_RECORD_RUNDIR_IMPL_H

#include <sys/types.h>
#include <time.h>

#include "record/rundir.h"

struct rundir {
  char *path, *metrics_path, *json_path;
  struct rundir_token token;
  int folder; /* descriptor of the folder: the run's own whatever name it has now */
  int lock;   /* descriptor of the lock, -1: not held (all ranks but 0) */
  dev_t lock_device;
  ino_t lock_inode;
  struct rundir_heart *heart;
  int metrics;           /* descriptor, -1: not open */
  int json;              /* of metrics.jsonl; likewise */
  bool is_new;           /* this start made the folder, and nothing was put into it yet */
  struct timespec start; /* when it was opened */
};

/* ---- rundir_holder.c ---- */

/* The holder of a lock, as its file names it. */
struct rundir_holder {
  char host[256];
  long pid;
  unsigned long long started; /* clock ticks after boot, so that a later process with the same id is another */
  char boot[64], job[128];
  long restart; /* of that job by its batch system */
};

void rundir_describe_self(struct rundir_holder *self);
/* False when the text is no lock file's. */
bool rundir_parse_holder(const char *text, struct rundir_holder *holder);
/* Returns true when the holder of a lock file can still be running; may wait up to RUNDIR_SILENT_SECONDS to find out,
 * with poll NULL never. */
bool rundir_is_alive(const char *path, const struct rundir_holder *holder, const struct rundir_poll *poll);

/* ---- rundir_lock.c ---- */

/* Takes the lock of the folder, which is open; STATUS_STOPPED names the holder. */
int rundir_lock(struct rundir *dir, const struct rundir_poll *poll);
/* Removes the lock, if it is still the own one. */
void rundir_unlock(struct rundir *dir);
/* Checks a folder that is there and that this process does not open: STATUS_STOPPED when a job holds its lock. */
int rundir_check_lock(const char *path);
/* The lock of this run is in its folder. */
bool rundir_holds_lock(const struct rundir *dir);

/* metrics_json.c: takes rows of steps above last_step and a broken last line away. *last: the last step that stays, 0:
 * none. */
int metrics_json_cut(const char *path, int64_t last_step, int64_t *last);

#endif
