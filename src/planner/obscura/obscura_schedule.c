#include "planner/obscura/obscura_schedule.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* ---- life ---- */

static struct obscura_action *get_actions(const struct obscura_schedule *s, int32_t stage) {
  return s->actions + (int64_t)stage * OBSCURA_MOST_ACTIONS * s->n_micro;
}

const struct obscura_way *obscura_schedule_get_way(const struct obscura_schedule *s, int32_t stage, int32_t micro) {
  int32_t chosen = s->chosen[(int64_t)stage * s->n_micro + micro];
  return &s->ways->way[(int64_t)stage * OBSCURA_MOST_WAYS + chosen];
}

static void insert_action(struct obscura_schedule *s, int32_t stage, int32_t at, int32_t kind, int32_t micro) {
  struct obscura_action *actions = get_actions(s, stage);
  memmove(actions + at + 1, actions + at, sizeof *actions * (size_t)(s->n_actions[stage]++ - at));
  actions[at] = (struct obscura_action){kind, micro};
}

static void remove_action(struct obscura_schedule *s, int32_t stage, int32_t at) {
  struct obscura_action *actions = get_actions(s, stage);
  memmove(actions + at, actions + at + 1, sizeof *actions * (size_t)(--s->n_actions[stage] - at));
}

/* Lists a stage's actions in the plan's order, with its blocks that leave for host memory. */
static void list_actions(struct obscura_schedule *s, const struct plan *plan, int32_t stage) {
  int32_t rank = plan_get_holder(plan, stage);
  int32_t n = (int32_t)(plan->order_offset[rank + 1] - plan->order_offset[rank]);
  const struct plan_action *order = plan->order + plan->order_offset[rank];
  for (int32_t k = 0; k < n; k++) {
    for (int32_t m = 0; m < plan->n_moves; m++)
      if (plan->moves[m].stage == stage && plan->moves[m].in_start == k)
        insert_action(s, stage, s->n_actions[stage], OBSCURA_IN, plan->moves[m].micro);
    insert_action(s, stage, s->n_actions[stage], order[k].kind, order[k].micro);
    for (int32_t m = 0; m < plan->n_moves; m++)
      if (plan->moves[m].stage == stage && plan->moves[m].out_end == k)
        insert_action(s, stage, s->n_actions[stage], OBSCURA_OUT, plan->moves[m].micro);
  }
  for (int32_t m = 0; m < plan->n_moves; m++)
    if (plan->moves[m].stage == stage) s->moved[(int64_t)stage * s->n_micro + plan->moves[m].micro] = true;
}

static void allocate(struct obscura_schedule *s) {
  int64_t n = (int64_t)s->n_stages * s->n_micro;
  s->n_actions = MEM_NEW(int32_t, s->n_stages);
  s->actions = MEM_NEW(struct obscura_action, n * OBSCURA_MOST_ACTIONS);
  s->chosen = MEM_NEW(int32_t, n);
  s->moved = MEM_NEW(bool, n);
}

/* The draft without its blocks, where those cannot be placed or go elsewhere than schedules can tell. */
static struct plan *make_plan(const struct obscura *x, const struct obscura_ways *ways, const struct obscura_draft *d) {
  struct plan *plan;
  struct obscura_draft *still = obscura_draft_dup(x, d);
  bool can = d->tier != PLAN_TIER_RANK;
  for (int32_t s = 0; s < x->n_stages; s++) can = can && (ways->may_leave[s] || d->lambda[s] == 0);
  for (int32_t s = 0; s < x->n_stages && !can; s++) still->lambda[s] = 0;
  if (obscura_draft_build(x, still, &plan)) {
    error_clear();
    for (int32_t s = 0; s < x->n_stages; s++) still->lambda[s] = 0;
    CHECK(obscura_draft_build(x, still, &plan) == STATUS_OK, "planner obscura: %s", error_text());
  }
  obscura_draft_destroy(&still);
  return plan;
}

struct obscura_schedule *obscura_schedule_create(const struct obscura *x, const struct obscura_ways *ways,
                                                 const struct obscura_draft *d) {
  struct obscura_schedule *s = MEM_NEW(struct obscura_schedule, 1);
  *s = (struct obscura_schedule){.ways = ways, .draft = d, .n_stages = ways->n_stages, .n_micro = d->n_micro};
  allocate(s);
  struct plan *plan = make_plan(x, ways, d);
  for (int32_t stage = 0; stage < s->n_stages; stage++) {
    list_actions(s, plan, stage);
    for (int32_t i = 0; i < d->n_recompute[stage] && d->discarded[stage] > 0; i++)
      s->chosen[(int64_t)stage * s->n_micro + i] = 1;
  }
  plan_destroy(&plan);
  return s;
}

void obscura_schedule_destroy(struct obscura_schedule **schedule) {
  if (!*schedule) return;
  mem_free((*schedule)->n_actions);
  mem_free((*schedule)->actions);
  mem_free((*schedule)->chosen);
  mem_free((*schedule)->moved);
  mem_free(*schedule);
  *schedule = NULL;
}

