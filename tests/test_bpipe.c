/* BPipe: how many blocks each rank holds, its own and those that it keeps for another, and what the step takes, for
 * many depths, numbers of micro-batches and transfer times. */
#include "deck_texts.h"

#include "cost/cost.h"
#include "dag/dag_price.h"
#include "make_plan.h"
#include "sim/sim.h"

struct bpipe_case {
  struct model *model;
  struct cost *cost;
  struct plan *plan;
  struct dag *dag;
  char *notes;
  double makespan, exposed;
};

static int n_late, n_exposed; /* steps that are longer than 1F1B's; of these, where a pass waited for a block */
static double forward = 1;    /* seconds of it */
static char *speeds;          /* more of the deck; NULL: nothing */

/* Times in units of a forward, of each rank's share. */
static struct cost *make_times(const struct model *model, int32_t p, double backward, double evict) {
  char yaml[600], *notes = NULL;
  snprintf(yaml, sizeof yaml,
           "cost: {source: uniform, uniform: {forward_ms: %.17g, input_ms: %.17g, weight_ms: 0, evict_ms: %.17g}}\n%s",
           forward * 1e3, backward * 1e3, evict * 1e3, speeds ? speeds : "");
  struct params params = parse_good(yaml, NULL);
  struct cost *cost = NULL;
  T_CHECK(!cost_create(&params, model, p, &cost, &notes), "%s", error_text());
  mem_free(notes);
  params_fini(&params);
  return cost;
}

/* Each move takes its time twice; what is exposed of it is idle time between passes: it waits for the block, and part
 * of that for data too. Without moves nothing waits for blocks. */
static void check_blocks(const struct bpipe_case *c, const struct sim_result *r, double evict) {
  double offload = 0, idle = 0;
  for (int32_t k = 0; k < c->dag->n_ranks; k++) {
    const struct step_idle *i = &r->ranks[k].idle;
    offload += i->offload;
    idle += i->offload + i->data + i->message;
    T_CHECK(i->other < 1e-9, "rank %d: %g s idle for no cause", k, i->other);
  }
  T_CHECK(fabs(r->block_seconds - 2 * c->plan->n_moves * evict) < 1e-9, "%d moves: %g s", c->plan->n_moves,
          r->block_seconds);
  T_CHECK(r->block_exposed_seconds >= 0 && r->block_exposed_seconds < idle + 1e-9, "exposed %g of %g s",
          r->block_exposed_seconds, idle);
  T_CHECK(c->plan->n_moves > 0 || offload == 0, "%g s without moves", offload);
}

static void simulate(struct bpipe_case *c, double evict) {
  double *seconds = MEM_NEW(double, c->dag->n_nodes);
  dag_price(c->dag, c->plan, c->model, c->cost, seconds);
  struct sim *sim = sim_create(c->dag, c->plan->n_stages);
  struct sim_times times = {seconds, 0};
  const struct sim_result *result = sim_run(sim, &times, 1);
  c->makespan = result->makespan;
  c->exposed = result->block_exposed_seconds;
  check_blocks(c, result, evict);
  sim_destroy(&sim);
  mem_free(seconds);
}

static void open_case(struct bpipe_case *c, int32_t p, int32_t m, double backward, double evict) {
  *c = (struct bpipe_case){.model = make_tiny_model(p, false)};
  struct micro_shape *micro = MEM_NEW(struct micro_shape, m);
  for (int32_t i = 0; i < m; i++) micro[i] = micro_shape_make(1, 4, 4, 4);
  c->cost = make_times(c->model, p, backward, evict);
  struct plan_request request = {.model = c->model,
                                 .cost = c->cost,
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = m,
                                 .micro = micro,
                                 .notes = &c->notes};
  int status = planner_run("bpipe", &request, &c->plan);
  if (!status) status = dag_build(c->plan, c->model, &c->dag);
  if (!status) status = dag_check(c->dag, c->plan);
  T_CHECK(!status, "p %d m %d evict %g: %s", p, m, evict, error_text());
  if (status) exit(1);
  simulate(c, evict);
  mem_free(micro);
}

