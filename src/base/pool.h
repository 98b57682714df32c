/* Threads of one rank: a fixed set of workers that run numbered tasks.
 *
 * Which thread runs a task is not fixed, so a task's result may depend on its number only: kernels cut work into tasks
 * by shape alone, and each task writes its own part of the output. Workers sleep when idle (after a short spin), so
 * that waiting ranks leave the cores to others. One thread at a time may call pool_run; tasks may not call it.
 */
#ifndef PENSTOCK_BASE_POOL_H
#define PENSTOCK_BASE_POOL_H

#include <stdint.h>

struct pool;

/* `threads` >= 1 counts the caller; `cores` (n_cores entries of OS core numbers, may be NULL) is where they may run:
 * thread t is bound to cores[t % n_cores] if n_cores >= threads, else to the whole set. NULL, with the
 * reason raised, when the system has no more threads. */
struct pool *pool_create(int threads, const int *cores, int n_cores);
void pool_destroy(struct pool **pool);
int pool_threads(const struct pool *pool);

/* Runs task(context, i) for i in 0..n_tasks-1 on all threads, the caller included; returns when all are done. */
void pool_run(struct pool *pool, int64_t n_tasks, void (*task)(void *context, int64_t i), void *context);

#endif
