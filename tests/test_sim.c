/* The simulator against closed forms and worked examples: GPipe and 1F1B with uniform times, messages, several iterations,
 * idle time by cause; every node after what it waits for. */
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "plan/planner.h"
#include "sim/sim.h"
#include "t.h"
#include "tiny_model.h"

struct step_case {
  struct model *model;
  struct plan *plan;
  struct dag *dag;
  double *seconds;
};

static void open_case(struct step_case *c, const char *planner, int32_t p, int32_t m) {
  *c = (struct step_case){.model = make_tiny_model(p, false)};
  struct plan_micro *micro = MEM_NEW(struct plan_micro, m);
  for (int32_t i = 0; i < m; i++) micro[i] = (struct plan_micro){1, 4, 4, 4};
  struct plan_request request = {
      .model = c->model, .n_ranks = p, .n_stages = p, .partition = PARTITION_EVEN, .n_micro = m, .micro = micro};
  int status = planner_run(planner, &request, &c->plan);
  if (!status) status = dag_build(c->plan, c->model, &c->dag);
  T_CHECK(!status, "%s p %d m %d: %s", planner, p, m, error_text());
  c->seconds = MEM_NEW(double, c->dag->n_nodes);
  mem_free(micro);
}

static void close_case(struct step_case *c) {
  mem_free(c->seconds);
  dag_destroy(&c->dag);
  plan_destroy(&c->plan);
  model_destroy(&c->model);
}

static void set_times(struct step_case *c, double forward, double backward, double message) {
  for (int32_t v = 0; v < c->dag->n_nodes; v++) {
    const struct dag_node *n = &c->dag->nodes[v];
    c->seconds[v] = n->kind == NODE_F ? forward : n->kind == NODE_B ? backward : 0;
    if (n->kind == NODE_SF || n->kind == NODE_SB) c->seconds[v] = message;
  }
}

/* Every node starts after its stream's last and after all that its edges name; compute idle and busy sum to the step. */
static void check_times(const struct step_case *c, const struct sim_result *r) {
  const struct dag *dag = c->dag;
  for (int32_t v = 0; v < dag->n_nodes; v++)
    for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
      int32_t u = dag->edge_from[e];
      double from = u == dag->match[v] ? r->end[v] : r->start[v];
      T_CHECK(from >= r->end[u] - 1e-12, "node %d starts at %g before %d ends at %g", v, r->start[v], u, r->end[u]);
    }
  for (int32_t list = 0; list < dag->n_ranks * STREAM_COUNT; list++)
    for (int32_t k = dag->stream_offset[list] + 1; k < dag->stream_offset[list + 1]; k++)
      T_CHECK(r->start[dag->stream_nodes[k]] >= r->end[dag->stream_nodes[k - 1]] - 1e-12, "stream %d overlaps", list);
  for (int32_t k = 0; k < dag->n_ranks; k++) {
    const struct sim_idle *i = &r->ranks[k].idle;
    double sum = r->ranks[k].busy + i->fill + i->drain + i->data + i->message + i->other;
    T_CHECK(fabs(sum - r->makespan) < 1e-9 * r->makespan, "rank %d: parts sum to %g of %g", k, sum, r->makespan);
  }
}

/* Both take (m+p-1)(f+b), and each rank is busy m(f+b) of it. */
static void test_closed_forms(void) {
  static const char *const planners[] = {"gpipe", "1f1b"};
  for (int k = 0; k < 2; k++)
    for (int32_t p = 1; p <= 10; p++)
      for (int32_t m = 1; m <= 6 * p; m += m < p ? 1 : 3) {
        struct step_case c;
        open_case(&c, planners[k], p, m);
        set_times(&c, 1, 2, 0);
        struct sim *sim = sim_create(c.dag, c.plan->n_stages);
        struct sim_times times = {c.seconds, 0};
        const struct sim_result *r = sim_run(sim, &times, 1);
        T_CHECK(r->makespan == 3.0 * (m + p - 1), "%s p %d m %d: %g", planners[k], p, m, r->makespan);
        for (int32_t s = 0; s < p; s++) T_CHECK(r->ranks[s].busy == 3.0 * m, "busy %g", r->ranks[s].busy);
        check_times(&c, r);
        /* Without a barrier between iterations the pipeline drains and fills at once: only the norm holds it. */
        r = sim_run(sim, &times, 3);
        T_CHECK(r->makespan <= 9.0 * (m + p - 1) && r->makespan >= 9.0 * m, "three iterations: %g", r->makespan);
        sim_destroy(&sim);
        close_case(&c);
      }
}

