/* Where sums of the seconds of ops stand: by kind of layer, op and pass. */
#ifndef PENSTOCK_EXEC_OP_TIMES_H
#define PENSTOCK_EXEC_OP_TIMES_H

#include "model/model.h"
#include "model/pass.h"

/* Ops of kinds of layers, by pass. */
enum { OP_TIMES = LAYER_KIND_COUNT * LAYER_MAX_OPS * PASS_REPORT_COUNT };
static inline int op_times_slot(enum layer_kind layer, int op, enum pass pass) {
  return ((int)layer * LAYER_MAX_OPS + op) * PASS_REPORT_COUNT + (int)pass;
}

#endif
