/* From single measurements to a time for any size. For cost*.c alone.
 *
 * Between points a time is affine in the work (flops, bytes, tokens): t = t1 + (t2 - t1) (w - w1) / (w2 - w1), so it is
 * exact at the points, grows where they grow, and has the start-up time that every op has. Beyond the last point it
 * goes on with the last slope, before the first with the first one, but not below what the first point's rate gives; a
 * slope that does not rise, and a single point, give the rate of the nearest point.
 *
 * A surface has such lines along the rows of each measured length, and one across the lengths at the rows asked for.
 * With the op's own work (attention's grows with the square of the length) this is a + b tokens + c rows length^2,
 * piece by piece.
 */
#ifndef PENSTOCK_COST_COST_FIT_H
#define PENSTOCK_COST_COST_FIT_H

#include "cost/cost.h"

#include <stddef.h>

struct cost_point {
  double work, seconds;
};
/* Points with ascending work, n >= 1. */
double cost_fit_line(const struct cost_point *points, int n, double work);

struct cost_shape_point {
  int32_t rows, length;
  struct cost_point at;
};
enum { COST_FIT_MOST_LENGTHS = 64 };

/* Work of a micro-batch; grows with rows and length. */
typedef double cost_work_function(const void *context, struct micro_shape shape);
/* Points sorted by length, then rows, no two of one shape, n >= 1; of lengths beyond the first COST_FIT_MOST_LENGTHS
 * nothing is used. */
double cost_fit_surface(const struct cost_shape_point *points, int64_t n, struct micro_shape shape,
                        cost_work_function *get_work, const void *context);

/* Latency and bandwidth that make the relative errors smallest, in squares. One size alone, or times that do not rise
 * with it, leave the latency as it is in *link and give the rate that goes with it; n 0 leaves *link alone. A latency
 * is never below 0. Messages: work is bytes. */
void cost_fit_link(const struct cost_point *points, int64_t n, struct cost_link *link);

#endif
