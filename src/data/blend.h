/* How many rows of an epoch come from each file, and in what order the files take turns. */
#ifndef PENSTOCK_DATA_BLEND_H
#define PENSTOCK_DATA_BLEND_H

#include <stdint.h>

/* Splits `total` into share[n] in proportion to weight[n] (>= 0, not all 0) by largest remainder: whole numbers that
 * sum to total, each within 1 of its exact share; of equal remainders the earlier file's counts more. A positive weight
 * gets at least one where total >= n (taken from the largest share). */
void blend_apportion(int64_t total, int n, const double *weight, int64_t *share);

/* The draw at `place` (0 <= place < sum of share) when the files take turns as evenly as their shares allow: draw j of
 * file f stands at the instant (j + 1/2) / share[f], and all draws are in order of these (earlier file first at equal
 * ones). Returns the file; *draw is j. */
int blend_find(int n, const int64_t *share, int64_t place, int64_t *draw);

#endif
