/* How it decides. A rank that has waited for half the timeout asks all others, again and again, how long they have
 * waited themselves. From 0.95 of the timeout on it judges: a rank that has not answered for 0.4 of it is silent; when
 * all answer and each has waited for long, nothing moves; in both cases the job ends. While some rank works, the wait
 * goes on. Since a rank's last progress no more than the timeout passes before the verdict. A rank that is asked by a
 * lower one leaves the asking to it, so one rank judges.
 *
 * Messages to a rank that is stopped or dead may never complete: nothing here waits for one. What silent ranks did last
 * is read from memory that the ranks of a node share, on other nodes by their neighbours.
 */
#include "comm/watchdog.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mpi.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

/* Shares of the timeout. */
#define ASK_FROM 0.5
#define ASK_EVERY 0.125
#define JUDGE_FROM 0.95
#define SILENT_AFTER 0.4
#define FRESH_WITHIN 0.2
#define STUCK_AFTER 0.3

#define NOTE_EVERY 0.1    /* seconds between notes of what is waited for */
#define HOOK_SECONDS 10   /* for writing what can be saved */
#define GRACE_SECONDS 2.0 /* for the others' hooks, before the job is ended */
#define LEAVE_SECONDS 5.0 /* of a rank that was told the verdict, should nobody end it */

enum { TEXT_BYTES = 4096, HEADLINE_BYTES = 1024, SENTENCE_BYTES = 512, SILENT_LISTED = 4 };

enum notice { NOTICE_ASK = 1, NOTICE_ANSWER, NOTICE_VERDICT, NOTICE_SAID, NOTICE_DONE };

/* Where a rank is. Written by it alone; others read it from shared memory as it happens to be, which is good enough for
 * a message to people. */
struct place {
  int64_t step; /* -1 before the first note */
  int64_t pid;
  uint64_t pid_space; /* pids mean the same in processes with the same number here */
  double waited;      /* seconds without progress in a wait */
  int32_t peer;       /* waited for, -1: not one rank */
  char node[64], what[COMM_WAIT_BYTES];
};

struct answer {
  struct place own;
  int32_t mate; /* rank of the next one on the node */
  struct place mates;
};

struct verdict {
  int32_t speaker, status; /* exit status of the job */
  char headline[HEADLINE_BYTES], text[TEXT_BYTES];
};

struct peer {
  MPI_Request ask, answer;
  struct answer outgoing, incoming;
  double answered_at; /* on the clock of waits */
  bool answered, done;
};

struct watchdog {
  double timeout;
  void (*hook)(void *context, const char *reason);
  void *context;
  MPI_Win window;
  struct place *place;
  struct place **mates; /* [node rank] */
  struct peer *peers;   /* [rank] */
  bool asking, ending, said;
  double asked_at, deferred_until, noted_at; /* on the clock of waits */
};

static _Noreturn void follow_verdict(struct comm *comm, int asker);

/* ---- the shared places ---- */

/* Copies a text; one that is too long ends after a whole word, with dots. */
static void copy_text(char *to, size_t bytes, const char *from) {
  static const char dots[] = " ...";
  size_t n = strnlen(from, bytes);
  bool cut = n == bytes;
  if (cut) {
    n = bytes - sizeof dots;
    while (n > 0 && from[n] != ' ') n--;
  }
  memcpy(to, from, n);
  memcpy(to + n, cut ? dots : "", cut ? sizeof dots : 1);
}

void watchdog_open_all(struct comm *comm) {
  struct watchdog *dog = MEM_NEW(struct watchdog, 1);
  comm->watchdog = dog;
  dog->peers = MEM_NEW(struct peer, comm->size);
  for (int r = 0; r < comm->size; r++) dog->peers[r].ask = dog->peers[r].answer = MPI_REQUEST_NULL;
  dog->mates = MEM_NEW(struct place *, comm->node_size);
  COMM_MPI(MPI_Win_allocate_shared(sizeof *dog->place, 1, MPI_INFO_NULL, comm->node, &dog->place, &dog->window));
  struct stat space;
  *dog->place = (struct place){.step = -1, .peer = -1, .pid = getpid()};
  if (stat("/proc/self/ns/pid", &space) == 0) dog->place->pid_space = (uint64_t)space.st_ino;
  for (int r = 0; r < comm->node_size; r++) {
    MPI_Aint bytes;
    int unit;
    COMM_MPI(MPI_Win_shared_query(dog->window, r, &bytes, &unit, &dog->mates[r]));
  }
  COMM_MPI(MPI_Barrier(comm->node));
}

