/* Predicts what a plan will do before it runs: its graph is priced and simulated. On one rank, without MPI.
 */
#ifndef PENSTOCK_SETUP_PREDICT_H
#define PENSTOCK_SETUP_PREDICT_H

#include "cost/cost.h"
#include "setup/request.h"
#include "sim/sim_plan.h"

/* All owned, freed by predict_fini. */
struct prediction {
  struct plan *plan;
  struct dag *dag;
  double time_scale;
  struct sim_plan simulated;
};

/* Makes a plan as request_plan does, and predicts it. */
int predict_request(const char *planner, const struct plan_request *request, const struct cost *cost,
                    struct prediction *prediction);
/* Predicts a plan, n_iterations steps back to back, all times divided by time_scale; takes it over, also on failure.
 * Its graph passes all checks, or STATUS_MISTAKE or STATUS_FAILED says why not. */
int predict_plan(struct plan *plan, const struct model *model, const struct cost *cost, double time_scale,
                 int32_t n_iterations, struct prediction *prediction);
/* Writes plan.h5 with the predicted times and costs. deck, model_json: the texts that plan and model came from. */
int predict_write(const struct prediction *prediction, const struct model *model, const struct cost *cost,
                  const char *path, const char *deck, const char *model_json);
void predict_fini(struct prediction *prediction);

#endif
