#include "base/interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* SIGUSR2 is LSF's warning before its run limit and SGE's before its kill (-notify), SIGXCPU that of `ulimit -S -t`. */
#define INTERRUPT_STOPPING(X)                                                                                          \
  X(SIGTERM)                                                                                                           \
  X(SIGUSR1)                                                                                                           \
  X(SIGUSR2)                                                                                                           \
  X(SIGINT)                                                                                                            \
  X(SIGXCPU)                                                                                                           \
  X(SIGHUP)

static int received;    /* number of the first stopping signal, 0 before */
static sigset_t asked;  /* signals that are requests */
static bool is_started; /* they are blocked */

static void ignore(int number) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_IGN;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

void interrupt_init(void) {
  sigemptyset(&asked);
#define ADD(name) sigaddset(&asked, name);
  INTERRUPT_STOPPING(ADD)
#undef ADD
  pthread_sigmask(SIG_BLOCK, &asked, NULL);
  /* SIGHUP stays blocked all the same: UCX installs a handler for it. */
  struct sigaction before;
  if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN) sigdelset(&asked, SIGHUP);
  ignore(SIGXFSZ);
  ignore(SIGPIPE);
  ignore(SIGCONT); /* batch systems send it together with the others */
  is_started = true;
}

const char *interrupt_get_signal(void) {
  const struct timespec at_once = {0};
  if (!received && is_started) {
    int number = sigtimedwait(&asked, NULL, &at_once);
    if (number > 0) received = number;
  }
  switch (received) {
#define NAME(name)                                                                                                     \
  case name: return #name;
    INTERRUPT_STOPPING(NAME)
#undef NAME
  default: return NULL;
  }
}

/* The kernel sends these to the thread whose own instruction is at fault, which is lost then. */
static bool is_fault(int number) {
  return number == SIGILL || number == SIGTRAP || number == SIGABRT || number == SIGBUS || number == SIGFPE ||
         number == SIGSEGV || number == SIGSYS;
}

static bool has_handler(int number) {
  struct sigaction action;
  if (sigaction(number, NULL, &action)) return false; /* the C library's own */
  if (action.sa_flags & SA_ONSTACK) return false;
  return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool interrupt_find_handlers(char *names, size_t size) {
  sigset_t blocked;
  size_t used = 0;
  names[0] = '\0';
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  for (int number = 1; number <= SIGRTMAX; number++) {
    if (is_fault(number) || sigismember(&blocked, number) || !has_handler(number)) continue;
    const char *name = sigabbrev_np(number);
    if (used + 24 > size) break;
    used += (size_t)(name ? snprintf(names + used, size - used, "%sSIG%s", used ? ", " : "", name)
                          : snprintf(names + used, size - used, "%ssignal %d", used ? ", " : "", number));
  }
  return used > 0;
}
