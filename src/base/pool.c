/* A job is published as a ticket (run number and next task in one word). A worker claims a task by moving the ticket
 * on, so one that wakes late finds another run number and can neither take a task of a later run by mistake nor hold up
 * the caller: a run is over when its tasks are done, not when every worker has noticed it.
 */
#include "base/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

/* Rounds of polling before a thread sleeps: some 20 to 50 microseconds, about what a wake-up costs. */
enum { POOL_SPINS = 1000, POOL_INDEX_BITS = 32 };

static const uint64_t index_mask = ((uint64_t)1 << POOL_INDEX_BITS) - 1;

struct worker {
  struct pool *pool;
  pthread_t thread;
  int number;
};

struct pool {
  int threads;
  int n_started;          /* workers */
  struct worker *workers; /* threads - 1 */
  cpu_set_t *cores;       /* all of the pool's cores; NULL: no binding */
  cpu_set_t *caller;      /* what the caller was bound to before, to be restored */
  size_t cores_bytes;
  const int *core_list; /* of pool_create, while it runs */
  int n_cores;

  char pad0[64];           /* what the threads fight over lies in cache lines of its own */
  _Atomic uint64_t ticket; /* run << POOL_INDEX_BITS | next task */
  _Atomic(int64_t) n_tasks;
  _Atomic(void (*)(void *, int64_t)) task;
  _Atomic(void *) context;

  char pad1[64];
  _Atomic int64_t done;
  _Atomic uint32_t finished; /* bumped when a run's last task is done */
  _Atomic uint32_t caller_sleeps;

