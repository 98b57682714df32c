#include "data/cumulative.h"

#include "base/mem.h"

#define STRIDE 256

void cumulative_init(struct cumulative *sums, int64_t n, int64_t (*size)(const void *context, int64_t i),
                     const void *context) {
  *sums = (struct cumulative){.n = n, .size = size, .context = context};
  sums->sample = MEM_NEW(int64_t, n / STRIDE + 1);
  for (int64_t i = 0; i < n; i++) {
    if (i % STRIDE == 0) sums->sample[i / STRIDE] = sums->total;
    sums->total += size(context, i);
  }
  if (n % STRIDE == 0) sums->sample[n / STRIDE] = sums->total;
}

void cumulative_fini(struct cumulative *sums) {
  mem_free(sums->sample);
  *sums = (struct cumulative){0};
}

int64_t cumulative_get(const struct cumulative *sums, int64_t i) {
  int64_t sum = sums->sample[i / STRIDE];
  for (int64_t k = i / STRIDE * STRIDE; k < i; k++) sum += sums->size(sums->context, k);
  return sum;
}

int64_t cumulative_find(const struct cumulative *sums, int64_t position, int64_t *offset) {
  /* The last sample at or below the position: items of size 0 before it are thereby passed over, however many. */
  int64_t low = 0, high = sums->n / STRIDE;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (sums->sample[middle] <= position)
      low = middle;
    else
      high = middle - 1;
  }
  int64_t item = low * STRIDE, rest = position - sums->sample[low];
  for (; item + 1 < sums->n; item++) { /* bounded: sizes may come from a file that is being written over */
    int64_t size = sums->size(sums->context, item);
    if (rest < size) break;
    rest -= size;
  }
  *offset = rest;
  return item;
}
