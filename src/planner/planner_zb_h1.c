/* ZB-H1: 1F1B with the backward in two passes; weight passes wait just long enough to fill what would be idle. Every
 * stage keeps the activations of p micro-batches, as 1F1B's first does.
 */
#include "planner/planner.h"

static int32_t get_warm_up(int32_t stage, int32_t n_stages, int32_t n_micro) {
  int32_t depth = n_stages - stage;
  return depth < n_micro ? depth : n_micro;
}

static int32_t get_delay(int32_t stage) { return stage; }

static int make(const struct plan_request *request, struct plan **plan) {
  return planner_linear_make(request, "zb-h1", get_warm_up, get_delay, plan);
}

const struct planner planner_zb_h1 = {.id = PARAMS_PLANNER_ZB_H1, .make = make};
