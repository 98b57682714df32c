/* A job that goes wrong in the way its first argument names, for test_watchdog.sh:
 *   hang_helper [CASE [SECONDS [RANK [MARK]]]]
 * SECONDS is the hang timeout (10). Each step passes a message round the ring of ranks; in step 5 the case happens, on
 * RANK (2) or on all ranks. Without a case the job ends well. MARK only makes the processes known to who started them.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "t.h"

enum { STEPS = 8, BAD_STEP = 5 };

struct job {
  struct comm *comm;
  double seconds, bad_step_began;
  int rank, size, bad_rank;
};

static void end_well(struct job *job) { (void)job; }

static void stop(struct job *job) {
  (void)job;
  raise(SIGSTOP);
}

/* As a batch system that suspends all of a job and continues it later. */
static void pause_job(struct job *job) {
  pid_t self = getpid();
  fflush(NULL);
  if (fork() == 0) {
    clock_sleep(2 * job->seconds);
    kill(self, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

static void leave(struct job *job) {
  (void)job;
  _exit(3);
}

static void die(struct job *job) {
  (void)job;
  raise(SIGKILL);
}

/* Long work that polls is no hang, however long the others wait. */
static void work(struct job *job) {
  for (double end = clock_now() + 2.5 * job->seconds; clock_now() < end; clock_sleep(0.01)) comm_poll(job->comm);
}

/* Hangs on a communicator of its own. */
static void work_alone(struct job *job) {
  struct comm *self = comm_create_self(job->comm);
  for (double end = clock_now() + 2.5 * job->seconds; clock_now() < end; clock_sleep(0.01)) comm_poll(self);
  comm_barrier_all(self);
  comm_destroy_self(&self);
}

/* Work that never polls is taken for one. */
static void work_deaf(struct job *job) { clock_sleep(3 * job->seconds); }

static void fail_check(struct job *job) { CHECK(job->rank < 0, "the sum is %d", 7); }

/* All ranks wait for messages that nobody sends. */
static void deadlock(struct job *job) {
  char byte;
  struct comm_request *receive = comm_receive_begin(job->comm, (job->rank + 1) % job->size, 9, &byte, 1);
  comm_wait(job->comm, &receive, "the gradient of micro-batch 3");
}

/* What is waited for takes more words than there is room for. */
static void deadlock_wordy(struct job *job) {
  char byte, what[400] = "the gradient";
  for (size_t n = strlen(what); n + 24 < sizeof what; n = strlen(what)) strcat(what, " of which there are many");
  struct comm_request *receive = comm_receive_begin(job->comm, (job->rank + 1) % job->size, 9, &byte, 1);
  comm_wait(job->comm, &receive, what);
}

/* All ranks send before they receive: fine where messages are buffered. */
static void send_first(struct job *job, bool synchronous) {
  char out = 1, in = 0;
  int next = (job->rank + 1) % job->size, previous = (job->rank + job->size - 1) % job->size;
  struct comm_request *send =
      synchronous ? comm_send_begin_sync(job->comm, next, 9, &out, 1) : comm_send_begin(job->comm, next, 9, &out, 1);
  comm_wait(job->comm, &send, "its one byte to be received");
  struct comm_request *receive = comm_receive_begin(job->comm, previous, 9, &in, 1);
  comm_wait(job->comm, &receive, "the one byte");
  T_CHECK(in == 1, "got %d", in);
}

static void send_buffered(struct job *job) { send_first(job, false); }
static void send_synchronously(struct job *job) { send_first(job, true); }

/* Bytes that rank 2 sends to rank 3, which asks for 3000. */
static void send_wrong(struct job *job, int64_t bytes) {
  static char data[5000];
  comm_set_piece(job->comm, 1000);
  struct comm_request *request = NULL;
  if (job->rank == 2) request = comm_send_begin(job->comm, 3, 9, data, bytes);
  if (job->rank == 3) request = comm_receive_begin(job->comm, 2, 9, data, 3000);
  if (request) comm_wait(job->comm, &request, "a message of the wrong size");
}

static void send_shorter(struct job *job) { send_wrong(job, 2000); }
static void send_longer(struct job *job) { send_wrong(job, 3001); }

/* A message that nobody receives is found when the job closes. */
static void send_lost(struct job *job) {
  char byte = 0;
  struct comm_request *send = comm_send_begin(job->comm, 0, 9, &byte, 1);
  comm_wait(job->comm, &send, "a lost message");
}

static const struct {
  const char *name;
  void (*act)(struct job *job);
  bool everywhere; /* on all ranks, not only rank 2 */
} cases[] = {
    {"end", end_well, false},
    {"stop", stop, false},
    {"exit", leave, false},
    {"kill", die, false},
    {"work", work, false},
    {"alone", work_alone, false},
    {"pause", pause_job, true},
    {"deaf", work_deaf, false},
    {"check", fail_check, false},
    {"deadlock", deadlock, true},
    {"wordy", deadlock_wordy, true},
    {"shorter", send_shorter, true},
    {"longer", send_longer, true},
    {"lost", send_lost, false},
    {"buffered", send_buffered, true},
    {"sync", send_synchronously, true},
};

/* Passes a message on to the next rank. */
static void run_step(struct job *job, int step, void (*act)(struct job *job), bool here) {
  char node[64];
  snprintf(node, sizeof node, "B stage %d micro-batch %d", job->rank, step % 3);
  watchdog_note(job->comm, step, node);
  if (step == BAD_STEP) job->bad_step_began = clock_now();
  if (here && step == BAD_STEP) act(job);
  int previous = (job->rank + job->size - 1) % job->size, next = (job->rank + 1) % job->size, in = -1;
  struct comm_request *receive = comm_receive_begin(job->comm, previous, 1, &in, sizeof in);
  struct comm_request *send = comm_send_begin(job->comm, next, 1, &step, sizeof step);
  comm_wait(job->comm, &receive, "the ring's message");
  comm_wait(job->comm, &send, "the ring's message to go out");
  T_CHECK(in == step, "got step %d in step %d", in, step);
}

static void tell_reason(void *context, const char *reason) {
  const struct job *job = context;
  double seconds = clock_now() - job->bad_step_began;
  log_rank("hook %s: %s", seconds < job->seconds + 0.5 ? "in time" : "too late", reason);
}

int main(int argc, char **argv) {
  struct job job = {.seconds = argc > 2 ? strtod(argv[2], NULL) : 10,
                    .bad_rank = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 2};
  size_t chosen = 0;
  for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++)
    if (strcmp(argv[1], cases[i].name) == 0) chosen = i;
  interrupt_init();
  int status = comm_open_all(&argc, &argv, argc > 1 && strcmp(argv[1], "single") == 0, &job.comm);
  if (status != STATUS_OK) {
    log_error("%s", error_text());
    return status;
  }
  job.rank = comm_get_rank(job.comm);
  job.size = comm_get_size(job.comm);
  watchdog_set_timeout(job.comm, job.seconds);
  watchdog_set_hook(job.comm, tell_reason, &job);
  for (int step = 0; step < STEPS; step++)
    run_step(&job, step, cases[chosen].act, cases[chosen].everywhere || job.rank == job.bad_rank);
  comm_close_all(&job.comm);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
