/* Repetitions of one measurement. */
#ifndef PENSTOCK_PROFILE_PROFILE_SAMPLES_H
#define PENSTOCK_PROFILE_PROFILE_SAMPLES_H

/* Begins as {0}. */
struct profile_samples {
  double *values;
  int n, capacity;
};

void profile_samples_add(struct profile_samples *samples, double value);
/* The value below which `part` (0 to 1) of them lie, between two linear; NaN of none. Sorts them. */
double profile_samples_get_quantile(struct profile_samples *samples, double part);
double profile_samples_get_median(struct profile_samples *samples);
/* (90 % quantile - 10 % quantile) / median. */
double profile_samples_get_spread(struct profile_samples *samples);
void profile_samples_fini(struct profile_samples *samples);

#endif
