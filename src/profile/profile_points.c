/* Chooses the shapes of micro-batches that are measured. */
#include "profile/profile_measure.h"

/* The grid's lengths: whole, half, quarter; below that an op is mostly its start. */
enum { N_LENGTHS = 3 };

static int add_point(struct micro_shape *points, int n, int64_t rows, int64_t length) {
  if (rows < 1 || length < 1 || n == PROFILE_MAX_POINTS) return n;
  for (int i = 0; i < n; i++)
    if (points[i].rows == rows && points[i].length == length) return n;
  points[n] = micro_shape_fill(rows, length);
  return n + 1;
}

int profile_list_points(int64_t rows, int64_t last_rows, int64_t length, struct micro_shape points[PROFILE_MAX_POINTS],
                        int *n_own) {
  int n = add_point(points, 0, rows, length);
  n = add_point(points, n, last_rows, length);
  *n_own = n;
  for (int k = 0; k < N_LENGTHS; k++) {
    n = add_point(points, n, rows, length >> k);
    n = add_point(points, n, 1, length >> k);
  }
  return n;
}
