/* What planners with one stage a rank have in common: stage s on rank s, each order from its warm-up count. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "plan/planner.h"

int planner_linear_make(const struct plan_request *request, const char *name, planner_warm_up *get_warm_up,
                        struct plan **plan) {
  int32_t p = request->n_stages, m = request->n_micro;
  *plan = NULL;
  if (p != request->n_ranks)
    return error_raise(
        STATUS_MISTAKE,
        "planner %s puts one stage on each rank, but pipeline.stages is %d and ranks are %d: start %d ranks "
        "or set pipeline.stages to %d",
        name, (int)p, (int)request->n_ranks, (int)p, (int)request->n_ranks);
  struct plan *made = plan_create(request->model->n_layers, p, p, m, 2 * (int64_t)p * m);
  int status = partition_make(request, made->stages);
  if (status) {
    plan_destroy(&made);
    return status;
  }
  snprintf(made->planner, sizeof made->planner, "%s", name);
  made->clip = request->clip;
  memcpy(made->micro, request->micro, sizeof *made->micro * (size_t)m);
  int64_t n = 0;
  for (int32_t s = 0; s < p; s++) {
    made->replica_rank[s] = s;
    if (request->device_limit) made->device_limit[s] = request->device_limit[s];
    made->order_offset[s] = n;
    n += order_make_interleaved(s, m, get_warm_up(s, p, m), made->order + n);
  }
  made->order_offset[p] = n;
  *plan = made;
  return STATUS_OK;
}
