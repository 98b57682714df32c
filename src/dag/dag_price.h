/* Seconds for every node of a graph: what the simulator and the timed device take from a plan. Serial. */
#ifndef PENSTOCK_DAG_DAG_PRICE_H
#define PENSTOCK_DAG_DAG_PRICE_H

#include "dag/dag.h"

struct cost;
struct model;

/* Fills in seconds[n_nodes] (the caller's). Compute nodes and updates take the sums over the stage's layers, a full
 * backward its input and its weight pass; a send takes the whole message, its receive 0; N what each rank does for the
 * global norm: the sums of its gradients, which without clip are in its updates, and the meeting. `plan` and `model`
 * are those that the graph was built from, and `cost` is for as many ranks. */
void dag_price(const struct dag *dag, const struct plan *plan, const struct model *model, const struct cost *cost,
               double *seconds);

/* dag_share.c: seconds[n_nodes] as they are alone become those of links that messages between stages and blocks of
 * activations share in each direction (cost_shares_link): of a message times 1 + c, of a block over 1 - min(m, 1/2), m
 * and c being the parts of its rank's working time in which messages and blocks are under way (on the busier of its two
 * ranks). dag_price has that in it. */
void dag_share_links(const struct dag *dag, double *seconds);

/* Layers between embedding and head that a rank holds, for the share factors of costs. */
int64_t dag_price_count_body(const struct plan *plan, const struct model *model, int32_t rank);

#endif
