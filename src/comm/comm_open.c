/* Starting and ending MPI, and what is learnt of the other ranks at the start. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

enum { PIECE_BYTES = 1 << 20, TAG_NEEDED = (1 << 27) - 1, CLOCK_ROUNDS = 10, HOST_BYTES = 256 };

/* The variables that say how many tasks were started, and by whom; the first that is set was started last and counts.
 */
static const struct {
  const char *variable, *repair;
} launchers[] = {
    {"PMI_SIZE", "use the mpiexec that belongs to this MPI, or srun --mpi=pmi2"},
    {"OMPI_COMM_WORLD_SIZE", "that is Open MPI's mpirun: use the mpiexec that belongs to this MPI"},
    {"PALS_SIZE", "use the mpiexec that belongs to this MPI, or build with the MPI of this system's launcher"},
    {"SLURM_NTASKS", "use srun --mpi=pmi2 (srun --mpi=list shows what there is), or mpiexec"},
};

const char *comm_get_library(void) {
  static char name[64];
  if (name[0]) return name;
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  char version[32] = "";
  /* "MPICH Version:\t4.0.2\nMPICH Release date: ..." */
  if (sscanf(text, "MPICH Version: %31s", version) == 1)
    snprintf(name, sizeof name, "MPICH %s", version);
  else
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "\n,"), text);
  return name;
}

static int check_launcher(int size, bool allow_single) {
  if (size > 1 || allow_single) return STATUS_OK;
  for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
    const char *text = getenv(launchers[i].variable);
    if (!text) continue;
    long tasks = strtol(text, NULL, 10);
    if (tasks <= 1) return STATUS_OK;
    return error_raise(STATUS_MISTAKE,
                       "the launcher says %ld tasks (%s), MPI (%s) says 1, so every task would run alone: %s; "
                       "for a run on one rank on purpose give --single",
                       tasks, launchers[i].variable, comm_get_library(), launchers[i].repair);
  }
  return STATUS_OK;
}

static void abort_job(int status) { comm_abort(NULL, status); }

static void check_tag_limit(void) {
  int *limit = NULL, found = 0;
  COMM_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found));
  CHECK(found && *limit >= TAG_NEEDED, "this MPI (%s) has tags up to %d only, %d are needed", comm_get_library(),
        found ? *limit : 0, TAG_NEEDED);
}

/* Ranks of this node, and for every rank the first rank of its node. */
static void find_nodes(struct comm *comm) {
  COMM_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &comm->node));
  COMM_MPI(MPI_Comm_set_errhandler(comm->node, MPI_ERRORS_RETURN));
  COMM_MPI(MPI_Comm_rank(comm->node, &comm->node_rank));
  COMM_MPI(MPI_Comm_size(comm->node, &comm->node_size));
  int first = comm->rank;
  COMM_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, comm->node));
  comm->node_of = MEM_NEW(int, comm->size);
  COMM_MPI(MPI_Allgather(&first, 1, MPI_INT, comm->node_of, 1, MPI_INT, comm->group));
}

/* Polling without sleep takes cores from others when ranks outnumber the cores that they may use together. */
static void choose_polling(struct comm *comm) {
  cpu_set_t own;
  CPU_ZERO(&own);
  /* Fails on machines with more cores than the set holds: then there are enough. */
  if (sched_getaffinity(0, sizeof own, &own) != 0) memset(&own, 0xff, sizeof own);
  cpu_set_t *sets = MEM_NEW(cpu_set_t, comm->node_size), all;
  COMM_MPI(MPI_Allgather(&own, sizeof own, MPI_BYTE, sets, sizeof own, MPI_BYTE, comm->node));
  CPU_ZERO(&all);
  for (int r = 0; r < comm->node_size; r++) CPU_OR(&all, &all, &sets[r]);
  comm->busy_polling = comm->node_size <= CPU_COUNT(&all);
  mem_free(sets);
}

static void gather_hosts(struct comm *comm) {
  char name[HOST_BYTES] = "";
  if (gethostname(name, sizeof name - 1) != 0 || !name[0]) snprintf(name, sizeof name, "unknown");
  int64_t bytes = (int64_t)strlen(name) + 1;
  comm->host_offsets = MEM_NEW(int64_t, comm->size + 1);
  comm_gather_all(comm, name, bytes, NULL, comm->host_offsets);
  comm->hosts = mem_alloc((size_t)comm->host_offsets[comm->size]);
  comm_gather_all(comm, name, bytes, comm->hosts, comm->host_offsets);
}

/* One message either way between rank 0 and `other`, ours first. */
static void exchange_time(struct comm *comm, int other, double *own, double *theirs) {
  struct comm_request *send = comm_post(comm, comm->group, COMM_SEND, other, 0, own, sizeof *own);
  struct comm_request *receive = comm_post(comm, comm->group, COMM_RECEIVE, other, 0, theirs, sizeof *theirs);
  comm_wait(comm, &receive, "the comparison of clocks");
  comm_wait(comm, &send, "the comparison of clocks");
}

