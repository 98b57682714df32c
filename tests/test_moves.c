/* Blocks of activations that move, put at random into random plans and those of planners: what the checks let through
 * runs to its end under the plain rules of graphs, the simulator takes the same times, no pool ever holds more than the
 * graph says; plans keep their moves as bytes, and wrong ones are refused with the reason. */
#include "naive_run.h"
#include "plan/recompute.h"
#include "random_moves.h"
#include "sim/sim.h"

enum { ALL_TIERS = MOVES_TO_RANKS | MOVES_TO_HOST | MOVES_TO_DISK };

static int n_refused, n_accepted, n_moved[PLAN_TIER_COUNT];

/* ---- runs ---- */

static double *draw_times(const struct dag *dag) {
  double *length = draw_lengths(dag);
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (dag_is_receive(&dag->nodes[v])) length[v] = 0;
  return length;
}

struct event {
  double time;
  int64_t bytes;
};

static int compare_events(const void *left, const void *right) {
  const struct event *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return (a->bytes > 0) - (b->bytes > 0); /* freed before allocated */
}

/* Most bytes of a rank's pool over time: a buffer is there from the start of its node until the end of the one that
 * frees it, and until what takes its contents away has ended. */
static int64_t find_peak(const struct naive_run *run, int32_t rank, enum pool_kind pool) {
  const struct dag *dag = run->dag;
  size_t n = 0;
  int64_t use = pool == POOL_DEVICE ? dag->device_static[rank] : 0, peak = use;
  struct event *events = MEM_NEW(struct event, 2 * dag->n_buffers);
  for (int64_t k = dag->buffer_offset[rank]; k < dag->buffer_offset[rank + 1]; k++) {
    const struct dag_buffer *b = &dag->buffers[k];
    if (buffer_kind_get_pool((enum buffer_kind)b->kind) != pool) continue;
    double end = run->end[b->release];
    if (b->mover >= 0 && run->end[b->mover] > end) end = run->end[b->mover];
    events[n++] = (struct event){run->start[b->alloc], b->bytes};
    events[n++] = (struct event){end, -b->bytes};
  }
  if (n) qsort(events, n, sizeof *events, compare_events);
  for (size_t k = 0; k < n; k++) {
    use += events[k].bytes;
    if (use > peak) peak = use;
  }
  mem_free(events);
  return peak;
}

static void check_peaks(const struct naive_run *run) {
  for (int32_t r = 0; r < run->dag->n_ranks; r++)
    for (int pool = 0; pool < POOL_KIND_COUNT; pool++) {
      int64_t found = find_peak(run, r, (enum pool_kind)pool);
      int64_t said = dag_get_pool_peak(run->dag, r, (enum pool_kind)pool, NULL);
      T_CHECK(found == said, "rank %d pool %d: %lld bytes, not %lld", r, pool, (long long)found, (long long)said);
    }
}

/* The block has left and come back around its stay: each way after the one before, and back before it is used. */
static void check_ways(const struct naive_run *run, const struct plan *plan) {
  static const enum node_kind ways[][4] = {[PLAN_TIER_RANK] = {NODE_ES, NODE_LR, NODE_LR, NODE_LR},
                                           [PLAN_TIER_HOST] = {NODE_EV, NODE_LD, NODE_LD, NODE_LD},
                                           [PLAN_TIER_DISK] = {NODE_EV, NODE_SW, NODE_SR, NODE_LD}};
  int32_t *forward, *use;
  plan_move_find_uses(plan, &forward, &use);
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_move *m = &plan->moves[k];
    int32_t first = run->dag->rank_offset[plan_find_rank(plan, m->stage, m->micro)];
    int64_t at = (int64_t)m->stage * plan->n_micro + m->micro;
    double ended = run->end[first + m->out_start];
    for (int way = 0; way < 4; way++)
      for (int32_t v = 0; v < run->dag->n_nodes; v++) {
        const struct dag_node *n = &run->dag->nodes[v];
        if (n->kind != ways[m->tier][way] || n->stage != m->stage || n->micro != m->micro) continue;
        if (way > 0 && ways[m->tier][way] == ways[m->tier][way - 1]) continue;
        T_CHECK(run->start[v] >= ended, "%s begins too soon", node_kind_get_name((enum node_kind)n->kind));
        ended = run->end[v];
      }
    T_CHECK(run->start[first + use[at]] >= ended, "stage %d micro-batch %d: used before it is back", m->stage,
            m->micro);
    n_moved[m->tier]++;
  }
  mem_free(forward);
  mem_free(use);
}