void watchdog_close_all(struct comm *comm) {
  struct watchdog *dog = comm->watchdog;
  watchdog_poll(comm);
  for (int r = 0; r < comm->size; r++) {
    if (dog->peers[r].ask != MPI_REQUEST_NULL) comm_finish(comm, &dog->peers[r].ask, "all ranks to end");
    if (dog->peers[r].answer != MPI_REQUEST_NULL) comm_finish(comm, &dog->peers[r].answer, "all ranks to end");
  }
  COMM_MPI(MPI_Win_free(&dog->window));
  mem_free(dog->mates);
  mem_free(dog->peers);
  mem_free(dog);
  comm->watchdog = NULL;
}

void watchdog_set_timeout(struct comm *comm, double seconds) { comm->watchdog->timeout = seconds; }

void watchdog_set_hook(struct comm *comm, void (*hook)(void *context, const char *reason), void *context) {
  comm->watchdog->hook = hook;
  comm->watchdog->context = context;
}

void watchdog_note(struct comm *comm, int64_t step, const char *node) {
  struct place *place = comm->watchdog->place;
  place->step = step;
  copy_text(place->node, sizeof place->node, node);
  watchdog_progress(comm);
}

/* ---- messages ---- */

/* False while an earlier notice is on its way. An error is the other rank's end, which is what we are about to find
 * out. */
static bool is_free(MPI_Request *request) {
  int done = 1;
  if (*request == MPI_REQUEST_NULL) return true;
  if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return true;
  return done;
}

static void send_notice(struct comm *comm, int to, enum notice notice, MPI_Request *request, const void *data,
                        size_t bytes) {
  MPI_Request unwatched;
  if (!request) request = &unwatched;
  if (MPI_Isend(data, (int)bytes, MPI_BYTE, to, notice, comm->control, request) != MPI_SUCCESS)
    *request = MPI_REQUEST_NULL;
}

static void send_answer(struct comm *comm, int asker) {
  struct watchdog *dog = comm->watchdog;
  struct peer *peer = &dog->peers[asker];
  if (!is_free(&peer->answer)) return;
  int mate = (comm->node_rank + 1) % comm->node_size;
  peer->outgoing = (struct answer){.own = *dog->place, .mate = -1, .mates = *dog->mates[mate]};
  for (int r = 0, seen = 0; r < comm->size; r++)
    if (comm->node_of[r] == comm->node_of[comm->rank] && seen++ == mate) peer->outgoing.mate = r;
  send_notice(comm, asker, NOTICE_ANSWER, &peer->answer, &peer->outgoing, sizeof peer->outgoing);
}

static void receive_notice(struct comm *comm, int from, enum notice notice) {
  struct watchdog *dog = comm->watchdog;
  struct peer *peer = &dog->peers[from];
  if (notice == NOTICE_VERDICT && !dog->ending) follow_verdict(comm, from);
  struct verdict unused;
  void *into = notice == NOTICE_ANSWER ? (void *)&peer->incoming : (void *)&unused;
  size_t room = notice == NOTICE_ANSWER ? sizeof peer->incoming : sizeof unused;
  COMM_MPI(MPI_Recv(into, (int)room, MPI_BYTE, from, notice, comm->control, MPI_STATUS_IGNORE));
  switch (notice) {
  case NOTICE_ASK:
    if (from < comm->rank) dog->deferred_until = comm->wait.clock + 1.5 * ASK_EVERY * dog->timeout;
    send_answer(comm, from);
    break;
  case NOTICE_ANSWER:
    peer->answered = true;
    peer->answered_at = comm->wait.clock;
    break;
  case NOTICE_SAID: dog->said = true; break;
  case NOTICE_DONE: peer->done = true; break;
  case NOTICE_VERDICT: /* two ranks judged at once */
    send_notice(comm, from, NOTICE_SAID, NULL, NULL, 0);
    send_notice(comm, from, NOTICE_DONE, NULL, NULL, 0);
    break;
  }
}

