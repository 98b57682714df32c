/* A run's times beside those that were predicted, as trace.h5 keeps them from the run's end on: tables /kinds and /ops,
 * attributes predicted_step_s, measured_step_s, predicted_bubble, measured_bubble, copy_cpu_s, compared_steps,
 * cost_source, cost_is_measured of the root. Seconds and counts are of one step, of all ranks together; NaN: not known.
 */
#ifndef PENSTOCK_RECORD_COMPARISON_H
#define PENSTOCK_RECORD_COMPARISON_H

#include "model/pass.h"

#include <stdbool.h>
#include <stdint.h>

struct h5_file;

/* /kinds: nodes of one kind; of a message the time that its send takes. */
struct kind_row {
  int8_t kind; /* enum node_kind */
  int64_t count;
  double predicted_s, measured_s;
};

/* /ops: one op of one kind of layer in one pass. */
struct op_row {
  int8_t layer; /* enum layer_kind */
  int32_t op;   /* its place in the layer's table */
  int8_t kind;  /* enum op_kind */
  int8_t pass;  /* enum pass, PASS_RECOMPUTE included */
  int64_t count;
  double predicted_s, measured_s;
};

struct comparison {
  char *cost_source;     /* where the predicted times come from */
  bool cost_is_measured; /* measured, on the device that ran */
  double predicted_step_s, measured_step_s;
  double predicted_bubble, measured_bubble; /* idle compute / (ranks x step) */
  double copy_cpu_s;                        /* that copies of blocks and their files kept cores busy; NaN: not known */
  int64_t n_steps;                          /* whose medians the measured times are */
  int64_t n_kinds, n_ops;
  struct kind_row *kinds;
  struct op_row *ops; /* none where the device has no ops */
  char *op_names;     /* model_format_names; NULL: not known */
};

/* Puts it into a trace in the place of an earlier one. */
int comparison_write(struct h5_file *file, const struct comparison *comparison);
/* Copies the comparison of one trace to another that has none; does nothing when there is none. */
int comparison_copy(struct h5_file *from, struct h5_file *to);
/* Takes an earlier life's out of a trace: the run goes on. */
int comparison_clear(struct h5_file *file);
/* Reads the comparison of a trace.h5; a trace that has none yet (the run goes on, or was killed) gives n_steps 0.
 * Owned by the caller, also after a failure. */
int comparison_read(const char *path, struct comparison *comparison);
void comparison_fini(struct comparison *comparison);

#endif
