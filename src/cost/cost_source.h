/* The interface of a source of costs. Only cost*.c include it. */
#ifndef PENSTOCK_COST_COST_SOURCE_H
#define PENSTOCK_COST_COST_SOURCE_H

#include "cost/cost.h"
#include "input/params.h"

struct cost_source {
  /* Fills in cost->data and what of the rest differs from the default; adds to the notes with cost_add_note. */
  int (*create)(struct cost *cost, const struct params *params, const struct cost_measured *measured, char **notes);
  void (*destroy)(struct cost *cost);
  /* Seconds at speed 1; see cost.h. */
  double (*get_op)(const struct cost *cost, int32_t rank, int32_t layer, int op, enum pass pass,
                   struct micro_shape shape);
  double (*get_recompute)(const struct cost *cost, int32_t rank, int32_t layer, uint32_t discarded,
                          struct micro_shape shape);
  /* Returns true when get_op and get_recompute return equal times for both ranks. NULL: they do so for any two. */
  bool (*ranks_alike)(const struct cost *cost, int32_t a, int32_t b);
  /* Seconds at speed 1 for n parameters. NULL: no time. */
  double (*get_update)(const struct cost *cost, int64_t n_floats);
  double (*get_norm)(const struct cost *cost, int64_t n_floats);
  double (*get_tied_sum)(const struct cost *cost, int64_t n_floats);
  /* NULL: 1, the given bytes. */
  double (*get_share_factor)(const struct cost *cost, enum params_time time, int64_t n_body);
  int64_t (*get_output_bytes)(const struct cost *cost, int32_t layer);
  struct layer_sizes (*get_sizes)(const struct cost *cost, int32_t layer); /* NULL: the model's own */
  bool recomputes_whole;
  bool knows_ops;
};

struct cost {
  const struct cost_source *source;
  const struct model *model; /* borrowed */
  int32_t n_ranks;
  int64_t n_body;  /* layers between embedding and head */
  char *text;      /* cost_get_source */
  double *speeds;  /* [n_ranks] */
  double *send_s;  /* [n_ranks] of a message of the rank, whatever its size; NULL: by the link */
  double *evict_s; /* [n_ranks] of a whole block that leaves the rank, or comes to it; NULL: by the link */
  bool ties;       /* gradient sums of a tied table take the link's time, else none */
  struct cost_link inside, across; /* a node */
  struct cost_link host;           /* between device and host memory, one way */
  struct cost_link disk_write, disk_read;
  bool shares_link; /* messages and copies of a rank */
  int64_t node_size;
  int64_t eager_bytes;
  bool is_measured;
  void *data; /* the source's own */
};

/* The sources: cost_uniform.c, cost_table.c, cost_preset.c, cost_profile.c. */
extern const struct cost_source cost_uniform, cost_table, cost_preset, cost_profile;

/* Adds a line; *notes is owned by the caller. */
void cost_add_note(char **notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Values by rank of a time of cost.uniform in seconds, NULL when it is not given; owned by the caller. A list that is
 * not as long as the ranks is STATUS_MISTAKE. */
int cost_spread_time(const struct cost *cost, const struct params *params, enum params_time time, double **seconds);
/* The key of a time as in the deck. */
const char *cost_get_time_name(enum params_time time);
/* Puts what cost.link gives in the place of both links. */
void cost_put_link(struct cost *cost, const struct params *params);

#endif
