#include "profile/profile_samples.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

void profile_samples_add(struct profile_samples *s, double value) {
  if (s->n == s->capacity) {
    s->capacity = s->capacity ? 2 * s->capacity : 16;
    s->values = mem_resize(s->values, sizeof *s->values * (size_t)s->capacity);
  }
  s->values[s->n++] = value;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double profile_samples_get_quantile(struct profile_samples *s, double part) {
  if (s->n == 0) return NAN;
  qsort(s->values, (size_t)s->n, sizeof *s->values, compare);
  double at = part * (s->n - 1);
  int below = (int)at, above = below + 1 < s->n ? below + 1 : below;
  return s->values[below] + (at - below) * (s->values[above] - s->values[below]);
}

double profile_samples_get_median(struct profile_samples *s) { return profile_samples_get_quantile(s, 0.5); }

double profile_samples_get_spread(struct profile_samples *s) {
  double low = profile_samples_get_quantile(s, 0.1), high = profile_samples_get_quantile(s, 0.9);
  return (high - low) / profile_samples_get_median(s);
}

void profile_samples_fini(struct profile_samples *s) {
  mem_free(s->values);
  *s = (struct profile_samples){0};
}
