/* The work of an op, counted: floating point operations and bytes moved, from its row of the layer's table. The ops
 * of a layer in a pass sum to what the layer does in it.
 */
#ifndef PENSTOCK_MODEL_OP_WORK_H
#define PENSTOCK_MODEL_OP_WORK_H

#include "model/micro_shape.h"
#include "model/model.h"
#include "model/pass.h"

struct op_work {
  double flops; /* an addition and a multiplication are two */
  double bytes; /* read and written once each, as from a memory that no cache stands before */
};

/* Counts one op of a layer for a micro-batch, in numbers of the model's size: work[PASS_FORWARD], [PASS_INPUT],
 * [PASS_WEIGHT]. A product of T tokens by an [in, out] matrix takes 2 T in out in every pass; attention takes
 * 4 x width a pair in the forward and 2.5 times that in the input pass, which makes the scores again; the head
 * makes its gradients in the forward, three products in all. */
void op_work_count(const struct model *model, const struct layer *layer, const struct op *op, struct micro_shape shape,
                   struct op_work work[PASS_COUNT]);

/* The update of n parameters with their gradients and moments. */
struct op_work op_work_count_update(int64_t n);

#endif
