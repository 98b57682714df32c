/* Algorithm 1: while the adjusted stages are what a step waits for, a layer goes from the slowest of them to the
 * fastest of the others that has room for it. The loop goes one move too far; the states before and after its last one
 * are both tried. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"
#include "planner/partition_auto.h"

bool obscura_move_layer(struct plan_stage *stages, int32_t from, int32_t to) {
  if (from == to || stages[from].n_layers <= 1) return false;
  int32_t step = to > from ? 1 : -1;
  stages[from].n_layers--;
  stages[to].n_layers++;
  /* The boundaries between both stages move by one layer towards `from`. */
  for (int32_t s = from; s != to; s += step) stages[s + (step > 0)].first_layer -= step;
  return true;
}

static double get_pass(const struct obscura_draft *d, int32_t s) {
  return d->needs[s].forward + d->needs[s].backward + d->recompute[s];
}

static int32_t find_slowest(const struct obscura_draft *d) {
  int32_t slowest = -1;
  for (int32_t s = 0; s < d->n_adjusted; s++)
    if (d->stages[s].n_layers > 1 && (slowest < 0 || get_pass(d, s) > get_pass(d, slowest))) slowest = s;
  return slowest;
}

/* Chooses again what the adjusted stages discard, for their new layers. */
static void choose_again(struct obscura *x, struct obscura_draft *d, const uint32_t *named) {
  if (!named) obscura_fit_stages(x, d, 0, d->n_adjusted);
  for (int32_t s = 0; s < d->n_adjusted && named; s++) obscura_draft_discard(x, d, s, named);
}

/* Layers that have moved from a stage that recomputes to one that does not keep their activations. */
static void clear_others(const struct obscura *x, struct obscura_draft *d, const struct obscura_draft *before) {
  uint32_t *cheap = obscura_list_cheap(x);
  for (int32_t s = d->n_adjusted; s < x->n_stages; s++)
    obscura_draft_discard(x, d, s, before->discarded[s] > 0 ? cheap : NULL);
  mem_free(cheap);
}

static struct obscura_draft *move_one(struct obscura *x, const struct obscura_draft *d, int32_t from, int32_t to,
                                      const uint32_t *named) {
  struct obscura_draft *moved = obscura_draft_dup(x, d);
  struct plan_stage *stages = MEM_NEW(struct plan_stage, x->n_stages);
  memcpy(stages, d->stages, sizeof *stages * (size_t)x->n_stages);
  if (obscura_move_layer(stages, from, to)) {
    obscura_draft_cut(x, moved, stages);
    clear_others(x, moved, d);
    choose_again(x, moved, named);
  }
  mem_free(stages);
  return moved;
}

static bool others_fit(const struct obscura *x, const struct obscura_draft *d) {
  for (int32_t s = d->n_adjusted; s < x->n_stages; s++)
    if (obscura_draft_get_peak(x, d, s) > obscura_get_limit(x, d, s)) return false;
  return true;
}

/* Gives a layer to the fastest of the stages that are not adjusted and fit with it. NULL when none fits. */
static struct obscura_draft *give_layer(struct obscura *x, const struct obscura_draft *d, const uint32_t *named) {
  int32_t from = find_slowest(d);
  bool *refused = MEM_NEW(bool, x->n_stages);
  struct obscura_draft *given = NULL;
  while (from >= 0 && !given) {
    int32_t to = -1;
    for (int32_t s = d->n_adjusted; s < x->n_stages; s++)
      if (!refused[s] && (to < 0 || get_pass(d, s) < get_pass(d, to))) to = s;
    if (to < 0) break;
    given = move_one(x, d, from, to, named);
    refused[to] = true;
    if (!others_fit(x, given)) obscura_draft_destroy(&given);
  }
  mem_free(refused);
  return given;
}

/* Returns true while the step waits for the adjusted stages: T_k - C_adj > T_(k+1). */
static bool is_unbalanced(const struct obscura *x, const struct obscura_draft *d) {
  struct obscura_model model = obscura_draft_get_model(x, d);
  int32_t k = d->n_adjusted - 1;
  double own = obscura_model_get_time(&model, k) - model.slowest_adjusted, next = obscura_model_get_time(&model, k + 1);
  return own > next * (1 + 1e-12);
}

void obscura_adjust(struct obscura *x, struct obscura_draft **draft) {
  uint32_t *named = obscura_chooses_ops(x) ? NULL : obscura_list_ops(x);
  struct obscura_draft *last = *draft, *before = NULL;
  bool adjusts = last->n_adjusted > 0 && last->n_adjusted < x->n_stages;
  while (adjusts && is_unbalanced(x, last)) {
    struct obscura_draft *next = give_layer(x, last, named);
    if (!next) break;
    if (before != *draft) obscura_draft_destroy(&before);
    before = last;
    last = next;
  }
  if (last != *draft) {
    obscura_draft_evaluate(x, last);
    if (before != *draft) {
      obscura_draft_evaluate(x, before);
      obscura_draft_keep(&before, &last);
    }
    obscura_draft_keep(&last, draft);
  }
  mem_free(named);
}

/* Where blocks leave, two of a stage stay on the device: one on its way out, one on its way in. */
static int64_t get_least(const void *context, int32_t stage, const struct stage_need *need) {
  const struct obscura *x = context;
  int64_t discarded = planner_may_recompute(x->request, stage) ? need->discardable : 0;
  int64_t away = need->copies > 2 && obscura_may_leave(x, stage) ? need->copies - 2 : 0;
  return stage_need_get_peak(need, discarded) - away * (need->keep - discarded - need->leaves);
}

bool obscura_cut_least(const struct obscura *x, struct plan_stage *stages) {
  return partition_make_within(x->request, get_least, x, stages);
}

struct scaled {
  const struct obscura *x;
  double part;
};

static int64_t get_scaled(const void *context, int32_t stage, const struct stage_need *need) {
  const struct scaled *scaled = context;
  return (int64_t)ceil((double)get_least(scaled->x, stage, need) / scaled->part);
}

bool obscura_cut_within(const struct obscura *x, double part, struct plan_stage *stages) {
  return partition_make_within(x->request, get_scaled, &(struct scaled){x, part}, stages);
}

void obscura_cut_nearest(const struct obscura *x, struct plan_stage *stages) {
  partition_make_nearest(x->request, get_least, x, stages);
}
