/* BPipe (Kim et al., ICML 2023): 1F1B in which the first stages keep part of their activation blocks on the ranks of the last
 * ones, so that no rank holds more than ceil((p + 2) / 2) blocks where stage 0 would hold p. Stage x < p/2 sends to the rank
 * of stage p-1-x the block that it needs last, and has it back before its backward. The order, and the time while a block
 * moves within a forward and a backward, are those of 1F1B.
 */
#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/one_f_one_b.h"
#include "plan/order_time.h"
#include "plan/residency.h"

static int make(const struct plan_request *request, struct plan **plan) {
  return planner_linear_make(request, "bpipe", one_f_one_b_get_warm_up, NULL, plan);
}

/* Seconds that a block is on its way. */
static double get_transfer(const struct plan_request *request, const struct plan *plan, const struct plan_move *m) {
  if (!request->cost) return 0;
  int64_t bytes = plan_measure_kept(plan, request->model, m->stage, m->micro);
  return cost_get_block(request->cost, plan_get_rank(plan, m->stage), m->peer, bytes, 1);
}

/* The places on the rank that keeps a block: memory from the action that runs there when the block leaves, until the one
 * that runs when it is back, so that neither rank waits. */
static void place_on_peer(const struct plan *plan, const struct order_time *times, double transfer,
                          struct plan_move *m) {
  int32_t own = plan_get_rank(plan, m->stage);
  int32_t last = (int32_t)(plan->order_offset[m->peer + 1] - plan->order_offset[m->peer]) - 1;
  const double *end = times->end + plan->order_offset[own];
  int32_t start = order_time_count_ended(plan, times, m->peer, end[m->out_start]);
  int32_t stop = order_time_count_ended(plan, times, m->peer, end[m->in_start - 1] + transfer);
  m->peer_start = start < last ? start : last;
  m->peer_end = stop < last ? stop : last;
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
    for (int32_t k = 0; k < more; k++) {
      struct plan_move *m = &moves[(*n)++];
      m->tier = PLAN_TIER_RANK;
      m->disk_start = m->disk_end = -1;
      m->peer = plan_get_rank(plan, p - 1 - x);
      place_on_peer(plan, times, get_transfer(request, plan, m), m);
    }
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

const struct planner planner_bpipe = {
    .name = "bpipe",
    .summary = "1F1B in which the first stages keep activations on the ranks of the last: at most (p + 2) / 2 each",
    .make = make,
    .move = move};
