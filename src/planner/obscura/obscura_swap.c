/* Chooses which blocks of activations leave their device and come back, when, and which part of them. A stage that
 * runs mu forwards ahead and has lambda blocks away has mu - lambda at rest and two more on their way, one in each
 * direction. Lazily, a block leaves only when there is no room and comes back just in time (Belady's rule); eagerly,
 * every block after the first mu - lambda leaves when it is made and comes back as soon as another has been used up.
 */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/plan_move.h"
#include "planner/guest.h"
#include "planner/obscura/obscura.h"
#include "planner/residency.h"

bool obscura_may_swap(const struct obscura *x) {
  const struct params_obscura *o = &x->options;
  return o->steps >= PARAMS_OBSCURA_STEPS_SWAP && x->request->params->pipeline.swap != PARAMS_SWAP_OFF &&
         o->lambda != 0 && o->beta != 0;
}

static bool is_among(const struct params_stages *stages, int32_t stage) {
  if (stages->kind == PARAMS_STAGES_FIRST) return stage < stages->n;
  if (stages->kind != PARAMS_STAGES_LIST) return true;
  for (int64_t i = 0; i < stages->n; i++)
    if (stages->stages[i] == stage) return true;
  return false;
}

bool obscura_may_leave(const struct obscura *x, int32_t stage) {
  if (x->tier == PLAN_TIER_RANK && x->n_stages < 2) return false;
  return obscura_may_swap(x) && is_among(&x->request->params->pipeline.swap_stages, stage);
}

/* ---- what of a block leaves ---- */

/* Returns the bytes of a block that the bits of a layer's mask stand for, when the layer discards these ops. */
static int64_t measure_mask(const struct obscura *x, const struct obscura_draft *d, int32_t s, int32_t l, uint32_t ops,
                            uint32_t mask) {
  const struct model *model = x->request->model;
  const struct micro_shape *micro = stage_needs_get_micro(x->needs);
  struct footprint f;
  footprint_layer(model, &model->layers[l], *micro, ops, mask, &f);
  int64_t bytes = f.bytes[REGION_MOVE_INPUT] + f.bytes[REGION_MOVE_WEIGHT];
  bool enters = l > 0 && (l > d->stages[s].first_layer || s > 0);
  if (enters && (mask >> FOOTPRINT_MOVES_HIDDEN & 1)) bytes += footprint_output(model, l - 1, *micro);
  return bytes;
}

/* Takes bits of a layer's mask for which `left` bytes have room, and lowers *left. Sizes given by layer are taken
 * together. */
static uint32_t take_bits(const struct obscura *x, const struct obscura_draft *d, int32_t s, int32_t l, double *left) {
  const struct layer *layer = &x->request->model->layers[l];
  uint32_t movable = footprint_get_movable(layer), hidden = (uint32_t)1 << FOOTPRINT_MOVES_HIDDEN, taken = 0;
  for (uint32_t rest = movable; rest;) {
    uint32_t bit = layer->has_sizes && rest != hidden ? rest & ~hidden : rest & -rest;
    double bytes = (double)measure_mask(x, d, s, l, d->ops[l], bit);
    rest &= ~bit;
    if (bytes > *left || bytes <= 0) continue;
    *left -= bytes;
    taken |= bit;
  }
  return taken;
}

int64_t obscura_measure_block(const struct obscura *x, const struct obscura_draft *d, int32_t s, const uint32_t *ops) {
  const struct plan_stage *stage = &d->stages[s];
  int64_t bytes = 0;
  for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
    bytes += measure_mask(x, d, s, l, ops[l], footprint_get_movable(&x->request->model->layers[l]));
  return bytes;
}

/* Chooses what leaves of the stage's blocks. False when nothing does. */
static bool choose_moved(const struct obscura *x, const struct obscura_draft *d, int32_t s, uint32_t *moved) {
  const struct plan_stage *stage = &d->stages[s];
  bool any = false;
  if (d->lambda[s] == 0 || d->beta <= 0) return false;
  double left = d->beta * (double)obscura_measure_block(x, d, s, d->ops);
  for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
    moved[l] = take_bits(x, d, s, l, &left);
    any = any || moved[l];
  }
  return any;
}

double obscura_get_transfer(const struct obscura *x, const struct obscura_draft *d, int32_t s) {
  if (!x->request->cost) return 0;
  double bytes = d->beta * (double)(d->needs[s].keep - d->discarded[s]);
  if (s + 1 < x->n_stages)
    bytes -= d->beta * (double)footprint_output(x->request->model, d->stages[s + 1].first_layer - 1,
                                                *stage_needs_get_micro(x->needs));
  int32_t rank = planner_get_rank(x->request, s);
  if (d->tier == PLAN_TIER_RANK)
    return x->copy_factor * cost_get_block(x->request->cost, rank, obscura_get_peer(x, d, s), (int64_t)bytes, d->beta);
  return x->copy_factor * cost_get_copy(x->request->cost, rank, (int64_t)bytes, d->beta);
}

/* ---- when ---- */

/* Returns the actions that a block's transfer may last one way: as many as it needs, two at least. */
static int32_t get_span(const struct obscura *x, const struct obscura_draft *d, int32_t s) {
  double pass = d->needs[s].forward + d->needs[s].backward + d->recompute[s];
  double spans = pass > 0 ? ceil(obscura_get_transfer(x, d, s) / pass) : 1;
  return 2 * (spans < 1 ? 1 : spans > x->n_micro ? x->n_micro : (int32_t)spans);
}

/* Places moves so that every block after the first `rest` leaves after its forward, and comes back when the block
 * `rest` before it has been used. */
