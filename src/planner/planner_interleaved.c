/* Interleaved 1F1B: each rank holds several stages, p apart, so that a micro-batch passes it several times and the
 * pipeline fills in smaller steps. Forwards go in groups of p micro-batches, one chunk after the other; backwards the
 * same with the chunks reversed.
 */
#include "base/error.h"
#include "planner/planner.h"

struct sequence {
  int32_t first, n_ranks, n_chunks, n_micro; /* first: the first of the rank's stages */
};

/* The k-th forward (backward) of the rank, were there as many micro-batches as the next multiple of p. */
static struct plan_action get_pass(const struct sequence *q, enum node_kind kind, int64_t k) {
  int64_t p = q->n_ranks, group = p * q->n_chunks;
  int64_t chunk = k % group / p, micro = p * (k / group) + k % p;
  if (kind == NODE_B) chunk = q->n_chunks - 1 - chunk;
  return (struct plan_action){.kind = kind, .stage = (int32_t)(chunk * p) + q->first, .micro = (int32_t)micro};
}

/* Micro-batches that only fill up the last group are left out: a shorter last group could deadlock. */
static int64_t append(const struct sequence *q, enum node_kind kind, int64_t k, struct plan_action *out) {
  struct plan_action action = get_pass(q, kind, k);
  if (action.micro >= q->n_micro) return 0;
  *out = action;
  return 1;
}

static int64_t order_rank(const struct sequence *q, struct plan_action *out) {
  int64_t p = q->n_ranks, groups = (q->n_micro + p - 1) / p, total = groups * p * q->n_chunks;
  int64_t warm_up = 2 * (p - q->first - 1) + (q->n_chunks - 1) * p, n = 0;
  if (warm_up > total) warm_up = total;
  for (int64_t k = 0; k < warm_up; k++) n += append(q, NODE_F, k, out + n);
  for (int64_t k = 0; k < total; k++) {
    if (warm_up + k < total) n += append(q, NODE_F, warm_up + k, out + n);
    n += append(q, NODE_B, k, out + n);
  }
  return n;
}

static int make(const struct plan_request *request, struct plan **plan) {
  int32_t p = request->n_ranks, v = planner_count_chunks(request), m = request->n_micro;
  *plan = NULL;
  if (v < 2)
    return error_raise(STATUS_MISTAKE,
                       "planner interleaved needs pipeline.chunks of at least 2, it is %d: set it to 2 or more, or "
                       "pipeline.planner to 1f1b, which is the same with one stage a rank",
                       (int)v);
  int status = planner_start(request, "interleaved", 2 * (int64_t)p * v * m, plan);
  if (status) return status;
  struct plan *made = *plan;
  int64_t n = 0;
  for (int32_t r = 0; r < p; r++) {
    struct sequence q = {.first = planner_get_first_stage(request, r), .n_ranks = p, .n_chunks = v, .n_micro = m};
    made->order_offset[r] = n;
    n += order_rank(&q, made->order + n);
  }
  return STATUS_OK;
}

const struct planner planner_interleaved = {.id = PARAMS_PLANNER_INTERLEAVED, .make = make, .n_chunks = 2};
