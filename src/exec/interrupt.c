#include "exec/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#define INTERRUPT_STOPPING(X)                                                                                          \
  X(SIGTERM)                                                                                                           \
  X(SIGUSR1)                                                                                                           \
  X(SIGINT)

static volatile sig_atomic_t received; /* number of the first stopping signal, 0 before */

static void note_signal(int number) {
  if (!received) received = number;
}

static void set_action(int number, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART; /* a stop request must not break a write in mid-file */
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

void interrupt_init(void) {
#define SET(name) set_action(name, note_signal);
  INTERRUPT_STOPPING(SET)
#undef SET
  set_action(SIGXFSZ, SIG_IGN);
  set_action(SIGPIPE, SIG_IGN);
  set_action(SIGCONT, SIG_IGN); /* batch systems send it together with the others */
}

const char *interrupt_get_signal(void) {
  switch (received) {
#define NAME(name)                                                                                                     \
  case name: return #name;
    INTERRUPT_STOPPING(NAME)
#undef NAME
  default: return NULL;
  }
}
