/* Rows of the tables that plan.h5 and trace.h5 share, as structs. Columns are named as the members. */
#ifndef PENSTOCK_RECORD_TRACE_ROWS_H
#define PENSTOCK_RECORD_TRACE_ROWS_H

#include <stdint.h>

#include "dag/dag.h"

struct rows_table;

/* /nodes: an action of a rank; -1 where a number does not apply. Of a message, `stage` is this rank's and `peer` the
 * other rank. Times in seconds from the start of the step, rank 0's clock; NaN: not known. */
struct node_row {
  int32_t step, node, rank, position;
  int8_t stream, kind; /* enum stream, enum node_kind */
  int32_t stage, microbatch, layer, peer;
  int64_t bytes;
  int64_t device_alloc, device_free, host_alloc, host_free;
  double start_s, end_s;
  int32_t after; /* the node whose end let this one start, on any rank; -1: none, or not known (older files) */
  int32_t match; /* of a message the node of its other end, -1: none; not in files */
};

/* /peaks: bytes of one rank's pools at their highest, and what of them is held for the whole step. */
struct peak_row {
  int32_t step, rank; /* plan.h5 has no column step */
  int64_t device_bytes, host_bytes, disk_bytes;
  int64_t device_static_bytes, host_static_bytes;
};

/* /steps of trace.h5. */
struct step_row {
  int32_t step;
  double loss;
  int64_t tokens;
  double seconds, predicted_seconds; /* NaN: not predicted */
  int64_t plan_hash;                 /* the bits of attribute `hash` of plan.h5 */
  int32_t starts;                    /* 1: the first step after a start of the program; -1: not known (older files) */
};

const struct rows_table *trace_rows_get_nodes(void);
const struct rows_table *trace_rows_get_peaks(void);
const struct rows_table *trace_rows_get_plan_peaks(void);
const struct rows_table *trace_rows_get_steps(void);

/* The row of node i of a graph. */
struct node_row trace_rows_make_node(const struct dag *dag, int32_t i, int64_t step, double start_s, double end_s,
                                     int32_t after);

#endif
