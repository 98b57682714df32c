/* ZB-H2: twice the forwards ahead, so that no stage is idle between its first forward and its last weight pass. The
 * gain shows across steps only, and where no global norm (optimizer.clip) stands between them.
 */
#include "planner/planner.h"

static int32_t get_warm_up(int32_t stage, int32_t n_stages, int32_t n_micro) {
  int32_t depth = 2 * (n_stages - stage) - 1;
  return depth < n_micro ? depth : n_micro;
}

static int32_t get_delay(int32_t stage) { return 2 * stage; }

static int make(const struct plan_request *request, struct plan **plan) {
  return planner_linear_make(request, "zb-h2", get_warm_up, get_delay, plan);
}

const struct planner planner_zb_h2 = {.id = PARAMS_PLANNER_ZB_H2, .make = make};
