#include "run/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct tally {
  int n_values;
  int64_t n_added;
  double *steps; /* [TALLY_STEPS][n_values], the oldest is overwritten */
};

struct tally *tally_create(int n_values) {
  struct tally *tally = MEM_NEW(struct tally, 1);
  tally->n_values = n_values;
  tally->steps = MEM_NEW(double, (int64_t)TALLY_STEPS *n_values);
  return tally;
}

void tally_destroy(struct tally **tally) {
  if (!*tally) return;
  mem_free((*tally)->steps);
  mem_free(*tally);
  *tally = NULL;
}

/* The second step takes the place of the first. */
static int64_t count_all(const struct tally *tally) { return tally->n_added > 1 ? tally->n_added - 1 : tally->n_added; }

void tally_add(struct tally *tally, const double *values) {
  tally->n_added++;
  int64_t at = (count_all(tally) - 1) % TALLY_STEPS;
  memcpy(tally->steps + at * tally->n_values, values, sizeof *values * (size_t)tally->n_values);
}

int64_t tally_count(const struct tally *tally) {
  int64_t n = count_all(tally);
  return n < TALLY_STEPS ? n : TALLY_STEPS;
}

static int compare_values(const void *left, const void *right) {
  const double *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

void tally_get_medians(const struct tally *tally, double *medians) {
  int64_t n = tally_count(tally);
  for (int v = 0; v < tally->n_values; v++) {
    double values[TALLY_STEPS];
    for (int64_t i = 0; i < n; i++) values[i] = tally->steps[i * tally->n_values + v];
    if (n > 1) qsort(values, (size_t)n, sizeof *values, compare_values);
    medians[v] = n ? (values[(n - 1) / 2] + values[n / 2]) / 2 : 0;
  }
}