static void close_case(struct bpipe_case *c) {
  dag_destroy(&c->dag);
  plan_destroy(&c->plan);
  cost_destroy(&c->cost);
  model_destroy(&c->model);
  mem_free(c->notes);
}

/* Blocks that have memory on a rank during each action, from plan and order alone: an own one from its forward to its
 * backward, less where it is away; a guest from peer_start to peer_end. */
static int32_t count_most(const struct plan *plan, int32_t rank) {
  int64_t first = plan->order_offset[rank], n = plan->order_offset[rank + 1] - first;
  int32_t *change = MEM_NEW(int32_t, n + 1), held = 0, most = 0;
  for (int64_t k = 0; k < n; k++) {
    if (plan->order[first + k].kind == NODE_F) change[k]++;
    if (plan->order[first + k].kind == NODE_B) change[k + 1]--;
  }
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_move *m = &plan->moves[k];
    if (plan_find_rank(plan, m->stage, m->micro) == rank) change[m->out_end + 1]--, change[m->in_start]++;
    if (m->peer == rank) change[m->peer_start]++, change[m->peer_end + 1]--;
  }
  for (int64_t k = 0; k < n; k++) {
    held += change[k];
    if (held > most) most = held;
  }
  T_CHECK(held + change[n] == 0, "rank %d keeps %d blocks", rank, held + change[n]);
  mem_free(change);
  return most;
}

/* One more at most, and only where the planner says so. */
static void check_held(const struct bpipe_case *c, int32_t p, bool even) {
  bool more = !even && c->notes && strstr(c->notes, "holds up to");
  for (int32_t r = 0; r < p; r++) {
    int32_t held = count_most(c->plan, r);
    T_CHECK(held <= (p + 3) / 2 + more, "p %d m %d: rank %d holds %d blocks", p, c->plan->n_micro, r, held);
  }
}

/* Of the step, where a transfer takes at most a forward and a backward two: that of 1F1B, (m + p - 1)(f + b), for odd
 * p, which leaves two slots spare. With the one of even p blocks leave and come one after the other, and the step is
 * longer by a transfer, or two with four ranks. Where backwards take another time, actions of keeper and owner begin
 * apart, and where transfers take longer there is less time for them: up to one a micro-batch. */
static void check_step(const struct bpipe_case *c, int32_t p, double backward, double evict) {
  int32_t m = c->plan->n_micro;
  double late = c->makespan - (1 + backward) * (m + p - 1);
  double most = evict > 1 || backward != 2 ? evict * m : p % 2 ? 0 : p == 4 ? 2 * evict : evict;
  T_CHECK(late > -1e-9 && late < most + 1e-9, "p %d m %d b %g evict %g: late by %g", p, m, backward, evict, late);
  n_late += late > 1e-9;
  n_exposed += late > 1e-9 && c->exposed > 0;
}

/* A block moves where 1F1B would hold more than ceil((p + 2) / 2), and only there. */
static void check_moves(const struct bpipe_case *c, int32_t p) {
  int32_t most = 0, capacity = (p + 3) / 2, m = c->plan->n_micro;
  for (int32_t k = 0; k < c->plan->n_moves; k++) {
    const struct plan_move *move = &c->plan->moves[k];
    T_CHECK(p - move->stage > capacity && move->peer == p - 1 - move->stage, "stage %d on rank %d", move->stage,
            move->peer);
  }
  for (int32_t s = 0; s < p; s++) most = p - s > most ? p - s : most;
  bool moves = most > capacity && m > capacity;
  T_CHECK(moves == (c->plan->n_moves > 0), "p %d m %d: %d blocks move", p, m, c->plan->n_moves);
  T_CHECK(moves == !(c->notes && strstr(c->notes, "nothing moves")), "p %d m %d: %s", p, m, c->notes ? c->notes : "");
}

