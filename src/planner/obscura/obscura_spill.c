/* Sends blocks of activations on to disk when host memory has no room, or when they are to wait on disk. At each
 * place with too many blocks the one that is needed last goes, for as long as it can be away.
 */
#include "base/mem.h"
#include "plan/plan_move.h"
#include "planner/obscura/obscura.h"

/* One stage's blocks in host memory. */
struct hosted {
  struct plan_move *moves; /* [n] */
  const int32_t *use;      /* [n_micro] */
  int32_t n, n_actions, most;
  int32_t *held; /* [n_actions] blocks during each action */
};

static void hold(struct hosted *h, int32_t first, int32_t last, int32_t change) {
  for (int32_t k = first; k <= last; k++) h->held[k] += change;
}

/* Returns true when the block is in host memory at this place of the order. */
static bool is_hosted(const struct plan_move *m, int32_t place) {
  return m->tier == PLAN_TIER_HOST || place <= m->disk_start || place >= m->disk_end;
}

/* Chooses the block that is needed last among those that wait in host memory at this place and can be on disk then,
 * with `span` actions for either way; one that is on disk before or after may go sooner, or come back later. */
static struct plan_move *choose(const struct hosted *h, int32_t place, int32_t span) {
  struct plan_move *last = NULL;
  for (int32_t k = 0; k < h->n; k++) {
    struct plan_move *m = &h->moves[k];
    bool can = is_hosted(m, place) && m->out_end + span < place && place < m->in_start - span;
    if (can && (!last || m->in_start > last->in_start)) last = m;
  }
  return last;
}

static bool make_room(struct hosted *h, int32_t place, int32_t span) {
  struct plan_move *m = NULL;
  while (span > 0 && !(m = choose(h, place, span))) span--;
  if (!m) return false;
  if (m->tier == PLAN_TIER_DISK) hold(h, m->disk_start + 1, m->disk_end - 1, 1);
  m->tier = PLAN_TIER_DISK;
  m->disk_start = m->out_end + span;
  m->disk_end = m->in_start - span;
  hold(h, m->disk_start + 1, m->disk_end - 1, -1);
  return true;
}

void obscura_spill(const struct obscura *x, const struct plan *plan, int32_t s, int64_t bytes, struct plan_move *moves,
                   int32_t n) {
  enum { SPAN = 2 };
  const struct plan_request *r = x->request;
  int32_t rank = plan_get_holder(plan, s), *forward, *use;
  int64_t limit = r->host_limit ? r->host_limit[rank] : INT64_MAX, disk = r->disk_limit ? r->disk_limit[rank] : 0;
  int tier = r->params->pipeline.swap_tier;
  if (tier == PARAMS_SWAP_TIER_DISK) limit = 0;
  if (tier == PARAMS_SWAP_TIER_HOST || limit == INT64_MAX || disk == 0 || n == 0 || bytes <= 0) return;
  plan_move_find_uses(plan, &forward, &use);
  struct hosted h = {.moves = moves,
                     .use = use + (int64_t)s * plan->n_micro,
                     .n = n,
                     .n_actions = (int32_t)(plan->order_offset[rank + 1] - plan->order_offset[rank]),
                     .most = (int32_t)(limit / bytes < plan->n_micro ? limit / bytes : plan->n_micro)};
  h.held = MEM_NEW(int32_t, h.n_actions);
  for (int32_t k = 0; k < n; k++) hold(&h, plan_move_get_host_start(&moves[k]), h.use[moves[k].micro], 1);
  for (int32_t place = 0; place < h.n_actions; place++)
    while (h.held[place] > h.most && make_room(&h, place, SPAN)) continue;
  mem_free(h.held);
  mem_free(forward);
  mem_free(use);
}
