/* Forward, backward, input pass and weight pass of one stage on one micro-batch: walks over the op tables of its
 * layers. */
#ifndef PENSTOCK_EXEC_STAGE_PASS_H
#define PENSTOCK_EXEC_STAGE_PASS_H

#include "dag/dag.h"
#include "exec/rank_state.h"

struct stage_run {
  const struct rank_state *state;
  int32_t first_layer, n_layers; /* of the stage */
  int32_t first, end;            /* the pass goes over these of the stage's layers, 0 and n_layers: all */
  bool odd;                      /* of a part of a backward: an odd number of parts comes after it */
  const struct op_batch *batch;
  const uint32_t *discarded; /* [n_layers] ops whose outputs the forward discards, a bit an op; NULL: none */
  const uint32_t *moved;     /* [n_layers] what leaves the device in between, as in footprint.h; NULL: nothing */
  /* The buffers of this stage and micro-batch by kind, as the graph's buffer table defines them; NULL where there is
   * none (first stage: no input, last stage: no output). */
  char *buffers[BUFFER_KIND_COUNT];
  /* Called after every op with its layer, its row in the layer's table and the pass, so that messages move while the
   * device computes, and for those who measure; may be NULL. */
  void (*between)(void *context, int32_t layer, int op, enum pass pass);
  void *context;
};

/* Runs node kind F, R, B, I or W. */
void stage_pass_run(enum node_kind kind, const struct stage_run *run);

#endif
