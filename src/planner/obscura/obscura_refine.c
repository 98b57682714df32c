/* Improves a draft beyond rules: annealing over schedules. A step changes what one micro-batch discards on one stage,
 * or moves one action in the order of its stage; it counts when the stage still fits, and is kept when the step is
 * faster, or by chance when it is a little slower. Numbers are drawn from a fixed seed and the budget is a number of
 * actions, so that a request always gets the same plan. What is best by the quick time is judged by planner_evaluate;
 * bytes that the plan takes beyond the estimate are taken off the stage's limit for another try.
 */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "planner/obscura/obscura_schedule.h"

/* BUDGET: actions whose times are found in one annealing. MOST_ACTIONS: larger schedules are not refined, as a change
 * of one action is nothing to them. */
enum { BUDGET = 6000000, LEAST_STEPS = 2000, MOST_ACTIONS = 1200, TRIES = 3, MOST_JUMP = 5 };
/* The chance of a slower step falls from FIRST to LAST of the time at the start. */
static const double FIRST = 0.03, LAST = 0.0003;

struct annealing {
  const struct obscura *x;
  struct obscura_schedule *now, *best; /* the schedule that is changed, and the fastest so far */
  struct obscura_schedule *before;     /* the stage that is changed, before the change */
  struct obscura_clockwork *clockwork;
  double seconds, best_seconds;
  struct rng_key key;
  uint64_t n_drawn;
};

static uint32_t draw(struct annealing *a, uint32_t n) { return (uint32_t)(rng_bits(&a->key, a->n_drawn++) % n); }

static bool fits(const struct annealing *a, int32_t stage) {
  const struct plan_request *request = a->x->request;
  if (obscura_schedule_get_peak(a->now, stage) > obscura_get_limit(a->x, a->now->draft, stage)) return false;
  return !request->host_limit ||
         obscura_schedule_get_host_peak(a->now, stage) <= request->host_limit[planner_get_rank(request, stage)];
}

/* Another way for a micro-batch. False when the stage has no other. */
static bool change_way(struct annealing *a, int32_t stage) {
  int32_t n = a->now->ways->n[stage], micro = (int32_t)draw(a, (uint32_t)a->now->n_micro);
  if (n < 2) return false;
  int32_t way = (int32_t)draw(a, (uint32_t)n), was = a->now->chosen[(int64_t)stage * a->now->n_micro + micro];
  if (way == was) return false;
  obscura_schedule_choose(a->now, stage, micro, way);
  return true;
}

/* The block of a micro-batch leaves, or stays. */
static bool change_block(struct annealing *a, int32_t stage) {
  int32_t micro = (int32_t)draw(a, (uint32_t)a->now->n_micro);
  if (!a->now->moved[(int64_t)stage * a->now->n_micro + micro]) return obscura_schedule_evict(a->now, stage, micro);
  obscura_schedule_keep(a->now, stage, micro);
  return true;
}

/* An action goes some places on or back, as far as it may. */
static bool move_action(struct annealing *a, int32_t stage) {
  int32_t place = (int32_t)draw(a, (uint32_t)a->now->n_actions[stage]), jump = 1 + (int32_t)draw(a, MOST_JUMP);
  bool on = draw(a, 2), moved = false;
  for (; jump > 0 && obscura_schedule_swap(a->now, stage, on ? place : place - 1); jump--) {
    place += on ? 1 : -1;
    moved = true;
  }
  return moved;
}

static void step(struct annealing *a, double heat) {
  int32_t stage = (int32_t)draw(a, (uint32_t)a->now->n_stages);
  obscura_schedule_copy_stage(a->before, a->now, stage);
  bool leaves = a->now->ways->may_leave[stage] && draw(a, 4) == 0;
  bool changed = leaves ? change_block(a, stage) : draw(a, 3) ? move_action(a, stage) : change_way(a, stage);
  if (changed && draw(a, 4) == 0) changed = move_action(a, stage) || changed;
  if (changed && draw(a, 8) == 0) changed = change_way(a, stage) || changed;
  double seconds = changed && fits(a, stage) ? obscura_schedule_time(a->now, a->clockwork) : INFINITY;
  double chance = rng_uniform(&a->key, a->n_drawn++);
  if (seconds > a->seconds && chance >= exp((a->seconds - seconds) / heat)) {
    obscura_schedule_copy_stage(a->now, a->before, stage);
    return;
  }
  a->seconds = seconds;
  if (seconds >= a->best_seconds * (1 - 1e-12)) return;
  a->best_seconds = seconds;
  obscura_schedule_copy(a->best, a->now);
}

