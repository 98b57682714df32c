/* Times every call that the executor makes on a device, from outside: the device's table is replaced by one that
 * measures and calls the original.
 */
#ifndef PENSTOCK_BENCH_OPS_TIMER_H
#define PENSTOCK_BENCH_OPS_TIMER_H

#include "device/device.h"
#include "model/model.h"

#include <stdio.h>

struct ops_timer;

/* Puts itself before the device, which runs ops of this model. Owned by the caller; both are borrowed. */
struct ops_timer *ops_timer_create(struct device *device, const struct model *model);
/* Gives the device its own table back. */
void ops_timer_destroy(struct ops_timer **timer);

/* Forgets what was measured. */
void ops_timer_clear(struct ops_timer *timer);

/* Seconds since then in ops of the layers, in vector ops of the gradient norm (fill, add, sum_squares), in the update.
 */
struct ops_timer_sums {
  double layers, norm, update;
};
struct ops_timer_sums ops_timer_get_sums(const struct ops_timer *timer);

/* One line an op and pass on `out`: calls, time and share of a step of `step` seconds (means of `n_steps`), GFLOP/s of
 * those that arithmetic limits, bytes a second of the others against a triad of their size, as op_work_count counts.
 * `flops_rate`: the matrix library's, 0 where it is not known. */
void ops_timer_print(struct ops_timer *timer, FILE *out, int n_steps, double step, double flops_rate);

#endif