/* Idle of 1F1B: before the first forward s, after the last backward 2s, between them 2(p-s-1) until the first backward and
 * p-s-1 after it. */
static void test_bubbles(void) {
  struct step_case c;
  open_case(&c, "1f1b", 4, 8);
  set_times(&c, 1, 2, 0);
  struct sim *sim = sim_create(c.dag, c.plan->n_stages);
  struct sim_times times = {c.seconds, 0};
  const struct sim_result *r = sim_run(sim, &times, 1);
  for (int32_t s = 0; s < 4; s++) {
    T_CHECK(r->ranks[s].idle.fill == s && r->ranks[s].idle.drain == 2 * s, "stage %d: fill, drain", s);
    T_CHECK(r->stages[s].forward_bubble == 2 * (3 - s), "stage %d: %g", s, r->stages[s].forward_bubble);
    T_CHECK(r->stages[s].backward_bubble == 3 - s, "stage %d: %g", s, r->stages[s].backward_bubble);
  }
  sim_destroy(&sim);
  close_case(&c);
}

/* One micro-batch down and up a pipeline: every message is exposed; nothing else is waited for. */
static void test_messages(void) {
  struct step_case c;
  open_case(&c, "1f1b", 3, 1);
  set_times(&c, 1, 2, 0.5);
  struct sim *sim = sim_create(c.dag, c.plan->n_stages);
  struct sim_times times = {c.seconds, 0};
  const struct sim_result *r = sim_run(sim, &times, 1);
  T_CHECK(r->makespan == 3 * 3 + 4 * 0.5, "%g", r->makespan);
  T_CHECK(r->message_seconds == 2.0 && fabs(r->exposed_seconds - 2.0) < 1e-12, "exposed %g", r->exposed_seconds);
  check_times(&c, r);
  sim_destroy(&sim);
  close_case(&c);
}

/* GPipe of equal stages: between two of them the first message each way is waited for, all others arrive while their rank
 * computes. */
static void test_exposed(void) {
  for (int32_t p = 2; p <= 5; p++)
    for (int32_t m = 1; m <= 6; m++)
      for (double send = 0.25; send <= 1; send += 0.75) {
        struct step_case c;
        open_case(&c, "gpipe", p, m);
        set_times(&c, 1, 2, send);
        struct sim *sim = sim_create(c.dag, c.plan->n_stages);
        struct sim_times times = {c.seconds, INT64_MAX};
        const struct sim_result *r = sim_run(sim, &times, 1);
        double hidden = 1 - r->exposed_seconds / r->message_seconds;
        T_CHECK(fabs(hidden - (1 - 1.0 / m)) < 1e-12, "%d stages, %d micro-batches: %g hidden", p, m, hidden);
        sim_destroy(&sim);
        close_case(&c);
      }
}

static void test_random_times(void) {
  for (int32_t trial = 0; trial < 60; trial++) {
    struct rng_key key = {.seed = 5, .purpose = RNG_TEST, .a = (uint32_t)trial};
    struct step_case c;
    open_case(&c, trial % 2 ? "gpipe" : "1f1b", 1 + trial % 7, 1 + trial % 11);
    for (int32_t v = 0; v < c.dag->n_nodes; v++)
      c.seconds[v] = c.dag->nodes[v].stream == STREAM_RECEIVE ? 0 : rng_uniform(&key, (uint64_t)v);
    struct sim *sim = sim_create(c.dag, c.plan->n_stages);
    struct sim_times times = {c.seconds, trial % 3 ? 0 : INT64_MAX};
    check_times(&c, sim_run(sim, &times, 1));
    sim_destroy(&sim);
    close_case(&c);
  }
}

int main(void) {
  test_closed_forms();
  test_bubbles();
  test_messages();
  test_exposed();
  test_random_times();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
