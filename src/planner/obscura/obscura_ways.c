/* Ways to discard activations: the front of time against bytes of each stage of a cut. */
#include <string.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "planner/obscura/obscura_schedule.h"

static void add_way(const struct obscura *x, const struct obscura_draft *d, struct obscura_ways *ways, int32_t stage,
                    const uint32_t *ops, int64_t bytes, double seconds) {
  int64_t at = (int64_t)stage * OBSCURA_MOST_WAYS + ways->n[stage]++;
  uint32_t *own = ways->ops + at * ways->n_layers;
  if (ops) memcpy(own, ops, sizeof *ops * (size_t)ways->n_layers);
  ways->way[at] = (struct obscura_way){.bytes = bytes, .seconds = seconds};
  if (!ways->may_leave[stage]) return;
  ways->way[at].block = obscura_measure_block(x, d, stage, own);
  if (x->request->cost)
    ways->way[at].copy = cost_get_copy(x->request->cost, planner_get_rank(x->request, stage), ways->way[at].block, 1);
}

/* Blocks go to host memory alone: how long they are under way to other ranks or to disk follows from more than their
 * own stage. */
static bool may_leave(const struct obscura *x, int32_t stage) {
  int tier = x->request->params->pipeline.swap_tier;
  return (tier == PARAMS_SWAP_TIER_AUTO || tier == PARAMS_SWAP_TIER_HOST) && obscura_may_leave(x, stage);
}

/* Lists nothing, what the draft discards, and the front of time against bytes, of a long one points at even distances
 * of bytes. */
static void list_ways(const struct obscura *x, const struct obscura_draft *d, struct obscura_ways *ways,
                      int32_t stage) {
  const struct plan_stage *at = &d->stages[stage];
  uint32_t *ops = MEM_NEW(uint32_t, x->n_layers);
  int64_t freed = 0, distance = d->needs[stage].discardable / OBSCURA_MOST_WAYS;
  double seconds;
  add_way(x, d, ways, stage, NULL, 0, 0);
  if (d->discarded[stage] > 0) add_way(x, d, ways, stage, d->ops, d->discarded[stage], d->recompute[stage]);
  for (int64_t need = 1; ways->n[stage] < OBSCURA_MOST_WAYS; need = freed + (distance > 0 ? distance : 1)) {
    if (!stage_menu_cover(x->menus[stage], at->first_layer, at->n_layers, need, &seconds, &freed, ops)) break;
    if (freed != d->discarded[stage]) add_way(x, d, ways, stage, ops, freed, seconds);
  }
  mem_free(ops);
}

struct obscura_ways *obscura_ways_create(const struct obscura *x, const struct obscura_draft *d, bool swaps) {
  struct obscura_ways *ways = MEM_NEW(struct obscura_ways, 1);
  ways->n_stages = x->n_stages;
  ways->n_layers = x->n_layers;
  ways->n = MEM_NEW(int32_t, x->n_stages);
  ways->way = MEM_NEW(struct obscura_way, (int64_t)x->n_stages * OBSCURA_MOST_WAYS);
  ways->ops = MEM_NEW(uint32_t, (int64_t)x->n_stages * OBSCURA_MOST_WAYS * x->n_layers);
  ways->may_leave = MEM_NEW(bool, x->n_stages);
  for (int32_t s = 0; s < x->n_stages; s++) {
    ways->may_leave[s] = swaps && may_leave(x, s);
    list_ways(x, d, ways, s);
  }
  return ways;
}

void obscura_ways_destroy(struct obscura_ways **ways) {
  if (!*ways) return;
  mem_free((*ways)->n);
  mem_free((*ways)->way);
  mem_free((*ways)->ops);
  mem_free((*ways)->may_leave);
  mem_free(*ways);
  *ways = NULL;
}
