/* Every pass takes one unit, so the pipeline goes in steps: each rank picks from what was done before the step, then
 * all picks are done. A stage's passes ascend, so that counts say all about what is ready.
 */
#include "planner/order_greedy.h"

#include "base/error.h"
#include "base/mem.h"

struct greedy {
  const struct order_greedy *rule;
  int32_t *offset, *held;            /* the stages of each rank, ascending: held[offset[r] ..] */
  int32_t *forward, *input, *weight; /* [n_stages] passes done */
  int32_t *live;                     /* [n_ranks] */
  int64_t *used;                     /* [n_ranks] passes of each rank so far */
  struct plan_action *picked;        /* [n_ranks] of this step; kind NODE_KIND_COUNT: none */
};

static void open_greedy(struct greedy *g, const struct order_greedy *rule) {
  int32_t p = rule->n_ranks, q = rule->n_stages;
  *g = (struct greedy){.rule = rule,
                       .offset = MEM_NEW(int32_t, p + 1),
                       .held = MEM_NEW(int32_t, q),
                       .forward = MEM_NEW(int32_t, q),
                       .input = MEM_NEW(int32_t, q),
                       .weight = MEM_NEW(int32_t, q),
                       .live = MEM_NEW(int32_t, p),
                       .used = MEM_NEW(int64_t, p),
                       .picked = MEM_NEW(struct plan_action, p)};
  for (int32_t s = 0; s < q; s++) g->offset[rule->rank_of[s] + 1]++;
  for (int32_t r = 0; r < p; r++) g->offset[r + 1] += g->offset[r];
  for (int32_t s = 0; s < q; s++) g->held[g->offset[rule->rank_of[s]] + g->live[rule->rank_of[s]]++] = s;
  for (int32_t r = 0; r < p; r++) g->live[r] = 0;
}

static void close_greedy(struct greedy *g) {
  mem_free(g->offset);
  mem_free(g->held);
  mem_free(g->forward);
  mem_free(g->input);
  mem_free(g->weight);
  mem_free(g->live);
  mem_free(g->used);
  mem_free(g->picked);
}

static int32_t get_next(const struct greedy *g, enum node_kind kind, int32_t stage) {
  return kind == NODE_F ? g->forward[stage] : kind == NODE_I ? g->input[stage] : g->weight[stage];
}

static bool is_ready(const struct greedy *g, enum node_kind kind, int32_t stage) {
  int32_t micro = get_next(g, kind, stage);
  if (micro >= g->rule->n_micro) return false;
  if (kind == NODE_F) return stage == 0 || g->forward[stage - 1] > micro;
  if (kind == NODE_W) return g->input[stage] > micro;
  return g->forward[stage] > micro && (stage == g->rule->n_stages - 1 || g->input[stage + 1] > micro);
}

static bool has_room(const struct greedy *g, int32_t rank, int32_t stage) {
  int32_t last = g->held[g->offset[rank + 1] - 1];
  int32_t kept = stage != last && g->forward[last] == g->input[last];
  return g->live[rank] + 1 + kept <= g->rule->limit;
}

/* Returns the stage of a rank whose next pass of a kind is ready and comes first, -1: none. */
static int32_t choose_stage(const struct greedy *g, int32_t rank, enum node_kind kind, bool oldest_first) {
  int32_t best = -1;
  for (int32_t k = g->offset[rank + 1] - 1; k >= g->offset[rank]; k--) {
    int32_t stage = g->held[k];
    if (!is_ready(g, kind, stage) || (kind == NODE_F && !has_room(g, rank, stage))) continue;
    if (best < 0 || (oldest_first && get_next(g, kind, stage) < get_next(g, kind, best))) best = stage;
  }
  return best;
}

static void pick_pass(struct greedy *g, int32_t rank) {
  const struct order_greedy *rule = g->rule;
  struct plan_action *picked = &g->picked[rank];
  picked->kind = NODE_KIND_COUNT;
  int64_t lead = rule->lead ? rule->lead_offset[rank] + g->used[rank] : 0;
  if (rule->lead && lead < rule->lead_offset[rank + 1]) {
    const struct plan_action *next = &rule->lead[lead];
    if (is_ready(g, next->kind, next->stage)) *picked = *next;
    return;
  }
  static const enum node_kind kinds[] = {NODE_I, NODE_F, NODE_W};
  for (int k = 0; k < 3; k++) {
    bool oldest_first = kinds[k] == NODE_W || (kinds[k] == NODE_I && rule->oldest_first);
    int32_t stage = choose_stage(g, rank, kinds[k], oldest_first);
    if (stage < 0) continue;
    *picked = (struct plan_action){(int32_t)kinds[k], stage, get_next(g, kinds[k], stage)};
    return;
  }
}

static void do_pass(struct greedy *g, int32_t rank) {
  const struct plan_action *a = &g->picked[rank];
  g->forward[a->stage] += a->kind == NODE_F;
  g->input[a->stage] += a->kind == NODE_I;
  g->weight[a->stage] += a->kind == NODE_W;
  g->live[rank] += (a->kind == NODE_F) - (a->kind == NODE_W);
  g->used[rank]++;
}

int order_make_greedy(const struct order_greedy *rule, struct plan_action *order, int64_t *order_offset,
                      int64_t *makespan) {
  struct greedy g;
  open_greedy(&g, rule);
  int64_t total = 3 * (int64_t)rule->n_stages * rule->n_micro, done = 0, before = -1;
  for (int32_t r = 0; r <= rule->n_ranks; r++) order_offset[r] = 3 * (int64_t)g.offset[r] * rule->n_micro;
  *makespan = 0;
  while (done < total && done > before) {
    before = done;
    for (int32_t r = 0; r < rule->n_ranks; r++) pick_pass(&g, r);
    for (int32_t r = 0; r < rule->n_ranks; r++) {
      if (g.picked[r].kind == NODE_KIND_COUNT) continue;
      order[order_offset[r] + g.used[r]] = g.picked[r];
      do_pass(&g, r);
      done++;
    }
    ++*makespan;
  }
  close_greedy(&g);
  if (done == total) return STATUS_OK;
  return error_raise(STATUS_FAILED, "no rank can go on after %lld of %lld passes", (long long)done, (long long)total);
}
