/* The lower bounds of a step: no plan of any planner is below them, under limits or not; equal stages reach them; the
 * bound of any cut is below that of every cut; memory counts as is worked out by hand. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/model.h"
#include "obscura_case.h"
#include "planner/bound.h"
#include "scratch.h"
#include "t.h"

static int n_held; /* plans whose limits raise the bound */

/* Within limits and without blocks that leave nothing is faster than without these. */
static void check_staying(const struct plan *plan, const struct bound *bound, double step, const char *about) {
  T_CHECK(isnan(bound->cut_staying) == (plan->n_moves > 0), "%s: %g s, and %d blocks leave", about, bound->cut_staying,
          (int)plan->n_moves);
  if (plan->n_moves > 0) return;
  T_CHECK(step >= bound->cut_staying * (1 - 1e-9), "%s: %.17g s, and the bound within limits is %.17g", about, step,
          bound->cut_staying);
  T_CHECK(bound->cut_staying >= bound->cut * (1 - 1e-7), "%s: %g within limits, %g without", about, bound->cut_staying,
          bound->cut);
  if (isnan(bound->any)) return;
  T_CHECK(bound->any_staying <= bound->cut_staying * (1 + 1e-7) && bound->any_staying >= bound->any * (1 - 1e-7),
          "%s: of any cut %g within limits, %g without", about, bound->any_staying, bound->any);
  n_held += bound->cut_staying > bound->cut * 1.001;
}

/* Checks a plan and frees it; returns step / bound, 0 when it does not fit. */
static double check_plan(const struct obscura_case *c, struct plan *plan, const char *about) {
  double step = planner_evaluate(&c->request, plan, NULL);
  struct bound bound = bound_make(plan, c->model, c->cost);
  check_staying(plan, &bound, step, about);
  plan_destroy(&plan);
  T_CHECK(bound.cut > 0 && step >= bound.cut * (1 - 1e-9), "%s: %.17g s, and the bound is %.17g", about, step,
          bound.cut);
  T_CHECK(isnan(bound.any) || (bound.any > 0 && bound.any <= bound.cut * (1 + 1e-9)), "%s: %g of any cut, %g", about,
          bound.any, bound.cut);
  return isfinite(step) ? step / bound.cut : 0;
}

static int test_planner(const char *name, int trials, int most_micro) {
  int n = 0;
  for (int trial = 0; trial < trials; trial++) {
    struct obscura_case c;
    struct plan *plan;
    int32_t p = 1 + (int32_t)obscura_case_draw(5), m = 1 + (int32_t)obscura_case_draw(trial % 3 ? 9 : most_micro);
    obscura_case_open(&c, p + (int)obscura_case_draw(6), p, m, (int)obscura_case_draw(4));
    for (int32_t i = 0; i < m; i++)
      if (obscura_case_draw(3) == 0) {
        int32_t rows = 1 + (int32_t)obscura_case_draw(2), tokens = rows * LENGTH / 2;
        c.micro[i] = micro_shape_make(rows, LENGTH / 2, tokens, tokens);
      }
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

/* Two stages of F 2 ms, B 4 ms and R 2 ms, each with K bytes of a micro-batch, and limits of 1.5 K. On the first one a
 * micro-batch stays for 6 ms, and 6 ms more until it is back from the second. With x of m that recompute the step is
 * 6 m + 2 x at least, and 12 K (m - x) <= 1.5 K (6 m + 2 x), so x >= m / 5, and the step is 6.4 m. Without
 * recomputation the second stage has 6 m + 6. */
static void test_memory(void) {
  enum { M = 32, K = 128 };
  struct obscura_case c;
  struct plan *plan;
  FILE *out = fopen("bound.csv", "w");
  if (!out) exit(1);
  fprintf(out, "layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,parameter_bytes,"
               "output_bytes\n");
  for (int l = 0; l < 6; l++) fprintf(out, l % 5 ? "%d,1,1,1,1,%d,0,0,0\n" : "%d,0,0,0,0,0,0,0,0\n", l, K / 2);
  fclose(out);
  obscura_case_open(&c, 2, 2, M, 0);
  cost_destroy(&c.cost);
  c.cost = make_cost_case("cost: {source: table, table: bound.csv}\n", c.model, 2);
  cost_put_sizes(c.cost, c.model);
  c.request.cost = c.cost;
  c.request.partition.kind = PARAMS_CUT_EVEN;
  T_CHECK(!planner_run("1f1b", &c.request, &plan), "%s", error_text());
  for (int32_t r = 0; r < 2; r++) plan->device_limit[r] = 3 * K / 2;
  struct bound bound = bound_make(plan, c.model, c.cost);
  T_CHECK(fabs(bound.cut - 1e-3 * (6 * M + 6)) < 1e-9, "%.9g s", bound.cut);
  T_CHECK(fabs(bound.cut_staying - 1e-3 * 6.4 * M) < 1e-7, "%.9g s within limits", bound.cut_staying);
  plan_destroy(&plan);
  obscura_case_close(&c);
}

int main(void) {
  if (chdir(scratch_make())) return 1;
  for (const struct planner *const *p = planner_get_all(); *p; p++) {
    const char *name = planner_get_name(*p);
    if ((*p)->takes_file) continue;
    bool slow = (*p)->id == PARAMS_PLANNER_OBSCURA;
    int trials = slow ? 30 : 150, n = test_planner(name, trials, slow ? 9 : 40);
    T_CHECK(n > trials / 8, "%s: %d plans of %d", name, n, trials);
  }
  test_cuts();
  test_reached();
  test_memory();
  T_CHECK(n_held > 10, "%d plans whose limits raise the bound", n_held);
  if (chdir("..")) return 1;
  scratch_remove();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
