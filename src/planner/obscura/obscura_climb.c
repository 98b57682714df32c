/* Looks around a draft: annealing over its cut and over the forwards that each stage runs ahead. A step moves a layer
 * from a stage to another, or lets a stage, or all up to it, run one forward more or less ahead; what the stages
 * concerned evict and discard follows from their limits. Numbers are drawn from a fixed seed and the budget is a number
 * of actions, so that a request always gets the same plan.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "planner/obscura/obscura.h"

/* BUDGET: actions whose times are found in one annealing. */
enum { BUDGET = 1500000, STEPS_A_STAGE = 60 };
/* The chance of a slower step falls from FIRST to LAST of the time at the start. */
static const double FIRST = 0.01, LAST = 0.0001;

struct climb {
  struct obscura *x;
  bool swaps;
  struct obscura_draft *now, *tried, *best;
  struct plan_stage *cut; /* [n_stages] */
  struct rng_key key;
  uint64_t n_drawn;
};

static int32_t draw(struct climb *c, int32_t n) { return (int32_t)(rng_bits(&c->key, c->n_drawn++) % (uint32_t)n); }

/* A layer goes to the next stage, or to any. False when the stage has no other. */
static bool move_layer(struct climb *c) {
  int32_t p = c->x->n_stages, from = draw(c, p);
  int32_t to = draw(c, 2) ? draw(c, p) : from + (draw(c, 2) ? 1 : -1);
  if (to < 0 || to >= p) return false;
  memcpy(c->cut, c->now->stages, sizeof *c->cut * (size_t)p);
  if (!obscura_move_layer(c->cut, from, to)) return false;
  obscura_draft_cut(c->x, c->tried, c->cut);
  return true;
}

/* A stage, or all up to it, run one forward more or less ahead, but none fewer than the next one. */
static bool move_ahead(struct climb *c) {
  int32_t p = c->x->n_stages, last = draw(c, p), first = draw(c, 2) ? 0 : last, by = draw(c, 2) ? 1 : -1;
  struct obscura_draft *d = c->tried;
  for (int32_t s = first; s <= last; s++) d->warm_up[s] = d->steady[s] = d->needs[s].copies = d->warm_up[s] + by;
  for (int32_t s = first > 0 ? first - 1 : 0; s <= last; s++) {
    int32_t least = s + 1 < p ? d->warm_up[s + 1] : 1;
    if (d->warm_up[s] < least || d->warm_up[s] > c->x->n_micro) return false;
  }
  return true;
}

static bool has_changed(const struct climb *c, int32_t s) {
  const struct obscura_draft *a = c->now, *b = c->tried;
  return a->stages[s].first_layer != b->stages[s].first_layer || a->stages[s].n_layers != b->stages[s].n_layers ||
         a->warm_up[s] != b->warm_up[s];
}

/* Chooses again what the changed stages evict and discard, and finds the time. */
static void settle(struct climb *c) {
  bool fits = true;
  for (int32_t s = 0; s < c->x->n_stages && fits; s++)
    if (has_changed(c, s)) fits = obscura_settle_stage(c->x, c->tried, s, c->swaps);
  c->tried->seconds = fits ? obscura_draft_time(c->x, c->tried) : INFINITY;
}

static void step(struct climb *c, double heat) {
  c->tried = obscura_draft_dup(c->x, c->now);
  bool cuts = c->x->request->partition.kind == PARAMS_CUT_AUTO;
  bool changed = cuts && draw(c, 3) ? move_layer(c) : move_ahead(c);
  if (changed && cuts && draw(c, 4) == 0) changed = move_ahead(c);
  if (changed) settle(c);
  double slower = changed ? c->tried->seconds - c->now->seconds : INFINITY;
  double chance = rng_uniform(&c->key, c->n_drawn++);
  if (slower > 0 && chance >= exp(-slower / heat)) {
    obscura_draft_destroy(&c->tried);
    return;
  }
  obscura_draft_destroy(&c->now);
  c->now = c->tried;
  if (c->now->seconds >= c->best->seconds * (1 - 1e-9)) return;
  obscura_draft_destroy(&c->best);
  c->best = obscura_draft_dup(c->x, c->now);
}

struct obscura_draft *obscura_climb(struct obscura *x, const struct obscura_draft *draft, bool swaps) {
  struct climb c = {.x = x, .swaps = swaps, .key = {.seed = 2, .purpose = RNG_PLAN}};
  int64_t n_steps = BUDGET / (3 * (int64_t)x->n_stages * x->n_micro);
  if (n_steps > STEPS_A_STAGE * x->n_stages) n_steps = STEPS_A_STAGE * x->n_stages;
  c.now = obscura_draft_dup(x, draft);
  c.now->seconds = obscura_draft_time(x, c.now); /* `draft` may have been evaluated */
  c.best = obscura_draft_dup(x, c.now);
  c.cut = MEM_NEW(struct plan_stage, x->n_stages);
  double first = FIRST * c.now->seconds, ratio = LAST / FIRST;
  for (int64_t k = 0; k < n_steps; k++) step(&c, first * pow(ratio, (double)k / (double)n_steps));
  mem_free(c.cut);
  obscura_draft_destroy(&c.now);
  return c.best;
}
