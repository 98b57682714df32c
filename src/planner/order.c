/* The generators behind GPipe, 1F1B, ZB-H1, ZB-H2, Obscura and what is built on them. */
#include "planner/planner.h"

/* Forwards that are done before the backward after `backward` others. */
static int32_t get_ahead(int32_t backward, int32_t n_micro, int32_t warm_up, int32_t steady) {
  int32_t ahead = backward + (steady > 1 ? steady : 1);
  if (ahead < warm_up) ahead = warm_up;
  return ahead < n_micro ? ahead : n_micro;
}

int64_t order_make_ahead(int32_t stage, int32_t n_micro, int32_t warm_up, int32_t steady, struct plan_action *out) {
  int64_t n = 0;
  int32_t forward = 0;
  for (int32_t backward = 0; backward < n_micro; backward++) {
    int32_t ahead = get_ahead(backward, n_micro, warm_up, steady);
    while (forward < ahead) out[n++] = (struct plan_action){.kind = NODE_F, .stage = stage, .micro = forward++};
    out[n++] = (struct plan_action){.kind = NODE_B, .stage = stage, .micro = backward};
  }
  return n;
}

int64_t order_make_interleaved(int32_t stage, int32_t n_micro, int32_t warm_up, struct plan_action *out) {
  return order_make_ahead(stage, n_micro, warm_up, warm_up, out);
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
