/* Links that messages and blocks share: a pipeline counted by hand, and random plans against the contract's formula,
 * counted link by link. */
#include "cost_case.h"
#include "dag/dag.h"
#include "dag/dag_price.h"
#include "make_plan.h"
#include "model/model.h"
#include "random_moves.h"
#include "t.h"
#include "tiny_model.h"

#include <math.h>
#include <string.h>

#define SHARED                                                                                                         \
  "cost: {source: uniform, shared_link: true, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, send_ms: 0.3, "      \
  "evict_ms: 1.5}}\n"
#define APART                                                                                                          \
  "cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, send_ms: 0.3, evict_ms: 1.5}}\n"

static bool is_close(double a, double b) { return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)); }

static double *price(const struct dag *dag, const struct plan *plan, const struct model *model, const char *yaml) {
  struct cost *cost = make_cost_case(yaml, model, plan->n_ranks);
  double *seconds = MEM_NEW(double, dag->n_nodes);
  dag_price(dag, plan, model, cost, seconds);
  cost_destroy(&cost);
  return seconds;
}

/* Two of four blocks of stage 0 leave it. A rank works for 4 x 3 ms. */
static void put_two_moves(struct plan *plan, const struct model *model) {
  int32_t *forward, *use;
  plan_move_find_uses(plan, &forward, &use);
  plan_reserve_moves(plan, 2);
  for (int32_t i = 1; i <= 2; i++)
    plan->moves[i - 1] = (struct plan_move){.micro = i,
                                            .tier = PLAN_TIER_HOST,
                                            .out_start = forward[i],
                                            .out_end = forward[i],
                                            .in_start = use[i],
                                            .peer = -1,
                                            .peer_start = -1,
                                            .peer_end = -1,
                                            .disk_start = -1,
                                            .disk_end = -1};
  for (int32_t l = 0; l < plan->stages[0].n_layers; l++) plan->moved[l] = footprint_get_movable(&model->layers[l]);
  mem_free(forward);
  mem_free(use);
}

static void test_by_hand(void) {
  struct model *model = make_tiny_model(4, false);
  struct micro_shape micro[4];
  for (int i = 0; i < 4; i++) micro[i] = micro_shape_make(1, 8, 8, 8);
  struct plan_request request = {.model = model, .n_ranks = 2, .n_stages = 2, .n_micro = 4, .micro = micro};
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  T_CHECK(!planner_run("1f1b", &request, &plan), "%s", error_text());
  plan->hash = 0;
  put_two_moves(plan, model);
  plan_freeze(plan);
  T_CHECK(!plan_check(plan) && !dag_build(plan, model, &dag), "%s", error_text());
  double *apart = price(dag, plan, model, APART), *shared = price(dag, plan, model, SHARED), block = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (dag->nodes[v].kind == NODE_EV) block = apart[v];
  T_CHECK(block > 0.5e-3 && block <= 1.5e-3, "a block takes %g s", block);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    enum node_kind kind = (enum node_kind)dag->nodes[v].kind;
    bool copies = kind == NODE_EV || kind == NODE_LD, sends = kind == NODE_SF || kind == NODE_SB;
    double wanted = copies ? block / (1 - 4 * 0.3 / 12) : sends ? 0.3e-3 * (1 + 2 * block / 12e-3) : apart[v];
    T_CHECK(is_close(shared[v], wanted), "node %d of kind %d: %g s, not %g", (int)v, (int)kind, shared[v], wanted);
  }
  mem_free(apart);
  mem_free(shared);
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
}

/* Seconds that a kind of traffic takes of a rank's link in one direction, and the rank's work. */
static double sum_link(const struct dag *dag, const double *apart, int32_t rank, bool out, bool blocks) {
  double sum = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    bool message = n->kind == NODE_SF || n->kind == NODE_SB, away = n->kind == NODE_ES || n->kind == NODE_LS;
    bool here =
        message || away ? (out ? n->rank : n->peer) == rank : n->kind == (out ? NODE_EV : NODE_LD) && n->rank == rank;
    if (here && message == !blocks) sum += apart[v];
  }
  return sum;
}

static double find_share(const struct dag *dag, const double *apart, int32_t rank, bool out, bool blocks) {
  double sum = sum_link(dag, apart, rank, out, blocks), both = sum + sum_link(dag, apart, rank, out, !blocks), work = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (dag->nodes[v].rank == rank && dag->nodes[v].stream == STREAM_COMPUTE) work += apart[v];
  return sum > 0 ? sum / fmax(work, both) : 0;
}

static double find_factor(const struct dag *dag, const double *apart, const struct dag_node *n) {
  bool message = n->kind == NODE_SF || n->kind == NODE_SB, out = n->kind != NODE_LD;
  double most = find_share(dag, apart, n->rank, out, message);
  if (n->peer >= 0) most = fmax(most, find_share(dag, apart, n->peer, false, message));
  return message ? 1 + most : 1 / (1 - fmin(most, 0.5));
}

static void test_random(void) {
  int n_slower[2] = {0, 0};
  for (int trial = 0; trial < 40; trial++) {
    struct model *model = make_tiny_model(3, trial % 2);
    struct plan *plan = make_random_plan(model);
    struct dag *dag = NULL;
    if (trial % 4) put_possible_moves(plan, model, 2);
    T_CHECK(!dag_build(plan, model, &dag), "%s", error_text());
    double *apart = price(dag, plan, model, APART), *shared = price(dag, plan, model, SHARED);
    for (int32_t v = 0; v < dag->n_nodes; v++) {
      const struct dag_node *n = &dag->nodes[v];
      bool message = n->kind == NODE_SF || n->kind == NODE_SB;
      bool block = n->kind == NODE_ES || n->kind == NODE_LS || n->kind == NODE_EV || n->kind == NODE_LD;
      double factor = message || block ? find_factor(dag, apart, n) : 1;
      T_CHECK(is_close(shared[v], apart[v] * factor), "trial %d node %d: %g s, not %g", trial, (int)v, shared[v],
              apart[v] * factor);
      if (message || block) n_slower[block] += factor > 1;
    }
    mem_free(apart);
    mem_free(shared);
    dag_destroy(&dag);
    plan_destroy(&plan);
    model_destroy(&model);
  }
  T_CHECK(n_slower[0] > 20 && n_slower[1] > 20, "%d messages and %d blocks are slower", n_slower[0], n_slower[1]);
}

int main(void) {
  test_by_hand();
  test_random();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
