/* Improves a draft beyond rules: annealing over schedules. A step changes what one micro-batch discards on one stage,
 * lets a block leave, or moves one action in the order of its stage; it is kept when the step is faster, or by chance
 * when it is a little slower. What does not fit counts as slower, so that a change that needs a second one beside it
 * can be found; the best schedule is one that fits. Numbers are drawn from a fixed seed and the budget is a number of
 * actions, so that a request always gets the same plan. What is best by the quick time is judged by planner_evaluate;
 * bytes that the plan takes beyond the estimate are taken off the stage's limit for another try.
 */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "planner/obscura/obscura_schedule.h"

/* BUDGET: actions whose times are found for one draft, in as many runs from the same start as have room for RUN_STEPS.
 * STEPS: for each action of a schedule, at most, as tiny ones soon repeat themselves. MOST_ACTIONS: larger schedules
 * are not refined: runs of this length end somewhere else in them with every limit, so that more memory can be slower.
 * MOST_CUTS: so many cuts are all tried where schedules are small enough for several runs, those of them that look best
 * with the whole budget.
 */
enum { BUDGET = 1500000, RUN_STEPS = 8000, STEPS = 2000, MOST_RUNS = 6, MOST_ACTIONS = 100, TRIES = 3, MOST_JUMP = 5 };
enum { MOST_CUTS = 60, BEST_CUTS = 3 };
/* The chance of a slower step falls from FIRST to LAST of the time at the start. */
static const double FIRST = 0.03, LAST = 0.0003;
/* The parts of the time that count when a schedule does not fit: of any, and for all of a limit too much. */
static const double LEAST_PENALTY = 0.005, PENALTY = 2;

struct annealing {
  const struct obscura *x;
  struct obscura_schedule *start;      /* the draft's */
  struct obscura_schedule *now, *best; /* the schedule that is changed, and the fastest so far */
  struct obscura_schedule *before;     /* the stage that is changed, before the change */
  struct obscura_clockwork *clockwork;
  double *over; /* [n_stages] as measure_over says of `now` */
  double seconds, best_seconds;
  struct rng_key key;
  uint64_t n_drawn;
};

static uint32_t draw(struct annealing *a, uint32_t n) { return (uint32_t)(rng_bits(&a->key, a->n_drawn++) % n); }

/* The part of its limit that a stage takes too much; 0: it fits. */
static double measure_over(const struct annealing *a, int32_t stage) {
  const struct plan_request *request = a->x->request;
  int64_t peak = obscura_schedule_get_peak(a->now, stage), limit = obscura_get_limit(a->x, a->now->draft, stage);
  double over = peak > limit ? (double)(peak - limit) / fmax((double)limit, 1) : 0;
  if (!request->host_limit) return over;
  int64_t held = obscura_schedule_get_host_peak(a->now, stage);
  int64_t most = request->host_limit[planner_get_rank(request, stage)];
  return held > most ? over + (double)(held - most) / fmax((double)most, 1) : over;
}

/* The seconds that the schedule counts for, with a penalty where it does not fit. */
static double weigh(const struct annealing *a, double *over) {
  *over = 0;
  for (int32_t s = 0; s < a->now->n_stages; s++) *over += a->over[s];
  double seconds = obscura_schedule_time(a->now, a->clockwork);
  return *over > 0 ? seconds * (1 + LEAST_PENALTY + PENALTY * *over) : seconds;
}

/* Another way for a micro-batch. False when the stage has no other. */
static bool change_way(struct annealing *a, int32_t stage) {
  int32_t n = a->now->ways->n[stage], micro = (int32_t)draw(a, (uint32_t)a->now->n_micro);
  if (n < 2) return false;
  int32_t way = (int32_t)draw(a, (uint32_t)n), was = a->now->chosen[(int64_t)stage * a->now->n_micro + micro];
  if (way == was) return false;
  return obscura_schedule_choose(a->now, stage, micro, way);
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
  double before = a->over[stage], over = 0;
  a->over[stage] = measure_over(a, stage);
  double seconds = changed ? weigh(a, &over) : INFINITY;
  double chance = rng_uniform(&a->key, a->n_drawn++);
  if (seconds > a->seconds && chance >= exp((a->seconds - seconds) / heat)) {
    obscura_schedule_copy_stage(a->now, a->before, stage);
    a->over[stage] = before;
    return;
  }
  a->seconds = seconds;
  if (over > 0 || seconds >= a->best_seconds * (1 - 1e-12)) return;
  a->best_seconds = seconds;
  obscura_schedule_copy(a->best, a->now);
}

static void anneal(struct annealing *a, int64_t n_steps) {
  double first = FIRST * a->best_seconds, ratio = LAST / FIRST;
  for (int64_t k = 0; k < n_steps; k++) step(a, first * pow(ratio, (double)k / (double)n_steps));
}

/* Makes a stage fit by the estimate: micro-batches discard everything, then their blocks leave too. */
static bool squeeze(struct annealing *a, int32_t stage) {
  int32_t last = a->now->ways->n[stage] - 1;
  for (int32_t i = 0; i < a->now->n_micro && measure_over(a, stage) > 0; i++)
    obscura_schedule_choose(a->now, stage, i, last);
  for (int32_t i = 0; i < a->now->n_micro && a->now->ways->may_leave[stage] && measure_over(a, stage) > 0; i++)
    if (!a->now->moved[(int64_t)stage * a->now->n_micro + i]) obscura_schedule_evict(a->now, stage, i);
  return (a->over[stage] = measure_over(a, stage)) <= 0;
}

