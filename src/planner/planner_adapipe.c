/* AdaPipe (Sun et al., ASPLOS 2024): 1F1B in which every stage recomputes no more than its own limit asks for, and a
 * partition that takes into account what recomputation costs each stage.
 *
 * The partition is found from the last stage to the first: of the pipeline from stage s on, d stages deep, a
 * micro-batch takes the warm-up W to the first backward, each further one the slowest stage's M, and the ending E: W =
 * f + max(W' + b', (d-1) f)   E = b + max(E' + f', (d-1) b)   M = max(M', f + b)   time = W + E + (m-d) M with ' for
 * stage s+1. For every first layer the cut with the least time is kept. That is an estimate: its result, the even cut
 * and the cost-balanced one are then timed exactly, and the fastest is taken (without costs the even one, if it fits).
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/recompute.h"
#include "planner/one_f_one_b.h"
#include "planner/partition_auto.h"
#include "planner/stage_menu.h"

struct tail {
  double forward, backward, warm_up, ending, slowest, time; /* time INFINITY: there is none that fits */
  int32_t end;                                              /* of the first stage */
};

struct search {
  const struct plan_request *request;
  struct stage_needs *needs;
  struct stage_menu **menus; /* [n_stages] */
  int32_t n_stages, n_layers, n_micro;
  struct tail *tails; /* [n_stages][n_layers] by first stage and first layer */
  double best;        /* step of the fastest partition so far */
  struct plan_stage *stages;
};

static int64_t get_limit(const struct search *x, int32_t stage) {
  return planner_get_limit(x->request, planner_get_rank(x->request, stage));
}

static bool price_stage(const struct search *x, int32_t s, struct plan_stage stage, double *forward, double *backward,
                        uint32_t *ops) {
  double recompute;
  struct stage_need need =
      stage_needs_get(x->needs, s, planner_get_rank(x->request, s), stage.first_layer, stage.n_layers);
  bool fits =
      stage_menu_choose(x->menus[s], &need, stage.first_layer, stage.n_layers, get_limit(x, s), &recompute, ops);
  *forward = need.forward;
  *backward = need.backward + recompute;
  return fits;
}

static void join_tail(const struct search *x, int32_t s, const struct tail *next, struct tail *tail) {
  int32_t ahead = x->n_stages - 1 - s, more = x->n_micro - ahead - 1;
  tail->warm_up = tail->forward;
  tail->ending = tail->backward;
  tail->slowest = tail->forward + tail->backward;
  if (next) {
    tail->warm_up += fmax(next->warm_up + next->backward, ahead * tail->forward);
    tail->ending += fmax(next->ending + next->forward, ahead * tail->backward);
    tail->slowest = fmax(tail->slowest, next->slowest);
  }
  tail->time = tail->warm_up + tail->ending + (more > 0 ? more : 0) * tail->slowest;
}

static void choose_tail(struct search *x, int32_t s, int32_t first) {
  bool last = s == x->n_stages - 1;
  struct tail *best = &x->tails[(int64_t)s * x->n_layers + first];
  best->time = INFINITY;
  for (int32_t end = last ? x->n_layers : first + 1; end <= x->n_layers - (x->n_stages - 1 - s); end++) {
    struct tail tail = {.end = end};
    const struct tail *next = last ? NULL : &x->tails[(int64_t)(s + 1) * x->n_layers + end];
    /* A stage is busy with all micro-batches for as long; more layers take no less. */
    if (stage_needs_get_seconds(x->needs, planner_get_rank(x->request, s), first, end - first) * x->n_micro > x->best)
      break;
    if (next && next->time == INFINITY) continue;
    if (!price_stage(x, s, (struct plan_stage){first, end - first}, &tail.forward, &tail.backward, NULL)) continue;
    join_tail(x, s, next, &tail);
    if (tail.time < best->time) *best = tail;
  }
}

/* False when no partition fits (or none that could be faster than the best so far). */
static bool cut_tails(struct search *x, struct plan_stage *stages) {
  for (int32_t s = x->n_stages - 1; s >= 0; s--)
    for (int32_t first = s; first <= (s == 0 ? 0 : x->n_layers - (x->n_stages - s)); first++) choose_tail(x, s, first);
  if (x->tails[0].time == INFINITY) return false;
  for (int32_t s = 0, first = 0; s < x->n_stages; s++) {
    int32_t end = x->tails[(int64_t)s * x->n_layers + first].end;
    stages[s] = (struct plan_stage){first, end - first};
    first = end;
  }
  return true;
}

/* Takes the partition if it fits and is faster. */
static void try_stages(struct search *x, const struct plan_stage *stages) {
  struct one_f_one_b times = one_f_one_b_create(x->n_stages, x->n_micro);
  bool fits = true;
  const struct micro_shape *micro = stage_needs_get_micro(x->needs);
  int64_t bytes = footprint_boundary(x->request->model, *micro);
  for (int32_t s = 0; s < x->n_stages && fits; s++) {
    fits = price_stage(x, s, stages[s], &times.forward[s], &times.backward[s], NULL);
    if (s + 1 == x->n_stages || !x->request->cost) continue;
    int64_t moved = cost_get_output_bytes(x->request->cost, stages[s].first_layer + stages[s].n_layers - 1, bytes);
    int32_t here = planner_get_rank(x->request, s), next = planner_get_rank(x->request, s + 1);
    times.send[s] = cost_get_message(x->request->cost, here, next, moved);
    times.send_back[s] = cost_get_message(x->request->cost, next, here, moved);
  }
  double step = fits ? one_f_one_b_time(&times) : INFINITY;
  if (step < x->best) {
    x->best = step;
    memcpy(x->stages, stages, sizeof *stages * (size_t)x->n_stages);
  }
  one_f_one_b_free(&times);
}

