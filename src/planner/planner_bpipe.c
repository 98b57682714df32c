/* BPipe (Kim et al., ICML 2023): 1F1B in which the first stages keep part of their activation blocks on the ranks of
 * the last ones, so that no rank holds more than ceil((p + 2) / 2) blocks where stage 0 would hold p. Stage x < p/2
 * sends to the rank of stage p-1-x the block that it needs last, and has it back before its backward. The order is that
 * of 1F1B. So is the time while a block moves within a forward and backwards take two forwards, for odd p; even p leave
 * one slot spare for a pair of ranks, in which blocks leave and come one after the other: the step is longer by about
 * one transfer.
 */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "planner/guest.h"
#include "planner/one_f_one_b.h"
#include "planner/order_time.h"
#include "planner/residency.h"

static int make(const struct plan_request *request, struct plan **plan) {
  return planner_linear_make(request, "bpipe", one_f_one_b_get_warm_up, NULL, plan);
}

/* Seconds that a block is on its way. */
static double get_transfer(const struct plan_request *request, const struct plan *plan, const struct plan_move *m) {
  if (!request->cost) return 0;
  int64_t bytes = plan_measure_kept(plan, request->model, m->stage, m->micro);
  return cost_get_block(request->cost, plan_find_rank(plan, m->stage, m->micro), m->peer, bytes, 1);
}

/* The guests of one rank, and how many blocks, own and guests, have memory there during each action. */
struct guests {
  const struct plan *plan;
  const struct order_time *times;
  struct plan_move *moves;
  double *transfers; /* [n] */
  int32_t n, n_actions;
  int32_t *held; /* [n_actions] */
};

static void count_held(struct guests *g, int32_t rank) {
  const struct plan_action *order = g->plan->order + g->plan->order_offset[rank];
  int32_t own = 0;
  for (int32_t k = 0; k < g->n_actions; k++) {
    own += order[k].kind == NODE_F;
    g->held[k] += own;
    own -= order[k].kind == NODE_B;
  }
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = g->moves[i].peer_start; k <= g->moves[i].peer_end; k++) g->held[k]++;
}

/* True when a block that leaves would wait on the keeper's side, at place `at`, for one that comes back, and that one
 * on their own side for the first, whose memory it takes or whose departure an action before its own return waits for.
 */
static bool changes_places(const struct guests *g, int32_t i, int32_t at, bool comes_after) {
  const struct plan_move *m = &g->moves[i];
  for (int32_t j = 0; j < g->n; j++) {
    const struct plan_move *other = &g->moves[j];
    const struct plan_move *out = comes_after ? m : other, *back = comes_after ? other : m;
    if (j != i && out->out_end + 1 <= back->in_start && (comes_after ? other->peer_end + 1 : other->peer_start) == at)
      return true;
  }
  return false;
}

/* Returns how long an action waits if a guest comes only after action k, or is gone before it; INFINITY when that is
 * not possible. Such waits close no circle while each goes from what starts sooner to what starts later. */
static double get_wait(const struct guests *g, int32_t i, int32_t k, bool comes_after) {
  const struct plan_move *m = &g->moves[i];
  int64_t own = g->plan->order_offset[plan_find_rank(g->plan, m->stage, m->micro)],
          at = g->plan->order_offset[m->peer] + k;
  const struct order_time *t = g->times;
  if (k < m->peer_start || k > m->peer_end) return INFINITY;
  if (comes_after && (k == m->peer_end || t->start[at] >= t->end[own + m->out_end])) return INFINITY;
  if (!comes_after && (k == m->peer_start || t->start[at] <= t->start[own + m->in_start - 1])) return INFINITY;
  if (changes_places(g, i, comes_after ? k + 1 : k, comes_after)) return INFINITY;
  return fmax(0, comes_after ? t->end[at] + g->transfers[i] - t->end[own + m->out_end]
                             : t->end[own + m->in_start - 1] + g->transfers[i] - t->start[at]);
}

