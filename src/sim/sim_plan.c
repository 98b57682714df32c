#include "sim/sim_plan.h"

#include "base/mem.h"
#include "cost/cost.h"
#include "dag/dag_price.h"

void sim_plan_open(const struct dag *dag, const struct plan *plan, const struct model *model, const struct cost *cost,
                   double time_scale, int32_t n_iterations, struct sim_plan *sim_plan) {
  double *seconds = MEM_NEW(double, dag->n_nodes);
  dag_price(dag, plan, model, cost, seconds);
  for (int32_t v = 0; v < dag->n_nodes; v++) seconds[v] /= time_scale;
  sim_plan->times = (struct sim_times){seconds, cost_get_eager_bytes(cost)};
  sim_plan->sim = sim_create(dag, plan->n_stages);
  sim_plan->result = sim_run(sim_plan->sim, &sim_plan->times, n_iterations);
}

void sim_plan_close(struct sim_plan *sim_plan) {
  sim_destroy(&sim_plan->sim);
  mem_free((double *)sim_plan->times.seconds);
  *sim_plan = (struct sim_plan){0};
}