static void compare_simulation(const struct naive_run *run, const struct plan *plan) {
  const struct dag *dag = run->dag;
  struct sim *sim = sim_create(dag, plan->n_stages);
  struct sim_times times = {run->length, 0};
  const struct sim_result *r = sim_run(sim, &times, 1);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    bool begins = !dag_is_receive(&dag->nodes[v]) && dag->nodes[v].kind != NODE_N;
    T_CHECK(fabs(r->end[v] - run->end[v]) < 1e-9, "%s ends at %g, not %g",
            node_kind_get_name((enum node_kind)dag->nodes[v].kind), r->end[v], run->end[v]);
    T_CHECK(!begins || fabs(r->start[v] - run->start[v]) < 1e-9, "%s begins at %g, not %g",
            node_kind_get_name((enum node_kind)dag->nodes[v].kind), r->start[v], run->start[v]);
  }
  sim_destroy(&sim);
}

static void run_graph(const struct dag *dag, const struct plan *plan) {
  double *length = draw_times(dag);
  for (int blocking = 0; blocking < 2; blocking++) {
    struct naive_run *run = naive_run_create(dag, length, blocking);
    int32_t n = naive_run_go(run);
    T_CHECK(n == dag->n_nodes, "%s: %d of %d nodes run", plan->planner, n, dag->n_nodes);
    if (n == dag->n_nodes && blocking) {
      check_peaks(run);
      check_ways(run, plan);
      compare_simulation(run, plan);
    }
    naive_run_destroy(&run);
  }
  mem_free(length);
}

/* ---- plans ---- */

/* Bytes and back, a copy, and a hash that a moved place changes. */
static void check_bytes(struct plan *plan) {
  struct plan *back = NULL;
  size_t bytes;
  plan_freeze(plan);
  void *packed = plan_pack(plan, &bytes);
  T_CHECK(!plan_unpack(packed, bytes, &back) && back->hash == plan->hash, "%s", error_text());
  T_CHECK(back && back->n_moves == plan->n_moves &&
              !memcmp(back->moved, plan->moved, sizeof *plan->moved * (size_t)plan->n_layers),
          "moves as bytes");
  plan_destroy(&back);
  T_CHECK(plan_unpack(packed, bytes - 1, &back) && !back, "cut short");
  error_clear();
  mem_free(packed);
  back = plan_dup(plan);
  T_CHECK(back->hash == plan->hash, "a copy");
  back->moves[draw(plan->n_moves)].in_start++;
  plan_freeze(back);
  T_CHECK(back->hash != plan->hash, "a place that the hash does not see");
  plan_destroy(&back);
}

static void put_recompute(struct plan *plan, const struct model *model) {
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  bool stages[8];
  for (int s = 0; s < 8; s++) stages[s] = draw(2);
  for (int32_t l = 0; l < model->n_layers; l++)
    ops[l] = recompute_get_ops(&model->layers[l], (enum params_recompute)draw(PARAMS_recompute_COUNT));
  recompute_put(plan, ops, stages);
  plan->recompute_early = draw(2);
  mem_free(ops);
}

static const struct plan_action *get_action(const struct plan *plan, int32_t rank, int32_t place) {
  return &plan->order[plan->order_offset[rank] + place];
}

static bool is_same(const struct plan_action *a, const struct plan_action *b) {
  return a->kind == b->kind && a->stage == b->stage && a->micro == b->micro;
}

/* Recomputation put into a plan that has moves: these stay with their actions, as in the plan before. */
static void put_recompute_late(struct plan *plan, const struct model *model) {
  struct plan *before = plan_dup(plan);
  put_recompute(plan, model);
  T_CHECK(!plan_check(plan), "%s", error_text());
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_move *m = &plan->moves[k], *old = &before->moves[k];
    int32_t rank = plan_find_rank(plan, m->stage, m->micro);
    T_CHECK(is_same(get_action(plan, rank, m->out_end), get_action(before, rank, old->out_end)), "out_end of %d", k);
    const struct plan_action *in = get_action(plan, rank, m->in_start);
    in += in->kind == NODE_R;
    T_CHECK(is_same(in, get_action(before, rank, old->in_start)), "in_start of %d", k);
    if (m->tier != PLAN_TIER_RANK) continue;
    T_CHECK(is_same(get_action(plan, m->peer, m->peer_end), get_action(before, m->peer, old->peer_end)),
            "peer_end of %d", k);
  }
  plan_destroy(&before);
}

