/* What the parts of rundir share. Only for store/rundir*.c and store/metrics.c. */
#ifndef PENSTOCK_STORE_RUNDIR_IMPL_H
#define PENSTOCK_STORE_RUNDIR_IMPL_H

#include "store/rundir.h"

struct rundir {
  char *path, *metrics_path, *json_path;
  char *lock_path; /* NULL: not held */
  int lock;        /* descriptor, -1: not open */
  int metrics;     /* descriptor, -1: not open */
  int json;        /* of metrics.jsonl; likewise */
  double beat;     /* clock_now() of the last heartbeat */
};

/* rundir_lock.c: takes the folder's lock; STATUS_MISTAKE names the holder. */
int rundir_lock(struct rundir *dir);
void rundir_unlock(struct rundir *dir);
/* Of a folder that is there and that nobody opens: STATUS_MISTAKE as rundir_lock when a job holds its lock. */
int rundir_check_lock(const char *path);
/* Shows that the holder lives; call it often, it writes seldom. */
void rundir_beat(struct rundir *dir);

/* metrics_json.c: takes rows of steps above last_step and a broken last line away. *last: the last step that stays, 0: none. */
int metrics_json_cut(const char *path, int64_t last_step, int64_t *last);

#endif
