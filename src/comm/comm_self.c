/* A communicator of this rank alone. */
#include <stdlib.h>

#include <mpi.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

struct comm *comm_create_self(struct comm *parent) {
  struct comm *comm = MEM_NEW(struct comm, 1);
  const char *host = comm_get_host(parent, parent->rank);
  comm->parent = parent;
  comm->size = comm->node_size = 1;
  COMM_MPI(MPI_Comm_dup(MPI_COMM_SELF, &comm->messages));
  COMM_MPI(MPI_Comm_dup(MPI_COMM_SELF, &comm->group));
  COMM_MPI(MPI_Comm_dup(MPI_COMM_SELF, &comm->control));
  COMM_MPI(MPI_Comm_dup(MPI_COMM_SELF, &comm->node));
  comm->node_of = MEM_NEW(int, 1);
  comm->hosts = mem_strdup(host);
  comm->host_offsets = MEM_NEW(int64_t, 2);
  comm->piece_bytes = parent->piece_bytes;
  comm->busy_polling = parent->busy_polling;
  comm->wait.fruitless = INT64_MAX;
  comm->sent = MEM_NEW(int64_t, 1);
  comm->received = MEM_NEW(int64_t, 1);
  watchdog_open_all(comm);
  return comm;
}

void comm_destroy_self(struct comm **address) {
  struct comm *comm = *address;
  if (!comm) return;
  CHECK(comm->open_requests == 0, "%lld messages were begun and not completed", (long long)comm->open_requests);
  watchdog_close_all(comm);
  COMM_MPI(MPI_Comm_free(&comm->node));
  COMM_MPI(MPI_Comm_free(&comm->control));
  COMM_MPI(MPI_Comm_free(&comm->group));
  COMM_MPI(MPI_Comm_free(&comm->messages));
  mem_free(comm->node_of);
  mem_free(comm->hosts);
  mem_free(comm->host_offsets);
  mem_free(comm->sent);
  mem_free(comm->received);
  mem_free(comm);
  *address = NULL;
}
