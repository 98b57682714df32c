/* Signals that ask a run to stop, those that must not end it, and products under a rain of signals. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/interrupt.h"
#include "base/pool.h"
#include "kernels.h"
#include "t.h"

/* Runs `body` in a process of its own, since the first signal stays noted; its wait status. */
static int run_child(int (*body)(const void *context), const void *context) {
  pid_t child = fork();
  if (child == 0) _exit(body(context));
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

struct sent {
  int first, second; /* 0: none */
  const char *name;  /* of the request that is noted, NULL: none */
};

static int note_signals(const void *context) {
  const struct sent *s = context;
  interrupt_init();
  if (interrupt_get_signal()) return 1;
  kill(getpid(), s->first);
  if (s->second) kill(getpid(), s->second);
  const char *got = interrupt_get_signal();
  return !got != !s->name || (got && strcmp(got, s->name) != 0) ? 2 : 0;
}

/* A hangup that the program was started to ignore is no request, whatever a library makes of it afterwards. */
static void never_run(int number) { _exit(100 + number); }
static int ignore_hangup(const void *context) {
  (void)context;
  signal(SIGHUP, SIG_IGN);
  interrupt_init();
  signal(SIGHUP, never_run);
  raise(SIGHUP);
  return interrupt_get_signal() ? 1 : 0;
}

/* A file over the limit and a pipe without reader give errors, not signals. */
static int try_writes(const void *context) {
  (void)context;
  interrupt_init();
  struct rlimit limit = {4, 4};
  int ends[2], file = open(".", O_TMPFILE | O_RDWR, 0600);
  if (pipe(ends) != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
  if (file >= 0 && (write(file, "1234", 4) != 4 || write(file, "5", 1) != -1 || errno != EFBIG)) return 2;
  close(ends[0]);
  if (write(ends[1], "1", 1) != -1 || errno != EPIPE) return 3;
  return interrupt_get_signal() ? 4 : 0;
}

/* A soft limit on CPU time asks; the hard one, 10 s later, would kill. */
static int use_time(const void *context) {
  (void)context;
  struct rlimit limit = {1, 11};
  interrupt_init();
  if (setrlimit(RLIMIT_CPU, &limit)) return 1;
  while (!interrupt_get_signal())
    if (clock() > 8 * CLOCKS_PER_SEC) return 2;
  return strcmp(interrupt_get_signal(), "SIGXCPU") ? 3 : 0;
}

static void handle(int number) { (void)number; }

/* What a tool installs is found, but not what cannot run on a computing thread's stack. */
static int find_handlers(const void *context) {
  (void)context;
  char names[64];
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  interrupt_init();
  signal(SIGSEGV, handle);
  signal(SIGUSR1, handle);
  sigaction(SIGIO, &action, NULL);
  if (interrupt_find_handlers(names, sizeof names)) return 1;
  signal(SIGPROF, handle);
  signal(SIGRTMIN + 2, handle);
  if (!interrupt_find_handlers(names, sizeof names)) return 2;
  return strstr(names, "SIGPROF") && strstr(names, "signal 36") ? 0 : 3;
}

/* ---- products under signals ---- */

enum { M = 128, N = 200, K = 96, RAIN_SIGNALS = 2000 };

static void multiply(struct pool *pool, const float *a, const float *b, float *c) {
  matmul_cpu(pool, false, false, M, N, K, a, K, b, N, 0, c, N);
}

/* Multiplies for a second. Each result has new memory, so that a damaged heap shows. */
static int compute_in_rain(const void *context) {
  const int *ready = context;
  float *a = malloc(sizeof(float) * M * K), *b = malloc(sizeof(float) * K * N), *first = malloc(sizeof(float) * M * N);
  for (int i = 0; i < M * K; i++) a[i] = (float)(i % 7);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i % 5);
  interrupt_init();
  matmul_init_cpu();
  struct pool *pool = pool_create(1, NULL, 0);
  multiply(pool, a, b, first);
  if (write(ready[1], "1", 1) != 1) return 1;
  for (double start = clock_now(); clock_now() - start < 1;) {
    float *c = malloc(sizeof(float) * M * N);
    multiply(pool, a, b, c);
    if (memcmp(c, first, sizeof(float) * M * N)) return 2;
    free(c);
  }
  return interrupt_get_signal() ? 0 : 3;
}

/* Exit code of a process that multiplies while signals come some microseconds apart. */
static int rain(void) {
  int ready[2], status = -1;
  char byte;
  if (pipe(ready)) return -1;
  pid_t child = fork();
  if (child == 0) _exit(compute_in_rain(ready));
  close(ready[1]);
  static const int signals[] = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP, SIGXCPU, SIGCONT};
  if (read(ready[0], &byte, 1) == 1)
    for (int i = 0; i < RAIN_SIGNALS; i++) {
      kill(child, signals[i % 7]);
      clock_sleep(100e-6 + 1e-6 * (double)(i * 37 % 400));
    }
  waitpid(child, &status, 0);
  close(ready[0]);
  return status;
}

/* ---- deadlines ---- */

static int meet_deadline(const void *context) {
  (void)context;
  deadline_set(0.2, 1);
  deadline_clear();
  clock_sleep(0.4);
  deadline_set(60, 2);
  deadline_set(0.1, 3);
  clock_sleep(30);
  return 4;
}

int main(void) {
  static const struct sent cases[] = {{SIGTERM, 0, "SIGTERM"}, {SIGUSR1, SIGTERM, "SIGUSR1"}, {SIGINT, 0, "SIGINT"},
                                      {SIGUSR2, 0, "SIGUSR2"}, {SIGXCPU, SIGXCPU, "SIGXCPU"}, {SIGHUP, 0, "SIGHUP"},
                                      {SIGCONT, 0, NULL},      {SIGPIPE, SIGXFSZ, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = run_child(note_signals, &cases[i]);
    T_CHECK(status == 0, "signals %d, %d: status %x", cases[i].first, cases[i].second, status);
  }
  const struct {
    const char *name;
    int (*body)(const void *);
    int wanted;
  } others[] = {{"an ignored hangup", ignore_hangup, 0},
                {"writes", try_writes, 0},
                {"CPU time", use_time, 0},
                {"handlers", find_handlers, 0},
                {"a deadline", meet_deadline, 3 << 8}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    int status = run_child(others[i].body, NULL);
    T_CHECK(status == others[i].wanted, "%s: status %x", others[i].name, status);
  }
  int status = rain();
  T_CHECK(status == 0, "products under signals: status %x", status);
  printf("%s, which %s the stack pointer on this CPU\n", matmul_get_library(),
         matmul_moves_stack() ? "moves" : "keeps");
  return t_end();
}
