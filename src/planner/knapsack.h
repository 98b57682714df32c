/* The least time that frees enough memory: a covering knapsack over few kinds of items, each there several times. */
#ifndef PENSTOCK_PLANNER_KNAPSACK_H
#define PENSTOCK_PLANNER_KNAPSACK_H

#include <stdbool.h>
#include <stdint.h>

struct knapsack_item {
  int64_t bytes;  /* that one of them frees, above 0 */
  double seconds; /* that it costs, 0 or more */
  int32_t count;  /* how many there are */
};

/* Chooses counts[n] (filled in, 0 to items[i].count each) that free at least `need` bytes in the least time, *seconds;
 * exact. False when all together free too little. */
bool knapsack_cover(const struct knapsack_item *items, int32_t n, int64_t need, int32_t *counts, double *seconds);

#endif
