/* The plan of a schedule. */
#include "base/mem.h"
#include "model/footprint.h"
#include "planner/obscura/obscura_schedule.h"

static const struct obscura_action *get_actions(const struct obscura_schedule *s, int32_t stage) {
  return s->actions + (int64_t)stage * OBSCURA_MOST_ACTIONS * s->n_micro;
}

static void put_orders(const struct obscura *x, const struct obscura_schedule *s, struct plan *plan) {
  int64_t n = 0;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    int32_t stage = planner_get_first_stage(x->request, r);
    const struct obscura_action *actions = get_actions(s, stage);
    plan->order_offset[r] = n;
    for (int32_t k = 0; k < s->n_actions[stage]; k++)
      if (actions[k].kind < NODE_KIND_COUNT)
        plan->order[n++] = (struct plan_action){actions[k].kind, stage, actions[k].micro};
  }
}

static uint32_t get_ops(const struct obscura_schedule *s, int32_t stage, int32_t layer, int32_t micro) {
  int64_t way = (int64_t)stage * OBSCURA_MOST_WAYS + s->chosen[(int64_t)stage * s->n_micro + micro];
  return s->ways->ops[way * s->ways->n_layers + layer];
}

/* Adds the rows of a layer, one for each run of micro-batches that discard alike. */
static int32_t put_layer(const struct obscura_schedule *s, int32_t stage, int32_t layer, struct plan_recompute *rows,
                         int32_t n) {
  for (int32_t i = 0, end; i < s->n_micro; i = end) {
    uint32_t ops = get_ops(s, stage, layer, i);
    for (end = i + 1; end < s->n_micro && get_ops(s, stage, layer, end) == ops;) end++;
    if (ops) rows[n++] = (struct plan_recompute){layer, i, end - 1, ops};
  }
  return n;
}

static void put_recompute(const struct obscura_schedule *s, struct plan *plan) {
  int32_t n = 0;
  plan_reserve_recompute(plan, plan->n_layers * s->n_micro);
  for (int32_t stage = 0; stage < s->n_stages; stage++) {
    const struct plan_stage *at = &plan->stages[stage];
    for (int32_t l = at->first_layer; l < at->first_layer + at->n_layers; l++)
      n = put_layer(s, stage, l, plan->recompute, n);
  }
  plan->n_recompute = n;
  plan->recompute_early = n > 0;
}

/* Sets the places of a stage's blocks that leave: moves[n_micro], by micro-batch. */
static void place_moves(const struct obscura_schedule *s, int32_t stage, struct plan_move *moves) {
  const struct obscura_action *actions = get_actions(s, stage);
  for (int32_t k = 0, place = 0; k < s->n_actions[stage]; k++) {
    struct plan_move *move = &moves[actions[k].micro];
    if (actions[k].kind == NODE_F)
      *move = (struct plan_move){.stage = stage,
                                 .micro = actions[k].micro,
                                 .tier = PLAN_TIER_HOST,
                                 .out_start = place,
                                 .peer = -1,
                                 .peer_start = -1,
                                 .peer_end = -1,
                                 .disk_start = -1,
                                 .disk_end = -1};
    if (actions[k].kind == OBSCURA_OUT) move->out_end = place - 1;
    if (actions[k].kind == OBSCURA_IN) move->in_start = place;
    place += actions[k].kind < NODE_KIND_COUNT;
  }
}

static void put_moves(const struct obscura *x, const struct obscura_schedule *s, struct plan *plan) {
  struct plan_move *moves = MEM_NEW(struct plan_move, s->n_micro);
  int32_t n = 0, all = 0;
  for (int64_t i = 0; i < (int64_t)s->n_stages * s->n_micro; i++) all += s->moved[i];
  if (all > 0) plan_reserve_moves(plan, all);
  for (int32_t stage = 0; stage < s->n_stages && all > 0; stage++) {
    const struct plan_stage *at = &plan->stages[stage];
    int32_t before = n;
    place_moves(s, stage, moves);
    for (int32_t i = 0; i < s->n_micro; i++)
      if (s->moved[(int64_t)stage * s->n_micro + i]) plan->moves[n++] = moves[i];
    for (int32_t l = at->first_layer; l < at->first_layer + at->n_layers && n > before; l++)
      plan->moved[l] = footprint_get_movable(&x->request->model->layers[l]);
  }
  mem_free(moves);
}

static int64_t count_compute(const struct obscura_schedule *s) {
  int64_t n = 0;
  for (int32_t stage = 0; stage < s->n_stages; stage++)
    for (int32_t k = 0; k < s->n_actions[stage]; k++) n += get_actions(s, stage)[k].kind < NODE_KIND_COUNT;
  return n;
}

struct plan *obscura_schedule_build(const struct obscura *x, const struct obscura_schedule *s) {
  struct plan *plan = plan_create(x->n_layers, s->n_stages, s->n_stages, s->n_micro, count_compute(s));
  obscura_draft_put_stages(x, s->draft, plan);
  put_orders(x, s, plan);
  put_recompute(s, plan);
  put_moves(x, s, plan);
  return plan;
}
