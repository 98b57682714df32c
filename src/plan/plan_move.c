#include "plan/plan_move.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/footprint.h"

int64_t plan_measure_kept(const struct plan *plan, const struct model *model, int32_t stage, int32_t micro) {
  const struct plan_stage *s = &plan->stages[stage];
  const struct micro_shape *m = &plan->micro[micro];
  struct footprint_stage kept;
  uint32_t *discarded = MEM_NEW(uint32_t, s->n_layers);
  for (int32_t l = 0; l < s->n_layers; l++) discarded[l] = plan_get_discarded(plan, s->first_layer + l, micro);
  footprint_stage(model, s->first_layer, s->n_layers, *m, discarded, NULL, &kept);
  mem_free(discarded);
  int64_t enters = stage > 0 ? footprint_output(model, s->first_layer - 1, *m) : 0;
  return enters + kept.keep_input + kept.keep_weight;
}

static int32_t *make_places(int64_t n) {
  int32_t *places = MEM_NEW(int32_t, n);
  for (int64_t i = 0; i < n; i++) places[i] = -1;
  return places;
}

void plan_move_find_uses(const struct plan *plan, int32_t **forward, int32_t **use) {
  int64_t n = (int64_t)plan->n_stages * plan->n_micro;
  *forward = make_places(n);
  *use = make_places(n);
  for (int32_t r = 0; r < plan->n_ranks; r++)
    for (int64_t k = plan->order_offset[r]; k < plan->order_offset[r + 1]; k++) {
      const struct plan_action *a = &plan->order[k];
      int64_t at = (int64_t)a->stage * plan->n_micro + a->micro;
      int32_t *place = a->kind == NODE_F ? &(*forward)[at] : &(*use)[at];
      if (*place < 0) *place = (int32_t)(k - plan->order_offset[r]);
    }
}

static int refuse_move(const struct plan_move *m, const char *reason) {
  return error_raise(STATUS_FAILED, "plan: the block of stage %d micro-batch %d: %s", (int)m->stage, (int)m->micro,
                     reason);
}

static int64_t count_actions(const struct plan *plan, int32_t rank) {
  return plan->order_offset[rank + 1] - plan->order_offset[rank];
}

int32_t plan_move_get_host_start(const struct plan_move *m) {
  return m->out_start < m->out_end ? m->out_start + 1 : m->out_end;
}

static const char *check_disk(const struct plan_move *m, int32_t use) {
  if (m->tier != PLAN_TIER_DISK) return m->disk_start == -1 && m->disk_end == -1 ? NULL : "it does not go to disk";
  if (m->disk_start < plan_move_get_host_start(m)) return "it is on disk before it has left";
  if (m->disk_end <= m->disk_start) return "it comes from disk before it is there";
  if (m->disk_end > use) return "it comes from disk after its backward began";
  return NULL;
}

static const char *check_peer(const struct plan *plan, const struct plan_move *m) {
  if (m->tier != PLAN_TIER_RANK)
    return m->peer == -1 && m->peer_start == -1 && m->peer_end == -1 ? NULL : "it does not go to another rank";
  if (m->peer < 0 || m->peer >= plan->n_ranks) return "there is no such rank to keep it";
  if (m->peer == plan_find_rank(plan, m->stage, m->micro)) return "the rank that keeps it is its own";
  if (m->peer_start < 0 || m->peer_end < m->peer_start || m->peer_end >= count_actions(plan, m->peer))
    return "the rank that keeps it has no such actions";
  return NULL;
}

/* NULL, or what is wrong. forward, use: places of the block's F and of what needs it again. */
static const char *check_move(const struct plan *plan, const struct plan_move *m, int32_t forward, int32_t use) {
  if (m->tier >= PLAN_TIER_COUNT) return "there is no such tier";
  if (m->out_start < forward) return "it leaves before its forward";
  if (m->out_end < m->out_start) return "it is gone before it leaves";
  if (m->in_start <= m->out_end) return "it comes back before it is gone";
  if (m->in_start > use) return "it comes back after its backward began";
  const char *reason = check_peer(plan, m);
  return reason ? reason : check_disk(m, use);
}

int plan_check_moves(const struct plan *plan) {
  if (!plan->n_moves) return STATUS_OK;
  if (plan->n_moves < 0 || plan->forward_only)
    return error_raise(STATUS_FAILED, "plan: %d blocks move in a plan %s", (int)plan->n_moves,
                       plan->forward_only ? "for evaluation" : "for training");
  int32_t *forward, *use;
  int status = STATUS_OK;
  plan_move_find_uses(plan, &forward, &use);
  for (int32_t k = 0; k < plan->n_moves && !status; k++) {
    const struct plan_move *m = &plan->moves[k];
    const char *reason = NULL;
    if (m->stage < 0 || m->stage >= plan->n_stages || m->micro < 0 || m->micro >= plan->n_micro)
      reason = "there is no such stage or micro-batch";
    else if (k > 0 && (m[-1].stage > m->stage || (m[-1].stage == m->stage && m[-1].micro >= m->micro)))
      reason = "moves must ascend by stage and micro-batch, each once";
    int64_t at = reason ? 0 : (int64_t)m->stage * plan->n_micro + m->micro;
    if (!reason) reason = check_move(plan, m, forward[at], use[at]);
    if (reason) status = refuse_move(m, reason);
  }
  mem_free(forward);
  mem_free(use);
  return status;
}
