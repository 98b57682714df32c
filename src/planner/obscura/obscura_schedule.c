#include "planner/obscura/obscura_schedule.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* ---- ways ---- */

static void add_way(struct obscura_ways *ways, int32_t stage, const uint32_t *ops, int64_t bytes, double seconds) {
  int64_t at = (int64_t)stage * OBSCURA_MOST_WAYS + ways->n[stage]++;
  ways->way[at] = (struct obscura_way){bytes, seconds};
  if (ops) memcpy(ways->ops + at * ways->n_layers, ops, sizeof *ops * (size_t)ways->n_layers);
}

/* Lists nothing, what the draft discards, and the front of time against bytes, of a long one points at even distances
 * of bytes. */
static void list_ways(const struct obscura *x, const struct obscura_draft *d, struct obscura_ways *ways,
                      int32_t stage) {
  const struct plan_stage *at = &d->stages[stage];
  uint32_t *ops = MEM_NEW(uint32_t, x->n_layers);
  int64_t freed = 0, distance = d->needs[stage].discardable / OBSCURA_MOST_WAYS;
  double seconds;
  add_way(ways, stage, NULL, 0, 0);
  if (d->discarded[stage] > 0) add_way(ways, stage, d->ops, d->discarded[stage], d->recompute[stage]);
  for (int64_t need = 1; ways->n[stage] < OBSCURA_MOST_WAYS; need = freed + (distance > 0 ? distance : 1)) {
    if (!stage_menu_cover(x->menus[stage], at->first_layer, at->n_layers, need, &seconds, &freed, ops)) break;
    if (freed != d->discarded[stage]) add_way(ways, stage, ops, freed, seconds);
  }
  mem_free(ops);
}

struct obscura_ways *obscura_ways_create(const struct obscura *x, const struct obscura_draft *d) {
  struct obscura_ways *ways = MEM_NEW(struct obscura_ways, 1);
  ways->n_stages = x->n_stages;
  ways->n_layers = x->n_layers;
  ways->n = MEM_NEW(int32_t, x->n_stages);
  ways->way = MEM_NEW(struct obscura_way, (int64_t)x->n_stages * OBSCURA_MOST_WAYS);
  ways->ops = MEM_NEW(uint32_t, (int64_t)x->n_stages * OBSCURA_MOST_WAYS * x->n_layers);
  for (int32_t s = 0; s < x->n_stages; s++) list_ways(x, d, ways, s);
  return ways;
}

void obscura_ways_destroy(struct obscura_ways **ways) {
  if (!*ways) return;
  mem_free((*ways)->n);
  mem_free((*ways)->way);
  mem_free((*ways)->ops);
  mem_free(*ways);
  *ways = NULL;
}

static const struct obscura_way *get_way(const struct obscura_schedule *s, int32_t stage, int32_t micro) {
  int32_t chosen = s->chosen[(int64_t)stage * s->n_micro + micro];
  return &s->ways->way[(int64_t)stage * OBSCURA_MOST_WAYS + chosen];
}

/* ---- life ---- */

static struct obscura_action *get_actions(const struct obscura_schedule *s, int32_t stage) {
  return s->actions + (int64_t)stage * 3 * s->n_micro;
}

static void list_actions(struct obscura_schedule *s, int32_t stage) {
  const struct obscura_draft *d = s->draft;
  struct plan_action *order = MEM_NEW(struct plan_action, 2 * (int64_t)s->n_micro);
  struct obscura_action *out = get_actions(s, stage);
  int64_t n = order_make_ahead(stage, s->n_micro, d->warm_up[stage], d->steady[stage], order);
  for (int64_t k = 0; k < n; k++) out[k] = (struct obscura_action){order[k].kind, order[k].micro};
  s->n_actions[stage] = (int32_t)n;
  mem_free(order);
}

struct obscura_schedule *obscura_schedule_create(const struct obscura_ways *ways, const struct obscura_draft *d) {
  struct obscura_schedule *s = MEM_NEW(struct obscura_schedule, 1);
  int32_t n_micro = d->n_micro;
  *s = (struct obscura_schedule){.ways = ways, .draft = d, .n_stages = ways->n_stages, .n_micro = n_micro};
  s->n_actions = MEM_NEW(int32_t, s->n_stages);
  s->actions = MEM_NEW(struct obscura_action, (int64_t)s->n_stages * 3 * n_micro);
  s->chosen = MEM_NEW(int32_t, (int64_t)s->n_stages * n_micro);
  for (int32_t stage = 0; stage < s->n_stages; stage++) {
    list_actions(s, stage);
    for (int32_t i = 0; i < d->n_recompute[stage] && d->discarded[stage] > 0; i++)
      obscura_schedule_choose(s, stage, i, 1);
  }
  return s;
}

void obscura_schedule_destroy(struct obscura_schedule **schedule) {
  if (!*schedule) return;
  mem_free((*schedule)->n_actions);
  mem_free((*schedule)->actions);
  mem_free((*schedule)->chosen);
  mem_free(*schedule);
  *schedule = NULL;
}

