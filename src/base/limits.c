#include "base/limits.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"

/* MPICH 4.0 has a frame of some 130 kB in MPI_Init, and kernels keep tiles on the stack: 920 kB for heads of 256. MPI
 * and a run of few ranks have 34 files open at once; a blend of token files, spill files and more ranks on the node
 * take more. UCX shares memory in files of 4 MiB. */
static const struct limit {
  int resource, number; /* number: the error of who meets it, 0: there is none */
  const char *option, *unit, *what;
  rlim_t unit_bytes, least,
      wanted; /* in what getrlimit counts; no job runs with less than `least`; 0: nothing is raised */
} limits[] = {
    {RLIMIT_NOFILE, EMFILE, "-n", "", "open files", 1, 36, 1024},
    {RLIMIT_STACK, 0, "-s", " kB", "the stack", 1024, 1 << 20, 8 << 20},
    {RLIMIT_FSIZE, EFBIG, "-f", " kB", "the size of files", 1024, 0, 0},
};
enum { SHARED_FILE_BYTES = 5 << 20 };

enum { N_LIMITS = sizeof limits / sizeof *limits };

/* The soft limit, raised when it is lower than what is wanted and may be. */
static rlim_t raise_limit(const struct limit *limit) {
  struct rlimit now;
  if (getrlimit((__rlimit_resource_t)limit->resource, &now)) return RLIM_INFINITY;
  rlim_t before = now.rlim_cur, most = limit->wanted < now.rlim_max ? limit->wanted : now.rlim_max;
  if (before >= most) return before;
  now.rlim_cur = most;
  return setrlimit((__rlimit_resource_t)limit->resource, &now) ? before : most;
}

/* The C library took the stacks of new threads from the limit as it was when the process began. */
static void raise_thread_stacks(void) {
  struct rlimit now;
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (getrlimit(RLIMIT_STACK, &now) || now.rlim_cur == RLIM_INFINITY || pthread_getattr_default_np(&attributes)) return;
  pthread_attr_getstacksize(&attributes, &bytes);
  if (bytes < now.rlim_cur && !pthread_attr_setstacksize(&attributes, now.rlim_cur))
    pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

int limits_prepare(void) {
  for (int i = 0; i < N_LIMITS; i++) {
    const struct limit *limit = &limits[i];
    rlim_t now = raise_limit(limit);
    if (now >= limit->least) continue;
    return error_raise(STATUS_MISTAKE,
                       "the limit on %s is too low for MPI and a run: ulimit %s is %lld%s, at least %lld%s are needed; "
                       "raise it (ulimit %s %lld)",
                       limit->what, limit->option, (long long)(now / limit->unit_bytes), limit->unit,
                       (long long)(limit->least / limit->unit_bytes), limit->unit, limit->option,
                       (long long)(limit->wanted / limit->unit_bytes));
  }
  raise_thread_stacks();
  return STATUS_OK;
}

const char *limits_warn_of_files(void) {
  static char text[192];
  struct rlimit now;
  text[0] = '\0';
  if (getrlimit(RLIMIT_FSIZE, &now) == 0 && now.rlim_cur < SHARED_FILE_BYTES)
    snprintf(text, sizeof text,
             "the limit on the size of files is low (ulimit -f is %lld kB): MPI may not start, as it shares memory in "
             "files of "
             "some MB; raise it (ulimit -f unlimited)",
             (long long)(now.rlim_cur / 1024));
  return text;
}

const char *limits_reason(int number) {
  static _Thread_local char text[128];
  int used = snprintf(text, sizeof text, "%s", strerror(number));
  for (int i = 0; i < N_LIMITS; i++) {
    struct rlimit now;
    if (limits[i].number != number || number == 0) continue;
    if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) || now.rlim_cur == RLIM_INFINITY) continue;
    snprintf(text + used, sizeof text - (size_t)used, " (ulimit %s is %lld%s)", limits[i].option,
             (long long)(now.rlim_cur / limits[i].unit_bytes), limits[i].unit);
  }
  return text;
}
