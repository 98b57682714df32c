/* What the tests of the run folder share: a new folder for each test, starts of a run in it, and its files. */
#ifndef PENSTOCK_TESTS_RUNDIR_CASE_H
#define PENSTOCK_TESTS_RUNDIR_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "record/rundir.h"

extern char *rundir_case_folder; /* the run folder of the current test; it is not there before a run opens it */

/* The current test's folder is this one, below scratch_make(). */
void rundir_case_begin(const char *name);
/* Removes all folders. */
void rundir_case_end(void);
/* rundir_open without a poll. */
int rundir_case_open(struct rundir **dir, enum run_state *state, int64_t *last_step);
/* Opens, begins and closes: an enum run_state, how the run before ended; -1 when it is refused, -2 when it cannot
 * begin. */
int rundir_case_start(int64_t *last_step);
void rundir_case_write(const char *name, const char *text);
bool rundir_case_has(const char *name);

#endif
