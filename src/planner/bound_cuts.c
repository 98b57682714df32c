#include "planner/bound_cuts.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "planner/bound_load.h"

/* Tables have a row a stage, of places between layers. */
struct cuts {
  const struct bound_sums *sums;
  bool limited;
  int32_t n_stages, n_layers;
  double *head, *tail; /* where the stage begins: the least of the stages before; INFINITY: it cannot */
  double *way;         /* where the stage ends: the least through those after it and back */
  double norm;
  bool *before, *ends; /* [n_layers+1] whether the stages so far can end there */
  struct bound_freed *freed;
};

static int64_t count_body(const struct cuts *x, int32_t first, int32_t end) {
  return x->sums->n_body[end] - x->sums->n_body[first];
}

static double *get_place(const struct cuts *x, double *table, int32_t s, int32_t layer) {
  return &table[(int64_t)s * (x->n_layers + 1) + layer];
}

static double get_message(const struct cuts *x, int32_t from, int32_t to, int32_t boundary) {
  const struct plan *plan = x->sums->plan;
  return cost_get_message(x->sums->cost, plan_get_holder(plan, from), plan_get_holder(plan, to),
                          x->sums->sent[boundary - 1]);
}

/* The seconds of layers on the stage's rank: of a forward, and of a gradient's way. */
static double get_forward(const struct cuts *x, int32_t s, int32_t first, int32_t end) {
  return bound_sums_get_one(x->sums, plan_get_holder(x->sums->plan, s), PASS_FORWARD, first, end,
                            count_body(x, first, end));
}
static double get_back(const struct cuts *x, int32_t s, int32_t first, int32_t end) {
  return bound_sums_get_back(x->sums, plan_get_holder(x->sums->plan, s), first, end, count_body(x, first, end));
}

static void lower(double *value, double other) { *value = fmin(*value, other); }

/* Stage s ends, at the latest, where one layer is left for each stage after it. */
static int32_t get_last_end(const struct cuts *x, int32_t s) { return x->n_layers - (x->n_stages - 1 - s); }

static void find_ways(struct cuts *x) {
  int64_t n = (int64_t)x->n_stages * (x->n_layers + 1);
  x->head = MEM_NEW(double, n);
  x->tail = MEM_NEW(double, n);
  x->way = MEM_NEW(double, n);
  for (int64_t k = 0; k < n; k++) x->head[k] = x->tail[k] = x->way[k] = INFINITY;
  *get_place(x, x->head, 0, 0) = *get_place(x, x->tail, 0, 0) = 0;
  *get_place(x, x->way, x->n_stages - 1, x->n_layers) = 0;
  for (int32_t s = 0; s + 1 < x->n_stages; s++)
    for (int32_t first = s; first < x->n_layers; first++) {
      double head = *get_place(x, x->head, s, first), tail = *get_place(x, x->tail, s, first);
      for (int32_t end = first + 1; isfinite(head) && end <= get_last_end(x, s); end++) {
        lower(get_place(x, x->head, s + 1, end), head + get_forward(x, s, first, end) + get_message(x, s, s + 1, end));
        lower(get_place(x, x->tail, s + 1, end), tail + get_back(x, s, first, end) + get_message(x, s + 1, s, end));
      }
    }
  for (int32_t s = x->n_stages - 1; s > 0; s--)
    for (int32_t first = s; first <= get_last_end(x, s - 1); first++)
      for (int32_t end = first + 1; end <= get_last_end(x, s); end++)
        lower(get_place(x, x->way, s - 1, first), *get_place(x, x->way, s, end) + get_forward(x, s, first, end) +
                                                      get_back(x, s, first, end) + get_message(x, s - 1, s, first) +
                                                      get_message(x, s, s - 1, first));
}

static int64_t count_static(const struct cuts *x, int32_t first, int32_t end) {
  const struct model *model = x->sums->model;
  int64_t bytes = 4 * (x->sums->parameters[end] - x->sums->parameters[first]);
  for (int32_t i = 0; i < model->n_ties; i++) {
    const struct tie *tie = &model->ties[i];
    bool owns = tie->layer >= first && tie->layer < end, uses = tie->user >= first && tie->user < end;
    bytes += footprint_tie(model, tie) * (owns ? 1 : uses ? 5 : 0);
  }
  return bytes;
}

static bool can_be_stage(const struct cuts *x, int32_t s, int32_t first, int32_t end, double step, bool *too_long) {
  struct bound_load load = {.freed = x->freed};
  int32_t rank = plan_get_holder(x->sums->plan, s);
  bound_load_add(&load, x->sums,
                 &(struct bound_stage){.rank = rank,
                                       .first = first,
                                       .end = end,
                                       .n_body = count_body(x, first, end),
                                       .n_micro = x->sums->plan->n_micro,
                                       .turn = *get_place(x, x->way, s, end)});
  *too_long = load.passes > step; /* more layers take no less */
  bound_load_close(&load, x->sums, *get_place(x, x->head, s, first), *get_place(x, x->tail, s, first), 0, x->norm);
  load.room = x->limited ? bound_load_get_room(x->sums, rank, count_static(x, first, end)) : INFINITY;
  return !*too_long && bound_load_fits(&load, step);
}

static bool is_possible(void *context, double step) {
  struct cuts *x = context;
  memset(x->before, 0, sizeof *x->before * (size_t)(x->n_layers + 1));
  x->before[0] = true;
  for (int32_t s = 0; s < x->n_stages; s++) {
    memset(x->ends, 0, sizeof *x->ends * (size_t)(x->n_layers + 1));
    for (int32_t first = s; first < x->n_layers; first++) {
      bool too_long = !x->before[first];
      for (int32_t end = first + 1; end <= get_last_end(x, s) && !too_long; end++)
        if (!x->ends[end]) x->ends[end] = can_be_stage(x, s, first, end, step, &too_long);
    }
    bool *ends = x->before;
    x->before = x->ends;
    x->ends = ends;
  }
  return x->before[x->n_layers];
}

double bound_cuts_find(const struct bound_sums *sums, bool limited, double low) {
  struct cuts x = {.sums = sums,
                   .limited = limited,
                   .n_stages = sums->plan->n_stages,
                   .n_layers = sums->n_layers,
                   .norm = cost_get_norm(sums->cost, 0, 0)};
  int32_t most = 0;
  for (int32_t k = 0; k < sums->n_rows; k++) most = sums->rows[k].n_units > most ? sums->rows[k].n_units : most;
  find_ways(&x);
  x.before = MEM_NEW(bool, x.n_layers + 1);
  x.ends = MEM_NEW(bool, x.n_layers + 1);
  x.freed = MEM_NEW(struct bound_freed, most + 1);
  double least = bound_find_least(is_possible, &x, low);
  mem_free(x.head);
  mem_free(x.tail);
  mem_free(x.way);
  mem_free(x.before);
  mem_free(x.ends);
  mem_free(x.freed);
  return least;
}
