#include "plan/plan_move.h"

#include "base/error.h"
#include "base/mem.h"

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

static const char *check_peer(const struct plan *plan, const struct plan_move *m) {
  if (m->peer < 0 || m->peer >= plan->n_ranks) return "there is no such rank to keep it";
  if (m->peer == plan_get_rank(plan, m->stage)) return "the rank that keeps it is its own";
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
  return check_peer(plan, m);
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