/* Tries a cut by cost, as if all ops that may be were discarded, or none. */
static void try_kind(struct search *x, enum params_cut kind, bool discards, struct plan_stage *stages) {
  struct plan_request as = *x->request;
  as.partition.kind = kind;
  if (!discards) as.recompute_ops = NULL;
  if (partition_make(&as, stages))
    error_clear(); /* an even cut of whole blocks need not exist */
  else
    try_stages(x, stages);
}

static void open_search(struct search *x, const struct plan_request *request) {
  *x = (struct search){.request = request,
                       .n_stages = request->n_stages,
                       .n_layers = request->model->n_layers,
                       .n_micro = request->n_micro,
                       .best = INFINITY};
  x->needs = stage_needs_create(request);
  x->menus = MEM_NEW(struct stage_menu *, x->n_stages);
  for (int32_t s = 0; s < x->n_stages; s++) x->menus[s] = stage_menu_create(request, x->needs, s);
  x->tails = MEM_NEW(struct tail, (int64_t)x->n_stages * x->n_layers);
  x->stages = MEM_NEW(struct plan_stage, x->n_stages);
}

static void close_search(struct search *x) {
  for (int32_t s = 0; s < x->n_stages; s++) stage_menu_destroy(&x->menus[s]);
  stage_needs_destroy(&x->needs);
  mem_free(x->menus);
  mem_free(x->tails);
  mem_free(x->stages);
}

/* Given stages are kept, if the request gives any. */
static void find_stages(struct search *x, const struct plan_stage *given) {
  struct plan_stage *stages = MEM_NEW(struct plan_stage, x->n_stages);
  if (x->request->partition.kind != PARAMS_CUT_AUTO) {
    try_stages(x, given);
  } else {
    try_kind(x, PARAMS_CUT_EVEN, false, stages);
    try_kind(x, PARAMS_CUT_AUTO, true, stages);
    try_kind(x, PARAMS_CUT_AUTO, false, stages);
    if ((x->request->cost || x->best == INFINITY) && cut_tails(x, stages)) try_stages(x, stages);
  }
  mem_free(stages);
}

/* The stage that lacks most when all that can be is recomputed, for the message. */
static int refuse(const struct search *x, const struct plan_stage *stages) {
  int64_t most = -1, limit = 0;
  int32_t worst = 0;
  for (int32_t s = 0; s < x->n_stages; s++) {
    struct stage_need need =
        stage_needs_get(x->needs, s, planner_get_rank(x->request, s), stages[s].first_layer, stages[s].n_layers);
    int64_t lacks =
        stage_menu_get_least(x->menus[s], &need, stages[s].first_layer, stages[s].n_layers) - get_limit(x, s);
    if (lacks <= most) continue;
    most = lacks;
    worst = s;
    limit = get_limit(x, s);
  }
  return error_raise(
      STATUS_MISTAKE,
      "planner adapipe finds no plan that fits: with all recomputed that may be, stage %d still takes %lld bytes more "
      "than rank %d has (memory.device_limit %lld): raise the limit, or lower data.micro_batch or "
      "data.sequence_length, or use more stages",
      (int)worst, (long long)most, (int)planner_get_rank(x->request, worst), (long long)limit);
}

static void put_choice(const struct search *x, struct plan *plan) {
  uint32_t *ops = MEM_NEW(uint32_t, x->n_layers);
  bool *all = MEM_NEW(bool, x->n_stages);
  memcpy(plan->stages, x->stages, sizeof *plan->stages * (size_t)x->n_stages);
  for (int32_t s = 0; s < x->n_stages; s++) {
    double forward, backward;
    all[s] = true;
    price_stage(x, s, x->stages[s], &forward, &backward, ops);
  }
  recompute_put(plan, ops, all);
  plan->recompute_early = plan->n_recompute > 0 && x->request->recompute_early;
  mem_free(ops);
  mem_free(all);
}

static int make(const struct plan_request *request, struct plan **plan) {
  *plan = NULL;
  int status = planner_linear_make(request, "adapipe", one_f_one_b_get_warm_up, NULL, plan);
  if (status) return status;
  struct search search;
  open_search(&search, request);
  find_stages(&search, (*plan)->stages);
  if (search.best < INFINITY)
    put_choice(&search, *plan);
  else
    status = refuse(&search, (*plan)->stages);
  close_search(&search);
  if (status) plan_destroy(plan);
  return status;
}

const struct planner planner_adapipe = {.id = PARAMS_PLANNER_ADAPIPE, .make = make, .recomputes_itself = true};