static void receive_notices(struct comm *comm) {
  for (;;) {
    int there = 0;
    MPI_Status status;
    COMM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm->control, &there, &status));
    if (!there) return;
    receive_notice(comm, status.MPI_SOURCE, (enum notice)status.MPI_TAG);
  }
}

void watchdog_poll(struct comm *comm) {
  for (; comm; comm = comm->parent) receive_notices(comm);
}

/* ---- the text ---- */

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t bytes, const char *format, ...) {
  size_t used = strlen(text);
  va_list list;
  va_start(list, format);
  vsnprintf(text + used, bytes - used, format, list);
  va_end(list);
}

static bool is_silent(const struct comm *comm, int rank) {
  const struct watchdog *dog = comm->watchdog;
  return rank != comm->rank && comm->wait.clock - dog->peers[rank].answered_at >= SILENT_AFTER * dog->timeout;
}

/* Finds where a silent rank was last seen; false when nothing is known. */
static bool find_place(const struct comm *comm, int rank, struct place *place) {
  const struct watchdog *dog = comm->watchdog;
  int node_rank = 0;
  for (int r = 0; r < rank; r++) node_rank += comm->node_of[r] == comm->node_of[rank];
  if (comm->node_of[rank] == comm->node_of[comm->rank]) {
    *place = *dog->mates[node_rank];
    return true;
  }
  for (int r = 0; r < comm->size; r++) {
    const struct peer *peer = &dog->peers[r];
    if (r == comm->rank || !peer->answered || peer->incoming.mate != rank || is_silent(comm, r)) continue;
    *place = peer->incoming.mates;
    return true;
  }
  *place = dog->peers[rank].incoming.own;
  return dog->peers[rank].answered;
}

/* Returns what the system says of a process on this node, "" when it is alive or the system does not tell. */
static const char *get_process_state(const struct comm *comm, int rank, const struct place *place) {
  if (comm->node_of[rank] != comm->node_of[comm->rank] || place->pid_space != comm->watchdog->place->pid_space)
    return "";
  char path[64], line[512] = "";
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)place->pid);
  FILE *file = fopen(path, "r");
  if (!file) return "; its process is gone";
  if (!fgets(line, sizeof line, file)) line[0] = '\0';
  fclose(file);
  const char *name_end = strrchr(line, ')'); /* the state follows the name in brackets */
  char state = name_end && name_end[1] ? name_end[2] : '?';
  if (state == 'Z' || state == 'X') return "; its process is gone";
  return state == 'T' || state == 't' ? "; its process is stopped" : "";
}

static void describe_place(char *text, size_t bytes, const struct place *place) {
  if (place->step < 0)
    append(text, bytes, "before the first step");
  else
    append(text, bytes, "in step %lld, %.*s", (long long)place->step, (int)sizeof place->node, place->node);
}

static void describe_silent(const struct comm *comm, int rank, char *text, size_t bytes) {
  struct place place;
  append(text, bytes, "rank %d (%s) gives no answer, ", rank, comm_get_host(comm, rank));
  if (!find_place(comm, rank, &place)) {
    append(text, bytes, "nothing is known of where it was");
    return;
  }
  append(text, bytes, "last seen ");
  describe_place(text, bytes, &place);
  append(text, bytes, "%s", get_process_state(comm, rank, &place));
}

/* One sentence: who waits for whom, for what, for how long. */
static void describe_waiting(const struct comm *comm, int rank, char *text, size_t bytes) {
  const struct watchdog *dog = comm->watchdog;
  const struct place *place = rank == comm->rank ? dog->place : &dog->peers[rank].incoming.own;
  append(text, bytes, "\n  rank %d (%s) ", rank, comm_get_host(comm, rank));
  describe_place(text, bytes, place);
  append(text, bytes, ": waits for ");
  if (place->peer >= 0) append(text, bytes, "rank %d: ", place->peer);
  append(text, bytes, "%.*s, for %.0f s", (int)sizeof place->what, place->what[0] ? place->what : "what comes next",
         place->waited);
}

