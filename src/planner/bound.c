#include "planner/bound.h"

#include <math.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "dag/dag_price.h"
#include "model/footprint.h"
#include "model/model.h"
#include "planner/bound_cuts.h"
#include "planner/bound_load.h"

struct stages {
  const struct bound_sums *sums;
  const struct plan *plan;
  bool limited;
  int64_t *n_body;           /* [n_ranks] layers of blocks */
  double *head, *tail, *way; /* [n_stages] as in bound.h */
  double update, norm;       /* the longest of all ranks */
};

/* ---- ways ---- */

/* The least of a function over the ranks that hold a stage. */
typedef double of_rank(const struct stages *x, int32_t s, int32_t rank);
static double find_least(const struct stages *x, int32_t s, of_rank *seconds) {
  double least = INFINITY;
  for (int32_t r = 0; r < x->plan->n_ranks; r++)
    if (plan_holds(x->plan, s, r)) least = fmin(least, seconds(x, s, r));
  return least;
}

static double get_forward(const struct stages *x, int32_t s, int32_t rank) {
  const struct plan_stage *stage = &x->plan->stages[s];
  return bound_sums_get_one(x->sums, rank, PASS_FORWARD, stage->first_layer, stage->first_layer + stage->n_layers,
                            x->n_body[rank]);
}

static double get_back(const struct stages *x, int32_t s, int32_t rank) {
  const struct plan_stage *stage = &x->plan->stages[s];
  return bound_sums_get_back(x->sums, rank, stage->first_layer, stage->first_layer + stage->n_layers, x->n_body[rank]);
}

/* The message between a stage and another one beside it; none where ranks share stages, as it may be on one of them. */
static double get_message(const struct stages *x, int32_t from, int32_t to) {
  const struct plan_stage *lower = &x->plan->stages[from < to ? from : to];
  if (x->plan->n_replicas > x->plan->n_stages) return 0;
  return cost_get_message(x->sums->cost, plan_get_holder(x->plan, from), plan_get_holder(x->plan, to),
                          x->sums->sent[lower->first_layer + lower->n_layers - 1]);
}

static void find_ways(struct stages *x) {
  int32_t n = x->plan->n_stages;
  x->head = MEM_NEW(double, n);
  x->tail = MEM_NEW(double, n);
  x->way = MEM_NEW(double, n);
  for (int32_t s = 1; s < n; s++) {
    x->head[s] = x->head[s - 1] + find_least(x, s - 1, get_forward) + get_message(x, s - 1, s);
    x->tail[s] = x->tail[s - 1] + find_least(x, s - 1, get_back) + get_message(x, s, s - 1);
  }
  for (int32_t s = n - 2; s >= 0; s--)
    x->way[s] = x->way[s + 1] + find_least(x, s + 1, get_forward) + find_least(x, s + 1, get_back) +
                get_message(x, s, s + 1) + get_message(x, s + 1, s);
}

/* ---- ranks ---- */

static bool *list_held(const struct stages *x, int32_t rank) {
  bool *holds = MEM_NEW(bool, x->plan->n_layers);
  for (int32_t s = 0; s < x->plan->n_stages; s++)
    for (int32_t k = 0; k < x->plan->stages[s].n_layers; k++)
      holds[x->plan->stages[s].first_layer + k] = plan_holds(x->plan, s, rank);
  return holds;
}

/* What comes after the last gradient of all ranks. */
static void find_ends(struct stages *x) {
  for (int32_t r = 0; r < x->plan->n_ranks; r++) {
    bool *holds = list_held(x, r);
    int64_t n_floats = 0;
    double update = 0;
    for (int32_t l = 0; l < x->plan->n_layers; l++) {
      if (!holds[l]) continue;
      n_floats += x->sums->model->layers[l].n_floats;
      update += bound_sums_get_update(x->sums, r, l, l + 1);
    }
    x->update = fmax(x->update, update);
    x->norm = fmax(x->norm, cost_get_norm(x->sums->cost, r, n_floats));
    mem_free(holds);
  }
}

static int32_t count_micro(const struct stages *x, int32_t s, int32_t rank) {
  int32_t n = 0;
  for (int32_t i = 0; i < x->plan->n_micro; i++) n += plan_find_rank(x->plan, s, i) == rank;
  return n;
}

