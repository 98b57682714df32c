/* Signals that ask a run to stop, and those that must not end it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/interrupt.h"
#include "t.h"

/* In a process of its own, since the first signal stays noted: 0 when `first`, then `second`, is noted as `name`. */
static int try_signal(int first, int second, const char *name) {
  pid_t child = fork();
  if (child == 0) {
    interrupt_init();
    if (interrupt_get_signal()) _exit(1);
    raise(first);
    if (second) raise(second);
    const char *got = interrupt_get_signal();
    _exit(!got != !name || (got && strcmp(got, name) != 0) ? 2 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

/* A file over the limit and a pipe without reader give errors, not signals. */
static int try_writes(void) {
  pid_t child = fork();
  if (child == 0) {
    interrupt_init();
    struct rlimit limit = {4, 4};
    int ends[2], file = open(".", O_TMPFILE | O_RDWR, 0600);
    if (pipe(ends) != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    if (file >= 0 && (write(file, "1234", 4) != 4 || write(file, "5", 1) != -1 || errno != EFBIG)) _exit(2);
    close(ends[0]);
    if (write(ends[1], "1", 1) != -1 || errno != EPIPE) _exit(3);
    _exit(interrupt_get_signal() ? 4 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int main(void) {
  T_CHECK(try_signal(SIGTERM, 0, "SIGTERM") == 0, "SIGTERM");
  T_CHECK(try_signal(SIGUSR1, SIGTERM, "SIGUSR1") == 0, "SIGUSR1, then SIGTERM");
  T_CHECK(try_signal(SIGINT, 0, "SIGINT") == 0, "SIGINT");
  T_CHECK(try_signal(SIGCONT, 0, NULL) == 0, "SIGCONT");
  T_CHECK(try_signal(SIGPIPE, SIGXFSZ, NULL) == 0, "SIGPIPE and SIGXFSZ");
  int status = try_writes();
  T_CHECK(status == 0, "writes: status %x", status);
  return t_end();
}
