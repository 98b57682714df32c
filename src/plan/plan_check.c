/* The rules that hold for every plan by itself. One function a rule. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/plan_move.h"

static int check_sizes(const struct plan *plan) {
  if (plan->n_layers < 1 || plan->n_stages < 1 || plan->n_ranks < 1 || plan->n_micro < 1)
    return error_raise(STATUS_FAILED, "plan: %d layers, %d stages, %d ranks, %d micro-batches: each must be at least 1",
                       (int)plan->n_layers, (int)plan->n_stages, (int)plan->n_ranks, (int)plan->n_micro);
  if (!memchr(plan->planner, 0, sizeof plan->planner))
    return error_raise(STATUS_FAILED, "plan: its planner's name does not end");
  return plan_check_sizes(plan) ? error_wrap("plan") : STATUS_OK;
}

static int check_stages(const struct plan *plan) {
  int32_t next = 0;
  for (int32_t s = 0; s < plan->n_stages; s++) {
    const struct plan_stage *stage = &plan->stages[s];
    if (stage->first_layer != next)
      return error_raise(STATUS_FAILED, "plan: stage %d starts at layer %d, should at layer %d", (int)s,
                         (int)stage->first_layer, (int)next);
    if (stage->n_layers < 1 || stage->n_layers > plan->n_layers - next)
      return error_raise(STATUS_FAILED, "plan: stage %d has %d layers, should have between 1 and the %d that are left",
                         (int)s, (int)stage->n_layers, (int)(plan->n_layers - next));
    next += stage->n_layers;
  }
  if (next != plan->n_layers)
    return error_raise(STATUS_FAILED, "plan: stages hold %d layers, model has %d", (int)next, (int)plan->n_layers);
  return STATUS_OK;
}

static int check_pace(const struct plan *plan) {
  for (int32_t s = 0; s < plan->n_stages; s++) {
    const struct plan_pace *pace = &plan->pace[s];
    int32_t lengths[] = {pace->forward, pace->rebuild, pace->input, pace->weight};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
      if (lengths[i] < 0 || lengths[i] > PLAN_PACE_MOST)
        return error_raise(STATUS_FAILED, "plan: stage %d has a pass of length %d, should be between 0 and %d", (int)s,
                           (int)lengths[i], PLAN_PACE_MOST);
  }
  return STATUS_OK;
}

static int check_replicas(const struct plan *plan) {
  for (int32_t s = 0; s < plan->n_stages; s++) {
    if (plan->replica_offset[s] != s || plan->replica_offset[s + 1] != s + 1)
      return error_raise(STATUS_FAILED, "plan: stage %d has %d replicas, must have 1", (int)s,
                         (int)(plan->replica_offset[s + 1] - plan->replica_offset[s]));
    int32_t rank = plan->replica_rank[s];
    if (rank < 0 || rank >= plan->n_ranks)
      return error_raise(STATUS_FAILED, "plan: stage %d is on rank %d, ranks are 0 to %d", (int)s, (int)rank,
                         (int)plan->n_ranks - 1);
  }
  return STATUS_OK;
}

static int check_micro(const struct plan *plan) {
  for (int32_t i = 0; i < plan->n_micro; i++) {
    const struct micro_shape *micro = &plan->micro[i];
    if (micro->rows < 1 || micro->length < 1)
      return error_raise(STATUS_FAILED, "plan: micro-batch %d has %d rows of length %d, each must be at least 1",
                         (int)i, (int)micro->rows, (int)micro->length);
    int64_t places = (int64_t)micro->rows * micro->length;
    if (micro->tokens < 0 || micro->tokens > places || micro->labels < 0 || micro->labels > places)
      return error_raise(STATUS_FAILED, "plan: micro-batch %d has %lld tokens and %lld labels in %lld places", (int)i,
                         (long long)micro->tokens, (long long)micro->labels, (long long)places);
    int64_t most = micro_shape_multiply(places, micro->length);
    if (micro->pairs < micro->tokens || micro->pairs > most)
      return error_raise(
          STATUS_FAILED,
          "plan: micro-batch %d has %lld pairs of attention, should be between %lld (each token and itself) and "
          "%lld",
          (int)i, (long long)micro->pairs, (long long)micro->tokens, (long long)most);
  }
  return STATUS_OK;
}

static int check_limits(const struct plan *plan) {
  for (int32_t r = 0; r < plan->n_ranks; r++)
    if (plan->device_limit[r] < 0)
      return error_raise(STATUS_FAILED, "plan: rank %d has a device limit of %lld bytes", (int)r,
                         (long long)plan->device_limit[r]);
  return STATUS_OK;
}

static int check_recompute(const struct plan *plan) {
  for (int32_t k = 0; k < plan->n_recompute; k++) {
    const struct plan_recompute *r = &plan->recompute[k];
    if (r->layer < 0 || r->layer >= plan->n_layers || r->first_micro < 0 || r->last_micro >= plan->n_micro ||
        r->first_micro > r->last_micro || r->ops == 0)
      return error_raise(STATUS_FAILED, "plan: row %d of recomputation: layer %d, micro-batches %d to %d, ops %x",
                         (int)k, (int)r->layer, (int)r->first_micro, (int)r->last_micro, (unsigned)r->ops);
    for (int32_t j = 0; j < k; j++)
      if (plan->recompute[j].layer == r->layer && plan->recompute[j].first_micro <= r->last_micro &&
          r->first_micro <= plan->recompute[j].last_micro)
        return error_raise(STATUS_FAILED, "plan: rows %d and %d of recomputation are for the same layer %d", (int)j,
                           (int)k, (int)r->layer);
  }
  return STATUS_OK;
}

/* How far a stage has got: the next micro-batch of its forwards, input passes and weight passes. As each goes in
 * ascending order and has every micro-batch once, one number says it all. */
