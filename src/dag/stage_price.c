#include "dag/stage_price.h"

#include "dag/dag_price.h"

#include "base/mem.h"
#include "cost/cost.h"
#include "model/model.h"

/* A stage's last answer, for one kind of micro-batch. */
struct answer {
  int32_t rank, discards;   /* which kind, */
  struct micro_shape shape; /* and this; rows 0: none yet */
  struct stage_price price;
  int64_t kept; /* -1: not asked for */
};

struct stage_prices {
  const struct plan *plan;
  const struct model *model;
  const struct cost *cost;
  int64_t *n_body;        /* [n_ranks] layers of blocks that the rank holds */
  int32_t *discards;      /* [n_micro] number of the run of micro-batches between which what is discarded changes */
  struct answer *answers; /* [n_stages] */
};

static void number_discards(const struct plan *plan, int32_t *discards) {
  for (int32_t k = 0; k < plan->n_recompute; k++) {
    const struct plan_recompute *r = &plan->recompute[k];
    discards[r->first_micro] = 1;
    if (r->last_micro + 1 < plan->n_micro) discards[r->last_micro + 1] = 1;
  }
  for (int32_t i = 1; i < plan->n_micro; i++) discards[i] += discards[i - 1];
}

static void count_body(const struct plan *plan, const struct model *model, int64_t *n_body) {
  for (int32_t r = 0; r < plan->n_ranks; r++) n_body[r] = dag_price_count_body(plan, model, r);
}

struct stage_prices *stage_prices_create(const struct plan *plan, const struct model *model, const struct cost *cost) {
  struct stage_prices *p = MEM_NEW(struct stage_prices, 1);
  *p = (struct stage_prices){.plan = plan,
                             .model = model,
                             .cost = cost,
                             .n_body = MEM_NEW(int64_t, plan->n_ranks),
                             .discards = MEM_NEW(int32_t, plan->n_micro),
                             .answers = MEM_NEW(struct answer, plan->n_stages)};
  number_discards(plan, p->discards);
  count_body(plan, model, p->n_body);
  return p;
}

void stage_prices_destroy(struct stage_prices **prices) {
  if (!*prices) return;
  mem_free((*prices)->n_body);
  mem_free((*prices)->discards);
  mem_free((*prices)->answers);
  mem_free(*prices);
  *prices = NULL;
}

static double sum_pass(const struct stage_prices *p, struct plan_part part, int32_t rank, enum pass pass,
                       const struct micro_shape *micro) {
  double sum = 0;
  for (int32_t l = part.first_layer; l < part.first_layer + part.n_layers; l++)
    sum += cost_get_layer(p->cost, rank, l, pass, *micro);
  return sum * cost_get_share_factor(p->cost, pass, p->n_body[rank]);
}

static double sum_recompute(const struct stage_prices *p, struct plan_part part, int32_t rank, int32_t i) {
  const struct micro_shape *micro = &p->plan->micro[i];
  bool whole = cost_recomputes_whole(p->cost);
  double sum = 0;
  for (int32_t l = part.first_layer; l < part.first_layer + part.n_layers; l++) {
    uint32_t discarded = whole ? UINT32_MAX : plan_get_discarded(p->plan, l, i);
    sum += cost_get_recompute(p->cost, rank, l, discarded, *micro);
  }
  return sum * cost_get_recompute_share_factor(p->cost, p->n_body[rank]);
}

/* A stage without anything to rebuild takes no time for it, whatever its costs say of whole layers. */
static struct stage_price sum_passes(const struct stage_prices *p, struct plan_part part, int32_t s, int32_t i) {
  const struct micro_shape *micro = &p->plan->micro[i];
  int32_t rank = plan_find_rank(p->plan, s, i);
  return (struct stage_price){.forward = sum_pass(p, part, rank, PASS_FORWARD, micro),
                              .recompute = plan_recomputes(p->plan, s, i) ? sum_recompute(p, part, rank, i) : 0,
                              .input = sum_pass(p, part, rank, PASS_INPUT, micro),
                              .weight = sum_pass(p, part, rank, PASS_WEIGHT, micro)};
}

struct stage_price stage_prices_get_part(struct stage_prices *prices, int32_t stage, int32_t micro,
                                         struct plan_part part) {
  return sum_passes(prices, part, stage, micro);
}

static struct answer *find_answer(struct stage_prices *p, int32_t s, int32_t i) {
  struct answer *a = &p->answers[s];
  const struct plan_stage *stage = &p->plan->stages[s];
  const struct micro_shape *micro = &p->plan->micro[i];
  int32_t rank = plan_find_rank(p->plan, s, i);
  if (micro_shape_costs_alike(a->shape, *micro) && a->discards == p->discards[i] && a->rank == rank) return a;
  *a = (struct answer){.rank = rank,
                       .shape = *micro,
                       .discards = p->discards[i],
                       .price = sum_passes(p, (struct plan_part){stage->first_layer, stage->n_layers}, s, i),
                       .kept = -1};
  return a;
}

struct stage_price stage_prices_get(struct stage_prices *prices, int32_t stage, int32_t micro) {
  return find_answer(prices, stage, micro)->price;
}

int64_t stage_prices_get_kept(struct stage_prices *prices, int32_t stage, int32_t micro) {
  struct answer *a = find_answer(prices, stage, micro);
  if (a->kept < 0) a->kept = plan_measure_kept(prices->plan, prices->model, stage, micro);
  return a->kept;
}
