/* Running sums over very many items (lengths of sequences, rows of documents) in little memory: every 256th sum is
 * kept, the items between are asked for again. The i-th sum and the item that holds a position cost a binary search and
 * at most 256 item sizes.
 */
#ifndef PENSTOCK_DATA_CUMULATIVE_H
#define PENSTOCK_DATA_CUMULATIVE_H

#include <stdint.h>

struct cumulative {
  int64_t n, total; /* items; the sum of all sizes */
  int64_t *sample;  /* [n / 256 + 1]: sum of the sizes before item 256 i */
  int64_t (*size)(const void *context, int64_t i);
  const void *context;
};

/* Adds up size(context, i) >= 0 for i in 0..n-1. `context` is borrowed until cumulative_fini. */
void cumulative_init(struct cumulative *sums, int64_t n, int64_t (*size)(const void *context, int64_t i),
                     const void *context);
void cumulative_fini(struct cumulative *sums);

/* Sum of the sizes of items 0..i-1, 0 <= i <= n. */
int64_t cumulative_get(const struct cumulative *sums, int64_t i);

/* The item that holds `position`, 0 <= position < total: the one of non-zero size with
 * cumulative_get(item) <= position < cumulative_get(item + 1); *offset is the place in it. */
int64_t cumulative_find(const struct cumulative *sums, int64_t position, int64_t *offset);

#endif
