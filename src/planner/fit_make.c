/* Makes a plan with no more recomputation than memory asks for. */
#include "planner/fit.h"

#include "base/error.h"

static int make_graph(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag) {
  int status = planner_run(planner, request, plan);
  if (!status) status = dag_build(*plan, request->model, dag);
  if (status) plan_destroy(plan);
  return status;
}

/* How many of the candidates must recompute at least, more than `n`: each rank that is over its limit needs one stage
 * more of its own. All of them when that cannot be. */
static int32_t count_needed(const struct plan_request *request, const struct plan *plan, const struct dag *dag,
                            int32_t n) {
  const int32_t *list = request->recompute_stages;
  int32_t all = list || request->n_recompute_stages < plan->n_stages ? request->n_recompute_stages : plan->n_stages;
  int32_t needed = n;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    if (dag_get_peak(dag, r, NULL) <= plan->device_limit[r]) continue;
    int32_t k = n;
    while (k < all && !plan_holds(plan, list ? list[k] : k, r)) k++;
    if (k >= all) return all;
    if (k + 1 > needed) needed = k + 1;
  }
  return needed;
}

/* Recomputes on more stages until the plan fits, or on all that may. */
static int make_fitting(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag) {
  struct plan_request tried = *request;
  tried.n_recompute_stages = 0;
  for (;;) {
    int status = make_graph(planner, &tried, plan, dag);
    if (status) return status;
    status = planner_check_stages(request, (*plan)->n_stages); /* all that may, those that are not tried too */
    if (status) {
      dag_destroy(dag);
      plan_destroy(plan);
      return status;
    }
    int32_t n = count_needed(request, *plan, *dag, tried.n_recompute_stages);
    if (n == tried.n_recompute_stages) return STATUS_OK;
    tried.n_recompute_stages = n;
    dag_destroy(dag);
    plan_destroy(plan);
  }
}

bool fit_searches(const char *planner, const struct plan_request *request) {
  const struct planner *found = planner_find(planner);
  return request->recompute_as_needed && request->recompute_ops && !(found && found->recomputes_itself);
}

int fit_make(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag) {
  *plan = NULL;
  *dag = NULL;
  return fit_searches(planner, request) ? make_fitting(planner, request, plan, dag)
                                        : make_graph(planner, request, plan, dag);
}

bool fit_try(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag) {
  struct plan_request quiet = *request;
  quiet.notes = NULL;
  int status = fit_make(planner, &quiet, plan, dag);
  if (!status) status = dag_check_memory(*dag, *plan);
  if (!status && (*plan)->n_moves) status = dag_check(*dag, *plan);
  if (status) error_clear();
  return !status;
}