struct progress {
  int32_t forward, rebuilt, input, weight;
  const bool *rebuilds; /* [n_micro] whether the micro-batch has an R here; NULL: none has */
  uint8_t *done;        /* [n_micro] of free orders, else NULL: the passes of each micro-batch so far, a bit each */
  int32_t part_micro;   /* the micro-batch whose backward is under way in parts, where part_end > 0 */
  int32_t part_end;     /* the layers before it are still to do */
  bool any_rebuilt, part_rebuilt; /* whether a part of it was rebuilt, and the next one */
};

enum { DID_FORWARD = 1, DID_REBUILD = 2, DID_INPUT = 4, DID_WEIGHT = 8 };

static int refuse_action(const struct plan_action *a, int32_t rank, int64_t place, const char *reason) {
  const char *name = a->kind <= NODE_W ? node_kind_get_name(a->kind) : "?";
  return error_raise(STATUS_FAILED, "plan: rank %d, action %lld (%d%s%d): %s", (int)rank, (long long)place,
                     (int)a->stage, name, (int)a->micro, reason);
}

static bool rebuilds(const struct progress *at, int32_t micro) { return at->rebuilds && at->rebuilds[micro]; }

/* The first micro-batch from `micro` on that recomputes on the stage. */
static int32_t find_recomputed(const struct plan *plan, const struct progress *at, int32_t micro) {
  while (micro < plan->n_micro && !rebuilds(at, micro)) micro++;
  return micro;
}

/* Advances a stage whose micro-batches may come in any order: each pass once, after what it needs. Returns what is
 * wrong, NULL: nothing. */
static const char *advance_freely(const struct plan_action *a, struct progress *at) {
  static const uint8_t does[] = {[NODE_F] = DID_FORWARD,
                                 [NODE_R] = DID_REBUILD,
                                 [NODE_B] = DID_INPUT | DID_WEIGHT,
                                 [NODE_I] = DID_INPUT,
                                 [NODE_W] = DID_WEIGHT};
  uint8_t *done = &at->done[a->micro], needs = 0;
  bool has_rebuild = a->kind != NODE_F && rebuilds(at, a->micro);
  if (a->kind == NODE_R && !has_rebuild) return "a recomputation where nothing was discarded";
  if (a->kind != NODE_F) needs |= DID_FORWARD;
  if (has_rebuild && a->kind != NODE_R) needs |= DID_REBUILD;
  if (a->kind == NODE_W) needs |= DID_INPUT;
  if (*done & does[a->kind]) return "each pass must come once";
  if ((*done & needs) != needs) return "a pass before one that it needs";
  *done |= does[a->kind];
  at->forward += a->kind == NODE_F;
  at->input += (does[a->kind] & DID_INPUT) != 0;
  at->weight += (does[a->kind] & DID_WEIGHT) != 0;
  return NULL;
}

