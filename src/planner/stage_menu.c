/* Units are what is discarded together: an activation and all ops that write it. Layers of a kind have the same units,
 * so there are few kinds of them. Where the costs or the sizes are of whole layers only, a layer is one unit.
 */
#include "planner/stage_menu.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "plan/recompute.h"
#include "planner/knapsack.h"

struct unit {
  uint32_t ops;
  int32_t kind;
};

struct stage_menu {
  const struct plan_request *request;
  struct micro_shape micro;
  int32_t stage, rank, n_kinds;
  int32_t *n_units;            /* [n_layers] */
  struct unit *units;          /* [n_layers][LAYER_MAX_OPS] */
  double *whole;               /* [n_layers] seconds to rebuild all of a layer */
  struct knapsack_item *kinds; /* [n_kinds] count: of the stage asked about */
  int32_t *counts;             /* [n_kinds] */
};

static int64_t count_kept(const struct model *model, const struct layer *layer, struct micro_shape micro,
                          uint32_t discarded) {
  struct footprint f;
  footprint_layer(model, layer, micro, discarded, 0, &f);
  return f.bytes[REGION_KEEP_INPUT] + f.bytes[REGION_KEEP_WEIGHT];
}

/* Returns the seconds of ops; without costs every op counts one. */
static double get_seconds(const struct cost *cost, int32_t rank, int32_t l, struct micro_shape micro, uint32_t ops) {
  return cost ? cost_get_recompute(cost, rank, l, ops, micro) : __builtin_popcount(ops);
}

static int32_t find_kind(struct stage_menu *m, int64_t bytes, double seconds) {
  for (int32_t k = 0; k < m->n_kinds; k++)
    if (m->kinds[k].bytes == bytes && m->kinds[k].seconds == seconds) return k;
  m->kinds[m->n_kinds] = (struct knapsack_item){bytes, seconds, 0};
  return m->n_kinds++;
}

/* All ops that discarding `op` discards. */
static uint32_t close_ops(const struct layer *layer, int op, uint32_t all) {
  uint32_t ops = (uint32_t)1 << op;
  for (uint32_t before = 0; before != ops;) {
    before = ops;
    for (int o = 0; o < layer->n_ops; o++)
      if ((all >> o & 1) && footprint_is_rebuilt(layer, o, ops)) ops |= (uint32_t)1 << o;
  }
  return ops;
}

int stage_menu_list_units(const struct model *model, const struct cost *cost, int32_t rank, int32_t l,
                          struct micro_shape micro, uint32_t ops, struct menu_unit *units) {
  const struct layer *layer = &model->layers[l];
  uint32_t all = ops & recompute_get_ops(layer, PARAMS_RECOMPUTE_FULL);
  double sum = 0, most = get_seconds(cost, rank, l, micro, all);
  int64_t kept = count_kept(model, layer, micro, 0);
  int n = 0, n_freeing = 0;
  for (uint32_t left = all; left; left &= ~units[n++].ops) {
    uint32_t closed = close_ops(layer, __builtin_ctz(left), all);
    units[n] = (struct menu_unit){closed, 0, get_seconds(cost, rank, l, micro, closed)};
    sum += units[n].seconds;
  }
  bool additive = !layer->has_sizes && fabs(sum - most) <= 1e-9 * most;
  if (!additive && all) units[0] = (struct menu_unit){all, 0, most};
  if (!additive) n = all != 0;
  for (int k = 0; k < n; k++) {
    units[k].bytes = kept - count_kept(model, layer, micro, units[k].ops);
    if (units[k].bytes > 0) units[n_freeing++] = units[k];
  }
  return n_freeing;
}

static void list_units(struct stage_menu *m, int32_t l) {
  const struct plan_request *r = m->request;
  struct menu_unit units[LAYER_MAX_OPS];
  bool may = r->recompute_ops && planner_may_recompute(r, m->stage);
  int n = may ? stage_menu_list_units(r->model, r->cost, m->rank, l, m->micro, r->recompute_ops[l], units) : 0;
  m->whole[l] = get_seconds(r->cost, m->rank, l, m->micro, UINT32_MAX); /* also of layers that may discard nothing */
  for (int k = 0; k < n; k++)
    m->units[l * LAYER_MAX_OPS + m->n_units[l]++] =
        (struct unit){units[k].ops, find_kind(m, units[k].bytes, units[k].seconds)};
}

