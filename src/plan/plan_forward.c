/* The forwards of a plan alone, for evaluation. */
#include <string.h>

#include "base/mem.h"
#include "plan/plan.h"

/* stage_of[offset[r] ..] are the stages of rank r in ascending order. */
static void group_stages(const struct plan *plan, int32_t *offset, int32_t *stage_of) {
  for (int32_t s = 0; s < plan->n_stages; s++) offset[plan_get_holder(plan, s) + 1]++;
  for (int32_t r = 0; r < plan->n_ranks; r++) offset[r + 1] += offset[r];
  for (int32_t s = plan->n_stages - 1; s >= 0; s--) stage_of[--offset[plan_get_holder(plan, s) + 1]] = s;
  for (int32_t r = 0; r < plan->n_ranks; r++) offset[r] = offset[r + 1];
  offset[plan->n_ranks] = plan->n_stages;
}

/* Forwards of one rank along the wave front stage + micro-batch, on which every forward comes after the one that it
 * needs, later stages first within a front. */
static int64_t order_wave(const int32_t *stages, int32_t n_stages, int32_t n_micro, struct plan_action *out) {
  int64_t n = 0;
  if (n_stages == 0) return 0;
  for (int64_t front = stages[0]; front < (int64_t)stages[n_stages - 1] + n_micro; front++)
    for (int32_t k = n_stages - 1; k >= 0; k--) {
      int64_t micro = front - stages[k];
      if (micro >= 0 && micro < n_micro)
        out[n++] = (struct plan_action){.kind = NODE_F, .stage = stages[k], .micro = (int32_t)micro};
    }
  return n;
}

struct plan *plan_make_forward(const struct plan *plan, int32_t n_micro, const struct micro_shape *micro) {
  int32_t p = plan->n_stages;
  struct plan *made = plan_create(plan->n_layers, p, plan->n_ranks, n_micro, (int64_t)p * n_micro);
  memcpy(made->planner, plan->planner, sizeof made->planner);
  made->forward_only = true;
  memcpy(made->stages, plan->stages, sizeof *made->stages * (size_t)p);
  memcpy(made->micro, micro, sizeof *micro * (size_t)n_micro);
  memcpy(made->device_limit, plan->device_limit, sizeof *made->device_limit * (size_t)plan->n_ranks);
  for (int32_t s = 0; s < p; s++) made->replica_rank[s] = plan_get_holder(plan, s);
  int32_t *offset = MEM_NEW(int32_t, plan->n_ranks + 1), *stages = MEM_NEW(int32_t, p);
  group_stages(plan, offset, stages);
  int64_t n = 0;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    made->order_offset[r] = n;
    n += order_wave(stages + offset[r], offset[r + 1] - offset[r], n_micro, made->order + n);
  }
  made->order_offset[plan->n_ranks] = made->n_actions = n;
  mem_free(offset);
  mem_free(stages);
  plan_freeze(made);
  return made;
}
