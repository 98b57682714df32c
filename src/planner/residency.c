#include "planner/residency.h"

#include "base/mem.h"

struct evicted {
  int32_t forward, use, end; /* places of F, of what needs it first, and of what needs it last */
  struct plan_move move;     /* in_start 0: it stays */
};

/* One stage's blocks, and how many have memory during each action. */
struct store {
  int32_t n_blocks, n_actions;
  struct evicted *blocks;
  int32_t *held;
};

static void find_blocks(const struct plan_action *order, struct store *s) {
  for (int32_t i = 0; i < s->n_blocks; i++) s->blocks[i] = (struct evicted){.forward = -1, .use = -1};
  for (int32_t k = 0; k < s->n_actions; k++) {
    struct evicted *b = &s->blocks[order[k].micro];
    if (order[k].kind == NODE_F)
      b->forward = k;
    else if (b->use < 0)
      b->use = k;
    b->end = k;
  }
  for (int32_t i = 0; i < s->n_blocks; i++)
    for (int32_t k = s->blocks[i].forward; k <= s->blocks[i].end; k++) s->held[k]++;
}

/* The block needed last of those that can have left when action `at` begins and need not be on their way back then,
 * with this many actions for either way. NULL: none. */
static struct evicted *choose(const struct store *s, int32_t at, int32_t span) {
  struct evicted *last = NULL;
  for (int32_t i = 0; i < s->n_blocks; i++) {
    struct evicted *b = &s->blocks[i];
    bool can = !b->move.in_start && b->forward < at - span && b->use - span > at;
    if (can && (!last || b->use > last->use)) last = b;
  }
  return last;
}

static bool make_room(struct store *s, int32_t at, int32_t span) {
  struct evicted *b = NULL;
  while (span > 0 && !(b = choose(s, at, span))) span--;
  if (!b) return false;
  b->move.out_start = at - span - 1;
  b->move.out_end = at - 1;
  b->move.in_start = b->use - span;
  for (int32_t k = at; k < b->move.in_start; k++) s->held[k]--;
  return true;
}

static bool keep_within(struct store *s, const struct residency *rule) {
  for (int32_t k = 0; k < s->n_actions; k++)
    while (s->held[k] > rule->capacity)
      if (!make_room(s, k, rule->span)) return false;
  return true;
}

int32_t residency_make(const struct plan *plan, const struct residency *rule, struct plan_move *moves) {
  int32_t rank = plan_get_holder(plan, rule->stage), n = 0;
  int64_t first = plan->order_offset[rank];
  struct store s = {.n_blocks = plan->n_micro, .n_actions = (int32_t)(plan->order_offset[rank + 1] - first)};
  s.blocks = MEM_NEW(struct evicted, s.n_blocks);
  s.held = MEM_NEW(int32_t, s.n_actions);
  find_blocks(plan->order + first, &s);
  bool possible = keep_within(&s, rule);
  for (int32_t i = 0; i < s.n_blocks && possible; i++) {
    if (!s.blocks[i].move.in_start) continue;
    moves[n] = s.blocks[i].move;
    moves[n].stage = rule->stage;
    moves[n++].micro = i;
  }
  mem_free(s.blocks);
  mem_free(s.held);
  return possible ? n : -1;
}
