#include "random_moves.h"

static int32_t clamp_place(int64_t place, int32_t low, int32_t high) {
  return place < low ? low : place > high ? high : (int32_t)place;
}

/* Where the rank that keeps a block has room for it: from about when it leaves to about when it is back, or anywhere.
 */
static void draw_peer(const struct plan *plan, const struct order_time *times, struct plan_move *m) {
  int32_t own = plan_find_rank(plan, m->stage, m->micro), p = plan->n_ranks, n;
  do m->peer = (own + 1 + draw(p - 1)) % p;
  while (plan->order_offset[m->peer] == plan->order_offset[m->peer + 1] && draw(8));
  n = (int32_t)(plan->order_offset[m->peer + 1] - plan->order_offset[m->peer]);
  const double *end = times->end + plan->order_offset[own];
  if (draw(8) == 0) {
    m->peer_start = draw(n);
    m->peer_end = m->peer_start + draw(n - m->peer_start);
    return;
  }
  int32_t start = order_time_count_ended(plan, times, m->peer, end[m->out_start]);
  int32_t stop = order_time_count_ended(plan, times, m->peer, end[m->in_start - 1]);
  m->peer_start = clamp_place((int64_t)start - draw(2), 0, n - 1);
  m->peer_end = clamp_place((int64_t)stop + draw(3), m->peer_start, n - 1);
}

static int32_t draw_tier(const struct plan *plan, unsigned tiers) {
  if (plan->n_ranks < 2) tiers &= ~(unsigned)MOVES_TO_RANKS;
  for (;;) {
    int32_t tier = draw(PLAN_TIER_COUNT);
    if (tiers >> tier & 1) return tier;
  }
}

/* The stay on disk: some of the time that the block is in host memory, if that is long enough. */
static void draw_disk(struct plan_move *m, int32_t use) {
  int32_t start = plan_move_get_host_start(m);
  if (start >= use) {
    m->tier = PLAN_TIER_HOST;
    return;
  }
  m->disk_start = start + draw(use - start);
  m->disk_end = m->disk_start + 1 + draw(use - m->disk_start);
}

/* A block must stay over one action at least; its use is the first R, B or I of its micro-batch. */
static bool draw_move(const struct plan *plan, const struct order_time *times, int32_t forward, int32_t use,
                      unsigned tiers, struct plan_move *m) {
  if (use <= forward) return false;
  m->out_start = forward + draw(2) * draw(use - forward);
  m->out_end = m->out_start + draw(use - m->out_start);
  m->in_start = draw(2) ? use : m->out_end + 1 + draw(use - m->out_end);
  m->tier = draw_tier(plan, tiers);
  if (m->tier == PLAN_TIER_RANK) draw_peer(plan, times, m);
  if (m->tier == PLAN_TIER_DISK) draw_disk(m, use);
  return true;
}

static uint32_t draw_moved(const struct layer *layer) {
  uint32_t all = footprint_get_movable(layer);
  return draw(3) ? all : all & (uint32_t)draw(1 << (LAYER_MAX_ACTS + 1));
}

void put_random_tiers(struct plan *plan, const struct model *model, int32_t rarity, unsigned tiers) {
  struct plan_request request = {.model = model};
  struct order_time times;
  int32_t n = 0, *forward, *use;
  if (plan->forward_only || (plan->n_ranks < 2 && tiers == MOVES_TO_RANKS)) return;
  for (int32_t r = 0; r < plan->n_ranks; r++)
    if (plan->order_offset[r] == plan->order_offset[r + 1]) return;
  T_CHECK(!order_time_make(&request, plan, &times), "%s", error_text());
  struct plan_move *moves = MEM_NEW(struct plan_move, (int64_t)plan->n_stages * plan->n_micro);
  plan_move_find_uses(plan, &forward, &use);
  for (int32_t s = 0; s < plan->n_stages; s++)
    for (int32_t i = 0; i < plan->n_micro; i++) {
      int64_t at = (int64_t)s * plan->n_micro + i;
      moves[n] = (struct plan_move){
          .stage = s, .micro = i, .peer = -1, .peer_start = -1, .peer_end = -1, .disk_start = -1, .disk_end = -1};
      if (draw(rarity) == 0) n += draw_move(plan, &times, forward[at], use[at], tiers, &moves[n]);
    }
  plan_reserve_moves(plan, n);
  for (int32_t k = 0; k < n; k++) plan->moves[k] = moves[k];
  for (int32_t l = 0; l < plan->n_layers && n; l++) plan->moved[l] = draw_moved(&model->layers[l]);
  T_CHECK(!plan_check(plan), "%s", error_text());
  mem_free(moves);
  mem_free(forward);
  mem_free(use);
  order_time_fini(&times);
}

void put_possible_tiers(struct plan *plan, const struct model *model, int32_t rarity, unsigned tiers) {
  for (int trial = 0; trial < 10; trial++) {
    struct dag *dag = NULL;
    put_random_tiers(plan, model, rarity, tiers);
    bool possible = !dag_build(plan, model, &dag) && !dag_check(dag, plan);
    dag_destroy(&dag);
    error_clear();
    if (possible) return;
  }
  plan_reserve_moves(plan, 0);
}

void put_possible_moves(struct plan *plan, const struct model *model, int32_t rarity) {
  put_possible_tiers(plan, model, rarity, MOVES_TO_RANKS);
}
