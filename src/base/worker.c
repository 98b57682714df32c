#include "base/worker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

struct worker {
  pthread_t thread;
  bool has_thread;
  int n_cores, *cores;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool busy, ends; /* under the mutex, as all below: a job is there that has not ended; no other will come */
  void (*job)(void *context);
  void *context;
  double start, end;
  double cpu; /* of all jobs */
};

static double get_thread_cpu(void) {
  struct timespec t;
  return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) ? 0 : (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void do_job(struct worker *w) {
  double cpu = get_thread_cpu();
  w->start = clock_now();
  w->job(w->context);
  w->end = clock_now();
  w->cpu += get_thread_cpu() - cpu;
}

static void *run_jobs(void *context) {
  struct worker *w = context;
  pthread_mutex_lock(&w->mutex);
  while (w->busy || !w->ends) {
    if (!w->busy) {
      pthread_cond_wait(&w->changed, &w->mutex);
      continue;
    }
    pthread_mutex_unlock(&w->mutex); /* nobody touches a job under way */
    do_job(w);
    pthread_mutex_lock(&w->mutex);
    w->busy = false;
  }
  pthread_mutex_unlock(&w->mutex);
  return NULL;
}

struct worker *worker_create(const int *cores, int n_cores) {
  struct worker *w = MEM_NEW(struct worker, 1);
  w->n_cores = cores ? n_cores : 0;
  w->cores = MEM_NEW(int, w->n_cores);
  for (int i = 0; i < w->n_cores; i++) w->cores[i] = cores[i];
  pthread_mutex_init(&w->mutex, NULL);
  pthread_cond_init(&w->changed, NULL);
  return w;
}

/* A worker that shares a core with the thread that gave it a job takes its part of the time. It must not interrupt
 * that thread as soon as the job is given: work beside compute would stop compute. Real-time threads keep their
 * class, in which equals do not interrupt each other. */
static void lower_thread(pthread_t thread) {
  int policy;
  struct sched_param param;
  if (pthread_getschedparam(thread, &policy, &param) == 0 && policy == SCHED_OTHER)
    pthread_setschedparam(thread, SCHED_BATCH, &param);
}

/* Signals are for the main thread. */
static void start_thread(struct worker *w) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  w->has_thread = pthread_create(&w->thread, NULL, run_jobs, w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!w->has_thread) return;
  lower_thread(w->thread);
  if (!w->n_cores) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < w->n_cores; i++) CPU_SET(w->cores[i], &set);
  pthread_setaffinity_np(w->thread, sizeof set, &set);
}

void worker_begin(struct worker *w, void (*job)(void *context), void *context) {
  if (!w->has_thread) start_thread(w);
  pthread_mutex_lock(&w->mutex);
  CHECK(!w->busy, "a job begins before the one before has ended");
  w->job = job;
  w->context = context;
  if (w->has_thread)
    w->busy = true;
  else
    do_job(w);
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

bool worker_test(struct worker *w, double *start, double *end) {
  pthread_mutex_lock(&w->mutex);
  bool done = !w->busy;
  *start = done ? w->start : 0;
  *end = done ? w->end : 0;
  pthread_mutex_unlock(&w->mutex);
  return done;
}

double worker_get_cpu(const struct worker *w) { return w->cpu; }

void worker_destroy(struct worker **worker) {
  struct worker *w = *worker;
  if (!w) return;
  if (w->has_thread) {
    pthread_mutex_lock(&w->mutex);
    w->ends = true; /* a job that has not begun yet is done first */
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
  }
  pthread_mutex_destroy(&w->mutex);
  pthread_cond_destroy(&w->changed);
  mem_free(w->cores);
  mem_free(w);
  *worker = NULL;
}
