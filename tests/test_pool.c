/* The thread pool: every task exactly once, for any mix of sizes; late sleepers; binding; idle workers use no CPU. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "t.h"

struct counts {
  _Atomic int *times;
  int64_t n;
  _Atomic int outside;
};

static void count_task(void *context, int64_t i) {
  struct counts *counts = context;
  if (i < 0 || i >= counts->n)
    counts->outside++;
  else
    atomic_fetch_add(&counts->times[i], 1);
}

static void check_once(int threads) {
  struct pool *pool = pool_create(threads, NULL, 0);
  T_CHECK(pool_threads(pool) == threads, "threads %d", threads);
  for (int round = 0; round < 3000; round++) {
    int64_t n = round % 7 == 0 ? 0 : 1 + (round * 37) % (round % 100 == 0 ? 5000 : 50);
    struct counts counts = {.times = MEM_NEW(_Atomic int, n), .n = n};
    pool_run(pool, n, count_task, &counts);
    int wrong = counts.outside;
    for (int64_t i = 0; i < n; i++) wrong += counts.times[i] != 1;
    T_CHECK(!wrong, "%d threads, round %d: %d of %d tasks not run exactly once", threads, round, wrong, (int)n);
    mem_free((void *)counts.times);
    if (round % 500 == 0) clock_sleep(0.002); /* let them fall asleep */
  }
  pool_destroy(&pool);
  T_CHECK(!pool, "destroy clears the pointer");
}

struct meeting {
  _Atomic int here;
  _Atomic int met;
};

/* Two tasks that can end only when two threads run them at the same time. */
static void meet_task(void *context, int64_t i) {
  (void)i;
  struct meeting *meeting = context;
  meeting->here++;
  for (double end = clock_now() + 20; meeting->here < 2 && clock_now() < end;) sched_yield();
  if (meeting->here >= 2) meeting->met++;
}

static void check_parallel(void) {
  struct pool *pool = pool_create(2, NULL, 0);
  for (int round = 0; round < 20; round++) {
    struct meeting meeting = {0};
    pool_run(pool, 2, meet_task, &meeting);
    T_CHECK(meeting.met == 2, "round %d: both threads take part", round);
    if (round % 4 == 0) clock_sleep(0.003);
  }
  pool_destroy(&pool);
}

static double read_cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void check_idle(void) {
  struct pool *pool = pool_create(4, NULL, 0);
  struct counts counts = {.times = MEM_NEW(_Atomic int, 64), .n = 64};
  pool_run(pool, 64, count_task, &counts);
  double before = read_cpu_seconds();
  clock_sleep(0.3);
  double used = read_cpu_seconds() - before;
  T_CHECK(used < 0.05, "idle workers used %.3f s of CPU in 0.3 s", used);
  mem_free((void *)counts.times);
  pool_destroy(&pool);
}

struct places {
  _Atomic int outside;
  int core;
};

static void place_task(void *context, int64_t i) {
  (void)i;
  struct places *places = context;
  if (sched_getcpu() != places->core) places->outside++;
}

/* All threads on one core, named twice so that each thread has an entry; the caller's own binding comes back. */
static void check_binding(void) {
  cpu_set_t before, after;
  if (sched_getaffinity(0, sizeof before, &before)) return;
  int core = 0;
  while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &before)) core++;
  for (int n_cores = 1; n_cores <= 3; n_cores++) {
    int cores[3] = {core, core, core};
    struct pool *pool = pool_create(2, cores, n_cores);
    struct places places = {.core = core};
    pool_run(pool, 200, place_task, &places);
    T_CHECK(!places.outside, "%d tasks ran outside core %d", places.outside, core);
    pool_destroy(&pool);
    sched_getaffinity(0, sizeof after, &after);
    T_CHECK(CPU_EQUAL(&before, &after), "the caller's cores are restored");
  }
}

/* Of a system that has no more threads: the third that is asked for cannot be had. */
static _Atomic int threads_left = -1;
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!create) *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
  if (threads_left == 0) return EAGAIN;
  if (threads_left > 0) threads_left--;
  return create(thread, attributes, start, argument);
}

static void check_refused(void) {
  threads_left = 2;
  struct pool *pool = pool_create(5, NULL, 0);
  threads_left = -1;
  T_CHECK(!pool && error_status() == STATUS_FAILED, "a pool without its threads");
  T_CHECK(strstr(error_text(), "thread 4 of 5") && strstr(error_text(), "device.threads"), "%s", error_text());
  error_clear();
}

int main(void) {
  for (int threads = 1; threads <= 5; threads++) check_once(threads);
  check_parallel();
  check_idle();
  check_binding();
  check_refused();
  T_CHECK(mem_balance() == 0, "%d allocations left", (int)mem_balance());
  return t_end();
}
