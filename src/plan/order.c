/* The one generator behind GPipe, 1F1B and what is built on them. */
#include "plan/planner.h"

int64_t order_make_interleaved(int32_t stage, int32_t n_micro, int32_t warm_up, struct plan_action *out) {
  int64_t n = 0;
  int32_t forward = 0;
  for (; forward < warm_up && forward < n_micro; forward++)
    out[n++] = (struct plan_action){.kind = NODE_F, .stage = stage, .micro = forward};
  for (int32_t backward = 0; backward < n_micro; backward++) {
    /* A warm-up of 0 would put a backward before its forward; one forward is the least. */
    if (forward == backward) out[n++] = (struct plan_action){.kind = NODE_F, .stage = stage, .micro = forward++};
    out[n++] = (struct plan_action){.kind = NODE_B, .stage = stage, .micro = backward};
    if (forward < n_micro) out[n++] = (struct plan_action){.kind = NODE_F, .stage = stage, .micro = forward++};
  }
  return n;
}
