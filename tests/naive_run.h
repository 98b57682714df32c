/* Runs a graph by the rules of dag.h and nothing else, one node after the other: a node may go when it heads its stream
 * and all its edges are done; a message needs both ends (blocking) or its send first (eager). Slow and simple on
 * purpose.
 */
#ifndef PENSTOCK_TESTS_NAIVE_RUN_H
#define PENSTOCK_TESTS_NAIVE_RUN_H

#include "dag/dag.h"

struct naive_run {
  const struct dag *dag;
  bool blocking;        /* the ends of a message go together, and so do all N */
  const double *length; /* [n_nodes] seconds */
  double *start, *end;  /* [n_nodes] */
  bool *done;
  int32_t *head; /* [n_ranks*STREAM_COUNT] next of each stream */
};

struct naive_run *naive_run_create(const struct dag *dag, const double *length, bool blocking);
void naive_run_destroy(struct naive_run **run);
bool naive_run_is_partner(const struct dag *dag, int32_t a, int32_t b);

/* Goes on until nothing can; returns the number of nodes done. */
int32_t naive_run_go(struct naive_run *run);

#endif
