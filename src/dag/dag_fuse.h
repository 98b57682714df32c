/* The graph as blocking communication sees it: the two ends of a message are one node, the N of all ranks are one node,
 * and streams go in order. Ordering and the deadlock check both walk this.
 */
#ifndef PENSTOCK_DAG_DAG_FUSE_H
#define PENSTOCK_DAG_DAG_FUSE_H

#include "dag/dag.h"

struct dag_fused {
  const struct dag *dag; /* borrowed */
  int32_t n_leaders;
  int32_t *leader;     /* [n_nodes] the node that stands for this one: a receive's send, N's first N, else itself */
  int64_t *out_offset; /* [n_nodes+1] into out: the leaders that follow a leader */
  int32_t *out;
  int32_t *n_in; /* [n_nodes] predecessors not yet sorted */
};

/* Makes the graph of the edges and the order of the compute streams, or of all streams. Owned by the caller. */
struct dag_fused *dag_fuse(const struct dag *dag, bool all_streams);
void dag_fused_destroy(struct dag_fused **fused);

/* Leaders in topological order (first come, first served) in order[n_nodes], once. Returns how many: n_leaders, unless
 * there is a cycle. */
int32_t dag_fused_sort(struct dag_fused *fused, int32_t *order);
/* After a sort that met a cycle: STATUS_FAILED with `what` and the nodes of one cycle. */
int dag_fused_raise_cycle(const struct dag_fused *fused, const char *what);

#endif
