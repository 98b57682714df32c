/* The table of sources, and what is the same for all of them: speeds of ranks, links, nodes. */
#include "cost/cost_source.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"

/* A choice of the deck without its source does not compile. */
static const struct cost_source *find_source(enum params_cost_source choice) {
  switch (choice) {
  case PARAMS_COST_SOURCE_PRESET: return &cost_preset;
  case PARAMS_COST_SOURCE_UNIFORM: return &cost_uniform;
  case PARAMS_COST_SOURCE_TABLE: return &cost_table;
  case PARAMS_COST_SOURCE_PROFILE: return &cost_profile;
  case PARAMS_cost_source_COUNT: break;
  }
  CHECK(false, "cost.source has no choice %d", (int)choice);
  return NULL;
}

void cost_add_note(char **notes, const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  char *longer = mem_format("%s%s%s", *notes, (*notes)[0] ? "\n" : "", line);
  mem_free(*notes);
  *notes = longer;
}

const char *cost_get_time_name(enum params_time time) {
#define X(key) #key,
  static const char *const names[] = {PARAMS_TIMES(X)};
#undef X
  return names[time];
}

int cost_spread_time(const struct cost *cost, const struct params *params, enum params_time time, double **seconds) {
  const struct params_uniform_time *given = &params->cost.uniform.times[time];
  *seconds = NULL;
  if (!given->n) return STATUS_OK;
  if (given->by_rank && given->n != cost->n_ranks)
    return error_raise(STATUS_MISTAKE,
                       "cost.uniform: %s lists %lld ranks, the plan has %d (pipeline.stages): one value a rank, or one "
                       "for all",
                       cost_get_time_name(time), (long long)given->n, (int)cost->n_ranks);
  *seconds = MEM_NEW(double, cost->n_ranks);
  for (int32_t r = 0; r < cost->n_ranks; r++) (*seconds)[r] = given->ms[given->by_rank ? r : 0] * 1e-3;
  return STATUS_OK;
}

void cost_put_link(struct cost *cost, const struct params *params) {
  const struct params_link *link = &params->cost.link;
  struct cost_link *both[] = {&cost->inside, &cost->across};
  for (int i = 0; i < 2; i++) {
    if (link->given[PARAMS_LINK_latency_us]) both[i]->latency_s = link->values[PARAMS_LINK_latency_us] * 1e-6;
    if (link->given[PARAMS_LINK_gb_per_s]) both[i]->bytes_per_s = link->values[PARAMS_LINK_gb_per_s] * 1e9;
  }
  if (link->given[PARAMS_LINK_node_latency_us])
    cost->inside.latency_s = link->values[PARAMS_LINK_node_latency_us] * 1e-6;
  if (link->given[PARAMS_LINK_node_gb_per_s]) cost->inside.bytes_per_s = link->values[PARAMS_LINK_node_gb_per_s] * 1e9;
}

/* evict_ms is a whole block's time, whatever its bytes. */
static void put_host_link(struct cost *cost, const struct params *params) {
  const struct params_link *link = &params->cost.host_link;
  if (params->cost.source == PARAMS_COST_SOURCE_UNIFORM) return;
  if (link->given[PARAMS_LINK_latency_us]) cost->host.latency_s = link->values[PARAMS_LINK_latency_us] * 1e-6;
  if (link->given[PARAMS_LINK_gb_per_s]) cost->host.bytes_per_s = link->values[PARAMS_LINK_gb_per_s] * 1e9;
}

static int put_speeds(struct cost *cost, const struct params *params) {
  const struct params_rank_factors *list = &params->device.rank_speeds;
  cost->speeds = MEM_NEW(double, cost->n_ranks);
  for (int32_t r = 0; r < cost->n_ranks; r++) cost->speeds[r] = 1;
  for (int64_t i = 0; i < list->n; i++) {
    if (list->ranks[i] >= cost->n_ranks)
      return error_raise(STATUS_MISTAKE,
                         "device.rank_speeds names rank %lld; the plan has ranks 0 to %d (pipeline.stages)",
                         (long long)list->ranks[i], (int)cost->n_ranks - 1);
    cost->speeds[list->ranks[i]] = list->factors[i];
  }
  return STATUS_OK;
}

