/* Messages and waiting. */
#include "comm/comm.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

/* Large messages need many calls to move on, so after each completed piece the wait first polls without sleeping. */
#define HOT_SECONDS 200e-6
#define SLEEP_SHORTEST 50e-6
#define SLEEP_LONGEST 1e-3
#define ROUND_LONGEST 0.5
#define READ_SECONDS 0.5
enum { TAG_LIMIT = 1 << 27, ABORT_SECONDS = 2 };

/* Cut into pieces of piece_bytes. The last piece is always shorter than that, empty if need be: so a message of another
 * size than asked for shows itself in the first piece that differs, never as a wait without end. */
struct comm_request {
  struct comm *comm;
  bool is_send, is_counted;
  int peer, tag;
  int64_t bytes, piece_bytes, n_pieces, n_done;
  MPI_Request *pieces;
  MPI_Request one; /* pieces points here when there is one */
};

void comm_check_mpi(int code, const char *call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  MPI_Error_string(code, text, &length);
  error_die(__FILE__, __LINE__, "MPI failed in %s: %s", call, text);
}

/* ---- the end of the job ---- */

_Noreturn void comm_abort(struct comm *comm, int status) {
  (void)comm;
  fflush(NULL);
  /* MPI_Abort may wait for ranks that are gone. */
  deadline_set(ABORT_SECONDS, status);
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  log_wait_read(READ_SECONDS);
  if (begun && !ended) {
    /* The message has been printed; the library's own line about the abort would only hide it. */
    if (!freopen("/dev/null", "w", stderr)) close(STDERR_FILENO);
    MPI_Abort(MPI_COMM_WORLD, status);
  }
  _exit(status);
}

/* ---- messages ---- */

void comm_set_piece(struct comm *comm, int64_t bytes) {
  CHECK(bytes >= 1 && bytes <= INT_MAX, "a piece of %lld bytes", (long long)bytes);
  comm->piece_bytes = bytes;
}

static int64_t piece_size(const struct comm_request *request, int64_t i) {
  return i + 1 < request->n_pieces ? request->piece_bytes : request->bytes - i * request->piece_bytes;
}

static int post_piece(enum comm_post_kind kind, void *part, int count, int peer, int tag, MPI_Comm where,
                      MPI_Request *piece) {
  switch (kind) {
  case COMM_SEND: return MPI_Isend(part, count, MPI_BYTE, peer, tag, where, piece);
  case COMM_SEND_SYNC: return MPI_Issend(part, count, MPI_BYTE, peer, tag, where, piece);
  case COMM_RECEIVE: break;
  }
  return MPI_Irecv(part, count, MPI_BYTE, peer, tag, where, piece);
}

struct comm_request *comm_post(struct comm *comm, MPI_Comm where, enum comm_post_kind kind, int peer, int tag,
                               void *data, int64_t bytes) {
  CHECK(peer >= 0 && peer < comm->size, "message with rank %d of %d", peer, comm->size);
  CHECK(tag >= 0 && tag < TAG_LIMIT, "tag %d is not below 2^27", tag);
  CHECK(bytes >= 0, "message of %lld bytes", (long long)bytes);
  struct comm_request *request = MEM_NEW(struct comm_request, 1);
  request->comm = comm;
  request->is_send = kind != COMM_RECEIVE;
  request->is_counted = where == comm->messages;
  request->peer = peer;
  request->tag = tag;
  request->bytes = bytes;
  request->piece_bytes = comm->piece_bytes;
  request->n_pieces = bytes / comm->piece_bytes + 1;
  request->pieces = request->n_pieces == 1 ? &request->one : MEM_NEW(MPI_Request, request->n_pieces);
  /* All pieces at once: a later message with this tag must not come between them. */
  for (int64_t i = 0; i < request->n_pieces; i++) {
    char *part = data ? (char *)data + i * request->piece_bytes : NULL;
    int count = (int)piece_size(request, i);
    COMM_MPI(post_piece(kind, part, count, peer, tag, where, &request->pieces[i]));
  }
  if (request->is_counted) (request->is_send ? comm->sent : comm->received)[peer]++;
  comm->open_requests++;
  return request;
}

struct comm_request *comm_send_begin(struct comm *comm, int peer, int tag, const void *data, int64_t bytes) {
  /* MPI only reads from it. */
  return comm_post(comm, comm->messages, COMM_SEND, peer, tag, (void *)(uintptr_t)data, bytes);
}