static void anneal(struct annealing *a) {
  int64_t n_actions = 0;
  for (int32_t s = 0; s < a->now->n_stages; s++) n_actions += a->now->n_actions[s];
  int64_t n_steps = BUDGET / n_actions > LEAST_STEPS ? BUDGET / n_actions : LEAST_STEPS;
  double first = FIRST * a->best_seconds, ratio = LAST / FIRST;
  for (int64_t k = 0; k < n_steps; k++) step(a, first * pow(ratio, (double)k / (double)n_steps));
}

/* Where the draft's schedule does not fit by the estimate, everything is discarded to begin with. */
static bool begin(struct annealing *a) {
  for (int32_t s = 0; s < a->now->n_stages; s++) {
    int32_t last = a->now->ways->n[s] - 1;
    for (int32_t i = 0; i < a->now->n_micro && !fits(a, s); i++) obscura_schedule_choose(a->now, s, i, last);
    if (!fits(a, s)) return false;
  }
  a->seconds = a->best_seconds = obscura_schedule_time(a->now, a->clockwork);
  obscura_schedule_copy(a->best, a->now);
  return isfinite(a->seconds);
}

/* Raises the margins of stages whose ranks are over their limits; false when none is. */
static bool learn(const struct annealing *a, struct obscura_draft *d, const int64_t *peaks) {
  bool more = false;
  for (int32_t s = 0; s < a->x->n_stages; s++) {
    int32_t rank = planner_get_rank(a->x->request, s);
    if (peaks[rank] == INT64_MAX || peaks[rank] <= planner_get_limit(a->x->request, rank)) continue;
    d->margin[s] = peaks[rank] - obscura_schedule_get_peak(a->best, s);
    more = true;
  }
  return more;
}

/* Offers the plan of the best schedule; true when another try may fit. */
static bool judge(const struct annealing *a, struct obscura_draft *d, struct obscura_choice *choice) {
  int64_t *peaks = MEM_NEW(int64_t, a->x->request->n_ranks);
  double found = obscura_choice_offer(choice, a->x, obscura_schedule_build(a->x, a->best), peaks);
  bool again = isinf(found) && learn(a, d, peaks);
  mem_free(peaks);
  return again;
}

void obscura_refine(struct obscura *x, const struct obscura_draft *draft, struct obscura_choice *choice) {
  if (!x->request->simulate || !x->early || 3 * (int64_t)x->n_stages * x->n_micro > MOST_ACTIONS) return;
  struct obscura_draft *d = obscura_draft_dup(x, draft);
  struct obscura_ways *ways = obscura_ways_create(x, d);
  for (int t = 0; t < TRIES; t++) {
    struct annealing a = {.x = x, .key = {.seed = 1, .purpose = RNG_PLAN, .a = (uint32_t)t}};
    a.now = obscura_schedule_create(x, ways, d);
    a.best = obscura_schedule_create(x, ways, d);
    a.before = obscura_schedule_create(x, ways, d);
    a.clockwork = obscura_clockwork_create(x, d);
    bool again = begin(&a);
    if (again) anneal(&a);
    if (again) again = judge(&a, d, choice);
    obscura_schedule_destroy(&a.now);
    obscura_schedule_destroy(&a.best);
    obscura_schedule_destroy(&a.before);
    obscura_clockwork_destroy(&a.clockwork);
    if (!again) break;
  }
  obscura_ways_destroy(&ways);
  obscura_draft_destroy(&d);
}