void obscura_schedule_copy_stage(struct obscura_schedule *to, const struct obscura_schedule *from, int32_t stage) {
  int64_t row = (int64_t)stage * to->n_micro;
  to->n_actions[stage] = from->n_actions[stage];
  memcpy(get_actions(to, stage), get_actions(from, stage), sizeof *to->actions * (size_t)from->n_actions[stage]);
  memcpy(to->chosen + row, from->chosen + row, sizeof *to->chosen * (size_t)to->n_micro);
  memcpy(to->moved + row, from->moved + row, sizeof *to->moved * (size_t)to->n_micro);
}

void obscura_schedule_copy(struct obscura_schedule *to, const struct obscura_schedule *from) {
  for (int32_t s = 0; s < to->n_stages; s++) obscura_schedule_copy_stage(to, from, s);
}

/* ---- changes ---- */

static bool computes(const struct obscura_action *action) { return action->kind < NODE_KIND_COUNT; }

static int32_t find_action(const struct obscura_schedule *s, int32_t stage, int32_t kind, int32_t micro) {
  const struct obscura_action *actions = get_actions(s, stage);
  int32_t k = 0;
  while (k < s->n_actions[stage] && !(actions[k].kind == kind && actions[k].micro == micro)) k++;
  return k;
}

/* Puts an R before its B, and before the R of any later micro-batch. False when its block is not back so early. */
static bool insert_recompute(struct obscura_schedule *s, int32_t stage, int32_t micro) {
  const struct obscura_action *actions = get_actions(s, stage);
  int32_t at = 0;
  while (!(actions[at].kind == NODE_B && actions[at].micro == micro) &&
         !(actions[at].kind == NODE_R && actions[at].micro > micro))
    at++;
  if (at < find_action(s, stage, NODE_F, micro)) return false;
  if (s->moved[(int64_t)stage * s->n_micro + micro] && at < find_action(s, stage, OBSCURA_IN, micro)) return false;
  insert_action(s, stage, at, NODE_R, micro);
  return true;
}

bool obscura_schedule_choose(struct obscura_schedule *s, int32_t stage, int32_t micro, int32_t way) {
  int32_t *chosen = &s->chosen[(int64_t)stage * s->n_micro + micro], before = *chosen;
  if (!before && way && !insert_recompute(s, stage, micro)) return false;
  if (before && !way) remove_action(s, stage, find_action(s, stage, NODE_R, micro));
  *chosen = way;
  return true;
}

bool obscura_schedule_evict(struct obscura_schedule *s, int32_t stage, int32_t micro) {
  const struct obscura_action *actions = get_actions(s, stage);
  int32_t use = find_action(s, stage, s->chosen[(int64_t)stage * s->n_micro + micro] ? NODE_R : NODE_B, micro);
  int32_t out = find_action(s, stage, NODE_F, micro) + 1, in = use;
  while (out < use && !computes(&actions[out])) out++; /* it leaves during the next action, */
  out++;
  do in--; /* and comes back during the one before its use */
  while (in > out && !computes(&actions[in]));
  if (in <= out) return false;
  insert_action(s, stage, in, OBSCURA_IN, micro);
  insert_action(s, stage, out, OBSCURA_OUT, micro);
  return s->moved[(int64_t)stage * s->n_micro + micro] = true;
}

void obscura_schedule_keep(struct obscura_schedule *s, int32_t stage, int32_t micro) {
  bool *moved = &s->moved[(int64_t)stage * s->n_micro + micro];
  if (!*moved) return;
  remove_action(s, stage, find_action(s, stage, OBSCURA_IN, micro));
  remove_action(s, stage, find_action(s, stage, OBSCURA_OUT, micro));
  *moved = false;
}

bool obscura_schedule_swap(struct obscura_schedule *s, int32_t stage, int32_t place) {
  struct obscura_action *a = get_actions(s, stage) + place, *b = a + 1, was = *a;
  if (place < 0 || place + 1 >= s->n_actions[stage] || a->micro == b->micro) return false;
  if (a->kind == b->kind && computes(a)) return false;
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
    const struct obscura_way *way = obscura_schedule_get_way(s, stage, actions[k].micro);
    int64_t work = way->bytes ? min64(way->bytes + need->work_forward, need->work_discarding) : need->work_forward;
    switch (actions[k].kind) {
    case NODE_F:
      kept += need->keep - way->bytes;
      most = max64(most, kept + work);
      break;
    case NODE_R: kept += way->bytes; break; /* its workspace is part of the backward's, which follows */
    case NODE_B:
      most = max64(most, kept + need->work_backward);
      kept -= need->keep;
      break;
    case OBSCURA_OUT: kept -= way->block; break;
    default: kept += way->block; break;
    }
    if (actions[k].kind == NODE_R) most = max64(most, kept + need->work_backward);
  }
  return need->fixed + most;
}

int64_t obscura_schedule_get_host_peak(const struct obscura_schedule *s, int32_t stage) {
  const struct obscura_action *actions = get_actions(s, stage);
  int64_t held = 0, most = 0;
  for (int32_t k = 0; k < s->n_actions[stage]; k++) {
    int64_t at = (int64_t)stage * s->n_micro + actions[k].micro;
    if (!s->moved[at] || !computes(&actions[k])) continue;
    int64_t block = obscura_schedule_get_way(s, stage, actions[k].micro)->block;
    if (actions[k].kind == NODE_F) held += block;
    most = max64(most, held);
    if (actions[k].kind == (s->chosen[at] ? NODE_R : NODE_B)) held -= block;
  }
  return most;
}
