/* The lower bound of a step: no plan of any planner is below it, under limits or not; equal stages reach it; and the
 * bound of any cut is below that of every cut. */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/model.h"
#include "obscura_case.h"
#include "planner/bound.h"
#include "t.h"

/* Checks a plan and frees it; returns step / bound, 0 when it does not fit. */
static double check_plan(const struct obscura_case *c, struct plan *plan, const char *about) {
  double step = planner_evaluate(&c->request, plan, NULL);
  struct bound bound = bound_make(plan, c->model, c->cost);
  plan_destroy(&plan);
  T_CHECK(bound.cut > 0 && step >= bound.cut * (1 - 1e-9), "%s: %.17g s, and the bound is %.17g", about, step,
          bound.cut);
  T_CHECK(isnan(bound.any) || (bound.any > 0 && bound.any <= bound.cut * (1 + 1e-9)), "%s: %g of any cut, %g", about,
          bound.any, bound.cut);
  return isfinite(step) ? step / bound.cut : 0;
}

static int test_planner(const char *name, int trials) {
  int n = 0;
  for (int trial = 0; trial < trials; trial++) {
    struct obscura_case c;
    struct plan *plan;
    int32_t p = 1 + (int32_t)obscura_case_draw(5), m = 1 + (int32_t)obscura_case_draw(9);
    obscura_case_open(&c, p + (int)obscura_case_draw(6), p, m, (int)obscura_case_draw(4));
    for (int32_t i = 0; i < m; i++)
      if (obscura_case_draw(3) == 0)
        c.micro[i] = micro_shape_make(1 + (int)obscura_case_draw(2), LENGTH / 2, LENGTH, LENGTH);
    if (obscura_case_draw(2)) obscura_case_draw_limits(&c, (int)obscura_case_draw(11));
    if (obscura_case_draw(2)) c.request.partition.kind = PARAMS_CUT_AUTO;
    c.request.clip = obscura_case_draw(2);
    c.request.n_chunks = get_test_chunks(name);
    if (!planner_run(name, &c.request, &plan)) n += check_plan(&c, plan, name) > 0;
    error_clear();
    obscura_case_close(&c);
  }
  return n;
}

/* Every cut of a few layers: none is below the bound of any cut, and the best is not far above it. */
static void test_cuts(void) {
  for (int trial = 0; trial < 6; trial++) {
    struct obscura_case c;
    struct plan *plan;
    obscura_case_open(&c, 4, 3, 2 + trial, trial % 3);
    T_CHECK(!planner_run(trial % 2 ? "zb-h1" : "1f1b", &c.request, &plan), "%s", error_text());
    int32_t n = plan->n_layers;
    double any = bound_make(plan, c.model, c.cost).any, least = INFINITY;
    for (int32_t a = 1; a < n - 1; a++)
      for (int32_t b = a + 1; b < n; b++) {
        plan->stages[0] = (struct plan_stage){0, a};
        plan->stages[1] = (struct plan_stage){a, b - a};
        plan->stages[2] = (struct plan_stage){b, n - b};
        least = fmin(least, bound_make(plan, c.model, c.cost).cut);
      }
    T_CHECK(any <= least * (1 + 1e-9) && any > 0.8 * least, "of any cut %g, of the best %g", any, least);
    plan_destroy(&plan);
    obscura_case_close(&c);
  }
}

/* Equal stages in 1F1B take (m + p - 1) (f + b): nothing is faster, and the bound says so. */
static void test_reached(void) {
  struct obscura_case c;
  struct plan *plan;
  obscura_case_open(&c, 8, 4, 8, 1);
  cost_destroy(&c.cost);
  c.cost = make_cost_case("cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1}}\n", c.model, 4);
  c.request.cost = c.cost;
  c.request.partition.kind = PARAMS_CUT_EVEN;
  T_CHECK(!planner_run("1f1b", &c.request, &plan), "%s", error_text());
  double ratio = check_plan(&c, plan, "equal stages");
  T_CHECK(fabs(ratio - 1) < 1e-9, "equal stages take %g of the bound", ratio);
  obscura_case_close(&c);
}

int main(void) {
  for (const struct planner *const *p = planner_get_all(); *p; p++) {
    const char *name = planner_get_name(*p);
    if ((*p)->takes_file) continue;
    int trials = (*p)->id == PARAMS_PLANNER_OBSCURA ? 30 : 150, n = test_planner(name, trials);
    T_CHECK(n > trials / 5, "%s: %d plans of %d", name, n, trials);
  }
  test_cuts();
  test_reached();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
