#include "cost/cost_fit.h"

#include <math.h>

/* Along the line through two points, outside of them. */
static double extend(const struct cost_point *a, const struct cost_point *b, const struct cost_point *nearest,
                     double work) {
  double slope = (b->seconds - a->seconds) / (b->work - a->work);
  double rate = nearest->seconds / nearest->work;
  if (!(slope > 0) || isinf(slope)) return rate * work;
  double on_line = nearest->seconds + slope * (work - nearest->work);
  return work < nearest->work ? fmax(on_line, rate * work) : on_line;
}

double cost_fit_line(const struct cost_point *points, int n, double work) {
  const struct cost_point *last = &points[n - 1];
  if (work == points[0].work) return points[0].seconds;
  if (n == 1) return points[0].seconds / points[0].work * work;
  if (work < points[0].work) return extend(&points[0], &points[1], &points[0], work);
  if (work > last->work) return extend(last - 1, last, last, work);
  int i = 1;
  while (points[i].work < work) i++;
  const struct cost_point *a = &points[i - 1], *b = &points[i];
  if (work == b->work) return b->seconds;
  return a->seconds + (b->seconds - a->seconds) * (work - a->work) / (b->work - a->work);
}

/* The points of one length from points[first] on: their line at `rows`. */
static double fit_rows(const struct cost_shape_point *points, int64_t first, int64_t end, double work) {
  struct cost_point column[COST_FIT_MOST_LENGTHS];
  int n = 0;
  for (int64_t i = first; i < end && n < COST_FIT_MOST_LENGTHS; i++) column[n++] = points[i].at;
  return cost_fit_line(column, n, work);
}

double cost_fit_surface(const struct cost_shape_point *points, int64_t n, struct micro_shape shape,
                        cost_work_function *get_work, const void *context) {
  struct cost_point across[COST_FIT_MOST_LENGTHS];
  int n_lengths = 0;
  for (int64_t first = 0, end; first < n && n_lengths < COST_FIT_MOST_LENGTHS; first = end) {
    for (end = first; end < n && points[end].length == points[first].length;) end++;
    double work = get_work(context, micro_shape_fill(shape.rows, points[first].length));
    across[n_lengths++] = (struct cost_point){work, fit_rows(points, first, end, work)};
  }
  return cost_fit_line(across, n_lengths, get_work(context, shape));
}

void cost_fit_link(const struct cost_point *points, int64_t n, struct cost_link *link) {
  /* Weights 1 / t^2: sums of the normal equations of t = latency + bytes x slope. */
  double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = points[i].work, y = points[i].seconds, weight = 1 / (y * y);
    s += weight;
    sx += weight * x;
    sxx += weight * x * x;
    sy += weight * y;
    sxy += weight * x * y;
  }
  if (n == 0) return;
  double determinant = s * sxx - sx * sx;
  double slope = determinant > 1e-12 * s * sxx ? (s * sxy - sx * sy) / determinant : 0;
  double latency = slope > 0 ? (sy - slope * sx) / s : link->latency_s;
  if (!(slope > 0) || latency < 0) {
    if (latency < 0) latency = 0;
    slope = fmax(sxy - latency * sx, 0) / sxx;
  }
  link->latency_s = latency;
  link->bytes_per_s = slope > 0 ? 1 / slope : INFINITY;
}
