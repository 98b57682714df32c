#include "planner/order_time.h"

#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "dag/stage_price.h"
#include "model/footprint.h"
#include "model/model.h"

struct progress {
  const struct plan_request *request;
  const struct plan *plan;
  struct order_time *times;
  struct stage_prices *prices; /* NULL: no costs */
  int64_t *next;               /* [n_ranks] the next action */
  double *clock;               /* [n_ranks] end of the last one */
  double least;                /* seconds that an action takes at least */
  double *forward, *input;     /* [n_stages][n_micro] ends of F, and of B or I; NaN: not yet */
};

static double *at(const struct progress *x, double *ends, int32_t stage, int32_t micro) {
  return &ends[(int64_t)stage * x->plan->n_micro + micro];
}

static double get_message(const struct progress *x, int32_t from, int32_t to, int32_t micro) {
  const struct cost *cost = x->request->cost;
  const struct micro_shape *m = &x->plan->micro[micro];
  if (!cost) return 0;
  int32_t lower = from < to ? from : to,
          layer = x->plan->stages[lower].first_layer + x->plan->stages[lower].n_layers - 1;
  int64_t bytes = cost_get_output_bytes(cost, layer, footprint_boundary(x->request->model, *m));
  return cost_get_message(cost, plan_find_rank(x->plan, from, micro), plan_find_rank(x->plan, to, micro), bytes);
}

static double get_length(const struct progress *x, const struct plan_action *a) {
  if (!x->request->cost) return a->kind == NODE_B ? 2 : 1;
  struct stage_price price = stage_prices_get(x->prices, a->stage, a->micro);
  switch (a->kind) {
  case NODE_F: return price.forward;
  case NODE_R: return price.recompute;
  case NODE_I: return price.input;
  case NODE_W: return price.weight;
  default: return price.input + price.weight;
  }
}

/* A millionth of what an action takes on the average, 1 where all take none. Times that do not rise from one action to
 * the next would not tell which comes first, and what planners place by them could wait in circles. */
static double get_least(const struct progress *x) {
  double sum = 0;
  int64_t n = x->plan->order_offset[x->plan->n_ranks];
  for (int64_t k = 0; k < n; k++) sum += get_length(x, &x->plan->order[k]);
  return sum > 0 ? 1e-6 * sum / (double)n : 1;
}

/* When what an action needs of other stages is there; NaN: not known yet. */
static double get_ready(const struct progress *x, const struct plan_action *a) {
  bool takes_gradient = a->kind == NODE_B || a->kind == NODE_I || (a->kind == NODE_R && !x->plan->recompute_early);
  if (a->kind == NODE_F && a->stage > 0)
    return *at(x, x->forward, a->stage - 1, a->micro) + get_message(x, a->stage - 1, a->stage, a->micro);
  if (takes_gradient && a->stage + 1 < x->plan->n_stages)
    return *at(x, x->input, a->stage + 1, a->micro) + get_message(x, a->stage + 1, a->stage, a->micro);
  return 0;
}

static bool go(struct progress *x, int32_t rank) {
  if (x->next[rank] == x->plan->order_offset[rank + 1]) return false;
  int64_t k = x->next[rank];
  const struct plan_action *a = &x->plan->order[k];
  double ready = get_ready(x, a);
  if (isnan(ready)) return false;
  x->times->start[k] = fmax(ready, x->clock[rank]);
  x->times->end[k] = x->clock[rank] = x->times->start[k] + fmax(get_length(x, a), x->least);
  if (a->kind == NODE_F) *at(x, x->forward, a->stage, a->micro) = x->times->end[k];
  if (a->kind == NODE_B || a->kind == NODE_I) *at(x, x->input, a->stage, a->micro) = x->times->end[k];
  x->times->makespan = fmax(x->times->makespan, x->times->end[k]);
  x->next[rank]++;
  return true;
}

int order_time_make(const struct plan_request *request, const struct plan *plan, struct order_time *times) {
  int64_t n = plan->order_offset[plan->n_ranks], n_ends = (int64_t)plan->n_stages * plan->n_micro, n_done = 0;
  *times = (struct order_time){.start = MEM_NEW(double, n), .end = MEM_NEW(double, n)};
  struct progress x = {.request = request,
                       .plan = plan,
                       .times = times,
                       .prices = request->cost ? stage_prices_create(plan, request->model, request->cost) : NULL,
                       .next = MEM_NEW(int64_t, plan->n_ranks),
                       .clock = MEM_NEW(double, plan->n_ranks),
                       .forward = MEM_NEW(double, n_ends),
                       .input = MEM_NEW(double, n_ends)};
  x.least = get_least(&x);
  for (int64_t i = 0; i < n_ends; i++) x.forward[i] = x.input[i] = NAN;
  for (int32_t r = 0; r < plan->n_ranks; r++) x.next[r] = plan->order_offset[r];
  /* Down for forwards, up for backwards: most of what can go does in two sweeps. */
  for (bool any = true; any;) {
    any = false;
    for (int32_t r = 0; r < plan->n_ranks; r++)
      for (; go(&x, r); n_done++) any = true;
    for (int32_t r = plan->n_ranks - 1; r >= 0; r--)
      for (; go(&x, r); n_done++) any = true;
  }
  stage_prices_destroy(&x.prices);
  mem_free(x.next);
  mem_free(x.clock);
  mem_free(x.forward);
  mem_free(x.input);
  return n_done == n ? STATUS_OK : error_raise(STATUS_FAILED, "plan: its orders wait for one another");
}

void order_time_fini(struct order_time *times) {
  mem_free(times->start);
  mem_free(times->end);
  *times = (struct order_time){0};
}

int32_t order_time_count_ended(const struct plan *plan, const struct order_time *times, int32_t rank, double at) {
  int64_t low = plan->order_offset[rank], high = plan->order_offset[rank + 1];
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (times->end[middle] <= at)
      low = middle + 1;
    else
      high = middle;
  }
  return (int32_t)(low - plan->order_offset[rank]);
}