static void test_depths(double backward, double evict) {
  for (int32_t p = 1; p <= 24; p += p < 13 ? 1 : 11)
    for (int32_t m = 1; m <= 4 * p; m += m <= p + 2 ? 1 : 1 + p / 3) {
      struct bpipe_case c;
      open_case(&c, p, m, backward, evict);
      check_held(&c, p, true);
      check_step(&c, p, backward, evict);
      check_moves(&c, p);
      close_case(&c);
    }
}

/* Ranks of random speed and transfers of any length: memory is nearly always kept all the same, and the graph passes
 * its checks. */
static void test_speeds(void) {
  int n_over = 0;
  for (int trial = 0; trial < 60; trial++) {
    struct bpipe_case c;
    int32_t p = 4 + draw(9);
    speeds = mem_format("device: {rank_speeds: {0: 0.%d, 1: 0.%d, %d: 0.%d}}\n", 3 + draw(7), 3 + draw(7), p - 1,
                        3 + draw(7));
    open_case(&c, p, 1 + draw(3 * p), 1 + draw(3), draw(40) / 10.0);
    check_held(&c, p, false);
    n_over += c.notes && strstr(c.notes, "holds up to");
    close_case(&c);
    mem_free(speeds);
  }
  speeds = NULL;
  T_CHECK(n_over < 8, "%d of 60 plans hold one block more", n_over);
}

/* Ranks of speeds far apart: whatever changes places on the keeper's side, the graph has no circle. */
static void test_uneven(void) {
  for (int trial = 0; trial < 150; trial++) {
    struct bpipe_case c;
    int32_t p = 6 + draw(4);
    speeds = mem_strdup("device: {rank_speeds: {");
    for (int32_t r = 0; r < p; r++) {
      char *more = mem_format("%s%s%d: %d.%03d", speeds, r ? ", " : "", r, draw(3) ? 0 : draw(20), 1 + draw(999));
      mem_free(speeds);
      speeds = more;
    }
    char *whole = mem_format("%s}}\n", speeds);
    mem_free(speeds);
    speeds = whole;
    open_case(&c, p, p + draw(2 * p), draw(4), draw(4) / 8.0);
    close_case(&c);
    mem_free(speeds);
  }
  speeds = NULL;
}

static void test_declined(void) {
  struct model *model = make_tiny_model(8, false);
  struct micro_shape micro[8];
  for (int32_t i = 0; i < 8; i++) micro[i] = micro_shape_make(1, 4, 4, 4);
  struct plan_request request = {
      .model = model, .n_ranks = 4, .n_stages = 4, .n_chunks = 2, .n_micro = 8, .micro = micro};
  struct plan *plan;
  T_CHECK(planner_run("bpipe", &request, &plan) == STATUS_MISTAKE && strstr(error_text(), "bpipe"), "%s", error_text());
  error_clear();
  model_destroy(&model);
}

/* Where passes take no time, times do not say which action comes first: blocks are still placed without a circle. */
static void test_no_time(void) {
  struct bpipe_case c;
  forward = 0;
  for (int32_t p = 2; p <= 9; p++)
    for (int32_t m = 1; m <= 3 * p; m += 2) {
      open_case(&c, p, m, 0, m % 4 == 1 ? 0 : 0.5);
      check_held(&c, p, true);
      close_case(&c);
    }
  forward = 1;
}

int main(void) {
  static const double evicts[] = {0, 0.25, 1, 1.5, 3};
  for (int k = 0; k < 5; k++) test_depths(2, evicts[k]);
  test_depths(1, 0.5);
  test_depths(2.5, 0.75);
  test_speeds();
  test_uneven();
  test_declined();
  test_no_time();
  /* Else a message waited: its memory was a block's. */
  T_CHECK(n_late > 100 && n_exposed > 0.9 * n_late, "%d steps are late, %d of them wait for blocks", n_late, n_exposed);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
