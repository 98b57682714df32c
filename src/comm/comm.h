/* Messages between ranks. This folder alone knows MPI; no MPI type appears here.
 *
 * Every wait polls (test, then back off from busy polling to 1 ms sleeps; busy polling only while this node has at
 * least as many cores as ranks) and is bounded by the hang timeout, after which the watchdog names the silent rank and
 * ends the job. Functions ending in _all are collective over all ranks; the others may be called by one rank alone. All
 * calls come from one thread.
 */
#ifndef PENSTOCK_COMM_COMM_H
#define PENSTOCK_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;
struct comm_request;

/* Starts MPI; signal handlers must already be in place. Also sets the rank of the log and the abort hook of the error
 * module. A process that is rank 0 of 1 although its launcher started several tasks (PMI_SIZE, OMPI_COMM_WORLD_SIZE,
 * PALS_SIZE or SLURM_NTASKS, the first that is set, above 1) is refused with STATUS_MISTAKE and the repair, unless
 * allow_single (--single). On failure MPI is ended and *comm NULL. */
int comm_open_all(int *argc, char ***argv, bool allow_single, struct comm **comm);
/* Waits for all ranks, ends MPI. Open requests, and messages sent but never received, are a bug (CHECK). NULL is
 * allowed. */
void comm_close_all(struct comm **comm);
/* Ends the whole job at once with this exit status, from one rank. Whoever calls has printed the message; prints
 * nothing. Returns never, even when other ranks are gone. `comm` may be NULL. */
_Noreturn void comm_abort(struct comm *comm, int status);

/* A communicator of this rank alone, as rank 0 of 1, for work beside the others (verify). Waits and comm_poll on it
 * answer the parent's watchdog too. Not collective; destroyed before comm_close_all. */
struct comm *comm_create_self(struct comm *parent);
void comm_destroy_self(struct comm **comm);

int comm_get_rank(const struct comm *comm);
int comm_get_size(const struct comm *comm);
int comm_get_node_size(const struct comm *comm);
int comm_get_node(const struct comm *comm, int rank); /* first rank of the node of `rank`: equal on one node */
/* Host name of a rank (owned by comm); known on all ranks after comm_open_all. */
const char *comm_get_host(const struct comm *comm, int rank);
/* "MPICH 4.0.2", static. */
const char *comm_get_library(void);
/* Seconds to add to this rank's clock_now() to get rank 0's, measured at open by ping-pong (0 on the same node). */
double comm_get_clock_offset(const struct comm *comm);

/* Longest message sent in one piece, bytes (default 1 MiB; longer ones go in pieces in order, and each piece that
 * arrives keeps the wait from sleeping); the same on all ranks, set while no message is open. */
void comm_set_piece(struct comm *comm, int64_t bytes);

/* ---- point to point. `tag` is 0..2^27-1; messages of one pair with one tag arrive in the order sent. Buffers belong
 * to the caller and must stay until the request is complete. ---- */
struct comm_request *comm_send_begin(struct comm *comm, int peer, int tag, const void *data, int64_t bytes);
/* Like comm_send_begin, but nothing is buffered: the request is complete only when the other rank has begun to
 * receive it, however short it is. */
struct comm_request *comm_send_begin_sync(struct comm *comm, int peer, int tag, const void *data, int64_t bytes);
struct comm_request *comm_receive_begin(struct comm *comm, int peer, int tag, void *data, int64_t bytes);
/* True when complete; then the request is freed and *request is NULL. Never blocks. A message of another size than
 * asked for ends the job with a message that names both. */
bool comm_test(struct comm_request **request);
/* Room for what is waited for; what is longer is cut off. */
enum { COMM_WAIT_BYTES = 192 };
/* Waits. `what` is what is waited for, for the watchdog's sentence "rank 1 ...: waits for rank 2: WHAT, for 8 s": a
 * noun with its article and no verb of waiting. */
void comm_wait(struct comm *comm, struct comm_request **request, const char *what);
/* Lets messages move and answers the watchdog of others; call it often during long work. Cheap. */
void comm_poll(struct comm *comm);
/* One round of waiting: `fruitless` counts the rounds without any progress so far (0 begins a wait; so does a request
 * completed by comm_test); sleeps accordingly. When nothing moves on any rank for the hang timeout, or a rank is
 * silent, the watchdog ends the job. `what` as in comm_wait; peer: the rank that it is waited of, -1: not one. */
void comm_back_off(struct comm *comm, int peer, int64_t fruitless, const char *what);

/* ---- collective ---- */
void comm_barrier_all(struct comm *comm);
void comm_broadcast_all(struct comm *comm, int root, void *data, int64_t bytes);
/* Every rank gives `bytes` (may differ); all get all parts in rank order in `out`, offsets[size+1] filled in. With out
 * NULL only offsets are filled in (one exchange of sizes). */
void comm_gather_all(struct comm *comm, const void *data, int64_t bytes, void *out, int64_t *offsets);
/* Like comm_gather_all, but only root receives and its `out` alone counts; offsets may be NULL where they are not
 * wanted. */
void comm_gather_root_all(struct comm *comm, int root, const void *data, int64_t bytes, void *out, int64_t *offsets);
/* The ranks agree on one status: OK when all are; else the status and message of the first failing rank (before one
 * that only stopped) become everyone's, to be printed by rank 0 alone. error_text() then begins with that rank and its
 * host, unless it is rank 0. */
int comm_agree_all(struct comm *comm, int status);

/* Before MPI is started: this process's rank as its launcher says, when the launcher itself started it; 0 without a
 * launcher, and in a script that the launcher started. */
int comm_find_launched_rank(void);
/* The rank that a launcher gave this process, or a script that it runs in, as the variables of the environment have it;
 * 0 without one. Who speaks for all before MPI starts. */
int comm_guess_rank(void);

#endif
