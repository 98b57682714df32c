/* The beginning of every planner: the shape of the plan, filled in from the request. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "planner/planner.h"

int32_t planner_count_chunks(const struct plan_request *request) {
  return request->n_chunks > 1 ? request->n_chunks : 1;
}

int32_t planner_count_stages(const struct plan_request *request) {
  return request->n_stages * planner_count_chunks(request);
}

static int check_depth(const struct plan_request *request, const char *name) {
  int p = request->n_stages, ranks = request->n_ranks, chunks = planner_count_chunks(request);
  const char *puts = chunks == 1 ? "one stage" : "the same number of stages";
  if (p == ranks) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "planner %s puts %s on each rank, but pipeline.stages is %d and ranks are %d: start %d ranks "
                     "or set pipeline.stages to %d",
                     name, puts, p, ranks, p, ranks);
}

void planner_fill(const struct plan_request *request, const char *name, struct plan *plan) {
  snprintf(plan->planner, sizeof plan->planner, "%s", name);
  plan->clip = request->clip;
  memcpy(plan->micro, request->micro, sizeof *plan->micro * (size_t)plan->n_micro);
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    plan->device_limit[r] = planner_get_limit(request, r);
    plan->host_limit[r] = request->host_limit ? request->host_limit[r] : INT64_MAX;
    plan->disk_limit[r] = request->disk_limit ? request->disk_limit[r] : INT64_MAX;
  }
}

int32_t planner_get_rank(const struct plan_request *request, int32_t stage) {
  return request->rank_of ? request->rank_of[stage] : stage % request->n_ranks;
}

int32_t planner_get_first_stage(const struct plan_request *request, int32_t rank) {
  int32_t stage = request->rank_of ? 0 : rank;
  while (planner_get_rank(request, stage) != rank) stage++;
  return stage;
}

int64_t planner_get_limit(const struct plan_request *request, int32_t rank) {
  return request->device_limit ? request->device_limit[rank] : INT64_MAX;
}

int planner_start(const struct plan_request *request, const char *name, int64_t n_actions, struct plan **plan) {
  int32_t p = request->n_ranks, m = request->n_micro, n_stages = planner_count_stages(request);
  *plan = NULL;
  int status = check_depth(request, name);
  if (status) return status;
  struct plan *made = plan_create(request->model->n_layers, n_stages, p, m, n_actions);
  status = partition_make(request, made->stages);
  if (status) {
    plan_destroy(&made);
    return status;
  }
  planner_fill(request, name, made);
  for (int32_t s = 0; s < n_stages; s++) made->replica_rank[s] = planner_get_rank(request, s);
  *plan = made;
  return STATUS_OK;
}

void planner_note(const struct plan_request *request, const char *format, ...) {
  if (!request->notes) return;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  const char *before = *request->notes ? *request->notes : "";
  if (strstr(before, line)) return;
  char *longer = mem_format("%s%s%s", before, *before ? "\n" : "", line);
  mem_free(*request->notes);
  *request->notes = longer;
}

int32_t planner_make_worst(int64_t rows, int64_t micro_batch, int64_t length, struct micro_shape **micro) {
  int64_t n = (rows + micro_batch - 1) / micro_batch;
  struct micro_shape *list = MEM_NEW(struct micro_shape, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t left = rows - i * micro_batch;
    list[i] = micro_shape_fill(left < micro_batch ? left : micro_batch, length);
  }
  *micro = list;
  return (int32_t)n;
}
