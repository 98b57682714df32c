/* The global gradient norm: float64 sums by layer, added in layer order wherever the layers live. */
#include "exec/exec_internal.h"

#include "base/mem.h"
#include "comm/comm.h"

#include <math.h>
#include <stdlib.h>

void exec_measure_layer(struct exec *x, int32_t layer) {
  struct norm_part *part = &x->parts[x->n_parts++];
  int bad;
  optimizer_finish_gradient(x->step->state, layer);
  part->layer = layer;
  part->sum = optimizer_sum_layer(x->step->state, layer, &bad);
  part->bad_tensor = bad;
  if (!isfinite(part->sum)) x->result->finite = false;
}

static int compare_parts(const void *a, const void *b) {
  int32_t x = ((const struct norm_part *)a)->layer, y = ((const struct norm_part *)b)->layer;
  return (x > y) - (x < y);
}

/* The loss travels as one part more, after all layers; every rank but the head's gives 0. */
static void add_loss_part(struct exec *x) {
  x->parts[x->n_parts++] =
      (struct norm_part){.layer = x->step->plan->n_layers, .bad_tensor = -1, .sum = x->result->loss_sum};
}

static void sum_parts(struct exec *x, const struct norm_part *parts, int64_t n) {
  struct exec_result *result = x->result;
  int32_t n_layers = x->step->plan->n_layers;
  double norm = 0, loss = 0;
  for (int64_t i = 0; i < n; i++) {
    if (parts[i].layer == n_layers) {
      loss += parts[i].sum;
      continue;
    }
    norm += parts[i].sum;
    if (isfinite(parts[i].sum) || result->bad_layer >= 0) continue;
    result->bad_layer = parts[i].layer;
    result->bad_tensor = parts[i].bad_tensor;
  }
  result->grad_norm = sqrt(norm);
  result->loss_sum = loss;
  result->finite = isfinite(norm) && isfinite(loss);
}

void exec_gather_norm(struct exec *x) {
  const struct exec_step *step = x->step;
  if (step->plan->clip)
    for (int32_t l = 0; l < step->plan->n_layers; l++)
      if (step->state->holds[l]) exec_measure_layer(x, l);
  add_loss_part(x);
  int size = comm_get_size(step->comm);
  int64_t *offsets = MEM_NEW(int64_t, size + 1);
  int64_t bytes = x->n_parts * (int64_t)sizeof *x->parts;
  int64_t room = ((int64_t)step->plan->n_layers + size) * (int64_t)sizeof *x->parts;
  struct norm_part *all = mem_alloc((size_t)room);
  comm_gather_all(step->comm, x->parts, bytes, all, offsets);
  int64_t n = offsets[size] / (int64_t)sizeof *all;
  qsort(all, (size_t)n, sizeof *all, compare_parts);
  sum_parts(x, all, n);
  mem_free(all);
  mem_free(offsets);
}
