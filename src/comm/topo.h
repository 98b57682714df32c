/* The share of its node's cores and memory that belongs to this rank, as the system has them: variables that let hwloc
 * read another machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT) are for other programs. */
#ifndef PENSTOCK_COMM_TOPO_H
#define PENSTOCK_COMM_TOPO_H

#include <stdint.h>

struct comm;

struct topo {
  int *cores;                 /* OS numbers of the cores this rank should use; owned */
  int n_cores;                /* >= 1 */
  int node_cores;             /* cores this job may use on this node */
  int oversubscribed;         /* 1 when the node has fewer cores than ranks */
  int64_t memory_share_bytes; /* this rank's share of the smaller of cgroup limit and available memory of the node, and
                               * no more than what limits on the process (ulimit -v, -d) leave it for its device */
  int limited;                /* 1 when that is what the limits on the process leave */
};

/* Collective over all ranks. Respects the binding the launcher gave: when ranks of the node have disjoint masks each
 * uses its own; when several have the same one, its cores (one hardware thread a core) are divided among them by rank
 * in contiguous runs; masks that overlap otherwise are used whole. The memory limits of a node are divided by its
 * ranks. Returns a status, the same on all ranks. */
int topo_init_all(struct comm *comm, struct topo *topo);
void topo_fini(struct topo *topo);

/* Smaller of the memory available on this machine and the limits of this process's control groups (v1 and v2), bytes;
 * INT64_MAX when neither is known. `root` is put before the system's paths: "" outside tests. */
int64_t topo_read_memory(const char *root);

#endif
