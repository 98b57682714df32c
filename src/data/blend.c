#include "data/blend.h"

#include <math.h>

#include "base/mem.h"

/* Returns the file with the largest (smallest) remainder among those whose share may grow (shrink). */
static int find_extreme(int n, const double *weight, const int64_t *share, const long double *remainder, int sign) {
  int best = -1;
  for (int f = 0; f < n; f++) {
    if (weight[f] <= 0 || (sign < 0 && share[f] == 0)) continue;
    if (best < 0 || sign * remainder[f] > sign * remainder[best]) best = f;
  }
  return best;
}

void blend_apportion(int64_t total, int n, const double *weight, int64_t *share) {
  long double sum = 0, *remainder = MEM_NEW(long double, n);
  int64_t left = total;
  for (int f = 0; f < n; f++) sum += weight[f];
  for (int f = 0; f < n; f++) {
    long double exact = (long double)total * (weight[f] / sum);
    share[f] = (int64_t)floorl(exact);
    remainder[f] = exact - (long double)share[f];
    left -= share[f];
  }
  /* 0 <= left < n but for rounding, which the sign takes care of. */
  for (int sign = left > 0 ? 1 : -1; left != 0; left -= sign) {
    int f = find_extreme(n, weight, share, remainder, sign);
    share[f] += sign;
    remainder[f] -= sign;
  }
  for (int f = 0; f < n && total >= n; f++) {
    if (weight[f] <= 0 || share[f] > 0) continue;
    int largest = 0;
    for (int g = 1; g < n; g++)
      if (share[g] > share[largest]) largest = g;
    share[largest]--;
    share[f]++;
  }
  mem_free(remainder);
}

/* Draws of all files that stand before draw j of file f. */
static int64_t get_rank(int n, const int64_t *share, int f, int64_t j) {
  int64_t rank = 0;
  for (int g = 0; g < n; g++) {
    if (g == f || share[g] == 0) continue;
    /* The number of k with (2k + 1) / share[g] < (2j + 1) / share[f], or equal where g is earlier. */
    __int128 numerator = (__int128)(2 * j + 1) * share[g], twice = 2 * (__int128)share[f];
    __int128 limit = numerator - share[f]; /* 2 k share[f] < limit (<= for an earlier file) */
    __int128 count = 0;
    if (g < f)
      count = limit >= 0 ? limit / twice + 1 : 0;
    else
      count = limit > 0 ? (limit + twice - 1) / twice : 0;
    rank += count < share[g] ? (int64_t)count : share[g];
  }
  return rank + j;
}

int blend_find(int n, const int64_t *share, int64_t place, int64_t *draw) {
  for (int f = 0; f < n; f++) {
    int64_t low = 0, high = share[f] - 1;
    while (low < high) {
      int64_t middle = low + (high - low + 1) / 2;
      if (get_rank(n, share, f, middle) <= place)
        low = middle;
      else
        high = middle - 1;
    }
    if (high >= 0 && get_rank(n, share, f, low) == place) {
      *draw = low;
      return f;
    }
  }
  *draw = 0;
  return -1; /* only for a place outside the epoch */
}
