/* The simulator against closed forms and worked examples: GPipe and 1F1B with uniform times, messages, several
 * iterations, idle time by cause, the critical path, memory; every node after what it waits for. */
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "model/footprint.h"
#include "planner/planner.h"
#include "record/step_path.h"
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
  struct micro_shape *micro = MEM_NEW(struct micro_shape, m);
  for (int32_t i = 0; i < m; i++) micro[i] = micro_shape_make(1, 4, 4, 4);
  struct plan_request request = {
      .model = c->model, .n_ranks = p, .n_stages = p, .partition.kind = PARAMS_CUT_EVEN, .n_micro = m, .micro = micro};
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

/* Every node starts after its stream's last and after all that its edges name; compute idle and busy sum to the step.
 */
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
    const struct step_idle *i = &r->ranks[k].idle;
    double sum = r->ranks[k].busy + i->fill + i->drain + i->data + i->message + i->other + i->offload;
    T_CHECK(fabs(sum - r->makespan) < 1e-9 * r->makespan, "rank %d: parts sum to %g of %g", k, sum, r->makespan);
  }
}

static const struct sim_result *run_case(struct sim **sim, const struct step_case *c, int64_t eager_bytes) {
  struct sim_times times = {c->seconds, eager_bytes};
  *sim = sim_create(c->dag, c->plan->n_stages);
  return sim_run(*sim, &times, 1);
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

/* Idle of 1F1B: before the first forward s, after the last backward 2s, between them 2(p-s-1) until the first backward
 * and p-s-1 after it. */
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

/* Where a norm stands before the updates, the wait for it is drain: the last pass of the first stage ends it for all.
 */
static void test_norm(void) {
  struct step_case c;
  open_case(&c, "1f1b", 4, 8);
  dag_destroy(&c.dag);
  c.plan->clip = true;
  T_CHECK(dag_build(c.plan, c.model, &c.dag) == STATUS_OK, "%s", error_text());
  mem_free(c.seconds);
  c.seconds = MEM_NEW(double, c.dag->n_nodes);
  set_times(&c, 1, 2, 0);
  for (int32_t v = 0; v < c.dag->n_nodes; v++)
    if (c.dag->nodes[v].kind == NODE_U || c.dag->nodes[v].kind == NODE_N) c.seconds[v] = 0.25;
  struct sim *sim;
  const struct sim_result *r = run_case(&sim, &c, 0);
  for (int32_t s = 0; s < 4; s++) {
    const struct step_idle *idle = &r->ranks[s].idle;
    T_CHECK(idle->drain >= 2 * s + 0.25 && idle->other == 0 && idle->offload == 0, "stage %d: %g, %g", s, idle->drain,
            idle->other);
  }
  check_times(&c, r);
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

/* GPipe of equal stages: between two of them the first message each way is waited for, all others arrive while their
 * rank computes. */
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

/* ---- the network ---- */

/* Both directions at once: no message waits for one that comes towards it, so all leave as soon as they are made. They
 * take less than any pass, so those of their own direction are gone by then. */
static void test_full_duplex(void) {
  struct step_case c;
  struct sim *sim;
  int n_crossing = 0;
  open_case(&c, "1f1b", 4, 12);
  struct rng_key key = {.seed = 6, .purpose = RNG_TEST};
  set_times(&c, 0, 0, 0.9);
  for (int32_t v = 0; v < c.dag->n_nodes; v++)
    if (c.dag->nodes[v].stream == STREAM_COMPUTE) c.seconds[v] = 1 + rng_uniform(&key, (uint64_t)v);
  const struct sim_result *r = run_case(&sim, &c, INT64_MAX);
  for (int32_t v = 0; v < c.dag->n_nodes; v++) {
    if (c.dag->nodes[v].kind != NODE_SF && c.dag->nodes[v].kind != NODE_SB) continue;
    T_CHECK(r->start[v] == r->end[c.dag->edge_from[c.dag->in_offset[v]]], "node %d waits", v);
    for (int32_t u = 0; u < c.dag->n_nodes && c.dag->nodes[v].kind == NODE_SF; u++)
      n_crossing += c.dag->nodes[u].kind == NODE_SB && c.dag->nodes[u].rank == c.dag->nodes[v].peer &&
                    c.dag->nodes[u].peer == c.dag->nodes[v].rank && r->start[u] < r->end[v] && r->start[v] < r->end[u];
  }
  T_CHECK(n_crossing > 0, "no two messages cross");
  sim_destroy(&sim);
  close_case(&c);
}

/* One message at a time in a direction: with messages longer than passes GPipe on two ranks takes a pass each way, all
 * messages one after the other, and a pass at their ends. All but the first pass wait for a message that is behind
 * others although its data is there. */
static void test_one_at_a_time(void) {
  static const double longer[] = {1, 2.5};
  for (int k = 0; k < 2; k++)
    for (int32_t m = 1; m <= 9; m++) {
      struct step_case c;
      struct sim *sim;
      double f = 1, b = 1, message = longer[k];
      open_case(&c, "gpipe", 2, m);
      set_times(&c, f, b, message);
      const struct sim_result *r = run_case(&sim, &c, INT64_MAX);
      T_CHECK(r->makespan == 2 * (f + b) + 2 * m * message, "m %d, messages %g: %g", m, message, r->makespan);
      const struct step_idle *up = &r->ranks[0].idle, *down = &r->ranks[1].idle;
      T_CHECK(down->message == (m - 1) * (message - f) && down->data == 0, "%d: %g", m, down->message);
      T_CHECK(up->message == message + (m - 1) * (message - b), "%d: %g", m, up->message);
      T_CHECK(up->data == f + m * message + f + b - m * f, "%d: %g", m, up->data);
      check_times(&c, r);
      sim_destroy(&sim);
      close_case(&c);
    }
}

/* The end of the pass that makes what a forward or an input pass needs, found by its name; -1: none on another rank. */
static double find_maker(const struct step_case *c, const struct sim_result *r, const struct dag_node *n) {
  int32_t from = n->stage + (n->kind == NODE_F ? -1 : 1);
  for (int32_t v = 0; v < c->dag->n_nodes; v++) {
    const struct dag_node *u = &c->dag->nodes[v];
    if (u->kind == n->kind && u->stage == from && u->micro == n->micro) return r->end[v];
  }
  return -1;
}

/* ZB-H2 with a slower last stage and messages that wait for their receivers: gradients queue behind activations that
 * the next rank does not take yet. From the end of the pass that made them on they are waited for as messages, on their
 * way or not. */
static void test_queued(void) {
  struct step_case c;
  open_case(&c, "zb-h2", 4, 8);
  for (int32_t v = 0; v < c.dag->n_nodes; v++) {
    uint8_t kind = c.dag->nodes[v].kind;
    c.seconds[v] = kind == NODE_F || kind == NODE_I || kind == NODE_W ? 1 : 0;
    if (kind == NODE_F && c.dag->nodes[v].stage == 3) c.seconds[v] = 2;
    if (kind == NODE_SF || kind == NODE_SB) c.seconds[v] = 0.25;
  }
  struct sim *sim;
  const struct sim_result *r = run_case(&sim, &c, 0);
  double sum = 0;
  for (int32_t k = 0; k < 4; k++) {
    const int32_t *offset = &c.dag->stream_offset[k * STREAM_COUNT + STREAM_COMPUTE];
    double message = 0;
    for (int32_t i = offset[0] + 1; i < offset[1]; i++) {
      int32_t v = c.dag->stream_nodes[i];
      double from = r->end[c.dag->stream_nodes[i - 1]];
      const struct dag_node *n = &c.dag->nodes[v];
      if (r->start[v] <= from || n->kind == NODE_U || n->kind == NODE_W) continue;
      message += r->start[v] - fmax(from, find_maker(&c, r, n));
    }
    sum += message;
    T_CHECK(fabs(r->ranks[k].idle.message - message) < 1e-9, "rank %d: %g, %g", k, r->ranks[k].idle.message, message);
  }
  T_CHECK(sum > 0, "no message was waited for");
  check_times(&c, r);
  sim_destroy(&sim);
  close_case(&c);
}

/* The second rank takes three times as long: forward k ends there at 5 + 3k, and the receive of forward i is posted
 * when forward i-2 has ended. Eager messages leave when they are made, at i + 1; rendezvous ones wait for the receive.
 */
static void test_rendezvous(void) {
  enum { M = 7 };
  struct step_case c;
  open_case(&c, "gpipe", 2, M);
  set_times(&c, 1, 1, 1);
  int64_t bytes = 0;
  for (int32_t v = 0; v < c.dag->n_nodes; v++) {
    if (c.dag->nodes[v].rank == 1 && c.dag->nodes[v].kind == NODE_F) c.seconds[v] = 3;
    if (c.dag->nodes[v].kind == NODE_SF) bytes = c.dag->nodes[v].bytes;
  }
  for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
    struct sim *sim;
    const struct sim_result *r = run_case(&sim, &c, bytes - rendezvous); /* up to this size: eager */
    for (int32_t v = 0; v < c.dag->n_nodes; v++) {
      const struct dag_node *n = &c.dag->nodes[v];
      double eager = n->micro + 1, posted = n->micro >= 2 ? 3 * n->micro - 1 : 0;
      if (n->kind == NODE_SF)
        T_CHECK(r->start[v] == (rendezvous && posted > eager ? posted : eager), "%s, message %d leaves at %g",
                rendezvous ? "rendezvous" : "eager", n->micro, r->start[v]);
      if (n->kind == NODE_F && n->rank == 1)
        T_CHECK(r->end[v] == 5 + 3 * n->micro, "forward %d: %g", n->micro, r->end[v]);
    }
    check_times(&c, r);
    sim_destroy(&sim);
  }
  close_case(&c);
}

/* ---- blocks of activations ---- */

/* Lets the block of stage 0 and micro-batch 0 leave for host memory in out_seconds and come back in back_seconds. */
static void move_first_block(struct step_case *c, int32_t out_end, int32_t in_start, double out_seconds,
                             double back_seconds) {
  plan_reserve_moves(c->plan, 1);
  c->plan->moves[0] = (struct plan_move){.tier = PLAN_TIER_HOST,
                                         .out_end = out_end,
                                         .in_start = in_start,
                                         .peer = -1,
                                         .peer_start = -1,
                                         .peer_end = -1,
                                         .disk_start = -1,
                                         .disk_end = -1};
  for (int32_t l = 0; l < c->plan->n_layers; l++) c->plan->moved[l] = footprint_get_movable(&c->model->layers[l]);
  dag_destroy(&c->dag);
  T_CHECK(!plan_check(c->plan) && !dag_build(c->plan, c->model, &c->dag) && !dag_check(c->dag, c->plan), "%s",
          error_text());
  mem_free(c->seconds);
  c->seconds = MEM_NEW(double, c->dag->n_nodes);
  set_times(c, 1, 2, 0.5);
  for (int32_t v = 0; v < c->dag->n_nodes; v++) {
    if (c->dag->nodes[v].kind == NODE_EV) c->seconds[v] = out_seconds;
    if (c->dag->nodes[v].kind == NODE_LD) c->seconds[v] = back_seconds;
  }
}

/* Three forwards, three backwards on one rank. The third forward needs the memory of a block that is gone at 1 + 2.5;
 * the first backward, at 4.5, the block itself, which takes another 2. */
static void test_offload(void) {
  struct step_case c;
  struct sim *sim;
  open_case(&c, "gpipe", 1, 3);
  move_first_block(&c, 1, 3, 2.5, 2);
  const struct sim_result *r = run_case(&sim, &c, 0);
  const struct step_idle *idle = &r->ranks[0].idle;
  T_CHECK(r->makespan == 12.5, "%g", r->makespan);
  T_CHECK(idle->offload == 1.5 + 2 && idle->other == 0 && idle->data == 0, "%g, %g, %g", idle->offload, idle->other,
          idle->data);
  check_times(&c, r);
  sim_destroy(&sim);
  close_case(&c);
}

/* One micro-batch through two stages. The gradient is made at 4.5 and there at 5; the block, gone from 1 to 2, is back
 * at 6: what the gradient takes is waited for as ever, the last second is the block's. */
static void test_offload_beside_data(void) {
  struct step_case c;
  struct sim *sim;
  open_case(&c, "1f1b", 2, 1);
  move_first_block(&c, 0, 1, 1, 4);
  const struct sim_result *r = run_case(&sim, &c, 0);
  const struct step_idle *idle = &r->ranks[0].idle;
  T_CHECK(r->makespan == 8, "%g", r->makespan);
  T_CHECK(idle->data == 3.5 && idle->message == 0.5 && idle->offload == 1 && idle->other == 0, "%g, %g, %g, %g",
          idle->data, idle->message, idle->offload, idle->other);
  check_times(&c, r);
  sim_destroy(&sim);
  close_case(&c);
}

/* ---- critical path ---- */

static struct step_path find_path(const struct step_case *c, const struct sim_result *r) {
  struct step_view view;
  step_view_init_graph(&view, c->dag, c->plan->n_stages, r->start, r->end, r->binder);
  return step_path_find(&view, NULL);
}

/* It has no gaps and is as long as the step. What lengthens one of its passes lengthens the step by as much at least.
 */
static void check_path(const struct step_case *c, const struct sim_times *times, struct sim *sim, uint64_t random) {
  const struct sim_result *r = sim_run(sim, times, 1);
  struct step_path path = find_path(c, r);
  double at = 0, sum = 0, before = r->makespan;
  int64_t n = 0;
  for (int64_t k = 0; k < path.n_runs; k++) {
    T_CHECK(path.runs[k].from == at && path.runs[k].until >= at, "run %lld: from %g after %g", (long long)k,
            path.runs[k].from, at);
    at = path.runs[k].until;
    n += path.runs[k].n_nodes;
  }
  for (int k = 0; k < NODE_KIND_COUNT; k++) sum += path.seconds[k];
  T_CHECK(at == before && fabs(sum - before) < 1e-9 && n == path.n_nodes, "path %g, %g of %g", at, sum, before);
  int64_t v = path.runs[random % (uint64_t)path.n_runs].first;
  if (c->dag->nodes[v].stream != STREAM_RECEIVE && c->dag->nodes[v].kind != NODE_N) {
    c->seconds[v] += 0.25;
    double after = sim_run(sim, times, 1)->makespan;
    T_CHECK(after >= before + 0.25 - 1e-9, "node %d by 0.25: %g after %g", (int)v, after, before);
    c->seconds[v] -= 0.25;
  }
  step_path_fini(&path);
}

/* GPipe's path: down the pipeline, the passes of a rank, and up. */
static void test_path_of_gpipe(void) {
  struct step_case c;
  struct sim *sim;
  open_case(&c, "gpipe", 4, 5);
  set_times(&c, 1, 2, 0.5);
  const struct sim_result *r = run_case(&sim, &c, INT64_MAX);
  struct step_path path = find_path(&c, r);
  T_CHECK(path.seconds[NODE_F] == 8 && path.seconds[NODE_B] == 16, "F %g B %g", path.seconds[NODE_F],
          path.seconds[NODE_B]);
  T_CHECK(path.seconds[NODE_SF] == 1.5 && path.seconds[NODE_SB] == 1.5, "SF %g", path.seconds[NODE_SF]);
  step_path_fini(&path);
  sim_destroy(&sim);
  close_case(&c);
}

/* ---- memory ---- */

struct event {
  double at;
  int64_t bytes;
};

static int compare_events(const void *left, const void *right) {
  const struct event *a = left, *b = right;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* what is freed comes before what is allocated */
}

/* The columns of the nodes give the memory of every instant: its highest is the peak. All passes take time here, else
 * what one allocates and frees at once would not be seen. */
static void test_memory(void) {
  static const char *const planners[] = {"gpipe", "1f1b", "zb-h1"};
  for (int k = 0; k < 3; k++) {
    struct step_case c;
    struct sim *sim;
    open_case(&c, planners[k], 4, 9);
    for (int32_t v = 0; v < c.dag->n_nodes; v++) c.seconds[v] = c.dag->nodes[v].stream == STREAM_RECEIVE ? 0 : 1;
    const struct sim_result *r = run_case(&sim, &c, INT64_MAX);
    struct event *events = MEM_NEW(struct event, 2 * (int64_t)c.dag->n_nodes);
    for (int32_t rank = 0; rank < 4; rank++) {
      int64_t use = c.dag->device_static[rank], peak = use, n = 0;
      for (int32_t v = c.dag->rank_offset[rank]; v < c.dag->rank_offset[rank + 1]; v++) {
        events[n++] = (struct event){r->start[v], c.dag->nodes[v].device_alloc};
        events[n++] = (struct event){r->end[v], -c.dag->nodes[v].device_free};
      }
      qsort(events, (size_t)n, sizeof *events, compare_events);
      for (int64_t i = 0; i < n; i++) {
        use += events[i].bytes;
        if (use > peak) peak = use;
      }
      T_CHECK(use == c.dag->device_static[rank], "%s: %lld bytes left on rank %d", planners[k], (long long)use, rank);
      T_CHECK(peak == dag_get_peak(c.dag, rank, NULL), "%s: rank %d: %lld", planners[k], rank, (long long)peak);
    }
    mem_free(events);
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
    for (uint64_t k = 0; k < 5; k++) check_path(&c, &times, sim, rng_bits(&key, (uint64_t)c.dag->n_nodes + k));
    sim_destroy(&sim);
    close_case(&c);
  }
}

int main(void) {
  test_closed_forms();
  test_bubbles();
  test_norm();
  test_messages();
  test_full_duplex();
  test_one_at_a_time();
  test_queued();
  test_rendezvous();
  test_offload();
  test_offload_beside_data();
  test_path_of_gpipe();
  test_memory();
  test_exposed();
  test_random_times();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