/* Keys of sources that were not chosen: given beside a plan that was made with another, they look as if they did
 * something. */
static void note_idle_keys(const struct params *params, char **notes) {
  static const struct {
    enum param_id key;
    const char *name;
    unsigned sources; /* where it acts, a bit each */
  } keys[] = {{PARAM_cost_uniform, "uniform", 1u << PARAMS_COST_SOURCE_UNIFORM | 1u << PARAMS_COST_SOURCE_TABLE},
              {PARAM_cost_table, "table", 1u << PARAMS_COST_SOURCE_TABLE}};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
    if (params_is_given(params, keys[k].key) && !(keys[k].sources >> params->cost.source & 1))
      cost_add_note(notes, "cost.%s does not act: times come from cost.source %s", keys[k].name,
                    params_get_choice(params, PARAM_cost_source));
}

int cost_create(const struct params *params, const struct model *model, int32_t n_ranks, struct cost **cost,
                char **notes) {
  return cost_create_measured(params, model, n_ranks, NULL, cost, notes);
}

int cost_create_measured(const struct params *params, const struct model *model, int32_t n_ranks,
                         const struct cost_measured *measured, struct cost **cost, char **notes) {
  struct cost *made = MEM_NEW(struct cost, 1);
  *made = (struct cost){.source = find_source((enum params_cost_source)params->cost.source),
                        .model = model,
                        .n_ranks = n_ranks,
                        .inside = {0, INFINITY},
                        .across = {0, INFINITY},
                        .host = {0, INFINITY},
                        .disk_write = {0, INFINITY},
                        .disk_read = {0, INFINITY},
                        .node_size = n_ranks,
                        .eager_bytes = INT64_MAX};
  *notes = mem_strdup("");
  for (int32_t l = 0; l < model->n_layers; l++) made->n_body += model->layers[l].block >= 0;
  int status = put_speeds(made, params);
  if (!status) status = made->source->create(made, params, measured, notes);
  if (!status) put_host_link(made, params);
  if (!status) note_idle_keys(params, notes);
  made->shares_link = params->cost.shared_link;
  if (params->device.sync_messages) made->eager_bytes = -1;
  if (params_is_set(params, PARAM_cost_node_size)) made->node_size = params->cost.node_size;
  if (status) {
    cost_destroy(&made);
    mem_free(*notes);
    *notes = NULL;
  }
  *cost = made;
  return status;
}

void cost_destroy(struct cost **cost) {
  if (!*cost) return;
  (*cost)->source->destroy(*cost);
  mem_free((*cost)->text);
  mem_free((*cost)->speeds);
  mem_free((*cost)->send_s);
  mem_free((*cost)->evict_s);
  mem_free(*cost);
  *cost = NULL;
}

const char *cost_get_source(const struct cost *cost) { return cost->text; }
bool cost_is_measured(const struct cost *cost) { return cost->is_measured; }
bool cost_knows_ops(const struct cost *cost) { return cost->source->knows_ops; }

/* ---- compute ---- */

double cost_get_op(const struct cost *cost, int32_t rank, int32_t layer, int op, enum pass pass,
                   struct micro_shape shape) {
  return cost->source->get_op(cost, rank, layer, op, pass, shape) / cost->speeds[rank];
}

double cost_get_layer(const struct cost *cost, int32_t rank, int32_t layer, enum pass pass, struct micro_shape shape) {
  double sum = 0;
  for (int o = 0; o < cost->model->layers[layer].n_ops; o++) sum += cost_get_op(cost, rank, layer, o, pass, shape);
  return sum;
}

double cost_get_recompute(const struct cost *cost, int32_t rank, int32_t layer, uint32_t discarded,
                          struct micro_shape shape) {
  if (!discarded) return 0;
  return cost->source->get_recompute(cost, rank, layer, discarded, shape) / cost->speeds[rank];
}

bool cost_ranks_alike(const struct cost *cost, int32_t a, int32_t b) {
  return cost->speeds[a] == cost->speeds[b] && (!cost->source->ranks_alike || cost->source->ranks_alike(cost, a, b));
}

bool cost_recomputes_whole(const struct cost *cost) { return cost->source->recomputes_whole; }

