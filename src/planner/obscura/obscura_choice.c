#include <math.h>

#include "planner/obscura/obscura.h"

double obscura_choice_offer(struct obscura_choice *choice, const struct obscura *x, struct plan *plan, int64_t *peaks) {
  planner_cut(x->request, plan);
  double seconds = planner_evaluate(x->request, plan, peaks);
  if (isinf(seconds) || seconds >= choice->seconds * (1 - 1e-9)) {
    plan_destroy(&plan);
    return seconds;
  }
  plan_destroy(&choice->plan);
  choice->plan = plan;
  choice->seconds = seconds;
  return seconds;
}
