/* The communicator's inside, shared by the files of this folder. Nobody else includes it. */
#ifndef PENSTOCK_COMM_COMM_INTERNAL_H
#define PENSTOCK_COMM_COMM_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <mpi.h>

#include "comm/comm.h"

struct watchdog;

/* The wait this rank is in, or was in last. A round longer than a moment (a process that was suspended, a starved one)
 * counts as a moment, so that a job which its batch system stops and continues does not look hung afterwards. */
struct comm_wait {
  double began, last_round; /* clock_now() */
  double waited;            /* seconds without progress */
  double clock;             /* seconds of all waits, never set back: the watchdog's time */
  int64_t fruitless;        /* as of the last round */
};

struct comm {
  int rank, size, node_rank, node_size;
  MPI_Comm messages; /* point to point of the callers */
  MPI_Comm group;    /* collectives */
  MPI_Comm control;  /* the watchdog's */
  MPI_Comm node;     /* ranks of this node */
  int *node_of;      /* [rank] first rank of that rank's node */
  char *hosts;       /* the names, one after the other */
  int64_t *host_offsets;
  double clock_offset;
  int64_t piece_bytes;
  bool busy_polling; /* as many cores as ranks on this node */
  int64_t open_requests;
  int64_t *sent, *received; /* [rank] messages begun */
  struct comm_wait wait;
  struct comm *parent; /* of a communicator of one rank: the one it came from, else NULL */
  struct watchdog *watchdog;
};

/* Ends the job when an MPI call failed: with our own messages checked elsewhere that is a broken machine. */
#define COMM_MPI(call) comm_check_mpi((call), #call)
void comm_check_mpi(int code, const char *call);

/* Point to point on any communicator; comm_test and comm_wait end it. A synchronous send is complete only when its
 * receive has begun. */
enum comm_post_kind { COMM_RECEIVE, COMM_SEND, COMM_SEND_SYNC };
struct comm_request *comm_post(struct comm *comm, MPI_Comm where, enum comm_post_kind kind, int peer, int tag,
                               void *data, int64_t bytes);
/* Waits for one MPI request; `what` as in comm_wait. */
void comm_finish(struct comm *comm, MPI_Request *request, const char *what);

/* Creates and ends the watchdog's state. Collective over all ranks. */
void watchdog_open_all(struct comm *comm);
void watchdog_close_all(struct comm *comm);
/* Answers what other ranks ask. */
void watchdog_poll(struct comm *comm);
/* Something was completed: the time waited starts anew. */
void watchdog_progress(struct comm *comm);
/* One round of a wait for `peer` (-1: not one rank): asks others after half the timeout, ends the job when it is clear
 * that nothing moves. */
void watchdog_tick(struct comm *comm, int peer, const char *what);

#endif
