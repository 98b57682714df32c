/* The share of its node's cores that belongs to this rank (hwloc). */
#ifndef PENSTOCK_COMM_TOPO_H
#define PENSTOCK_COMM_TOPO_H

struct comm;

struct topo {
  int *cores;      /* OS numbers of the cores this rank should use; owned */
  int n_cores;     /* >= 1 */
  int node_cores;  /* cores this job may use on this node */
  int oversubscribed; /* 1 when the node has fewer cores than ranks */
  long long memory_share_bytes; /* this rank's share of the smaller of cgroup limit and available memory of the node */
};

/* Collective over the ranks of a node. Respects the binding the launcher gave: when ranks of the node have disjoint masks
 * each uses its own; when they share one, its cores (one hardware thread a core) are divided by node rank in contiguous
 * runs. Returns a status. */
int topo_init_all(struct comm *comm, struct topo *topo);
void topo_fini(struct topo *topo);

#endif
