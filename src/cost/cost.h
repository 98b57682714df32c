/* What everything costs: seconds of every op, message and copy, from a profile of this machine, a device preset, uniform
 * times by hand, or a table of layers. Made once on one rank, then read only. Serial: no MPI, no HDF5, no device.
 */
#ifndef PENSTOCK_COST_COST_H
#define PENSTOCK_COST_COST_H

#include "model/model.h"

#include <stdbool.h>
#include <stdint.h>

struct cost;
struct params;
struct profile;

enum cost_pass { COST_FORWARD, COST_INPUT, COST_WEIGHT, COST_UPDATE, COST_PASS_COUNT };

/* A way from one rank to another (or to the host): a message of n bytes takes latency_s + n / bytes_per_s. */
struct cost_link {
  double latency_s, bytes_per_s;
};

/* What `params` asks for (cost.source and its keys). n_stages is the pipeline's depth in ranks, which uniform times are
 * divided by. `profile` may be NULL. STATUS_MISTAKE for a table or preset that does not serve. *notes (owned by the caller)
 * says what is not measured. */
int cost_create(const struct params *params, const struct model *model, int32_t n_ranks, const struct profile *profile,
                struct cost **cost, char **notes);
void cost_destroy(struct cost **cost);
/* Where times come from ("profile", "preset a100-80g", ...), and whether they were measured. */
const char *cost_get_source(const struct cost *cost);
bool cost_is_measured(const struct cost *cost);

/* Seconds of one op of a layer in a pass on a rank; 0 where it has nothing to do. With a source that knows whole layers
 * only (uniform, table), a layer's time is that of its first op and the others' are 0. */
double cost_get_op(const struct cost *cost, int32_t rank, int32_t layer, int op, enum cost_pass pass, int64_t rows,
                   int64_t length);
/* Seconds of a layer's pass: the sum over its ops. */
double cost_get_layer(const struct cost *cost, int32_t rank, int32_t layer, enum cost_pass pass, int64_t rows,
                      int64_t length);
/* Seconds to rebuild what `ops` (a bit an op) of a layer discards, 0 for none. */
double cost_get_recompute(const struct cost *cost, int32_t rank, int32_t layer, uint32_t ops, int64_t rows, int64_t length);
/* The way between two ranks, and a rank's way to its host (one direction). */
struct cost_link cost_get_link(const struct cost *cost, int32_t from, int32_t to);
struct cost_link cost_get_host_link(const struct cost *cost, int32_t rank);
/* Messages up to this size leave without waiting for their receiver; 0: every message waits. */
int64_t cost_get_eager_bytes(const struct cost *cost);

#endif
