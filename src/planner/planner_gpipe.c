/* GPipe: all forwards, then all backwards in the same order (so that gradients add up as under every other planner). */
#include "planner/planner.h"

static int32_t get_warm_up(int32_t stage, int32_t n_stages, int32_t n_micro) {
  (void)stage, (void)n_stages;
  return n_micro;
}

static int make(const struct plan_request *request, struct plan **plan) {
  return planner_linear_make(request, "gpipe", get_warm_up, NULL, plan);
}

const struct planner planner_gpipe = {.id = PARAMS_PLANNER_GPIPE, .make = make};
