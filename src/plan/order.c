/* The generators behind GPipe, 1F1B, ZB-H1, ZB-H2 and what is built on them. */
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

int64_t order_make_split(int32_t stage, int32_t n_micro, int32_t warm_up, int32_t delay, struct plan_action *out) {
  int64_t n = 0;
  int32_t forward = 0, weight = 0;
  for (; forward < warm_up && forward < n_micro; forward++)
    out[n++] = (struct plan_action){.kind = NODE_F, .stage = stage, .micro = forward};
  for (int32_t input = 0; input < n_micro; input++) {
    if (forward == input) out[n++] = (struct plan_action){.kind = NODE_F, .stage = stage, .micro = forward++};
    out[n++] = (struct plan_action){.kind = NODE_I, .stage = stage, .micro = input};
    if (input >= delay) out[n++] = (struct plan_action){.kind = NODE_W, .stage = stage, .micro = weight++};
    if (forward < n_micro) out[n++] = (struct plan_action){.kind = NODE_F, .stage = stage, .micro = forward++};
  }
  while (weight < n_micro) out[n++] = (struct plan_action){.kind = NODE_W, .stage = stage, .micro = weight++};
  return n;
}
