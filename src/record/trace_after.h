/* Finds the node whose end let a node start from the times of a measured step: the edges that a trace keeps. Only for
 * trace.c.
 */
#ifndef PENSTOCK_RECORD_TRACE_AFTER_H
#define PENSTOCK_RECORD_TRACE_AFTER_H

#include "record/trace_rows.h"

struct trace_span;

/* Returns what a rank knows by itself: the node that ended last among those before v on this rank, that is, those of
 * its edges and the one before it on its stream; -1: none. spans[i] is that of node rank_offset[rank] + i. */
int32_t trace_after_find(const struct dag *dag, const struct trace_span *spans, int32_t rank, int32_t v);

/* Does what needs the rows of all ranks of a step: a receive that was posted before its send began comes after the
 * send; the norms of all ranks come after what let the last of them start. The rows are in the order of their nodes;
 * nothing when some are missing. */
void trace_after_settle(struct node_row *rows, int64_t n);

#endif
