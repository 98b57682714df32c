/* Where sums of the seconds of ops stand: by kind of layer, op and pass. */
#ifndef PENSTOCK_EXEC_OP_TIMES_H
#define PENSTOCK_EXEC_OP_TIMES_H

#include "model/model.h"
#include "record/comparison.h"

/* Ops of kinds of layers, by pass. */
enum { OP_TIMES = LAYER_KIND_COUNT * LAYER_MAX_OPS * COMPARISON_PASSES };
static inline int op_times_slot(enum layer_kind layer, int op, enum comparison_pass pass) {
  return ((int)layer * LAYER_MAX_OPS + op) * COMPARISON_PASSES + (int)pass;
}

#endif