  char pad2[64];
  _Atomic uint32_t generation; /* bumped with every run and at the end */
  _Atomic uint32_t sleepers;
  _Atomic bool ends;
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void wait_futex(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_futex(_Atomic uint32_t *word, int threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* Takes tasks of the current run until there are none. */
static void work(struct pool *pool) {
  uint64_t ticket = atomic_load(&pool->ticket);
  for (;;) {
    int64_t i = (int64_t)(ticket & index_mask);
    int64_t n_tasks = atomic_load(&pool->n_tasks);
    void (*task)(void *, int64_t) = atomic_load(&pool->task);
    void *context = atomic_load(&pool->context);
    if (i >= n_tasks) return;
    /* Success proves that the run is still the one of the fields above: it cannot end before task i does. */
    if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1)) continue;
    task(context, i);
    if (atomic_fetch_add(&pool->done, 1) + 1 == n_tasks) {
      atomic_fetch_add(&pool->finished, 1);
      if (atomic_load(&pool->caller_sleeps)) wake_futex(&pool->finished, 1);
      return;
    }
    ticket = atomic_load(&pool->ticket);
  }
}

/* Returns when the generation is no longer `seen`. */
static void await_run(struct pool *pool, uint32_t seen) {
  for (int i = 0; i < POOL_SPINS; i++) {
    if (atomic_load(&pool->generation) != seen) return;
    relax();
  }
  atomic_fetch_add(&pool->sleepers, 1);
  while (atomic_load(&pool->generation) == seen) wait_futex(&pool->generation, seen);
  atomic_fetch_sub(&pool->sleepers, 1);
}

static void bind_thread(const struct pool *pool, int number) {
  if (!pool->cores) return;
  if (pool->n_cores < pool->threads) {
    pthread_setaffinity_np(pthread_self(), pool->cores_bytes, pool->cores);
    return;
  }
  int n_bits = (int)(pool->cores_bytes * 8);
  cpu_set_t *one = CPU_ALLOC(n_bits);
  CHECK(one, "no memory for a set of cores");
  CPU_ZERO_S(pool->cores_bytes, one);
  CPU_SET_S((size_t)pool->core_list[number], pool->cores_bytes, one);
  /* A core that is offline or outside the job's share only costs the binding, not the run. */
  pthread_setaffinity_np(pthread_self(), pool->cores_bytes, one);
  CPU_FREE(one);
}

static void *run_worker(void *argument) {
  struct worker *worker = argument;
  struct pool *pool = worker->pool;
  bind_thread(pool, worker->number);
  uint32_t seen = 0;
  atomic_fetch_add(&pool->done, 1); /* pool_create waits for it */
  while (!atomic_load(&pool->ends)) {
    await_run(pool, seen);
    seen = atomic_load(&pool->generation);
    work(pool);
  }
  return NULL;
}

static void init_cores(struct pool *pool, const int *cores, int n_cores) {
  if (!cores || n_cores < 1) return;
  int highest = CPU_SETSIZE - 1;
  for (int i = 0; i < n_cores; i++) highest = cores[i] > highest ? cores[i] : highest;
  pool->cores_bytes = CPU_ALLOC_SIZE(highest + 1);
  pool->cores = CPU_ALLOC(highest + 1);
  pool->caller = CPU_ALLOC(highest + 1);
  CHECK(pool->cores && pool->caller, "no memory for a set of cores");
  CPU_ZERO_S(pool->cores_bytes, pool->cores);
  for (int i = 0; i < n_cores; i++) CPU_SET_S((size_t)cores[i], pool->cores_bytes, pool->cores);
  pool->core_list = cores;
  pool->n_cores = n_cores;
  if (pthread_getaffinity_np(pthread_self(), pool->cores_bytes, pool->caller)) {
    CPU_FREE(pool->caller);
    pool->caller = NULL;
  }
}

struct pool *pool_create(int threads, const int *cores, int n_cores) {
  CHECK(threads >= 1, "a pool of %d threads", threads);
  struct pool *pool = MEM_NEW(struct pool, 1);
  pool->threads = threads;
  init_cores(pool, cores, n_cores);
  pool->workers = MEM_NEW(struct worker, threads - 1);
  for (int i = 0; i < threads - 1; i++) {
    pool->workers[i] = (struct worker){.pool = pool, .number = i + 1};
    int code = pthread_create(&pool->workers[i].thread, NULL, run_worker, &pool->workers[i]);
    if (code) {
      error_raise(
          STATUS_FAILED,
          "thread %d of %d of this rank cannot be started: %s; set device.threads lower, or raise the limits on "
          "processes and memory (ulimit -u, ulimit -v)",
          i + 2, threads, limits_reason(code));
      pool_destroy(&pool);
      return NULL;
    }
    pool->n_started++;
  }
  bind_thread(pool, 0);
  while (atomic_load(&pool->done) < threads - 1) sched_yield();
  pool->core_list = NULL; /* the caller's */
  return pool;
}

void pool_destroy(struct pool **address) {
  struct pool *pool = *address;
  if (!pool) return;
  atomic_store(&pool->ends, true);
  atomic_fetch_add(&pool->generation, 1);
  wake_futex(&pool->generation, pool->threads);
  for (int i = 0; i < pool->n_started; i++) pthread_join(pool->workers[i].thread, NULL);
  if (pool->caller) pthread_setaffinity_np(pthread_self(), pool->cores_bytes, pool->caller);
  if (pool->cores) CPU_FREE(pool->cores);
  if (pool->caller) CPU_FREE(pool->caller);
  mem_free(pool->workers);
  mem_free(pool);
  *address = NULL;
}

int pool_threads(const struct pool *pool) { return pool->threads; }

static void await_finish(struct pool *pool, uint32_t before) {
  for (int i = 0; i < POOL_SPINS; i++) {
    if (atomic_load(&pool->finished) != before) return;
    relax();
  }
  atomic_store(&pool->caller_sleeps, 1);
  while (atomic_load(&pool->finished) == before) wait_futex(&pool->finished, before);
  atomic_store(&pool->caller_sleeps, 0);
}

void pool_run(struct pool *pool, int64_t n_tasks, void (*task)(void *context, int64_t i), void *context) {
  if (pool->threads == 1 || n_tasks <= 1) {
    for (int64_t i = 0; i < n_tasks; i++) task(context, i);
    return;
  }
  CHECK((uint64_t)n_tasks < index_mask, "too many tasks in one run");
  uint32_t before = atomic_load(&pool->finished);
  uint64_t run = (atomic_load(&pool->ticket) >> POOL_INDEX_BITS) + 1;
  /* Close the old run for stragglers before the fields change, then open the new one. */
  atomic_store(&pool->ticket, run << POOL_INDEX_BITS | index_mask);
  atomic_store(&pool->done, 0);
  atomic_store(&pool->task, task);
  atomic_store(&pool->context, context);
  atomic_store(&pool->n_tasks, n_tasks);
  atomic_store(&pool->ticket, (run + 1) << POOL_INDEX_BITS);
  atomic_fetch_add(&pool->generation, 1);
  if (atomic_load(&pool->sleepers)) {
    int most = (int)(n_tasks - 1 < pool->threads - 1 ? n_tasks - 1 : pool->threads - 1);
    wake_futex(&pool->generation, most);
  }
  work(pool);
  await_finish(pool, before);
}
