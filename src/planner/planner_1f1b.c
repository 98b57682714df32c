/* 1F1B (PipeDream-Flush): stage s runs p - s forwards ahead, then one backward for each forward; it keeps at most p - s
 * micro-batches' activations.
 */
#include "planner/one_f_one_b.h"
#include "planner/planner.h"

static int make(const struct plan_request *request, struct plan **plan) {
  return planner_linear_make(request, "1f1b", one_f_one_b_get_warm_up, NULL, plan);
}

const struct planner planner_1f1b = {.id = PARAMS_PLANNER_1F1B, .make = make};
