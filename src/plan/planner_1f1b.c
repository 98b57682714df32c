/* 1F1B (PipeDream-Flush): stage s runs p - s forwards ahead, then one backward for each forward; it keeps at most p - s
 * micro-batches' activations.
 */
#include "plan/planner.h"

static int32_t get_warm_up(int32_t stage, int32_t n_stages, int32_t n_micro) {
  int32_t depth = n_stages - stage;
  return depth < n_micro ? depth : n_micro;
}

static int make(const struct plan_request *request, struct plan **plan) {
  return planner_linear_make(request, "1f1b", get_warm_up, NULL, plan);
}

const struct planner planner_1f1b = {
    "1f1b", "one forward, one backward in turn; stage s of p keeps the activations of p - s micro-batches", make};