/* Adds a rank's sentence where the ranks before have theirs, whole or not at all; true when it is there. */
static bool list_waiting(const struct comm *comm, int rank, bool all_listed, struct verdict *verdict) {
  enum { LAST_LINE = 48 };
  char sentence[SENTENCE_BYTES] = "";
  size_t used = strlen(verdict->text);
  if (!all_listed) return false;
  describe_waiting(comm, rank, sentence, sizeof sentence);
  if (used + strlen(sentence) + LAST_LINE > sizeof verdict->text) return false;
  append(verdict->text, sizeof verdict->text, "%s", sentence);
  return true;
}

static void write_verdict(const struct comm *comm, struct verdict *verdict) {
  const struct watchdog *dog = comm->watchdog;
  int n_silent = 0, n_waiting = 0, n_listed = 0;
  memset(verdict, 0, sizeof *verdict);
  verdict->speaker = comm->rank;
  verdict->status = STATUS_FAILED;
  for (int r = 0; r < comm->size; r++) {
    if (!is_silent(comm, r)) {
      if (r < verdict->speaker) verdict->speaker = r;
      n_listed += list_waiting(comm, r, n_waiting++ == n_listed, verdict);
    } else if (++n_silent <= SILENT_LISTED) {
      if (n_silent > 1) append(verdict->headline, sizeof verdict->headline, ", ");
      describe_silent(comm, r, verdict->headline, sizeof verdict->headline);
    }
  }
  char *headline = verdict->headline;
  size_t bytes = sizeof verdict->headline;
  if (n_silent > SILENT_LISTED) append(headline, bytes, ", and %d more", n_silent - SILENT_LISTED);
  if (n_silent == 0) append(headline, bytes, "all ranks wait for each other");
  append(headline, bytes, " (no progress for run.hang_timeout, %g s)", dog->timeout);
  if (n_waiting > n_listed)
    append(verdict->text, sizeof verdict->text, "\n  and %d more ranks wait", n_waiting - n_listed);
}

/* ---- the verdict ---- */

/* A hook that hangs, in a collective write for one, must not keep the job. */
static void run_hook(struct watchdog *dog, const char *reason) {
  if (!dog->hook) return;
  deadline_set(HOOK_SECONDS, STATUS_FAILED);
  dog->hook(dog->context, reason);
  deadline_clear();
}

static void say(const struct verdict *verdict) { log_error("%s%s", verdict->headline, verdict->text); }

static void send_verdict(struct comm *comm, const struct verdict *verdict) {
  for (int r = 0; r < comm->size; r++)
    if (r != comm->rank) send_notice(comm, r, NOTICE_VERDICT, NULL, verdict, sizeof *verdict);
}

static bool all_done(const struct comm *comm) {
  for (int r = 0; r < comm->size; r++)
    if (r != comm->rank && !is_silent(comm, r) && !comm->watchdog->peers[r].done) return false;
  return true;
}

/* The verdict lives to the end: it is on its way to ranks that never read it. */
static _Noreturn void deliver_verdict(struct comm *comm, const struct verdict *verdict) {
  struct watchdog *dog = comm->watchdog;
  dog->ending = true;
  dog->said = verdict->speaker == comm->rank;
  if (dog->said) say(verdict);
  send_verdict(comm, verdict);
  run_hook(dog, verdict->headline);
  for (double end = clock_now() + GRACE_SECONDS; clock_now() < end && !all_done(comm);) {
    watchdog_poll(comm);
    clock_sleep(1e-3);
  }
  if (!dog->said) say(verdict);
  comm_abort(comm, verdict->status);
}

/* Called on the rank that judged. The lowest rank that answers prints the verdict, so that the line also gets into rank
 * 0's log file. */
static _Noreturn void pass_verdict(struct comm *comm) {
  struct verdict *verdict = MEM_NEW(struct verdict, 1);
  write_verdict(comm, verdict);
  deliver_verdict(comm, verdict);
}

