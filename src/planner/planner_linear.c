/* The common part of planners with one stage a rank: each order is made from its stage's warm-up count. */
#include "base/error.h"
#include "planner/planner.h"

static int check_chunks(const struct plan_request *request, const char *name) {
  int chunks = planner_count_chunks(request);
  if (chunks == 1) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "planner %s holds one stage on each rank, but pipeline.chunks is %d: set pipeline.chunks to 1, or "
                     "pipeline.planner to interleaved",
                     name, chunks);
}

int planner_linear_make(const struct plan_request *request, const char *name, planner_warm_up *get_warm_up,
                        planner_delay *get_delay, struct plan **plan) {
  int32_t p = request->n_stages, m = request->n_micro;
  *plan = NULL;
  int status = check_chunks(request, name);
  if (!status) status = planner_start(request, name, (get_delay ? 3 : 2) * (int64_t)p * m, plan);
  if (status) return status;
  struct plan *made = *plan;
  int64_t n = 0;
  for (int32_t r = 0; r < p; r++) {
    int32_t s = planner_get_first_stage(request, r), warm_up = get_warm_up(s, p, m);
    made->order_offset[r] = n;
    n += get_delay ? order_make_split(s, m, warm_up, get_delay(s), made->order + n)
                   : order_make_interleaved(s, m, warm_up, made->order + n);
  }
  return STATUS_OK;
}