/* NULL, or why the action may not come now. */
static const char *advance(const struct plan *plan, const struct plan_action *a, struct progress *at) {
  bool input = a->kind == NODE_B || a->kind == NODE_I, weight = a->kind == NODE_B || a->kind == NODE_W;
  if (a->kind == NODE_F && a->micro != at->forward) return "forwards must go in ascending order, each once";
  if (a->kind == NODE_R && a->micro != find_recomputed(plan, at, at->rebuilt))
    return "recomputations must go in ascending order, each once, where something was discarded";
  if (a->kind == NODE_R && a->micro >= at->forward) return "a recomputation before its forward";
  if (input && a->micro >= at->rebuilt && rebuilds(at, a->micro)) return "a backward before its recomputation";
  if (input && a->micro != at->input) return "backwards must go in ascending order, each once";
  if (input && a->micro >= at->forward) return "a backward before its forward";
  if (weight && a->micro != at->weight) return "weight passes must go in ascending order, each once";
  if (a->kind == NODE_W && a->micro >= at->input) return "a weight pass before its input pass";
  at->forward += a->kind == NODE_F;
  if (a->kind == NODE_R) at->rebuilt = a->micro + 1;
  at->input += input;
  at->weight += weight;
  return NULL;
}

static const char *advance_whole(const struct plan *plan, const struct plan_action *a, struct progress *at) {
  if (at->part_end > 0 && a->kind != NODE_F) return "another pass between the parts of a backward";
  return at->done ? advance_freely(a, at) : advance(plan, a, at);
}

static bool discards(const struct plan *plan, struct plan_part part, int32_t micro) {
  for (int32_t l = part.first_layer; l < part.first_layer + part.n_layers; l++)
    if (plan_get_discarded(plan, l, micro)) return true;
  return false;
}

static const char *rebuild_part(const struct plan *plan, const struct plan_action *a, struct progress *at) {
  const char *reason = NULL;
  if (at->part_rebuilt) return "a part is rebuilt twice";
  if (!at->any_rebuilt) reason = at->done ? advance_freely(a, at) : advance(plan, a, at);
  at->any_rebuilt = at->part_rebuilt = true;
  return reason;
}

static const char *finish_part(const struct plan *plan, const struct plan_action *a, struct plan_part part,
                               struct progress *at) {
  if (discards(plan, part, a->micro) && !at->part_rebuilt) return "a backward before its recomputation";
  at->part_rebuilt = false;
  at->part_end = part.first_layer > plan->stages[a->stage].first_layer ? part.first_layer : 0;
  return at->part_end ? NULL : advance_whole(plan, a, at);
}

/* The pass as a whole counts with the first part that is rebuilt, and with the last part of its backward. */
static const char *advance_part(const struct plan *plan, const struct plan_action *a, struct plan_part part,
                                struct progress *at) {
  const struct plan_stage *stage = &plan->stages[a->stage];
  if (a->kind != NODE_R && a->kind != NODE_B) return "only recomputations and whole backwards have parts";
  if (part.n_layers < 0 || part.n_layers > stage->n_layers || part.first_layer < stage->first_layer ||
      part.first_layer - stage->first_layer > stage->n_layers - part.n_layers)
    return "its layers are not its stage's";
  if (at->part_end == 0) {
    at->part_micro = a->micro;
    at->part_end = stage->first_layer + stage->n_layers;
    at->any_rebuilt = at->part_rebuilt = false;
  }
  if (a->micro != at->part_micro) return "another pass between the parts of a backward";
  if (part.first_layer + part.n_layers != at->part_end)
    return "the parts of a backward must go from the last layers to the first, each once";
  return a->kind == NODE_R ? rebuild_part(plan, a, at) : finish_part(plan, a, part, at);
}

