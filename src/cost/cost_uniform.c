/* Times by hand, the same for every layer of a block. A value is the time of a rank's share in an even split, so a
 * layer costs value x ranks / layers; a list gives the shares themselves, of which a rank's layers have equal parts.
 */
#include "cost/cost_source.h"

#include "base/error.h"
#include "base/mem.h"

struct uniform {
  double *seconds[PARAMS_TIME_COUNT]; /* [n_ranks] of a share; NULL: 0 */
  bool by_rank[PARAMS_TIME_COUNT];
};

static int create(struct cost *cost, const struct params *params, const struct cost_measured *measured, char **notes) {
  struct uniform *u = MEM_NEW(struct uniform, 1);
  (void)measured, (void)notes;
  cost->data = u;
  cost->text = mem_strdup("uniform");
  for (int t = 0; t < PARAMS_TIME_COUNT; t++) {
    u->by_rank[t] = params->cost.uniform.times[t].by_rank;
    int status = cost_spread_time(cost, params, (enum params_time)t, &u->seconds[t]);
    if (status) return status;
  }
  cost->send_s = u->seconds[PARAMS_TIME_send_ms];
  cost->evict_s = u->seconds[PARAMS_TIME_evict_ms];
  u->seconds[PARAMS_TIME_send_ms] = u->seconds[PARAMS_TIME_evict_ms] = NULL;
  return STATUS_OK;
}

static void destroy(struct cost *cost) {
  struct uniform *u = cost->data;
  for (int t = 0; u && t < PARAMS_TIME_COUNT; t++) mem_free(u->seconds[t]);
  mem_free(u);
}

/* One layer's part of the share in an even split. */
static double get_part(const struct cost *cost, enum params_time time, int32_t rank, int32_t layer) {
  const struct uniform *u = cost->data;
  if (!u->seconds[time] || cost->model->layers[layer].block < 0) return 0;
  return u->seconds[time][rank] * cost->n_ranks / (double)cost->n_body;
}

static double get_op(const struct cost *cost, int32_t rank, int32_t layer, int op, enum pass pass,
                     struct micro_shape shape) {
  static const enum params_time times[PASS_COUNT] = {[PASS_FORWARD] = PARAMS_TIME_forward_ms,
                                                     [PASS_INPUT] = PARAMS_TIME_input_ms,
                                                     [PASS_WEIGHT] = PARAMS_TIME_weight_ms};
  (void)shape;
  return op == 0 ? get_part(cost, times[pass], rank, layer) : 0;
}

static double get_recompute(const struct cost *cost, int32_t rank, int32_t layer, uint32_t discarded,
                            struct micro_shape shape) {
  (void)discarded, (void)shape;
  return get_part(cost, PARAMS_TIME_recompute_ms, rank, layer);
}

static bool are_alike(const struct cost *cost, int32_t a, int32_t b) {
  const struct uniform *u = cost->data;
  for (int t = 0; t < PARAMS_TIME_COUNT; t++)
    if (u->seconds[t] && u->seconds[t][a] != u->seconds[t][b]) return false;
  return true;
}

static double get_share_factor(const struct cost *cost, enum params_time time, int64_t n_body) {
  const struct uniform *u = cost->data;
  if (!u->by_rank[time] || n_body == 0) return 1;
  return (double)cost->n_body / cost->n_ranks / (double)n_body;
}

const struct cost_source cost_uniform = {.create = create,
                                         .destroy = destroy,
                                         .get_op = get_op,
                                         .get_recompute = get_recompute,
                                         .ranks_alike = are_alike,
                                         .get_share_factor = get_share_factor,
                                         .recomputes_whole = true};
