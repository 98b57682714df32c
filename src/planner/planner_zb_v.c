/* ZB-V: two stages a rank, the first going down the ranks and the second up again, so that the last rank turns a
 * micro-batch around by itself and the first rank's backward follows its forward. Keeps the activations of p
 * micro-batches (2p halves) on every rank and leaves (p-1)/2 of a micro-batch's forward idle.
 *
 * The shortest in unit times of several orders is taken: a regular one, which leaves nothing idle but the way to the
 * last rank when m is at least p, and for less two greedy ones.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "planner/order_greedy.h"
#include "planner/planner.h"

/* The regular order of one rank up to its last forward. */
struct regular {
  int32_t stages[2], n_micro;
  int32_t forward[2], backward[2];
  struct plan_action *out;
  int64_t n;
};

static void add_forward(struct regular *x, int chunk) {
  if (x->forward[chunk] == x->n_micro) return;
  x->out[x->n++] = (struct plan_action){NODE_F, x->stages[chunk], x->forward[chunk]++};
}

static void add_backward(struct regular *x, int chunk) {
  if (x->backward[chunk] == x->forward[chunk]) return;
  x->out[x->n++] = (struct plan_action){NODE_I, x->stages[chunk], x->backward[chunk]};
  x->out[x->n++] = (struct plan_action){NODE_W, x->stages[chunk], x->backward[chunk]++};
}

/* `first`: the first of the rank's stages. As many forwards of the first chunk as fit until the first micro-batch is
 * back; then both chunks' in turn; then backwards of the second until the first chunk's can start; from there both
 * chunks in turn, forward and backward. */
static int64_t lead_rank(int32_t first, int32_t p, int32_t m, struct plan_action *out) {
  struct regular x = {.stages = {first, 2 * p - 1 - first}, .n_micro = m, .out = out};
  for (int32_t k = 0; k < 2 * (p - first) - 1; k++) add_forward(&x, 0);
  for (int32_t k = 0; k < first; k++) {
    add_forward(&x, 1);
    add_forward(&x, 0);
  }
  for (int32_t k = 0; k < p - first; k++) {
    add_forward(&x, 1);
    add_backward(&x, 1);
  }
  while (x.forward[0] < m || x.forward[1] < m)
    for (int chunk = 0; chunk < 2; chunk++) {
      add_forward(&x, chunk);
      add_backward(&x, chunk);
    }
  return x.n;
}

/* Puts an order into the plan if it is shorter than what is there. */
static int try_rule(const struct order_greedy *rule, struct plan *plan, int64_t *shortest) {
  int64_t makespan, *offset = MEM_NEW(int64_t, plan->n_ranks + 1);
  int64_t n = 3 * (int64_t)rule->n_stages * rule->n_micro;
  struct plan_action *order = MEM_NEW(struct plan_action, n);
  int status = order_make_greedy(rule, order, offset, &makespan);
  if (!status && makespan < *shortest) {
    *shortest = makespan;
    memcpy(plan->order, order, sizeof *order * (size_t)n);
    memcpy(plan->order_offset, offset, sizeof *offset * ((size_t)plan->n_ranks + 1));
  }
  mem_free(order);
  mem_free(offset);
  return status;
}

static int order_ranks(const struct plan_request *request, struct plan *plan) {
  int32_t p = plan->n_ranks, m = plan->n_micro;
  int64_t least = 6 * (int64_t)m + p - 1; /* the last rank's work, and the way there */
  int64_t shortest = INT64_MAX, *offset = MEM_NEW(int64_t, p + 1);
  struct plan_action *lead = MEM_NEW(struct plan_action, 6 * (int64_t)p * m);
  for (int32_t r = 0; r < p; r++)
    offset[r + 1] = offset[r] + lead_rank(planner_get_first_stage(request, r), p, m, lead + offset[r]);
  struct order_greedy rule = {.n_stages = 2 * p,
                              .n_ranks = p,
                              .n_micro = m,
                              .rank_of = plan->replica_rank,
                              .limit = 2 * p,
                              .lead = lead,
                              .lead_offset = offset};
  int status = try_rule(&rule, plan, &shortest);
  rule.lead = NULL;
  for (int k = 0; k < 2 && !status && shortest > least; k++) {
    rule.oldest_first = k;
    status = try_rule(&rule, plan, &shortest);
  }
  mem_free(lead);
  mem_free(offset);
  return status;
}

static int make(const struct plan_request *request, struct plan **plan) {
  int32_t p = request->n_ranks, v = planner_count_chunks(request);
  *plan = NULL;
  if (v != 2)
    return error_raise(
        STATUS_MISTAKE,
        "planner zb-v needs pipeline.chunks: 2, it is %d: every rank holds one stage on the way down and "
        "one on the way up; set pipeline.chunks to 2, or pipeline.planner to %s",
        (int)v, v == 1 ? "zb-h1" : "interleaved");
  int32_t *rank_of = MEM_NEW(int32_t, 2 * (int64_t)p);
  for (int32_t s = 0; s < 2 * p; s++) rank_of[s] = planner_get_rank(request, s < p ? s : 2 * p - 1 - s);
  struct plan_request folded = *request;
  folded.rank_of = rank_of;
  int status = planner_start(&folded, "zb-v", 6 * (int64_t)p * request->n_micro, plan);
  if (!status) status = order_ranks(&folded, *plan);
  if (status) plan_destroy(plan);
  mem_free(rank_of);
  return status;
}

const struct planner planner_zb_v = {.id = PARAMS_PLANNER_ZB_V, .make = make, .n_chunks = 2};