static int check_action(const struct plan *plan, int32_t rank, int64_t place, struct progress *stages) {
  const struct plan_action *a = &plan->order[plan->order_offset[rank] + place];
  if (a->kind > NODE_W) return refuse_action(a, rank, place, "its kind must be F, R, B, I or W");
  if (a->stage < 0 || a->stage >= plan->n_stages) return refuse_action(a, rank, place, "there is no such stage");
  if (a->micro < 0 || a->micro >= plan->n_micro) return refuse_action(a, rank, place, "there is no such micro-batch");
  if (!plan_holds(plan, a->stage, rank)) return refuse_action(a, rank, place, "the rank does not hold the stage");
  if (plan_find_rank(plan, a->stage, a->micro) != rank)
    return refuse_action(a, rank, place, "another rank that holds the stage does this micro-batch");
  if (plan->forward_only && a->kind != NODE_F)
    return refuse_action(a, rank, place, "a plan for evaluation has forwards only");
  struct progress *at = &stages[a->stage];
  int64_t k = plan->order_offset[rank] + place;
  bool whole = plan->n_parts == 0 || plan->parts[k].n_layers == 0;
  const char *reason = whole ? advance_whole(plan, a, at) : advance_part(plan, a, plan->parts[k], at);
  return reason ? refuse_action(a, rank, place, reason) : STATUS_OK;
}

static int check_complete(const struct plan *plan, const struct progress *stages) {
  for (int32_t s = 0; s < plan->n_stages; s++) {
    const struct progress *at = &stages[s];
    int32_t backwards = plan->forward_only ? 0 : plan->n_micro;
    if (at->forward != plan->n_micro || at->input != backwards || at->weight != backwards)
      return error_raise(STATUS_FAILED,
                         "plan: stage %d has %d forwards, %d input passes and %d weight passes of %d micro-batches",
                         (int)s, (int)at->forward, (int)at->input, (int)at->weight, (int)plan->n_micro);
  }
  return STATUS_OK;
}

/* [n_stages][n_micro] which have an R; NULL when the plan recomputes nothing. Owned by the caller. */
static bool *list_rebuilds(const struct plan *plan) {
  if (plan->n_recompute == 0) return NULL;
  bool *list = MEM_NEW(bool, (int64_t)plan->n_stages * plan->n_micro);
  for (int32_t k = 0; k < plan->n_recompute; k++) {
    const struct plan_recompute *r = &plan->recompute[k];
    bool *stage = list + (int64_t)plan_get_stage(plan, r->layer) * plan->n_micro;
    for (int32_t i = r->first_micro; i <= r->last_micro; i++) stage[i] = true;
  }
  return list;
}

static int check_orders(const struct plan *plan) {
  struct progress *stages = MEM_NEW(struct progress, plan->n_stages);
  uint8_t *done = plan->free_order ? MEM_NEW(uint8_t, (int64_t)plan->n_stages * plan->n_micro) : NULL;
  bool *list = list_rebuilds(plan);
  for (int32_t s = 0; s < plan->n_stages; s++) {
    if (done) stages[s].done = done + (int64_t)s * plan->n_micro;
    if (list) stages[s].rebuilds = list + (int64_t)s * plan->n_micro;
  }
  int status = STATUS_OK;
  if (plan->order_offset[0] != 0) status = error_raise(STATUS_FAILED, "plan: orders do not start at 0");
  for (int32_t r = 0; r < plan->n_ranks && !status; r++) {
    int64_t n = plan->order_offset[r + 1] - plan->order_offset[r];
    if (n < 0) status = error_raise(STATUS_FAILED, "plan: rank %d has %lld actions", (int)r, (long long)n);
    for (int64_t k = 0; k < n && !status; k++) status = check_action(plan, r, k, stages);
  }
  if (!status) status = check_complete(plan, stages);
  if (!status && plan->order_offset[plan->n_ranks] != plan->n_actions)
    status = error_raise(STATUS_FAILED, "plan: its orders have %lld actions, n_actions is %lld",
                         (long long)plan->order_offset[plan->n_ranks], (long long)plan->n_actions);
  mem_free(list);
  mem_free(done);
  mem_free(stages);
  return status;
}

int plan_check(const struct plan *plan) {
  static int (*const rules[])(const struct plan *) = {check_sizes,     check_stages, check_pace,
                                                      check_replicas,  check_micro,  check_limits,
                                                      check_recompute, check_orders, plan_check_moves};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    int status = rules[i](plan);
    if (status) return status;
  }
  return STATUS_OK;
}