/* Rank 0's side: answers each question with its time. */
static void answer_clock(struct comm *comm, int other) {
  for (int i = 0; i < CLOCK_ROUNDS; i++) {
    double theirs, now;
    struct comm_request *receive = comm_post(comm, comm->group, COMM_RECEIVE, other, 0, &theirs, sizeof theirs);
    comm_wait(comm, &receive, "the comparison of clocks");
    now = clock_now();
    struct comm_request *send = comm_post(comm, comm->group, COMM_SEND, other, 0, &now, sizeof now);
    comm_wait(comm, &send, "the comparison of clocks");
  }
}

/* The round trip that took least time leaves least doubt about when rank 0 looked at its clock. */
static double ask_clock(struct comm *comm) {
  double best = 1e30, offset = 0;
  for (int i = 0; i < CLOCK_ROUNDS; i++) {
    double before = clock_now(), theirs;
    exchange_time(comm, 0, &before, &theirs);
    double after = clock_now();
    if (after - before >= best) continue;
    best = after - before;
    offset = theirs - (before + after) / 2;
  }
  return offset;
}

/* The ranks of a node share one clock, so the first rank of each other node asks for all of them. */
static void compare_clocks(struct comm *comm) {
  if (comm->rank == 0) {
    for (int r = 1; r < comm->size; r++)
      if (comm->node_of[r] == r) answer_clock(comm, r);
  } else if (comm->node_of[comm->rank] == comm->rank) {
    comm->clock_offset = ask_clock(comm);
  }
  COMM_MPI(MPI_Bcast(&comm->clock_offset, 1, MPI_DOUBLE, 0, comm->node));
}

static struct comm *create_comm(void) {
  struct comm *comm = MEM_NEW(struct comm, 1);
  COMM_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)); /* the others inherit it */
  COMM_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &comm->rank));
  COMM_MPI(MPI_Comm_size(MPI_COMM_WORLD, &comm->size));
  log_init(comm->rank);
  error_set_abort(abort_job);
  check_tag_limit();
  COMM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm->messages));
  COMM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm->group));
  COMM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm->control));
  comm->piece_bytes = PIECE_BYTES;
  comm->wait.fruitless = INT64_MAX;
  comm->sent = MEM_NEW(int64_t, comm->size);
  comm->received = MEM_NEW(int64_t, comm->size);
  return comm;
}

int comm_open_all(int *argc, char ***argv, bool allow_single, struct comm **out) {
  *out = NULL;
  int provided = 0, size = 0;
  if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    return error_raise(STATUS_FAILED, "MPI (%s) does not start", comm_get_library());
  COMM_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  int status = check_launcher(size, allow_single);
  if (status == STATUS_OK && provided < MPI_THREAD_FUNNELED)
    status = error_raise(STATUS_FAILED, "this MPI (%s) is built without support for threads", comm_get_library());
  if (status != STATUS_OK) {
    MPI_Finalize();
    return status;
  }
  struct comm *comm = create_comm();
  find_nodes(comm);
  choose_polling(comm);
  watchdog_open_all(comm);
  gather_hosts(comm);
  compare_clocks(comm);
  *out = comm;
  return STATUS_OK;
}

/* Every message that was sent must have been received: one left over belongs to a wrong plan. */
static void check_balance(struct comm *comm) {
  CHECK(comm->open_requests == 0, "%lld messages were begun and not completed", (long long)comm->open_requests);
  int64_t *theirs = MEM_NEW(int64_t, comm->size);
  MPI_Request request;
  COMM_MPI(MPI_Ialltoall(comm->sent, 1, MPI_INT64_T, theirs, 1, MPI_INT64_T, comm->group, &request));
  comm_finish(comm, &request, "all ranks to end");
  for (int r = 0; r < comm->size; r++)
    CHECK(theirs[r] == comm->received[r], "rank %d sent %lld messages to this one, which received %lld", r,
          (long long)theirs[r], (long long)comm->received[r]);
  mem_free(theirs);
}

void comm_close_all(struct comm **address) {
  struct comm *comm = *address;
  if (!comm) return;
  check_balance(comm);
  comm_barrier_all(comm);
  watchdog_close_all(comm);
  COMM_MPI(MPI_Comm_free(&comm->node));
  COMM_MPI(MPI_Comm_free(&comm->control));
  COMM_MPI(MPI_Comm_free(&comm->group));
  COMM_MPI(MPI_Comm_free(&comm->messages));
  error_set_abort(NULL);
  mem_free(comm->node_of);
  mem_free(comm->hosts);
  mem_free(comm->host_offsets);
  mem_free(comm->sent);
  mem_free(comm->received);
  mem_free(comm);
  *address = NULL;
  COMM_MPI(MPI_Finalize());
}

int comm_get_rank(const struct comm *comm) { return comm->rank; }

int comm_get_size(const struct comm *comm) { return comm->size; }

int comm_get_node(const struct comm *comm, int rank) { return comm->node_of[rank]; }

int comm_get_node_size(const struct comm *comm) { return comm->node_size; }

const char *comm_get_host(const struct comm *comm, int rank) { return comm->hosts + comm->host_offsets[rank]; }

double comm_get_clock_offset(const struct comm *comm) { return comm->clock_offset; }