double cost_get_share_factor(const struct cost *cost, enum pass pass, int64_t n_body) {
  static const enum params_time times[PASS_COUNT] = {[PASS_FORWARD] = PARAMS_TIME_forward_ms,
                                                     [PASS_INPUT] = PARAMS_TIME_input_ms,
                                                     [PASS_WEIGHT] = PARAMS_TIME_weight_ms};
  return cost->source->get_share_factor ? cost->source->get_share_factor(cost, times[pass], n_body) : 1;
}

double cost_get_recompute_share_factor(const struct cost *cost, int64_t n_body) {
  if (!cost->source->get_share_factor) return 1;
  return cost->source->get_share_factor(cost, PARAMS_TIME_recompute_ms, n_body);
}

double cost_get_update(const struct cost *cost, int32_t rank, int64_t n_floats) {
  return cost->source->get_update ? cost->source->get_update(cost, n_floats) / cost->speeds[rank] : 0;
}

double cost_get_sum(const struct cost *cost, int32_t rank, int64_t n_floats) {
  return cost->source->get_norm ? cost->source->get_norm(cost, n_floats) / cost->speeds[rank] : 0;
}

double cost_get_tied_sum(const struct cost *cost, int32_t rank, int64_t n_floats) {
  if (n_floats == 0 || !cost->source->get_tied_sum) return 0;
  return cost->source->get_tied_sum(cost, n_floats) / cost->speeds[rank];
}

/* Ranks meet over a tree: each of its levels is a message. */
double cost_get_norm(const struct cost *cost, int32_t rank, int64_t n_floats) {
  if (!cost->source->get_norm) return 0;
  const struct cost_link *farthest = cost->n_ranks > cost->node_size ? &cost->across : &cost->inside;
  double levels = cost->n_ranks > 1 ? ceil(log2((double)cost->n_ranks)) : 0;
  return cost_get_sum(cost, rank, n_floats) + 2 * levels * farthest->latency_s;
}

/* ---- messages ---- */

struct cost_link cost_get_link(const struct cost *cost, int32_t from, int32_t to) {
  return from / cost->node_size == to / cost->node_size ? cost->inside : cost->across;
}

static double get_link_time(const struct cost *cost, int32_t from, int32_t to, int64_t bytes) {
  struct cost_link link = cost_get_link(cost, from, to);
  return link.latency_s + (double)bytes / link.bytes_per_s;
}

double cost_get_message(const struct cost *cost, int32_t from, int32_t to, int64_t bytes) {
  if (from == to) return 0;
  return cost->send_s ? cost->send_s[from] : get_link_time(cost, from, to, bytes);
}

double cost_get_block(const struct cost *cost, int32_t own, int32_t peer, int64_t bytes, double fraction) {
  return cost->evict_s ? cost->evict_s[own] * fraction : get_link_time(cost, own, peer, bytes);
}

static double get_way_time(const struct cost_link *way, int64_t bytes) {
  return way->latency_s + (double)bytes / way->bytes_per_s;
}

double cost_get_copy(const struct cost *cost, int32_t rank, int64_t bytes, double fraction) {
  return cost->evict_s ? cost->evict_s[rank] * fraction : get_way_time(&cost->host, bytes);
}

double cost_get_disk(const struct cost *cost, int32_t rank, bool write, int64_t bytes) {
  (void)rank;
  return get_way_time(write ? &cost->disk_write : &cost->disk_read, bytes);
}

double cost_get_tie(const struct cost *cost, int32_t from, int32_t to, int64_t bytes) {
  return from == to || !cost->ties ? 0 : get_link_time(cost, from, to, bytes);
}

int64_t cost_get_output_bytes(const struct cost *cost, int32_t layer, int64_t bytes) {
  return cost->source->get_output_bytes ? cost->source->get_output_bytes(cost, layer) : bytes;
}

bool cost_shares_link(const struct cost *cost) { return cost->shares_link; }

bool cost_has_sizes(const struct cost *cost) { return cost->source->get_sizes != NULL; }

void cost_put_sizes(const struct cost *cost, struct model *model) {
  for (int32_t l = 0; cost_has_sizes(cost) && l < model->n_layers; l++) {
    model->layers[l].has_sizes = true;
    model->layers[l].sizes = cost->source->get_sizes(cost, l);
  }
}

int64_t cost_get_eager_bytes(const struct cost *cost) { return cost->eager_bytes; }