/* Takes one guest out of action k, the one that makes others wait least; false when none can go. */
static bool make_room(struct guests *g, int32_t k) {
  double least = INFINITY;
  int32_t best = -1;
  bool comes_after = false;
  for (int32_t i = 0; i < g->n; i++)
    for (int after = 0; after < 2; after++) {
      double wait = get_wait(g, i, k, after);
      if (wait >= least) continue;
      least = wait;
      best = i;
      comes_after = after;
    }
  if (best < 0) return false;
  struct plan_move *m = &g->moves[best];
  int32_t first = comes_after ? m->peer_start : k, last = comes_after ? k : m->peer_end;
  for (int32_t j = first; j <= last; j++) g->held[j]--;
  if (comes_after)
    m->peer_start = k + 1;
  else
    m->peer_end = k - 1;
  return true;
}

/* Where a rank would hold more than it may, guests come later or go sooner. Returns the most blocks that it holds then.
 */
static int32_t keep_within(struct guests *g, int32_t rank, int32_t capacity) {
  int32_t most = 0;
  g->n_actions = (int32_t)(g->plan->order_offset[rank + 1] - g->plan->order_offset[rank]);
  g->held = MEM_NEW(int32_t, g->n_actions);
  count_held(g, rank);
  for (int32_t k = 0; k < g->n_actions; k++) {
    while (g->held[k] > capacity && make_room(g, k)) {
    }
    if (g->held[k] > most) most = g->held[k];
  }
  mem_free(g->held);
  return most;
}

static int refuse_capacity(const struct plan *plan, int32_t stage, int32_t capacity) {
  return error_raise(STATUS_MISTAKE, "planner bpipe: stage %d of %d cannot go on with %d activation blocks", (int)stage,
                     (int)plan->n_stages, (int)capacity);
}

static int add_moves(const struct plan_request *request, const struct plan *plan, const struct order_time *times,
                     struct plan_move *moves, int32_t *n) {
  int32_t p = plan->n_stages, capacity = (p + 3) / 2;
  for (int32_t x = 0; x < p / 2; x++) {
    if (!plan_measure_kept(plan, request->model, x, 0)) continue; /* an embedding alone keeps nothing */
    struct residency rule = {.stage = x, .capacity = capacity, .span = 2};
    int32_t more = residency_make(plan, &rule, moves + *n);
    if (more < 0) return refuse_capacity(plan, x, capacity);
    struct guests guests = {plan, times, moves + *n, MEM_NEW(double, more), more, 0, NULL};
    for (int32_t k = 0; k < more; k++) {
      struct plan_move *m = &moves[(*n)++];
      m->tier = PLAN_TIER_RANK;
      m->disk_start = m->disk_end = -1;
      m->peer = plan_find_rank(plan, p - 1 - x, m->micro);
      guests.transfers[k] = guest_place(plan, times, get_transfer(request, plan, m), m);
    }
    int32_t keeper = plan_get_holder(plan, p - 1 - x), most = keep_within(&guests, keeper, capacity);
    mem_free(guests.transfers);
    if (most > capacity)
      planner_note(request, "bpipe: with these times rank %d holds up to %d activation blocks, not %d", (int)keeper,
                   (int)most, (int)capacity);
  }
  return STATUS_OK;
}

/* All that the stages with moves keep. */
static void choose_all(const struct plan_request *request, struct plan *plan) {
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_stage *stage = &plan->stages[plan->moves[k].stage];
    for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
      plan->moved[l] = footprint_get_movable(&request->model->layers[l]);
  }
}

static int move(const struct plan_request *request, struct plan *plan) {
  struct order_time times;
  struct plan_move *moves = MEM_NEW(struct plan_move, (int64_t)plan->n_stages * plan->n_micro);
  int32_t n = 0;
  int status = order_time_make(request, plan, &times);
  if (!status) status = add_moves(request, plan, &times, moves, &n);
  if (!status && n == 0)
    planner_note(request, "bpipe: no stage of %d holds more than %d activation blocks: nothing moves",
                 (int)plan->n_stages, (int)(plan->n_stages + 3) / 2);
  if (!status) {
    plan_reserve_moves(plan, n);
    for (int32_t k = 0; k < n; k++) plan->moves[k] = moves[k];
    if (n) choose_all(request, plan);
  }
  order_time_fini(&times);
  mem_free(moves);
  return status;
}

const struct planner planner_bpipe = {.id = PARAMS_PLANNER_BPIPE, .make = make, .move = move};