void obscura_schedule_copy_stage(struct obscura_schedule *to, const struct obscura_schedule *from, int32_t stage) {
  int64_t chosen = (int64_t)stage * to->n_micro;
  to->n_actions[stage] = from->n_actions[stage];
  memcpy(get_actions(to, stage), get_actions(from, stage), sizeof *to->actions * (size_t)from->n_actions[stage]);
  memcpy(to->chosen + chosen, from->chosen + chosen, sizeof *to->chosen * (size_t)to->n_micro);
}

void obscura_schedule_copy(struct obscura_schedule *to, const struct obscura_schedule *from) {
  for (int32_t s = 0; s < to->n_stages; s++) obscura_schedule_copy_stage(to, from, s);
}

/* ---- changes ---- */

static int32_t find_action(const struct obscura_schedule *s, int32_t stage, int32_t kind, int32_t micro) {
  const struct obscura_action *actions = get_actions(s, stage);
  int32_t k = 0;
  while (k < s->n_actions[stage] && !(actions[k].kind == kind && actions[k].micro == micro)) k++;
  return k;
}

/* Puts an R before its B, and before the R of any later micro-batch. */
static void insert_recompute(struct obscura_schedule *s, int32_t stage, int32_t micro) {
  struct obscura_action *actions = get_actions(s, stage);
  int32_t at = 0;
  while (!(actions[at].kind == NODE_B && actions[at].micro == micro) &&
         !(actions[at].kind == NODE_R && actions[at].micro > micro))
    at++;
  memmove(actions + at + 1, actions + at, sizeof *actions * (size_t)(s->n_actions[stage]++ - at));
  actions[at] = (struct obscura_action){NODE_R, micro};
}

void obscura_schedule_choose(struct obscura_schedule *s, int32_t stage, int32_t micro, int32_t way) {
  int32_t *chosen = &s->chosen[(int64_t)stage * s->n_micro + micro], before = *chosen;
  *chosen = way;
  if (!before && way) insert_recompute(s, stage, micro);
  if (!before || way) return;
  struct obscura_action *actions = get_actions(s, stage);
  int32_t at = find_action(s, stage, NODE_R, micro);
  memmove(actions + at, actions + at + 1, sizeof *actions * (size_t)(--s->n_actions[stage] - at));
}

bool obscura_schedule_swap(struct obscura_schedule *s, int32_t stage, int32_t place) {
  struct obscura_action *a = get_actions(s, stage) + place, *b = a + 1, was = *a;
  if (place < 0 || place + 1 >= s->n_actions[stage] || a->kind == b->kind || a->micro == b->micro) return false;
  *a = *b;
  *b = was;
  return true;
}

/* ---- memory ---- */

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t obscura_schedule_get_peak(const struct obscura_schedule *s, int32_t stage) {
  const struct stage_need *need = &s->draft->needs[stage];
  const struct obscura_action *actions = get_actions(s, stage);
  int64_t kept = 0, most = 0;
  for (int32_t k = 0; k < s->n_actions[stage]; k++) {
    int64_t discarded = get_way(s, stage, actions[k].micro)->bytes;
    if (actions[k].kind == NODE_F) {
      kept += need->keep - discarded;
      int64_t work = discarded ? min64(discarded + need->work_forward, need->work_discarding) : need->work_forward;
      most = max64(most, kept + work);
    } else if (actions[k].kind == NODE_R) {
      kept += discarded;
      most = max64(most, kept + need->work_backward);
    } else {
      most = max64(most, kept + need->work_backward);
      kept -= need->keep;
    }
  }
  return need->fixed + most;
}

/* ---- time ---- */

struct obscura_clockwork {
  double *send, *send_back;           /* [n_stages] of messages to stage s + 1, and from there back to s */
  double *clock;                      /* [n_stages] */
  int32_t *next;                      /* [n_stages] place of the next action */
  double *forward_end, *backward_end; /* [n_stages][n_micro]; INFINITY: not done */
};

struct obscura_clockwork *obscura_clockwork_create(const struct obscura *x, const struct obscura_draft *d) {
  struct obscura_clockwork *c = MEM_NEW(struct obscura_clockwork, 1);
  int64_t n = (int64_t)x->n_stages * x->n_micro;
  c->send = MEM_NEW(double, x->n_stages);
  c->send_back = MEM_NEW(double, x->n_stages);
  c->clock = MEM_NEW(double, x->n_stages);
  c->next = MEM_NEW(int32_t, x->n_stages);
  c->forward_end = MEM_NEW(double, n);
  c->backward_end = MEM_NEW(double, n);
  for (int32_t s = 0; s + 1 < x->n_stages; s++) obscura_draft_get_messages(x, d, s, &c->send[s], &c->send_back[s]);
  return c;
}

void obscura_clockwork_destroy(struct obscura_clockwork **clockwork) {
  struct obscura_clockwork *c = *clockwork;
  if (!c) return;
  mem_free(c->send);
  mem_free(c->send_back);
  mem_free(c->clock);
  mem_free(c->next);
  mem_free(c->forward_end);
  mem_free(c->backward_end);
  mem_free(c);
  *clockwork = NULL;
}

