/* Evaluates a plan, for planners that compare plans with each other. */
#include <math.h>

#include "base/error.h"
#include "planner/planner.h"
#include "sim/sim_plan.h"

static double simulate(const struct plan_request *request, const struct plan *plan, const struct dag *dag) {
  struct sim_plan simulated;
  sim_plan_open(dag, plan, request->model, request->cost, 1, 1, &simulated);
  double step = simulated.result->step;
  sim_plan_close(&simulated);
  return step;
}

/* Builds the graph and sets the peaks; STATUS_OK when it can run within its limits. */
static int open_graph(const struct plan_request *request, const struct plan *plan, int64_t *peaks, struct dag **dag) {
  *dag = NULL;
  for (int32_t r = 0; r < plan->n_ranks && peaks; r++) peaks[r] = INT64_MAX;
  int status = plan_check(plan);
  if (!status) status = dag_build(plan, request->model, dag);
  for (int32_t r = 0; r < plan->n_ranks && peaks && !status; r++) peaks[r] = dag_get_peak(*dag, r, NULL);
  if (!status) status = dag_check_memory(*dag, plan);
  /* Orders of one stage a rank cannot lock up; blocks that move may. */
  if (!status && plan->n_moves) status = dag_check(*dag, plan);
  return status;
}

bool planner_measure(const struct plan_request *request, const struct plan *plan, int64_t *peaks) {
  struct dag *dag;
  int status = open_graph(request, plan, peaks, &dag);
  if (status) error_clear();
  dag_destroy(&dag);
  return !status;
}

double planner_evaluate(const struct plan_request *request, const struct plan *plan, int64_t *peaks) {
  struct dag *dag;
  int status = open_graph(request, plan, peaks, &dag);
  if (!status && !request->cost) status = error_raise(STATUS_FAILED, "nothing is known of times");
  double step = status ? INFINITY : simulate(request, plan, dag);
  if (status) error_clear();
  dag_destroy(&dag);
  return step;
}
