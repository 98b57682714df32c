/* Fits the plan of any order into the limits: each rank's stages discard as much as the rank lacks. What a rank takes
 * does not depend on what others discard, so that the least part of what may be discarded is found for all ranks at
 * once, by halving.
 */
#include <string.h>

#include "base/mem.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"

/* PARTS: of what a rank's stages may discard. */
enum { PARTS = 32 };

struct fit {
  struct obscura *x;
  const struct plan *base; /* it discards nothing */
  int32_t *low, *high;     /* [n_ranks] parts: too few (-1: none was tried), and enough */
  int64_t *peaks;          /* [n_ranks] of the last plan */
};

/* Returns the menu of a stage of this rank. */
static struct stage_menu *find_menu(const struct obscura *x, int32_t rank) {
  return x->menus[planner_get_first_stage(x->request, rank)];
}

/* Chooses what a stage discards: at least this part of all that it may. */
static void choose_ops(const struct fit *f, int32_t stage, int32_t parts, uint32_t *ops) {
  int32_t rank = plan_get_holder(f->base, stage);
  const struct plan_stage *at = &f->base->stages[stage];
  struct stage_need need = stage_needs_get(f->x->needs, stage, rank, at->first_layer, at->n_layers);
  int64_t least = need.discardable / PARTS * parts, freed;
  double seconds;
  for (int32_t l = at->first_layer; l < at->first_layer + at->n_layers; l++) ops[l] = 0;
  if (parts == 0) return;
  if (parts < PARTS &&
      stage_menu_cover(find_menu(f->x, rank), at->first_layer, at->n_layers, least, &seconds, &freed, ops))
    return;
  for (int32_t l = at->first_layer; l < at->first_layer + at->n_layers; l++) ops[l] = f->x->request->recompute_ops[l];
}

static struct plan *make(const struct fit *f, const int32_t *parts) {
  struct plan *plan = plan_dup(f->base);
  uint32_t *ops = MEM_NEW(uint32_t, plan->n_layers);
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t s = 0; s < plan->n_stages; s++) {
    choose_ops(f, s, parts[plan_get_holder(plan, s)], ops);
    stages[s] = true;
  }
  recompute_put(plan, ops, stages);
  plan->recompute_early = plan->n_recompute > 0 && f->x->early;
  mem_free(stages);
  mem_free(ops);
  return plan;
}

/* Sets the peaks of a plan. False when it cannot be run. */
static bool measure(const struct fit *f, const int32_t *parts) {
  struct plan *plan = make(f, parts);
  planner_measure(f->x->request, plan, f->peaks);
  plan_destroy(&plan);
  return f->peaks[0] < INT64_MAX;
}

/* Finds the least parts for all ranks. False when all is not enough. */
static bool find_parts(const struct fit *f, int32_t *parts) {
  for (int32_t left = PARTS + 1; left > 1; left -= left / 2) {
    for (int32_t r = 0; r < f->base->n_ranks; r++) parts[r] = f->high[r] - (f->high[r] - f->low[r]) / 2;
    if (!measure(f, parts)) return false;
    for (int32_t r = 0; r < f->base->n_ranks; r++) {
      bool fits = f->peaks[r] <= planner_get_limit(f->x->request, r);
      if (f->high[r] - f->low[r] <= 1) continue;
      *(fits ? &f->high[r] : &f->low[r]) = parts[r];
    }
  }
  memcpy(parts, f->high, sizeof *parts * (size_t)f->base->n_ranks);
  return true;
}

void obscura_fit_order(struct obscura *x, const struct plan *base, struct obscura_choice *choice) {
  if (!x->request->recompute_ops || base->n_recompute > 0) return;
  struct fit f = {.x = x,
                  .base = base,
                  .low = MEM_NEW(int32_t, base->n_ranks),
                  .high = MEM_NEW(int32_t, base->n_ranks),
                  .peaks = MEM_NEW(int64_t, base->n_ranks)};
  int32_t *parts = MEM_NEW(int32_t, base->n_ranks);
  for (int32_t r = 0; r < base->n_ranks; r++) {
    f.low[r] = -1;
    f.high[r] = PARTS;
  }
  if (find_parts(&f, parts)) obscura_choice_offer(choice, x, make(&f, parts), NULL);
  mem_free(parts);
  mem_free(f.low);
  mem_free(f.high);
  mem_free(f.peaks);
}