struct stage_menu *stage_menu_create(const struct plan_request *request, const struct stage_needs *needs,
                                     int32_t stage) {
  int32_t n_layers = request->model->n_layers;
  struct stage_menu *m = MEM_NEW(struct stage_menu, 1);
  m->request = request;
  m->micro = *stage_needs_get_micro(needs);
  m->stage = stage;
  m->rank = planner_get_rank(request, stage);
  m->n_units = MEM_NEW(int32_t, n_layers);
  m->units = MEM_NEW(struct unit, (int64_t)n_layers * LAYER_MAX_OPS);
  m->whole = MEM_NEW(double, n_layers);
  m->kinds = MEM_NEW(struct knapsack_item, (int64_t)n_layers * LAYER_MAX_OPS);
  for (int32_t l = 0; l < n_layers; l++) list_units(m, l);
  m->counts = MEM_NEW(int32_t, m->n_kinds ? m->n_kinds : 1);
  return m;
}

void stage_menu_destroy(struct stage_menu **menu) {
  if (!*menu) return;
  mem_free((*menu)->n_units);
  mem_free((*menu)->units);
  mem_free((*menu)->whole);
  mem_free((*menu)->kinds);
  mem_free((*menu)->counts);
  mem_free(*menu);
  *menu = NULL;
}

static void count_kinds(struct stage_menu *m, int32_t first, int32_t n) {
  for (int32_t k = 0; k < m->n_kinds; k++) m->kinds[k].count = 0;
  for (int32_t l = first; l < first + n; l++)
    for (int32_t u = 0; u < m->n_units[l]; u++) m->kinds[m->units[l * LAYER_MAX_OPS + u].kind].count++;
}

/* Picks among equal units those of the first layers. */
static void pick_ops(struct stage_menu *m, int32_t first, int32_t n, uint32_t *ops) {
  for (int32_t l = first; l < first + n; l++) {
    ops[l] = 0;
    for (int32_t u = 0; u < m->n_units[l]; u++) {
      const struct unit *unit = &m->units[l * LAYER_MAX_OPS + u];
      if (m->counts[unit->kind] <= 0) continue;
      m->counts[unit->kind]--;
      ops[l] |= unit->ops;
    }
  }
}

/* The whole share of the stage, whatever is rebuilt of it; else the time of what is. */
static double price(const struct stage_menu *m, int32_t first, int32_t n, double chosen) {
  if (!m->request->cost) return chosen;
  double sum = 0;
  int64_t n_body = 0;
  for (int32_t l = first; l < first + n; l++) {
    sum += m->whole[l];
    n_body += m->request->model->layers[l].block >= 0;
  }
  bool whole = cost_recomputes_whole(m->request->cost);
  return (whole ? sum : chosen) * cost_get_recompute_share_factor(m->request->cost, n_body);
}

bool stage_menu_cover(struct stage_menu *menu, int32_t first, int32_t n, int64_t need, double *seconds, int64_t *freed,
                      uint32_t *ops) {
  double chosen = 0;
  *seconds = 0;
  *freed = 0;
  if (ops) memset(ops + first, 0, sizeof *ops * (size_t)n);
  if (need <= 0) return true;
  count_kinds(menu, first, n);
  if (!knapsack_cover(menu->kinds, menu->n_kinds, need, menu->counts, &chosen)) return false;
  for (int32_t k = 0; k < menu->n_kinds; k++) *freed += menu->kinds[k].bytes * menu->counts[k];
  *seconds = price(menu, first, n, chosen);
  if (ops) pick_ops(menu, first, n, ops);
  return true;
}

bool stage_menu_choose(struct stage_menu *menu, const struct stage_need *need, int32_t first, int32_t n, int64_t limit,
                       double *seconds, uint32_t *ops) {
  int64_t discarded = stage_need_get_discarded(need, limit), freed;
  *seconds = 0;
  return discarded >= 0 && stage_menu_cover(menu, first, n, discarded, seconds, &freed, ops);
}

int64_t stage_menu_get_least(struct stage_menu *menu, const struct stage_need *need, int32_t first, int32_t n) {
  int64_t all = 0;
  count_kinds(menu, first, n);
  for (int32_t k = 0; k < menu->n_kinds; k++) all += menu->kinds[k].bytes * menu->kinds[k].count;
  return stage_need_get_peak(need, all);
}