static bool begin(struct annealing *a) {
  for (int32_t s = 0; s < a->now->n_stages; s++)
    if (!squeeze(a, s)) return false;
  a->seconds = obscura_schedule_time(a->now, a->clockwork);
  if (a->seconds < a->best_seconds) {
    a->best_seconds = a->seconds;
    obscura_schedule_copy(a->best, a->now);
  }
  return isfinite(a->seconds);
}

static void open_annealing(struct annealing *a, const struct obscura *x, const struct obscura_ways *ways,
                           const struct obscura_draft *d) {
  *a = (struct annealing){.x = x, .key = {.seed = 1, .purpose = RNG_PLAN}, .best_seconds = INFINITY};
  a->start = obscura_schedule_create(x, ways, d);
  a->now = obscura_schedule_create(x, ways, d);
  a->best = obscura_schedule_create(x, ways, d);
  a->before = obscura_schedule_create(x, ways, d);
  a->clockwork = obscura_clockwork_create(x, d);
  a->over = MEM_NEW(double, x->n_stages);
}

static void close_annealing(struct annealing *a) {
  obscura_schedule_destroy(&a->start);
  obscura_schedule_destroy(&a->now);
  obscura_schedule_destroy(&a->best);
  obscura_schedule_destroy(&a->before);
  obscura_clockwork_destroy(&a->clockwork);
  mem_free(a->over);
}

/* Every run begins with the draft, and the best of all stays. False when it cannot be made to fit. */
static bool run(struct annealing *a, int64_t budget) {
  int64_t n_actions = 0;
  for (int32_t s = 0; s < a->now->n_stages; s++) n_actions += a->start->n_actions[s];
  int64_t n_steps = budget / n_actions + 1, n_runs = n_steps / RUN_STEPS;
  if (n_steps > STEPS * n_actions) n_steps = STEPS * n_actions;
  n_runs = n_runs < 1 ? 1 : n_runs > MOST_RUNS ? MOST_RUNS : n_runs;
  for (int64_t r = 0; r < n_runs; r++) {
    a->key.a = (uint32_t)r;
    obscura_schedule_copy(a->now, a->start);
    if (!begin(a)) return false;
    anneal(a, n_steps / n_runs);
  }
  return true;
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

static bool is_refined(const struct obscura *x, int64_t most_actions) {
  return x->request->simulate && x->early && 3 * (int64_t)x->n_stages * x->n_micro <= most_actions;
}

void obscura_refine(struct obscura *x, const struct obscura_draft *draft, bool swaps, struct obscura_choice *choice) {
  if (!is_refined(x, MOST_ACTIONS)) return;
  struct obscura_draft *d = obscura_draft_dup(x, draft);
  struct obscura_ways *ways = obscura_ways_create(x, d, swaps);
  bool again = true;
  for (int t = 0; t < TRIES && again; t++) {
    struct annealing a;
    open_annealing(&a, x, ways, d);
    again = run(&a, BUDGET) && judge(&a, d, choice);
    close_annealing(&a);
  }
  obscura_ways_destroy(&ways);
  obscura_draft_destroy(&d);
}

/* ---- all cuts ---- */

/* Sets draft->seconds to what a short annealing finds. */
static void look(struct obscura *x, struct obscura_draft *d, bool swaps) {
  struct obscura_ways *ways = obscura_ways_create(x, d, swaps);
  struct annealing a;
  open_annealing(&a, x, ways, d);
  d->seconds = run(&a, BUDGET / MOST_RUNS) ? a.best_seconds : INFINITY;
  close_annealing(&a);
  obscura_ways_destroy(&ways);
}

/* The next cut in the order of its last boundaries. False after the last one. */
static bool step_cut(struct plan_stage *stages, int32_t n_stages, int32_t n_layers) {
  int32_t s = n_stages - 1;
  while (s > 0 && stages[s].first_layer == n_layers - (n_stages - s)) s--;
  if (s == 0) return false;
  int32_t first = stages[s].first_layer + 1;
  for (; s < n_stages; s++) stages[s].first_layer = first++;
  for (s = 0; s < n_stages; s++)
    stages[s].n_layers = (s + 1 < n_stages ? stages[s + 1].first_layer : n_layers) - stages[s].first_layer;
  return true;
}

static bool are_few(int32_t n_layers, int32_t n_stages) {
  double n = 1;
  for (int32_t k = 1; k < n_stages && n <= MOST_CUTS; k++) n = n * (n_layers - k) / k;
  return n <= MOST_CUTS;
}

void obscura_refine_cuts(struct obscura *x, bool swaps, struct obscura_choice *choice) {
  if (x->request->partition.kind != PARAMS_CUT_AUTO || !is_refined(x, BUDGET / RUN_STEPS / 2)) return;
  if (!are_few(x->n_layers, x->n_stages)) return;
  struct obscura_draft *best[BEST_CUTS + 1] = {NULL};
  struct plan_stage *stages = MEM_NEW(struct plan_stage, x->n_stages);
  for (int32_t s = 0; s < x->n_stages; s++)
    stages[s] = (struct plan_stage){s, s + 1 < x->n_stages ? 1 : x->n_layers - s};
  do {
    struct obscura_draft *d = obscura_draft_create(x, stages);
    look(x, d, swaps);
    int at = BEST_CUTS;
    for (; at > 0 && (!best[at - 1] || best[at - 1]->seconds > d->seconds); at--) best[at] = best[at - 1];
    best[at] = d;
    obscura_draft_destroy(&best[BEST_CUTS]);
  } while (step_cut(stages, x->n_stages, x->n_layers));
  for (int i = 0; i < BEST_CUTS; i++) {
    if (best[i] && isfinite(best[i]->seconds)) obscura_refine(x, best[i], swaps, choice);
    obscura_draft_destroy(&best[i]);
  }
  mem_free(stages);
}
