/* A thread beside the main one that does one job at a time: copies, file blocks. */
#ifndef PENSTOCK_BASE_WORKER_H
#define PENSTOCK_BASE_WORKER_H

#include <stdbool.h>

struct worker;

/* The thread starts with the first job and may run on `cores` (n_cores OS core numbers, NULL: anywhere). On a core that
 * is in use it gets its share in turn, but does not interrupt (SCHED_BATCH; the caller's own class where that is
 * another). */
struct worker *worker_create(const int *cores, int n_cores);
/* Waits for the job under way. */
void worker_destroy(struct worker **worker);
/* Begins job(context) when the one before has been seen to end. When the system has no more threads the job is done at
 * once. */
void worker_begin(struct worker *worker, void (*job)(void *context), void *context);
/* True once the job has ended; *start and *end (clock_now) then tell when it ran. Without a job: true, both 0. */
bool worker_test(struct worker *worker, double *start, double *end);
/* Seconds that its jobs have kept a core busy since it was made; while no job is under way. */
double worker_get_cpu(const struct worker *worker);

#endif