/* Takes the plan. */
static void try_plan(struct plan *plan, const struct model *model) {
  struct dag *dag = NULL;
  if (!plan->forward_only && draw(2)) put_recompute(plan, model);
  put_random_tiers(plan, model, 1 + draw(3), draw(2) ? MOVES_TO_RANKS : ALL_TIERS);
  if (plan->n_moves > 0 && !plan->n_recompute && draw(2)) put_recompute_late(plan, model);
  if (plan->n_moves > 0) {
    check_bytes(plan);
    int status = dag_build(plan, model, &dag);
    if (!status) status = dag_check(dag, plan);
    n_refused += status != STATUS_OK;
    n_accepted += !status;
    T_CHECK(!status || strstr(error_text(), "waits for") || strstr(error_text(), "in a circle"), "%s", error_text());
    error_clear();
    if (!status) run_graph(dag, plan);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
}

static void test_plans(void) {
  static const char *const planners[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "bpipe"};
  struct model *model = make_tiny_model(8, true);
  for (int trial = 0; trial < 150; trial++) {
    try_plan(make_random_plan(model), model);
    int32_t p = 2 + draw(3);
    try_plan(make_plan(model, planners[trial % 6], p, 1 + draw(2 * p), draw(2)), model);
  }
  model_destroy(&model);
  T_CHECK(n_accepted > 60 && n_refused > 10, "%d graphs accepted, %d refused", n_accepted, n_refused);
  for (int k = 0; k < PLAN_TIER_COUNT; k++)
    T_CHECK(n_moved[k] > 50, "%d blocks to %s", n_moved[k], plan_tier_get_name((enum plan_tier)k));
}

/* ---- what is refused ---- */

static void check_refused(struct plan *plan, const char *wanted) {
  error_clear();
  int status = plan_check(plan);
  T_CHECK(status == STATUS_FAILED && strstr(error_text(), wanted), "not '%s' but: %s", wanted, error_text());
}

#define REFUSE(change, wanted)                                                                                         \
  do {                                                                                                                 \
    struct plan *plan = plan_dup(good);                                                                                \
    struct plan_move *m = &plan->moves[1];                                                                             \
    change;                                                                                                            \
    check_refused(plan, wanted);                                                                                       \
    plan_destroy(&plan);                                                                                               \
  } while (0)

static void test_refused(void) {
  struct model *model = make_tiny_model(8, false);
  struct plan *good = make_plan(model, "bpipe", 4, 8, true);
  T_CHECK(good->n_moves > 2 && !plan_check(good), "%s", error_text());
  REFUSE(m->stage = 4, "there is no such stage or micro-batch");
  REFUSE(m->micro = -1, "there is no such stage or micro-batch");
  REFUSE(m->micro = m[-1].micro, "moves must ascend");
  REFUSE(m->tier = PLAN_TIER_COUNT, "there is no such tier");
  REFUSE(m->out_start = -1, "it leaves before its forward");
  REFUSE(m->out_end = m->out_start - 1, "it is gone before it leaves");
  REFUSE(m->in_start = m->out_end, "it comes back before it is gone");
  REFUSE(m->in_start = 1000, "it comes back after its backward began");
  REFUSE(m->peer = 4, "there is no such rank to keep it");
  REFUSE(m->peer = 0, "the rank that keeps it is its own");
  REFUSE(m->peer_end = m->peer_start - 1, "has no such actions");
  REFUSE(m->peer_end = 16, "has no such actions");
  REFUSE(m->disk_start = 3, "it does not go to disk");
  REFUSE(m->tier = PLAN_TIER_HOST, "it does not go to another rank");
  plan_destroy(&good);
  model_destroy(&model);
}

/* Two ranks that change blocks at one action need room for both: refused as a circle, not left to hang. */
static void test_circle(void) {
  struct model *model = make_tiny_model(8, false);
  struct plan *plan = make_plan(model, "gpipe", 2, 4, true);
  struct dag *dag = NULL;
  plan_reserve_moves(plan, 2);
  for (int k = 0; k < 2; k++) {
    plan->moves[k] = (struct plan_move){.stage = k,
                                        .micro = 0,
                                        .out_start = 2,
                                        .out_end = 2,
                                        .in_start = 4,
                                        .peer = !k,
                                        .peer_start = 3,
                                        .peer_end = 3,
                                        .disk_start = -1,
                                        .disk_end = -1};
  }
  for (int32_t l = 0; l < plan->n_layers; l++) plan->moved[l] = footprint_get_movable(&model->layers[l]);
  T_CHECK(!plan_check(plan), "%s", error_text());
  int status = dag_build(plan, model, &dag);
  if (!status) status = dag_check(dag, plan);
  T_CHECK(status == STATUS_FAILED && strstr(error_text(), "ES stage"), "status %d: %s", status, error_text());
  error_clear();
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
}

int main(void) {
  test_plans();
  test_refused();
  test_circle();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
