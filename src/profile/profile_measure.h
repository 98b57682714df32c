/* Measures a device for prediction: every op of every kind of layer in every pass, updates and norms, messages between
 * neighbouring ranks, copies and disk; see cost/profile.h for what comes out. All ranks measure the same at once, as
 * they share caches, memory and network in a step.
 *
 * Ops are timed in the executor's own walks over a few layers of the model, in device memory, from one op's end to the
 * next one's, so that all that a pass does is in some op's time and caches are as in a step.
 */
#ifndef PENSTOCK_PROFILE_PROFILE_MEASURE_H
#define PENSTOCK_PROFILE_PROFILE_MEASURE_H

#include "cost/profile.h"
#include "device/device.h"

struct comm;

enum { PROFILE_MAX_POINTS = 16 };
/* profile_points.c: those to measure for a deck of `rows` rows a micro-batch (the last of a step `last_rows`) of up to
 * `length` tokens: the deck's own first (*n_own of them), then the grid around them. Returns how many. */
int profile_list_points(int64_t rows, int64_t last_rows, int64_t length, struct micro_shape points[PROFILE_MAX_POINTS],
                        int *n_own);

struct profile_config {
  struct comm *comm;
  const struct model *model;
  const char *backend;
  struct device_config device;
  const struct micro_shape *points; /* [n_points], the most important first; the same on all ranks */
  int n_points;
  bool ops_only;      /* no sweeps, messages, copies and disk */
  double seconds;     /* to spend; more when few repetitions take longer, or less of the last points is measured */
  const char *folder; /* exists; where disk is measured */
  /* Called on rank 0 with a line for people about what is measured now; may be NULL. */
  void (*progress)(void *context, const char *line);
  void *context;
};

/* Measures into `profile`, which is rank 0's (NULL elsewhere): rows of the same key are replaced, others kept. What
 * could not be measured, and why, is a line each of *notes (rank 0; "" when there is none, owned by the caller).
 * Collective; the status is the same on all ranks: STATUS_STOPPED after a signal, STATUS_MISTAKE on a device that does
 * not compute. */
int profile_measure_all(const struct profile_config *config, struct profile *profile, char **notes);

/* profile_device.c: this machine's processor as the system names it, else its kind: a part of the text of
 * profile->device. */
enum { PROFILE_MOST_PROCESSOR = 256 };
void profile_read_processor(char text[PROFILE_MOST_PROCESSOR]);
/* The text of profile->device for this job, the same on all ranks; owned by the caller. Collective. */
char *profile_describe_device_all(struct comm *comm, const char *backend, const struct device_config *device,
                                  const char *precision);

#endif
