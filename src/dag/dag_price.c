#include "dag/dag_price.h"

#include "base/mem.h"
#include "cost/cost.h"
#include "dag/stage_price.h"
#include "model/footprint.h"

struct pricer {
  const struct dag *dag;
  const struct plan *plan;
  const struct model *model;
  const struct cost *cost;
  int64_t *n_floats; /* [n_ranks] gradients that the norm goes over */
  struct stage_prices *stages;
};

/* True for the user of a tie whose layer is on another rank: it has a copy of the tensor. */
static bool has_copy(const struct pricer *p, const struct tie *tie, int32_t layer) {
  int32_t a = plan_get_stage(p->plan, tie->layer), b = plan_get_stage(p->plan, tie->user);
  return layer == tie->user && plan_get_holder(p->plan, a) != plan_get_holder(p->plan, b);
}

/* Parameters that are updated with a layer: its own, and its copy of a tied tensor. */
static int64_t count_floats(const struct pricer *p, int32_t layer) {
  const struct tie *tie = model_find_tie(p->model, layer);
  return p->model->layers[layer].n_floats + (tie && has_copy(p, tie, layer) ? tie->floats : 0);
}

/* Gradients of a tied tensor's other use that come to a layer's own: all of them on each rank that has a copy. */
static int64_t count_tied(const struct pricer *p, int32_t layer) {
  const struct tie *tie = model_find_tie(p->model, layer);
  return tie && (layer == tie->layer || has_copy(p, tie, layer)) ? tie->floats : 0;
}

static void count_gradients(struct pricer *p) {
  for (int32_t s = 0; s < p->plan->n_stages; s++) {
    const struct plan_stage *stage = &p->plan->stages[s];
    for (int32_t r = 0; r < p->plan->n_ranks; r++)
      for (int32_t k = 0; k < stage->n_layers && plan_holds(p->plan, s, r); k++)
        p->n_floats[r] += p->model->layers[stage->first_layer + k].n_floats;
  }
}

/* The hidden state between two stages, or its gradient. `lower` is the stage that makes the former. */
static double price_message(const struct pricer *p, const struct dag_node *n, int32_t lower) {
  const struct plan_stage *stage = &p->plan->stages[lower];
  int64_t bytes = cost_get_output_bytes(p->cost, stage->first_layer + stage->n_layers - 1, n->bytes);
  return cost_get_message(p->cost, n->rank, n->peer, bytes);
}

/* A part of what a stage keeps of a micro-batch, on its way to another rank or to host memory, or back. */
static double price_block(const struct pricer *p, const struct dag_node *n) {
  int64_t whole = stage_prices_get_kept(p->stages, n->stage, n->micro);
  int32_t own = plan_find_rank(p->plan, n->stage, n->micro), peer = n->rank == own ? n->peer : n->rank;
  if (n->peer < 0) return cost_get_copy(p->cost, own, n->bytes, whole ? (double)n->bytes / (double)whole : 0);
  return cost_get_block(p->cost, own, peer, n->bytes, whole ? (double)n->bytes / (double)whole : 0);
}

/* An update: without clip the sums of its gradient, which need no norm, come with it. */
static double price_update(const struct pricer *p, const struct dag_node *n) {
  double update = cost_get_update(p->cost, n->rank, count_floats(p, n->layer));
  if (p->plan->clip) return update;
  return update + cost_get_sum(p->cost, n->rank, p->model->layers[n->layer].n_floats) +
         cost_get_tied_sum(p->cost, n->rank, count_tied(p, n->layer));
}

/* The norm: with clip it sums all gradients of the rank first. */
static double price_norm(const struct pricer *p, const struct dag_node *n) {
  if (!p->plan->clip) return cost_get_norm(p->cost, n->rank, 0);
  double seconds = cost_get_norm(p->cost, n->rank, p->n_floats[n->rank]);
  for (int32_t i = 0; i < p->model->n_ties; i++) {
    int32_t layers[2] = {p->model->ties[i].layer, p->model->ties[i].user};
    for (int k = 0; k < 2; k++)
      if (plan_holds(p->plan, plan_get_stage(p->plan, layers[k]), n->rank))
        seconds += cost_get_tied_sum(p->cost, n->rank, count_tied(p, layers[k]));
  }
  return seconds;
}

/* A pass, or a part of one. */
static double price_pass(struct pricer *p, const struct dag_node *n) {
  struct stage_price price =
      n->layer < 0 ? stage_prices_get(p->stages, n->stage, n->micro)
                   : stage_prices_get_part(p->stages, n->stage, n->micro, plan_get_part(p->plan, n->rank, n->position));
  switch ((enum node_kind)n->kind) {
  case NODE_F: return price.forward;
  case NODE_R: return price.recompute;
  case NODE_I: return price.input;
  case NODE_W: return price.weight;
  default: return price.input + price.weight;
  }
}

static double price_node(struct pricer *p, const struct dag_node *n) {
  switch ((enum node_kind)n->kind) {
  case NODE_F:
  case NODE_R:
  case NODE_I:
  case NODE_W:
  case NODE_B: return price_pass(p, n);
  case NODE_U: return price_update(p, n);
  case NODE_SF: return price_message(p, n, n->stage);
  case NODE_SB: return price_message(p, n, n->stage - 1);
  case NODE_ST: return cost_get_tie(p->cost, n->rank, n->peer, n->bytes);
  case NODE_ES:
  case NODE_LS:
  case NODE_EV:
  case NODE_LD: return price_block(p, n);
  case NODE_SW: return cost_get_disk(p->cost, n->rank, true, n->bytes);
  case NODE_SR: return cost_get_disk(p->cost, n->rank, false, n->bytes);
  case NODE_N: return price_norm(p, n);
  case NODE_RF:
  case NODE_RB:
  case NODE_RT:
  case NODE_ER:
  case NODE_LR:
  case NODE_KIND_COUNT: break;
  }
  return 0;
}

int64_t dag_price_count_body(const struct plan *plan, const struct model *model, int32_t rank) {
  int64_t n = 0;
  for (int32_t s = 0; s < plan->n_stages; s++) {
    const struct plan_stage *stage = &plan->stages[s];
    for (int32_t l = stage->first_layer; plan_holds(plan, s, rank) && l < stage->first_layer + stage->n_layers; l++)
      n += model->layers[l].block >= 0;
  }
  return n;
}

void dag_price(const struct dag *dag, const struct plan *plan, const struct model *model, const struct cost *cost,
               double *seconds) {
  struct pricer p = {.dag = dag, .plan = plan, .model = model, .cost = cost};
  p.n_floats = MEM_NEW(int64_t, plan->n_ranks);
  p.stages = stage_prices_create(plan, model, cost);
  count_gradients(&p);
  for (int32_t v = 0; v < dag->n_nodes; v++) seconds[v] = price_node(&p, &dag->nodes[v]);
  if (cost_shares_link(cost)) dag_share_links(dag, seconds);
  mem_free(p.n_floats);
  stage_prices_destroy(&p.stages);
}
