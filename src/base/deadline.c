#include "base/deadline.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/clock.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool has_thread;       /* all under the mutex */
static double end = INFINITY; /* clock_now() */
static int exit_status;

/* Looks often enough to be on time for a deadline that is set while it sleeps. */
static void *watch(void *unused) {
  (void)unused;
  for (;;) {
    clock_sleep(0.05);
    pthread_mutex_lock(&mutex);
    if (clock_now() >= end) _exit(exit_status);
    bool rests = isinf(end);
    if (rests) has_thread = false;
    pthread_mutex_unlock(&mutex);
    if (rests) return NULL;
  }
}

/* Signals are for the main thread. */
static bool start_thread(void) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&thread, NULL, watch, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) pthread_detach(thread);
  return started;
}

void deadline_set(double seconds, int status) {
  pthread_mutex_lock(&mutex);
  end = clock_now() + seconds;
  exit_status = status;
  if (!has_thread) has_thread = start_thread();
  if (!has_thread) alarm((unsigned)ceil(seconds));
  pthread_mutex_unlock(&mutex);
}

void deadline_clear(void) {
  pthread_mutex_lock(&mutex);
  end = INFINITY;
  pthread_mutex_unlock(&mutex);
  alarm(0);
}
