/* The registry of planners, and what is done with any of them. */
#include "planner/planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "plan/recompute.h"

/* One line a planner, in the order of the manual. */
#define PLANNERS(X)                                                                                                    \
  X(planner_gpipe)                                                                                                     \
  X(planner_1f1b)                                                                                                      \
  X(planner_interleaved)                                                                                               \
  X(planner_zb_h1)                                                                                                     \
  X(planner_zb_h2)                                                                                                     \
  X(planner_zb_v)                                                                                                      \
  X(planner_bpipe)                                                                                                     \
  X(planner_adapipe)                                                                                                   \
  X(planner_obscura)                                                                                                   \
  X(planner_file)

#define X(id) extern const struct planner id;
PLANNERS(X)
#undef X

static const struct planner *const planners[] = {
#define X(id) &id,
    PLANNERS(X)
#undef X
        NULL};

/* The planner that "auto" stands for. */
static const struct planner *const auto_choice = &planner_1f1b;

const struct planner *const *planner_get_all(void) { return planners; }

const char *planner_get_name(const struct planner *planner) {
  return params_name_choice(PARAM_pipeline_planner, (int)planner->id);
}

const struct planner *planner_find(const char *name) {
  if (!strcmp(name, params_name_choice(PARAM_pipeline_planner, PARAMS_PLANNER_AUTO))) return auto_choice;
  for (size_t i = 0; planners[i]; i++)
    if (!strcmp(planner_get_name(planners[i]), name)) return planners[i];
  return NULL;
}

static int refuse_name(const char *name) {
  char known[512] = "auto";
  for (size_t i = 0, n = 4; planners[i] && n < sizeof known; i++)
    n += (size_t)snprintf(known + n, sizeof known - n, ", %s", planner_get_name(planners[i]));
  return error_raise(STATUS_MISTAKE, "pipeline.planner '%s': there is no such planner (allowed: %s)", name, known);
}

static int check_request(const struct plan_request *request) {
  if (request->n_ranks < 1 || request->n_stages < 1)
    return error_raise(STATUS_MISTAKE, "pipeline.stages is %d and ranks are %d: each must be at least 1",
                       (int)request->n_stages, (int)request->n_ranks);
  if (request->n_chunks < 0 || (int64_t)request->n_stages * planner_count_chunks(request) > INT32_MAX)
    return error_raise(STATUS_MISTAKE, "pipeline.stages %d x pipeline.chunks %d are no number of stages",
                       (int)request->n_stages, (int)request->n_chunks);
  if (request->n_micro < 1)
    return error_raise(STATUS_MISTAKE, "a step has %d micro-batches: it needs at least 1 (see data.global_batch)",
                       (int)request->n_micro);
  return STATUS_OK;
}

int planner_check_stages(const struct plan_request *request, int32_t n_stages) {
  const int32_t *list = request->recompute_stages, n = request->n_recompute_stages;
  for (int32_t k = 0; list && k < n; k++)
    if (list[k] < 0 || list[k] >= n_stages)
      return error_raise(STATUS_MISTAKE, "pipeline.recompute_stages names stage %d; the plan has stages 0 to %d",
                         (int)list[k], (int)n_stages - 1);
  if (!list && n != PLAN_ALL_STAGES && n > n_stages)
    return error_raise(STATUS_MISTAKE, "pipeline.recompute_stages is %d; the plan has %d stages", (int)n,
                       (int)n_stages);
  return STATUS_OK;
}

bool planner_may_recompute(const struct plan_request *request, int32_t stage) {
  const int32_t *list = request->recompute_stages, n = request->n_recompute_stages;
  if (!request->recompute_ops) return false;
  if (!list) return n == PLAN_ALL_STAGES || stage < n;
  for (int32_t k = 0; k < n; k++)
    if (list[k] == stage) return true;
  return false;
}

/* A plan that brings its own recomputation keeps that. */
static int put_recompute(const struct plan_request *request, const struct planner *planner, struct plan *plan) {
  if (!request->recompute_ops) return STATUS_OK;
  int status = planner_check_stages(request, plan->n_stages);
  if (status || planner->recomputes_itself || plan->n_recompute > 0) return status;
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t s = 0; s < plan->n_stages; s++) stages[s] = planner_may_recompute(request, s);
  recompute_put(plan, request->recompute_ops, stages);
  if (plan->n_recompute > 0) plan->recompute_early = request->recompute_early;
  mem_free(stages);
  return STATUS_OK;
}

void planner_cut(const struct plan_request *request, struct plan *plan) {
  if (request->recompute_by != PARAMS_RECOMPUTE_BY_BLOCK || plan->n_recompute == 0 || plan->n_parts > 0) return;
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t s = 0; s < plan->n_stages; s++) stages[s] = true;
  recompute_cut(plan, request->model, stages);
  mem_free(stages);
}

/* A planner that compares plans by their time returns the plan whose time it was, and nothing that was changed after.
 */
static void check_evaluated(const struct plan_request *request, const struct planner *planner, const struct plan *plan,
                            double evaluated) {
  if (isnan(evaluated)) return;
  double seconds = planner_evaluate(request, plan, NULL);
  CHECK(fabs(seconds - evaluated) <= 1e-9 * evaluated, "planner %s: its plan takes %.9g s, and not %.9g s",
        planner_get_name(planner), seconds, evaluated);
}

int planner_run(const char *name, const struct plan_request *request, struct plan **plan) {
  *plan = NULL;
  const struct planner *planner = planner_find(name);
  if (!planner) return refuse_name(name);
  int status = check_request(request);
  double evaluated = NAN;
  struct plan_request chosen = *request;
  chosen.evaluated = &evaluated;
  if (chosen.n_chunks == 0) chosen.n_chunks = planner->n_chunks;
  if (!status) status = planner->make(&chosen, plan);
  if (status) return status;
  status = put_recompute(request, planner, *plan);
  if (!status && planner->move) status = planner->move(request, *plan);
  if (!status) planner_cut(request, *plan);
  if (status) {
    plan_destroy(plan);
    return status;
  }
  status = plan_check(*plan);
  if (status) {
    plan_destroy(plan);
    return error_wrap("planner %s", planner_get_name(planner));
  }
  plan_freeze(*plan);
  check_evaluated(request, planner, *plan, evaluated);
  return STATUS_OK;
}
