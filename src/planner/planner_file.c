/* A plan made elsewhere: from a file of actions, or another run's plan. Which rank holds which stage and in which order
 * it works follows from the file; layers, micro-batches and limits from the request (layers from the plan, if it is
 * one).
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "plan/plan_csv.h"
#include "planner/planner.h"

static int refuse_ranks(const struct plan_request *request, const char *name, int32_t n_ranks) {
  return error_raise(STATUS_MISTAKE,
                     "%s is for %d ranks, but ranks are %d: start %d ranks, or leave pipeline.stages out", name,
                     (int)n_ranks, (int)request->n_ranks, (int)n_ranks);
}

static void note_import(const struct plan_request *request, const struct plan_csv *csv, const char *name) {
  if (*csv->dropped) planner_note(request, "%s: %s left out: what they do follows from the plan", name, csv->dropped);
  if (*csv->replaced)
    planner_note(request, "%s: %s replaced by messages and recomputation in an order of our own", name, csv->replaced);
  if (csv->descends)
    planner_note(request,
                 "%s: micro-batches do not ascend on every stage: sums are rounded in another order than under other "
                 "planners, so results are close to theirs, not the same bits",
                 name);
}

static void fill_plan(const struct plan_csv *csv, struct plan *plan) {
  memcpy(plan->replica_rank, csv->rank_of, sizeof *csv->rank_of * (size_t)csv->n_stages);
  memcpy(plan->order_offset, csv->offset, sizeof *csv->offset * ((size_t)csv->n_ranks + 1));
  for (int64_t k = 0; k < csv->offset[csv->n_ranks]; k++) plan->order[k] = csv->actions[k].action;
  plan->free_order = csv->descends;
}

static int check_chunks(const struct plan_request *request, int32_t n_stages, int32_t n_ranks, const char *name) {
  if (request->n_chunks == 0 || (int64_t)request->n_chunks * n_ranks == n_stages) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "%s has %d stages on %d ranks, but pipeline.chunks is %d: leave it out, it follows from the file",
                     name, (int)n_stages, (int)n_ranks, (int)request->n_chunks);
}

static int make_plan(const struct plan_request *request, const struct plan_csv *csv, const char *name,
                     struct plan **plan) {
  int32_t m = request->n_micro;
  struct plan_request whole = *request; /* cut into as many stages as the file has */
  whole.n_stages = csv->n_stages;
  whole.n_chunks = 1;
  whole.rank_of = csv->rank_of;
  struct plan *made = plan_create(request->model->n_layers, csv->n_stages, csv->n_ranks, m, csv->offset[csv->n_ranks]);
  if (partition_make(&whole, made->stages)) {
    plan_destroy(&made);
    return error_wrap("%s has %d stages", name, (int)csv->n_stages);
  }
  fill_plan(csv, made);
  planner_fill(request, "file", made);
  *plan = made;
  return STATUS_OK;
}

static int make_from_csv(const struct plan_request *request, const char *name, struct plan **plan) {
  struct plan_csv *csv;
  int status = plan_csv_parse(request->plan_csv, name, &csv);
  if (status) return status;
  if (csv->n_ranks != request->n_ranks) status = refuse_ranks(request, name, csv->n_ranks);
  if (!status) status = check_chunks(request, csv->n_stages, csv->n_ranks, name);
  if (!status) status = plan_csv_check(csv, name, request->n_micro);
  if (!status) status = make_plan(request, csv, name, plan);
  if (!status) note_import(request, csv, name);
  plan_csv_destroy(&csv);
  return status;
}

static int make_from_plan(const struct plan_request *request, const char *name, struct plan **plan) {
  const struct plan *given = request->given;
  if (given->n_ranks != request->n_ranks) return refuse_ranks(request, name, given->n_ranks);
  int status = check_chunks(request, given->n_stages, given->n_ranks, name);
  if (status) return status;
  if (given->forward_only) return error_raise(STATUS_MISTAKE, "%s is a plan for evaluation: it trains nothing", name);
  if (request->partition.kind == PARAMS_CUT_LIST)
    return error_raise(STATUS_MISTAKE, "%s has its own cut of the layers: leave pipeline.partition out", name);
  if (given->n_layers != request->model->n_layers)
    return error_raise(STATUS_MISTAKE, "%s is for a model of %d layers, but the deck's has %d", name,
                       (int)given->n_layers, (int)request->model->n_layers);
  if (given->n_micro != request->n_micro)
    return error_raise(STATUS_MISTAKE,
                       "%s is for %d micro-batches, the step has %d (set data.global_batch to %d times "
                       "data.micro_batch)",
                       name, (int)given->n_micro, (int)request->n_micro, (int)given->n_micro);
  if (request->recompute_ops && !request->recompute_as_needed && given->n_recompute > 0)
    planner_note(request, "%s: it says itself what is recomputed; pipeline.recompute has no effect", name);
  *plan = plan_dup(given);
  (*plan)->hash = 0;
  planner_fill(request, "file", *plan);
  return STATUS_OK;
}

static int make(const struct plan_request *request, struct plan **plan) {
  const char *given = request->params ? request->params->pipeline.plan_file : NULL;
  const char *name = given ? given : "pipeline.plan_file";
  *plan = NULL;
  if (request->plan_csv) return make_from_csv(request, name, plan);
  if (request->given) return make_from_plan(request, name, plan);
  return error_raise(STATUS_MISTAKE, "planner file needs pipeline.plan_file: a plan.h5, or a .csv of actions");
}

const struct planner planner_file = {.id = PARAMS_PLANNER_FILE, .make = make, .takes_file = true};