static double get_room(const struct stages *x, int32_t rank) {
  if (!x->limited) return INFINITY;
  bool *holds = list_held(x, rank);
  double room = bound_load_get_room(x->sums, rank, footprint_static(x->sums->model, holds));
  mem_free(holds);
  return room;
}

static bool is_possible(void *load, double step) { return bound_load_fits(load, step); }

static double bound_rank(const struct stages *x, int32_t rank) {
  int32_t lowest = -1;
  int64_t n_units = x->sums->rows[x->sums->alike[rank]].n_units;
  struct bound_load load = {.freed = MEM_NEW(struct bound_freed, x->plan->n_stages * n_units + 1)};
  for (int32_t s = 0; s < x->plan->n_stages; s++) {
    if (!plan_holds(x->plan, s, rank)) continue;
    if (lowest < 0) lowest = s;
    const struct plan_stage *stage = &x->plan->stages[s];
    bound_load_add(&load, x->sums,
                   &(struct bound_stage){.rank = rank,
                                         .first = stage->first_layer,
                                         .end = stage->first_layer + stage->n_layers,
                                         .n_body = x->n_body[rank],
                                         .n_micro = count_micro(x, s, rank),
                                         .turn = x->way[s]});
  }
  double least = 0;
  if (lowest >= 0) {
    bound_load_close(&load, x->sums, x->head[lowest], x->tail[lowest], x->update, x->norm);
    load.room = get_room(x, rank);
    least = bound_find_least(is_possible, &load, load.least);
  }
  mem_free(load.freed);
  return least;
}

static double bound_ranks(struct stages *x, bool limited) {
  double most = 0;
  x->limited = limited;
  for (int32_t r = 0; r < x->plan->n_ranks; r++) most = fmax(most, bound_rank(x, r));
  return most;
}

/* ---- the whole ---- */

/* All the work on whichever rank does it fastest, divided by the ranks. A list of shares says nothing of layers. */
static double bound_shared(const struct bound_sums *sums) {
  double sum = 0;
  for (int64_t n_body = 0; n_body <= sums->n_body[sums->n_layers]; n_body++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      if (cost_get_share_factor(sums->cost, (enum pass)pass, n_body) != 1) return NAN;
  for (int32_t l = 0; l < sums->n_layers; l++) {
    double least = INFINITY;
    for (int32_t r = 0; r < sums->plan->n_ranks; r++) {
      double seconds = bound_sums_get_update(sums, r, l, l + 1);
      for (int pass = 0; pass < PASS_COUNT; pass++)
        seconds += bound_sums_get_all(sums, r, (enum pass)pass, l, l + 1, 0);
      least = fmin(least, seconds);
    }
    sum += least;
  }
  return sum / sums->plan->n_ranks;
}

static bool is_linear(const struct plan *plan) {
  bool linear = plan->n_stages == plan->n_ranks && plan->n_replicas == plan->n_stages;
  for (int32_t s = 0; s < plan->n_stages && linear; s++)
    for (int32_t t = 0; t < s && linear; t++) linear = plan_get_holder(plan, s) != plan_get_holder(plan, t);
  return linear;
}

struct bound bound_make(const struct plan *plan, const struct model *model, const struct cost *cost) {
  struct bound_sums *sums = bound_sums_create(plan, model, cost);
  struct stages x = {.sums = sums, .plan = plan, .n_body = MEM_NEW(int64_t, plan->n_ranks)};
  struct bound bound = {.cut_staying = NAN, .any_staying = NAN};
  bool linear = is_linear(plan), stays = plan->n_moves == 0 && plan->n_replicas == plan->n_stages;
  double shared = bound_shared(sums);
  for (int32_t r = 0; r < plan->n_ranks; r++) x.n_body[r] = dag_price_count_body(plan, model, r);
  find_ways(&x);
  find_ends(&x);
  bound.cut = bound_ranks(&x, false);
  bound.any = linear ? bound_cuts_find(sums, false, isnan(shared) ? 0 : shared) : shared;
  if (stays) bound.cut_staying = bound_ranks(&x, true);
  if (stays) bound.any_staying = linear ? bound_cuts_find(sums, true, bound.any) : shared;
  mem_free(x.n_body);
  mem_free(x.head);
  mem_free(x.tail);
  mem_free(x.way);
  bound_sums_destroy(&sums);
  return bound;
}