struct comm_request *comm_send_begin_sync(struct comm *comm, int peer, int tag, const void *data, int64_t bytes) {
  return comm_post(comm, comm->messages, COMM_SEND_SYNC, peer, tag, (void *)(uintptr_t)data, bytes);
}

struct comm_request *comm_receive_begin(struct comm *comm, int peer, int tag, void *data, int64_t bytes) {
  return comm_post(comm, comm->messages, COMM_RECEIVE, peer, tag, data, bytes);
}

/* `count` is the length of the piece that came, -1 when only known to be too long. */
static _Noreturn void die_of_size(const struct comm_request *request, int64_t count) {
  const char *more = count > piece_size(request, request->n_done) || count < 0 ? "at least " : "";
  int64_t came = request->n_done * request->piece_bytes + count;
  if (count < 0) came = request->bytes + 1;
  if (request->n_pieces == 1 && count > request->bytes && count < request->piece_bytes) more = "";
  error_die(__FILE__, __LINE__, "message from rank %d with tag %d: %lld bytes asked for, %s%lld sent", request->peer,
            request->tag, (long long)request->bytes, more, (long long)came);
}

/* The next round of waiting is the first of a new wait, whatever the caller counts. */
static void note_progress(struct comm *comm) {
  comm->wait.fruitless = INT64_MAX;
  watchdog_progress(comm);
}

/* Tests the first open piece. */
static bool test_piece(struct comm_request *request) {
  MPI_Status status;
  int done = 0, class = MPI_SUCCESS, count = 0;
  int code = MPI_Test(&request->pieces[request->n_done], &done, &status);
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  if (class == MPI_ERR_TRUNCATE && !request->is_send) {
    int wanted = (int)piece_size(request, request->n_done);
    MPI_Get_count(&status, MPI_BYTE, &count);
    die_of_size(request, count > wanted ? count : -1);
  }
  COMM_MPI(code);
  if (!done) return false;
  if (!request->is_send) {
    COMM_MPI(MPI_Get_count(&status, MPI_BYTE, &count));
    if (count != piece_size(request, request->n_done)) die_of_size(request, count);
  }
  request->n_done++;
  note_progress(request->comm);
  return true;
}

bool comm_test(struct comm_request **request) {
  struct comm_request *r = *request;
  while (r->n_done < r->n_pieces)
    if (!test_piece(r)) return false;
  r->comm->open_requests--;
  if (r->pieces != &r->one) mem_free(r->pieces);
  mem_free(r);
  *request = NULL;
  return true;
}

/* ---- waiting ---- */

static void wait_round(struct comm *comm, int64_t fruitless, int peer, const char *what) {
  struct comm_wait *wait = &comm->wait;
  double now = clock_now();
  if (fruitless <= wait->fruitless) {
    wait->began = wait->last_round = now;
    watchdog_progress(comm);
  }
  wait->fruitless = fruitless;
  double round = now - wait->last_round;
  if (round > ROUND_LONGEST) round = ROUND_LONGEST;
  wait->last_round = now;
  wait->waited += round;
  wait->clock += round;
  if (comm->busy_polling && now - wait->began < HOT_SECONDS) return;
  watchdog_poll(comm);
  watchdog_tick(comm, peer, what);
  double sleep = (now - wait->began) / 4;
  clock_sleep(sleep < SLEEP_SHORTEST ? SLEEP_SHORTEST : sleep > SLEEP_LONGEST ? SLEEP_LONGEST : sleep);
}

void comm_back_off(struct comm *comm, int peer, int64_t fruitless, const char *what) {
  wait_round(comm, fruitless, peer, what);
}

void comm_wait(struct comm *comm, struct comm_request **request, const char *what) {
  for (int64_t fruitless = 0; !comm_test(request); fruitless++) wait_round(comm, fruitless, (*request)->peer, what);
}

void comm_finish(struct comm *comm, MPI_Request *request, const char *what) {
  int done = 0;
  for (int64_t fruitless = 0;; fruitless++) {
    COMM_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) break;
    wait_round(comm, fruitless, -1, what);
  }
  note_progress(comm);
}

void comm_poll(struct comm *comm) { watchdog_poll(comm); }
