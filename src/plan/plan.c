/* The plan as an object: making, copying, asking. */
#include "plan/plan.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static const char *const tiers[PLAN_TIER_COUNT] = {
#define X(id, text) [id] = text,
    PLAN_TIERS(X)
#undef X
};

const char *plan_tier_get_name(enum plan_tier tier) { return (unsigned)tier < PLAN_TIER_COUNT ? tiers[tier] : "?"; }

/* Equal plans must be equal bytes: every member of an element is in its list of fields, and there is no padding. */
#define FIELD_BYTES(row, member) +sizeof(((struct row *)0)->member)
#define X(member, count, fields, since)                                                                                \
  _Static_assert(sizeof *((struct plan *)0)->member == 0 fields(FIELD_BYTES), "fields of plan." #member);
PLAN_ARRAYS(X)
#undef X

void plan_allocate(struct plan *p) {
#define X(member, count, fields, since) p->member = mem_alloc(sizeof *p->member * (size_t)(count));
  PLAN_ARRAYS(X)
#undef X
}

struct plan *plan_create(int32_t n_layers, int32_t n_stages, int32_t n_ranks, int32_t n_micro, int64_t n_actions) {
  struct plan *plan = MEM_NEW(struct plan, 1);
  plan->n_layers = n_layers;
  plan->n_stages = plan->n_replicas = n_stages;
  plan->n_ranks = n_ranks;
  plan->n_micro = n_micro;
  plan->n_actions = n_actions;
  plan_allocate(plan);
  for (int32_t s = 0; s <= n_stages; s++) plan->replica_offset[s] = s;
  for (int32_t r = 0; r < n_ranks; r++) plan->device_limit[r] = plan->host_limit[r] = plan->disk_limit[r] = INT64_MAX;
  plan->order_offset[n_ranks] = n_actions;
  return plan;
}

void plan_reserve_recompute(struct plan *plan, int32_t n) {
  mem_free(plan->recompute);
  plan->n_recompute = n;
  plan->recompute = MEM_NEW(struct plan_recompute, n);
}

uint32_t plan_get_discarded(const struct plan *plan, int32_t layer, int32_t micro) {
  for (int32_t k = 0; k < plan->n_recompute; k++) {
    const struct plan_recompute *r = &plan->recompute[k];
    if (r->layer == layer && r->first_micro <= micro && micro <= r->last_micro) return r->ops;
  }
  return 0;
}

void plan_reserve_moves(struct plan *plan, int32_t n) {
  mem_free(plan->moves);
  mem_free(plan->moved);
  plan->n_moves = n;
  plan->moves = n > 0 ? MEM_NEW(struct plan_move, n) : NULL;
  plan->moved = n > 0 ? MEM_NEW(uint32_t, plan->n_layers) : NULL;
}

bool plan_splits(const struct plan *plan) {
  for (int64_t k = 0; k < plan->n_actions; k++)
    if (plan->order[k].kind == NODE_W) return true;
  return false;
}

bool plan_has_parts(const struct plan *plan, int32_t stage) {
  for (int64_t k = 0; k < plan->n_parts; k++)
    if (plan->order[k].stage == stage && plan->parts[k].n_layers > 0) return true;
  return false;
}

struct plan_part plan_get_part(const struct plan *plan, int32_t rank, int64_t place) {
  int64_t k = plan->order_offset[rank] + place;
  if (plan->n_parts > 0 && plan->parts[k].n_layers > 0) return plan->parts[k];
  const struct plan_stage *stage = &plan->stages[plan->order[k].stage];
  return (struct plan_part){stage->first_layer, stage->n_layers};
}

const struct plan_move *plan_find_move(const struct plan *plan, int32_t stage, int32_t micro) {
  int32_t low = 0, high = plan->n_moves;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    const struct plan_move *m = &plan->moves[middle];
    if (m->stage < stage || (m->stage == stage && m->micro < micro))
      low = middle + 1;
    else
      high = middle;
  }
  const struct plan_move *found = low < plan->n_moves ? &plan->moves[low] : NULL;
  return found && found->stage == stage && found->micro == micro ? found : NULL;
}

bool plan_recomputes(const struct plan *plan, int32_t stage, int32_t micro) {
  const struct plan_stage *s = &plan->stages[stage];
  for (int32_t k = 0; k < plan->n_recompute; k++) {
    const struct plan_recompute *r = &plan->recompute[k];
    if (r->layer >= s->first_layer && r->layer < s->first_layer + s->n_layers && r->first_micro <= micro &&
        micro <= r->last_micro && r->ops)
      return true;
  }
  return false;
}

struct plan *plan_dup(const struct plan *plan) {
  struct plan *p = MEM_NEW(struct plan, 1);
  *p = *plan;
  plan_allocate(p);
#define X(member, count, fields, since)                                                                                \
  if ((count) > 0) memcpy(p->member, plan->member, sizeof *p->member *(size_t)(count));
  PLAN_ARRAYS(X)
#undef X
  return p;
}

struct plan *plan_dup_with_micro(const struct plan *plan, const struct micro_shape *micro) {
  struct plan *copy = plan_dup(plan);
  memcpy(copy->micro, micro, sizeof *micro * (size_t)plan->n_micro);
  if (plan->hash) plan_freeze(copy);
  return copy;
}

void plan_destroy(struct plan **plan) {
  if (!plan || !*plan) return;
  struct plan *p = *plan;
#define X(member, count, fields, since) mem_free(p->member);
  PLAN_ARRAYS(X)
#undef X
  mem_free(p);
  *plan = NULL;
}

void plan_freeze(struct plan *plan) {
  plan->hash = 0;
  size_t bytes;
  void *data = plan_pack(plan, &bytes);
  uint64_t hash = hash_bytes(data, bytes, 0);
  mem_free(data);
  plan->hash = hash ? hash : 1; /* 0 says: not frozen */
}

bool plan_holds(const struct plan *plan, int32_t stage, int32_t rank) {
  for (int32_t i = plan->replica_offset[stage]; i < plan->replica_offset[stage + 1]; i++)
    if (plan->replica_rank[i] == rank) return true;
  return false;
}

int32_t plan_find_rank(const struct plan *plan, int32_t stage, int32_t micro) {
  int32_t first = plan->replica_offset[stage], n = plan->replica_offset[stage + 1] - first;
  return plan->replica_rank[first + micro % n];
}

int32_t plan_get_holder(const struct plan *plan, int32_t stage) {
  return plan->replica_rank[plan->replica_offset[stage]];
}

int32_t plan_get_stage(const struct plan *plan, int32_t layer) {
  int32_t low = 0, high = plan->n_stages - 1;
  while (low < high) {
    int32_t middle = low + (high - low + 1) / 2;
    if (plan->stages[middle].first_layer <= layer)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}
