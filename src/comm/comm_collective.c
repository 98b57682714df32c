/* Collectives: non-blocking MPI under our own waiting, since blocking MPI calls keep a core busy. */
#include <stdio.h>
#include <string.h>

#include <mpi.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

void comm_barrier_all(struct comm *comm) {
  MPI_Request request;
  COMM_MPI(MPI_Ibarrier(comm->group, &request));
  comm_finish(comm, &request, "all ranks at a barrier");
}

void comm_broadcast_all(struct comm *comm, int root, void *data, int64_t bytes) {
  char what[48];
  snprintf(what, sizeof what, comm->rank == root ? "all ranks in a broadcast" : "a broadcast from rank %d", root);
  for (int64_t done = 0; done < bytes;) {
    int64_t count = bytes - done < comm->piece_bytes ? bytes - done : comm->piece_bytes;
    MPI_Request request;
    COMM_MPI(MPI_Ibcast((char *)data + done, (int)count, MPI_BYTE, root, comm->group, &request));
    comm_finish(comm, &request, what);
    done += count;
  }
}

/* Where each rank's part begins; true when `root` (any rank, if negative) wants the parts, not just their sizes. */
static bool exchange_sizes(struct comm *comm, int root, int64_t bytes, bool wanted, int64_t *offsets) {
  CHECK(bytes >= 0, "a part of %lld bytes", (long long)bytes);
  int64_t own[2] = {bytes, wanted};
  int64_t *all = MEM_NEW(int64_t, 2 * comm->size);
  MPI_Request request;
  COMM_MPI(MPI_Iallgather(own, 2, MPI_INT64_T, all, 2, MPI_INT64_T, comm->group, &request));
  comm_finish(comm, &request, "all ranks in a gather");
  offsets[0] = 0;
  for (int r = 0; r < comm->size; r++) offsets[r + 1] = offsets[r] + all[2 * r];
  bool any = all[2 * (root < 0 ? comm->rank : root) + 1];
  mem_free(all);
  return any && offsets[comm->size] > 0;
}

/* Counts and places as MPI wants them, for a total of at most one piece. */
static int *make_counts(const struct comm *comm, const int64_t *offsets) {
  int *counts = MEM_NEW(int, 2 * comm->size);
  for (int r = 0; r < comm->size; r++) {
    counts[r] = (int)(offsets[r + 1] - offsets[r]);
    counts[comm->size + r] = (int)offsets[r];
  }
  return counts;
}

void comm_gather_all(struct comm *comm, const void *data, int64_t bytes, void *out, int64_t *offsets) {
  if (!exchange_sizes(comm, -1, bytes, out != NULL, offsets)) return;
  if (offsets[comm->size] > comm->piece_bytes) {
    if (bytes > 0) memcpy((char *)out + offsets[comm->rank], data, (size_t)bytes);
    for (int r = 0; r < comm->size; r++)
      comm_broadcast_all(comm, r, (char *)out + offsets[r], offsets[r + 1] - offsets[r]);
    return;
  }
  int *counts = make_counts(comm, offsets);
  MPI_Request request;
  COMM_MPI(
      MPI_Iallgatherv(data, (int)bytes, MPI_BYTE, out, counts, counts + comm->size, MPI_BYTE, comm->group, &request));
  comm_finish(comm, &request, "all ranks in a gather");
  mem_free(counts);
}

/* Parts too large for one MPI call go as messages. */
static void gather_by_messages(struct comm *comm, int root, const void *data, int64_t bytes, char *out,
                               const int64_t *offsets) {
  const char *what = "the parts of a gather";
  if (comm->rank != root) {
    struct comm_request *send = comm_post(comm, comm->group, COMM_SEND, root, 0, (void *)(uintptr_t)data, bytes);
    comm_wait(comm, &send, what);
    return;
  }
  for (int r = 0; r < comm->size; r++) {
    int64_t part = offsets[r + 1] - offsets[r];
    if (r == root) {
      if (part > 0) memcpy(out + offsets[r], data, (size_t)part);
      continue;
    }
    struct comm_request *receive = comm_post(comm, comm->group, COMM_RECEIVE, r, 0, out + offsets[r], part);
    comm_wait(comm, &receive, what);
  }
}

void comm_gather_root_all(struct comm *comm, int root, const void *data, int64_t bytes, void *out, int64_t *offsets) {
  int64_t *own_offsets = offsets ? NULL : MEM_NEW(int64_t, comm->size + 1);
  int64_t *places = offsets ? offsets : own_offsets;
  if (exchange_sizes(comm, root, bytes, out != NULL, places)) {
    if (places[comm->size] > comm->piece_bytes) {
      gather_by_messages(comm, root, data, bytes, out, places);
    } else {
      int *counts = make_counts(comm, places);
      MPI_Request request;
      COMM_MPI(MPI_Igatherv(data, (int)bytes, MPI_BYTE, out, counts, counts + comm->size, MPI_BYTE, root, comm->group,
                            &request));
      comm_finish(comm, &request, "all ranks in a gather on one rank");
      mem_free(counts);
    }
  }
  mem_free(own_offsets);
}

/* The rank whose status counts: the lowest that failed, else the lowest that stopped, else -1. */
static int choose_failure(const int *statuses, int size) {
  int stopped = -1;
  for (int r = size - 1; r >= 0; r--)
    if (statuses[r] == STATUS_STOPPED) stopped = r;
  for (int r = 0; r < size; r++)
    if (statuses[r] != STATUS_OK && statuses[r] != STATUS_STOPPED) return r;
  return stopped;
}

int comm_agree_all(struct comm *comm, int status) {
  int *statuses = MEM_NEW(int, comm->size);
  MPI_Request request;
  COMM_MPI(MPI_Iallgather(&status, 1, MPI_INT, statuses, 1, MPI_INT, comm->group, &request));
  comm_finish(comm, &request, "all ranks to agree");
  int root = choose_failure(statuses, comm->size);
  int agreed = root < 0 ? STATUS_OK : statuses[root];
  mem_free(statuses);
  if (agreed == STATUS_OK) return STATUS_OK;
  char *text = NULL;
  int64_t bytes = 0;
  if (comm->rank == root) {
    text = root == 0 ? mem_strdup(error_text())
                     : mem_format("on rank %d (%s): %s", root, comm_get_host(comm, root), error_text());
    bytes = (int64_t)strlen(text) + 1;
  }
  comm_broadcast_all(comm, root, &bytes, sizeof bytes);
  if (!text) text = mem_alloc((size_t)bytes);
  comm_broadcast_all(comm, root, text, bytes);
  error_raise(agreed, "%s", text);
  mem_free(text);
  return agreed;
}