_Noreturn void watchdog_end_job(struct comm *comm, int status, const char *reason) {
  struct verdict *verdict = MEM_NEW(struct verdict, 1);
  verdict->status = status;
  size_t n = sizeof verdict->headline - 1;
  snprintf(verdict->headline, sizeof verdict->headline, "%s", reason); /* the text goes on where it ends */
  if (strlen(reason) > n) copy_text(verdict->text, sizeof verdict->text, reason + n);
  /* Nobody was asked yet, so nobody is silent. */
  for (int r = 0; r < comm->size; r++) comm->watchdog->peers[r].answered_at = INFINITY;
  deliver_verdict(comm, verdict);
}

/* Called on a rank that receives the verdict. */
static _Noreturn void follow_verdict(struct comm *comm, int asker) {
  struct watchdog *dog = comm->watchdog;
  struct verdict verdict;
  dog->ending = true;
  COMM_MPI(MPI_Recv(&verdict, (int)sizeof verdict, MPI_BYTE, asker, NOTICE_VERDICT, comm->control, MPI_STATUS_IGNORE));
  if (verdict.speaker == comm->rank) {
    say(&verdict);
    send_notice(comm, asker, NOTICE_SAID, NULL, NULL, 0);
  }
  run_hook(dog, verdict.headline);
  send_notice(comm, asker, NOTICE_DONE, NULL, NULL, 0);
  for (double end = clock_now() + LEAVE_SECONDS; clock_now() < end;) {
    watchdog_poll(comm); /* moves the two notices on */
    clock_sleep(1e-3);
  }
  comm_abort(comm, verdict.status);
}

/* ---- asking ---- */

void watchdog_progress(struct comm *comm) {
  struct watchdog *dog = comm->watchdog;
  comm->wait.waited = 0;
  if (!dog) return; /* not yet, while MPI starts */
  dog->asking = false;
  dog->place->waited = 0;
  dog->noted_at = comm->wait.clock;
}

static void ask_others(struct comm *comm) {
  struct watchdog *dog = comm->watchdog;
  double now = comm->wait.clock;
  if (!dog->asking)
    for (int r = 0; r < comm->size; r++) dog->peers[r].answered_at = now;
  else if (now - dog->asked_at < ASK_EVERY * dog->timeout)
    return;
  dog->asking = true;
  dog->asked_at = now;
  for (int r = 0; r < comm->size; r++)
    if (r != comm->rank && is_free(&dog->peers[r].ask)) send_notice(comm, r, NOTICE_ASK, &dog->peers[r].ask, NULL, 0);
}

/* True when the job has to end. */
static bool judge(struct comm *comm) {
  struct watchdog *dog = comm->watchdog;
  bool sure = true, moving = false;
  for (int r = 0; r < comm->size; r++) {
    if (r == comm->rank) continue;
    if (is_silent(comm, r)) return true;
    if (comm->wait.clock - dog->peers[r].answered_at > FRESH_WITHIN * dog->timeout) sure = false;
    if (dog->peers[r].incoming.own.waited < STUCK_AFTER * dog->timeout) moving = true;
  }
  if (!sure) return false;
  if (moving) comm->wait.waited = ASK_FROM * dog->timeout;
  return !moving;
}

void watchdog_tick(struct comm *comm, int peer, const char *what) {
  struct watchdog *dog = comm->watchdog;
  const struct comm_wait *wait = &comm->wait;
  struct place *place = dog->place;
  if (wait->clock - dog->noted_at > NOTE_EVERY) {
    dog->noted_at = wait->clock;
    place->waited = wait->waited;
    place->peer = peer;
    copy_text(place->what, sizeof place->what, what);
  }
  if (!(dog->timeout > 0) || dog->ending) return;
  if (wait->waited < ASK_FROM * dog->timeout || wait->clock < dog->deferred_until) {
    dog->asking = false;
    return;
  }
  ask_others(comm);
  if (wait->waited >= JUDGE_FROM * dog->timeout && judge(comm)) pass_verdict(comm);
}
