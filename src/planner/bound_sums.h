/* What layers ask for in a step, as sums over the layers before each: for the lower bound. Serial. */
#ifndef PENSTOCK_PLANNER_BOUND_SUMS_H
#define PENSTOCK_PLANNER_BOUND_SUMS_H

#include "model/pass.h"
#include "plan/plan.h"

struct cost;
struct model;

/* What may be discarded together (stage_menu_list_units), of any layer and micro-batch. */
struct bound_unit {
  int64_t bytes;
  double seconds;
  int64_t *count; /* [n_layers+1] of all micro-batches */
};

/* Of ranks on which everything takes as long. Seconds without cost_get_share_factor. */
struct bound_row {
  double *all[PASS_COUNT];  /* [n_layers+1] seconds of all micro-batches */
  double *one[PASS_COUNT];  /* [n_layers+1] seconds of the micro-batch that takes each layer least */
  double *update;           /* [n_layers+1] seconds of updates */
  struct bound_unit *units; /* those that free most for their time come first */
  int32_t n_units;
};

struct bound_sums {
  const struct plan *plan; /* ranks, micro-batches and limits are its own; stages may be others */
  const struct model *model;
  const struct cost *cost;
  bool splits; /* backwards may be two passes */
  int32_t n_layers, n_rows;
  int32_t *alike; /* [n_ranks] its row */
  struct bound_row *rows;
  int64_t *kept;       /* [n_layers+1] bytes that layers keep of all micro-batches, when nothing is discarded */
  int64_t *outputs;    /* [n_layers+1] bytes of the hidden states that leave layers, of all micro-batches */
  int64_t *parameters; /* [n_layers+1] bytes */
  int64_t *n_body;     /* [n_layers+1] layers of blocks */
  int64_t *sent;       /* [n_layers] bytes of the smallest hidden state that leaves the layer as a message */
};

/* All are borrowed. */
struct bound_sums *bound_sums_create(const struct plan *plan, const struct model *model, const struct cost *cost);
void bound_sums_destroy(struct bound_sums **sums);

/* Returns the seconds of a pass of layers first .. end-1 on a rank that holds n_body layers of blocks: of all
 * micro-batches, and of the one that takes least. */
double bound_sums_get_all(const struct bound_sums *sums, int32_t rank, enum pass pass, int32_t first, int32_t end,
                          int64_t n_body);
double bound_sums_get_one(const struct bound_sums *sums, int32_t rank, enum pass pass, int32_t first, int32_t end,
                          int64_t n_body);
/* Returns the seconds of updates. */
double bound_sums_get_update(const struct bound_sums *sums, int32_t rank, int32_t first, int32_t end);
/* Returns the seconds that a gradient needs through the layers: with split backwards those of the input passes. What is
 * before the first layer waits for nothing, but its weight pass and, without clip, its updates come after. */
double bound_sums_get_back(const struct bound_sums *sums, int32_t rank, int32_t first, int32_t end, int64_t n_body);

#endif
