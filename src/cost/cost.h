/* Costs: seconds of every op, message and update, counted from the ops for a device preset, or given by hand as
 * uniform times or as a table of layers. Made once on one rank, then read only. Serial: no MPI, no HDF5, no device.
 *
 * A source is one file and one row of the table in cost.c. What a plan's graph takes is dag/dag_price.h.
 */
#ifndef PENSTOCK_COST_COST_H
#define PENSTOCK_COST_COST_H

#include "model/micro_shape.h"
#include "model/model.h"
#include "model/pass.h"

#include <stdbool.h>
#include <stdint.h>

struct cost;
struct params;
struct profile;

/* A way from one rank to another (or to the host): a message of n bytes takes latency_s + n / bytes_per_s. */
struct cost_link {
  double latency_s, bytes_per_s;
};

/* The measurements that source "profile" uses. All are borrowed and not needed after cost_create_measured. */
struct cost_measured {
  const struct profile *profile; /* NULL: there is none */
  const char *path;              /* where it is, or was looked for */
  const char *reason;            /* why there is none */
  const char *device;            /* what the plan is for, as struct profile names it; NULL: not known here */
};

/* Makes the costs that `params` asks for (cost.source and its keys), for a plan on n_ranks ranks; both borrowed,
 * `model` as long as the cost lives. STATUS_MISTAKE for a table that cannot be read or is of another model, for lists
 * and ranks that are not those of the plan. *notes (owned by the caller, "" for none) has a line for all that a
 * reader of the predictions should know. */
int cost_create(const struct params *params, const struct model *model, int32_t n_ranks, struct cost **cost,
                char **notes);
/* Like cost_create, with what was measured for source "profile" (the others do not look at it). Nothing that a profile
 * may lack is an error: the preset's times take its place, brought to the level of what was measured of ops of that
 * kind (else of all), and notes and cost_get_source say "not measured". Without `measured` that is all. */
int cost_create_measured(const struct params *params, const struct model *model, int32_t n_ranks,
                         const struct cost_measured *measured, struct cost **cost, char **notes);
void cost_destroy(struct cost **cost);
/* Where times come from: "preset a100-80g, not measured", "uniform", "table costs.csv", "profile runs/a/profile.h5".
 * Belongs to the cost. */
const char *cost_get_source(const struct cost *cost);
/* True when all times were measured, as far as is known on the device that the plan is for. */
bool cost_is_measured(const struct cost *cost);
/* True when each op has a time of its own, false when cost_get_op knows whole layers only. */
bool cost_knows_ops(const struct cost *cost);

/* Seconds of one op of a layer in a pass on a rank; 0 where it has nothing to do. With a source that knows whole layers
 * only (uniform, table), a layer's time is that of its first op and the others' are 0. */
double cost_get_op(const struct cost *cost, int32_t rank, int32_t layer, int op, enum pass pass,
                   struct micro_shape shape);
/* Seconds of a layer's pass: the sum over its ops. */
double cost_get_layer(const struct cost *cost, int32_t rank, int32_t layer, enum pass pass, struct micro_shape shape);
/* Seconds to rebuild what `discarded` (a bit an op) says that a layer's forward did not keep, 0 for none. */
double cost_get_recompute(const struct cost *cost, int32_t rank, int32_t layer, uint32_t discarded,
                          struct micro_shape shape);
/* True when recomputation costs the whole share of a stage as soon as anything of it is discarded (uniform). */
bool cost_recomputes_whole(const struct cost *cost);

/* True when all ops take as long on one rank as on the other. */
bool cost_ranks_alike(const struct cost *cost, int32_t a, int32_t b);

/* A list of uniform times gives each rank's whole share, so that a layer's time depends on how many blocks' layers the
 * rank holds. The functions above take an even split; times the factors here they are those of a rank that holds n_body
 * layers between embedding and head. 1 for every other source. */
double cost_get_share_factor(const struct cost *cost, enum pass pass, int64_t n_body);
double cost_get_recompute_share_factor(const struct cost *cost, int64_t n_body);

/* Seconds to update n parameters, and to bring n gradients into the global norm, on a rank. */
double cost_get_update(const struct cost *cost, int32_t rank, int64_t n_floats);
double cost_get_norm(const struct cost *cost, int32_t rank, int64_t n_floats);
/* Seconds of the rank's own part of the norm: the sum of squares of n gradients, without the meeting of ranks. */
double cost_get_sum(const struct cost *cost, int32_t rank, int64_t n_floats);
/* Seconds to add the n gradients of a tied tensor's two uses. */
double cost_get_tied_sum(const struct cost *cost, int32_t rank, int64_t n_floats);

/* Seconds of an activation or gradient from a rank to another, from the start of its send to its arrival. */
double cost_get_message(const struct cost *cost, int32_t from, int32_t to, int64_t bytes);
/* Seconds of a block of activations between its own rank and the one that keeps it, either way. `fraction`: its part of
 * all that its stage keeps of a micro-batch. */
double cost_get_block(const struct cost *cost, int32_t own, int32_t peer, int64_t bytes, double fraction);
/* Seconds of a block of activations between device and host memory, one way. */
double cost_get_copy(const struct cost *cost, int32_t rank, int64_t bytes, double fraction);
/* Seconds to write (else to read) bytes that do not fit there to a file of the rank's node. */
double cost_get_disk(const struct cost *cost, int32_t rank, bool write, int64_t bytes);
/* Seconds of the gradient sum of a tied tensor from a rank to another. */
double cost_get_tie(const struct cost *cost, int32_t from, int32_t to, int64_t bytes);
/* Bytes of the hidden state that leaves a layer: a table's own, else `bytes`. */
int64_t cost_get_output_bytes(const struct cost *cost, int32_t layer, int64_t bytes);
/* The way between two ranks; no latency and infinite bandwidth where messages take no time or a fixed one. */
struct cost_link cost_get_link(const struct cost *cost, int32_t from, int32_t to);
/* True when messages between ranks and blocks of activations go over the same link of a device (cost.shared_link). The
 * times above are those of each alone; dag_share_links makes them those of both. */
bool cost_shares_link(const struct cost *cost);
/* True when the costs bring sizes of their own for every layer's memory (a table). cost_put_sizes gives them to the
 * model, for what computes nothing: before anything is planned or built with it. Nothing with other costs. */
bool cost_has_sizes(const struct cost *cost);
void cost_put_sizes(const struct cost *cost, struct model *model);
/* Messages up to this size leave without waiting for their receiver; INT64_MAX: every one, -1: none
 * (device.sync_messages). */
int64_t cost_get_eager_bytes(const struct cost *cost);

#endif
