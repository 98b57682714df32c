/* The measurements of `penstock profile` on a device, as data: filled in by profile/profile_measure.h, kept in
 * profile.h5 by record/profile_file.h, priced by cost_profile.c. Seconds are those of one rank while all ranks of its
 * node measure the same at once, medians over repetitions, those of ops brought to the level of the medians of whole
 * passes; of several ranks those of the one that took longest for the whole point.
 */
#ifndef PENSTOCK_COST_PROFILE_H
#define PENSTOCK_COST_PROFILE_H

#include "cost/cost.h"

/* Counters that are read beside the time: names as in profile.h5. */
#define PROFILE_COUNTERS(X) X(cycles) X(instructions)
#define X(name) PROFILE_COUNTER_##name,
enum profile_counter { PROFILE_COUNTERS(X) PROFILE_COUNTER_COUNT };
#undef X

/* One op of one kind of layer in one pass, for a micro-batch of rows x length tokens. All ops of a layer are there in
 * all passes, also where an op has nothing to do but be called: the times of a pass sum to those of the node that runs
 * it. */
struct profile_op {
  enum layer_kind layer;
  int op; /* row of the layer's op table */
  enum pass pass;
  int32_t rows, length;
  double seconds;
  double spread;                          /* (90 % quantile - 10 % quantile) / median of the repetitions */
  double counters[PROFILE_COUNTER_COUNT]; /* of one call; NaN where the machine gives none */
};

/* A pass over the parameters of one layer: update, its share of the norm, and completing the gradient of a tied table
 * of `floats` from its two uses (once a step, on each rank that holds a copy; part of the norm). */
enum profile_sweep_kind { PROFILE_UPDATE, PROFILE_NORM, PROFILE_TIE };
#define PROFILE_SWEEP_NAMES "update", "norm", "tie"
struct profile_sweep {
  enum profile_sweep_kind kind;
  int64_t floats;
  double seconds;
};

/* A message one way between two ranks, while all pairs send the same in one direction. */
struct profile_link {
  int32_t from, to;
  bool across; /* nodes */
  int64_t bytes;
  double seconds;
};

/* Copies between device and host, and spill writes (synced) and reads (from the disk, not from the system's cache). */
enum profile_copy_kind { PROFILE_COPY_OUT, PROFILE_COPY_IN, PROFILE_COPY_BOTH, PROFILE_DISK_WRITE, PROFILE_DISK_READ };
#define PROFILE_COPY_NAMES "copy_out", "copy_in", "copy_both", "disk_write", "disk_read"
struct profile_copy {
  enum profile_copy_kind kind;
  int64_t bytes; /* each way */
  double seconds;
};

/* The tables of a profile, each rows of one struct (X: member, struct). What is done with every table follows this
 * list. */
#define PROFILE_TABLES(X)                                                                                              \
  X(ops, struct profile_op)                                                                                            \
  X(sweeps, struct profile_sweep)                                                                                      \
  X(links, struct profile_link)                                                                                        \
  X(copies, struct profile_copy)

struct profile {
  /* The device and model for which the times hold. device: backend, processor, threads, precision, ranks a node;
   * model: what of a model makes its ops (kinds, widths, vocabulary), not how many layers it has. Texts that a person
   * can read; equal texts, equal times. */
  char *device, *model;
  char *op_names; /* model_format_names, for readers of the file; NULL: not known */
  char date[32];  /* when it was last measured, UTC */
#define X(table, row)                                                                                                  \
  row *table; /* [n_<table>] */                                                                                        \
  int64_t n_##table;
  PROFILE_TABLES(X)
#undef X
};

/* An empty profile, owned by the caller. Texts are copied; date is "". */
struct profile *profile_create(const char *device, const char *model);
/* NULL inside is allowed. */
void profile_destroy(struct profile **profile);

/* Returns the text that profile->model has for this model; owned by the caller. */
char *profile_describe_model(const struct model *model);

/* Returns the shape that a row was measured with: rows without padding. */
static inline struct micro_shape profile_op_get_shape(const struct profile_op *op) {
  return micro_shape_fill(op->rows, op->length);
}

/* The row of an op, NULL when it was not measured. */
const struct profile_op *profile_find_op(const struct profile *profile, enum layer_kind layer, int op, enum pass pass,
                                         struct micro_shape shape);
/* True when all ops of all kinds of layers of the model are there in all passes for the rows and length of a shape. */
bool profile_has_point(const struct profile *profile, const struct model *model, struct micro_shape shape);

/* Adds n rows of ops, each in the place of one of the same op, pass and shape where there is one. */
void profile_put_ops(struct profile *profile, const struct profile_op *ops, int64_t n);
/* Gives the profile other rows, copied, in the place of all that it has of the kind. */
void profile_set_sweeps(struct profile *profile, const struct profile_sweep *sweeps, int64_t n);
void profile_set_links(struct profile *profile, const struct profile_link *links, int64_t n);
void profile_set_copies(struct profile *profile, const struct profile_copy *copies, int64_t n);

#endif