/* When what an action needs from another stage is there; INFINITY: not yet known. */
static double get_ready(const struct obscura_schedule *s, const struct obscura_clockwork *c, int32_t stage,
                        const struct obscura_action *a) {
  if (a->kind == NODE_F && stage > 0)
    return c->forward_end[(int64_t)(stage - 1) * s->n_micro + a->micro] + c->send[stage - 1];
  if (a->kind == NODE_B && stage + 1 < s->n_stages)
    return c->backward_end[(int64_t)(stage + 1) * s->n_micro + a->micro] + c->send_back[stage];
  return 0;
}

/* Runs a stage as far as it can; false when it could not go on at all. */
static bool run_stage(const struct obscura_schedule *s, struct obscura_clockwork *c, int32_t stage) {
  const struct obscura_action *actions = get_actions(s, stage);
  const struct stage_need *need = &s->draft->needs[stage];
  int32_t first = c->next[stage], k = first;
  double clock = c->clock[stage];
  for (; k < s->n_actions[stage]; k++) {
    const struct obscura_action *a = &actions[k];
    double ready = get_ready(s, c, stage, a);
    if (ready == INFINITY) break;
    if (ready > clock) clock = ready;
    if (a->kind == NODE_R) {
      clock += get_way(s, stage, a->micro)->seconds;
      continue;
    }
    clock += a->kind == NODE_F ? need->forward : need->backward;
    (a->kind == NODE_F ? c->forward_end : c->backward_end)[(int64_t)stage * s->n_micro + a->micro] = clock;
  }
  c->next[stage] = k;
  c->clock[stage] = clock;
  return k > first;
}

double obscura_schedule_time(const struct obscura_schedule *s, struct obscura_clockwork *c) {
  for (int64_t i = 0; i < (int64_t)s->n_stages * s->n_micro; i++) c->forward_end[i] = c->backward_end[i] = INFINITY;
  for (int32_t stage = 0; stage < s->n_stages; stage++) c->clock[stage] = 0, c->next[stage] = 0;
  for (bool any = true; any;) {
    any = false;
    for (int32_t stage = 0; stage < s->n_stages; stage++) any |= run_stage(s, c, stage);
    for (int32_t stage = s->n_stages - 2; stage >= 0; stage--) any |= run_stage(s, c, stage);
  }
  double end = 0;
  for (int32_t stage = 0; stage < s->n_stages; stage++)
    end = c->next[stage] == s->n_actions[stage] ? fmax(end, c->clock[stage]) : INFINITY;
  return end;
}

/* ---- the plan ---- */

static void put_orders(const struct obscura *x, const struct obscura_schedule *s, struct plan *plan) {
  int64_t n = 0;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    int32_t stage = planner_get_first_stage(x->request, r);
    const struct obscura_action *actions = get_actions(s, stage);
    plan->order_offset[r] = n;
    for (int32_t k = 0; k < s->n_actions[stage]; k++)
      plan->order[n++] = (struct plan_action){actions[k].kind, stage, actions[k].micro};
  }
}

static uint32_t get_ops(const struct obscura_schedule *s, int32_t stage, int32_t layer, int32_t micro) {
  int64_t way = (int64_t)stage * OBSCURA_MOST_WAYS + s->chosen[(int64_t)stage * s->n_micro + micro];
  return s->ways->ops[way * s->ways->n_layers + layer];
}

/* Adds the rows of a layer, one for each run of micro-batches that discard alike. */
static int32_t put_layer(const struct obscura_schedule *s, int32_t stage, int32_t layer, struct plan_recompute *rows,
                         int32_t n) {
  for (int32_t i = 0, end; i < s->n_micro; i = end) {
    uint32_t ops = get_ops(s, stage, layer, i);
    for (end = i + 1; end < s->n_micro && get_ops(s, stage, layer, end) == ops;) end++;
    if (ops) rows[n++] = (struct plan_recompute){layer, i, end - 1, ops};
  }
  return n;
}

static void put_recompute(const struct obscura_schedule *s, struct plan *plan) {
  int32_t n = 0;
  plan_reserve_recompute(plan, plan->n_layers * s->n_micro);
  for (int32_t stage = 0; stage < s->n_stages; stage++) {
    const struct plan_stage *at = &plan->stages[stage];
    for (int32_t l = at->first_layer; l < at->first_layer + at->n_layers; l++)
      n = put_layer(s, stage, l, plan->recompute, n);
  }
  plan->n_recompute = n;
  plan->recompute_early = n > 0;
}

struct plan *obscura_schedule_build(const struct obscura *x, const struct obscura_schedule *s) {
  int32_t p = s->n_stages;
  int64_t n_actions = 0;
  for (int32_t stage = 0; stage < p; stage++) n_actions += s->n_actions[stage];
  struct plan *plan = plan_create(x->n_layers, p, p, s->n_micro, n_actions);
  obscura_draft_put_stages(x, s->draft, plan);
  put_orders(x, s, plan);
  put_recompute(s, plan);
  return plan;
}