static int32_t place_eagerly(const struct plan *plan, int32_t s, int32_t rest, int32_t span, struct plan_move *moves) {
  int32_t *forward, *use, n = 0, m = plan->n_micro;
  plan_move_find_uses(plan, &forward, &use);
  const int32_t *f = forward + (int64_t)s * m, *u = use + (int64_t)s * m;
  for (int32_t i = rest; i < m; i++) {
    int32_t used = u[i - rest];
    /* The place of the backward that uses it up: a recomputation comes first. */
    if (plan->order[plan->order_offset[plan_find_rank(plan, s, i - rest)] + used].kind == NODE_R) used++;
    struct plan_move move = {
        .stage = s, .micro = i, .out_start = f[i], .out_end = f[i] + span - 1, .in_start = used + 1};
    if (move.in_start > u[i]) move.in_start = u[i];
    if (move.in_start <= move.out_end) move.out_end = move.in_start - 1;
    if (move.out_end > move.out_start) moves[n++] = move;
  }
  mem_free(forward);
  mem_free(use);
  return n;
}

static int32_t place_blocks(const struct obscura *x, const struct obscura_draft *d, const struct plan *plan, int32_t s,
                            struct plan_move *moves) {
  int32_t rest = d->warm_up[s] - d->lambda[s], span = get_span(x, d, s);
  if (rest < 0) rest = 0;
  if (x->options.eviction == PARAMS_EVICTION_EAGER) return place_eagerly(plan, s, rest, span, moves);
  for (int32_t most = rest + 2;; most++) { /* some orders cannot run with very few */
    struct residency rule = {.stage = s, .capacity = most, .span = span};
    int32_t n = residency_make(plan, &rule, moves);
    if (n >= 0 || most >= d->warm_up[s]) return n;
  }
}

/* Returns the bytes of a stage's block that leave. */
static int64_t measure_moved(const struct obscura *x, const struct obscura_draft *d, int32_t s, const uint32_t *moved) {
  const struct plan_stage *stage = &d->stages[s];
  int64_t bytes = 0;
  for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
    bytes += measure_mask(x, d, s, l, d->ops[l], moved[l]);
  return bytes;
}

/* A plan in which blocks of activations are evicted. */
struct put {
  const struct plan *plan;
  struct order_time times; /* where they go to other ranks */
  uint32_t *moved;         /* [n_layers] */
  struct plan_move *moves;
  int32_t n;
};

/* Sends all of a stage's n moves to one other rank. */
static void send_to_peer(const struct obscura *x, const struct obscura_draft *d, const struct put *put, int32_t s,
                         struct plan_move *moves, int32_t n) {
  int32_t peer = obscura_get_peer(x, d, s);
  int64_t bytes = measure_moved(x, d, s, put->moved);
  int32_t rank = planner_get_rank(x->request, s);
  double transfer = x->request->cost ? cost_get_block(x->request->cost, rank, peer, bytes, d->beta) : 0;
  for (int32_t k = 0; k < n; k++) {
    moves[k].tier = PLAN_TIER_RANK;
    moves[k].peer = peer;
    guest_place(put->plan, &put->times, transfer, &moves[k]);
  }
}

/* Adds the stage's moves. STATUS_FAILED when its order cannot run with so few blocks on the device. */
static int move_stage(const struct obscura *x, const struct obscura_draft *d, int32_t s, struct put *put) {
  struct plan_move *moves = put->moves + put->n;
  if (!choose_moved(x, d, s, put->moved)) return STATUS_OK;
  int32_t n = place_blocks(x, d, put->plan, s, moves);
  if (n < 0)
    return error_raise(STATUS_FAILED, "planner obscura: stage %d cannot go on with %d activation blocks", (int)s,
                       (int)(d->warm_up[s] - d->lambda[s] + 2));
  for (int32_t k = 0; k < n; k++) {
    moves[k].tier = PLAN_TIER_HOST;
    moves[k].peer = moves[k].peer_start = moves[k].peer_end = moves[k].disk_start = moves[k].disk_end = -1;
  }
  if (d->tier == PLAN_TIER_RANK)
    send_to_peer(x, d, put, s, moves, n);
  else if (n > 0)
    obscura_spill(x, put->plan, s, measure_moved(x, d, s, put->moved), moves, n);
  put->n += n;
  return STATUS_OK;
}

static bool lets_go(const struct obscura *x, const struct obscura_draft *d) {
  for (int32_t s = 0; s < x->n_stages; s++)
    if (d->lambda[s]) return true;
  return false;
}

int obscura_put_moves(const struct obscura *x, const struct obscura_draft *d, struct plan *plan) {
  if (!lets_go(x, d)) return STATUS_OK;
  struct put put = {.plan = plan,
                    .moved = MEM_NEW(uint32_t, x->n_layers),
                    .moves = MEM_NEW(struct plan_move, (int64_t)x->n_stages * x->n_micro)};
  int status = d->tier == PLAN_TIER_RANK ? order_time_make(x->request, plan, &put.times) : STATUS_OK;
  for (int32_t s = 0; s < x->n_stages && !status; s++) status = move_stage(x, d, s, &put);
  if (!status && put.n > 0) {
    plan_reserve_moves(plan, put.n);
    for (int32_t k = 0; k < put.n; k++) plan->moves[k] = put.moves[k];
    for (int32_t l = 0; l < x->n_layers; l++) plan->moved[l] = put.moved[l];
  }
  order_time_fini(&put.times);
  mem_free(put.moved);
  mem_free(put.moves);
  return status;
}
