/* Sums of a plan's moves, stage by stage, for files and reports. */
#include "base/mem.h"
#include "dag/dag.h"

static bool belongs(const struct plan *plan, const struct dag_swap *swap, const struct plan_move *m) {
  return swap->stage == m->stage && swap->tier == m->tier && swap->peer == m->peer &&
         swap->rank == plan_find_rank(plan, m->stage, m->micro);
}

static struct dag_swap *find_swap(const struct plan *plan, struct dag_swap *swaps, int32_t n,
                                  const struct plan_move *m) {
  for (int32_t k = n - 1; k >= 0 && swaps[k].stage == m->stage; k--)
    if (belongs(plan, &swaps[k], m)) return &swaps[k];
  return NULL;
}

/* Returns the most blocks that are away at a time: a block is so from the action after out_end to the one before
 * in_start. */
static int32_t count_most_away(const struct plan *plan, const struct dag_swap *swap) {
  int32_t rank = swap->rank, away = 0, most = 0;
  int64_t n_actions = plan->order_offset[rank + 1] - plan->order_offset[rank];
  int32_t *change = MEM_NEW(int32_t, n_actions + 1);
  for (int32_t k = 0; k < plan->n_moves; k++) {
    if (!belongs(plan, swap, &plan->moves[k])) continue;
    change[plan->moves[k].out_end + 1]++;
    change[plan->moves[k].in_start]--;
  }
  for (int64_t i = 0; i < n_actions; i++) {
    away += change[i];
    if (away > most) most = away;
  }
  mem_free(change);
  return most;
}

int32_t dag_summarize_moves(const struct plan *plan, const struct model *model, struct dag_swap **swaps) {
  int32_t n = 0;
  int64_t *kept = MEM_NEW(int64_t, plan->n_moves);
  *swaps = MEM_NEW(struct dag_swap, plan->n_moves);
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_move *m = &plan->moves[k];
    int64_t parts[DAG_BLOCK_PARTS];
    struct dag_swap *swap = find_swap(plan, *swaps, n, m);
    if (!swap) {
      swap = &(*swaps)[n++];
      *swap = (struct dag_swap){
          .stage = m->stage, .rank = plan_find_rank(plan, m->stage, m->micro), .peer = m->peer, .tier = m->tier};
    }
    swap->n_moves++;
    swap->bytes += dag_measure_block(plan, model, m->stage, m->micro, parts);
    kept[swap - *swaps] += plan_measure_kept(plan, model, m->stage, m->micro);
  }
  for (int32_t i = 0; i < n; i++) {
    (*swaps)[i].blocks = count_most_away(plan, &(*swaps)[i]);
    (*swaps)[i].fraction = kept[i] ? (double)(*swaps)[i].bytes / (double)kept[i] : 0;
  }
  mem_free(kept);
  return n;
}
