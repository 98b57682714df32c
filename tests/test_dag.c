/* Graphs: what a plan turns into, held against a naive run of it with random delays, closed forms and golden traces. */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "make_plan.h"
#include "model/footprint.h"
#include "naive_run.h"

static int n_bounded; /* sends bounded by an edge, met in the tests */

/* ---- what holds for every graph ---- */

static int32_t get_stream_end(const struct dag *dag, int32_t rank, enum stream stream) {
  return dag->stream_offset[rank * STREAM_COUNT + (int32_t)stream + 1];
}

static int32_t get_stream_start(const struct dag *dag, int32_t rank, enum stream stream) {
  return dag->stream_offset[rank * STREAM_COUNT + (int32_t)stream];
}

/* Both layers of a tie send their sums to the rank of the other. Returns how many: 0 where one rank has both layers. */
static int32_t check_tie(const struct dag *dag, const struct plan *plan, const struct tie *tie) {
  int32_t layers[2] = {tie->layer, tie->user}, ranks[2], found = 0;
  for (int k = 0; k < 2; k++) ranks[k] = plan_get_holder(plan, plan_get_stage(plan, layers[k]));
  if (ranks[0] == ranks[1] || plan->forward_only) return 0;
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    int k = n->layer == layers[1];
    if (n->kind != NODE_ST || n->layer != layers[k]) continue;
    found++;
    T_CHECK(n->rank == ranks[k] && n->peer == ranks[!k] && dag->nodes[dag->match[v]].layer == layers[!k] &&
                n->bytes == tie->floats * (int64_t)sizeof(float),
            "a sum of layer %d, %lld bytes, goes from rank %d to rank %d", n->layer, (long long)n->bytes, n->rank,
            n->peer);
  }
  T_CHECK(found == 2, "layers %d and %d exchange %d sums", layers[0], layers[1], found);
  return found;
}

static void check_structure(const struct dag *dag, const struct plan *plan, const struct model *model) {
  int64_t count[NODE_KIND_COUNT] = {0}, remote = 0, actions = plan->order_offset[plan->n_ranks];
  for (int32_t v = 0; v < dag->n_nodes; v++) count[dag->nodes[v].kind]++;
  for (int32_t s = 0; s + 1 < plan->n_stages; s++) remote += plan_get_holder(plan, s) != plan_get_holder(plan, s + 1);
  remote *= plan->n_micro;
  T_CHECK(count[NODE_F] == (int64_t)plan->n_stages * plan->n_micro, "forwards");
  T_CHECK(count[NODE_F] + count[NODE_B] + count[NODE_I] + count[NODE_W] == actions, "actions");
  T_CHECK(count[NODE_SF] == remote && count[NODE_RF] == remote, "activations");
  T_CHECK(count[NODE_SB] == (plan->forward_only ? 0 : remote) && count[NODE_SB] == count[NODE_RB], "gradients");
  T_CHECK(count[NODE_U] == (plan->forward_only ? 0 : plan->n_layers), "updates");
  T_CHECK(count[NODE_N] == (plan->forward_only ? 0 : plan->n_ranks), "norms");
  int64_t n_sums = 0;
  for (int32_t i = 0; i < model->n_ties; i++) n_sums += check_tie(dag, plan, &model->ties[i]);
  T_CHECK(count[NODE_ST] == n_sums && count[NODE_RT] == n_sums, "ties");
  T_CHECK(dag->n_edges <= 8 * (int64_t)dag->n_nodes, "%lld edges, %d nodes", (long long)dag->n_edges, dag->n_nodes);
  for (int64_t e = 0; e < dag->n_edges; e++)
    T_CHECK(e >= dag->in_offset[dag->edge_to[e]] && e < dag->in_offset[dag->edge_to[e] + 1],
            "edges sorted by their end");
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    int32_t first = get_stream_start(dag, r, STREAM_COMPUTE);
    for (int32_t k = first; k < get_stream_end(dag, r, STREAM_COMPUTE); k++) {
      int32_t v = dag->stream_nodes[k];
      const struct dag_node *n = &dag->nodes[v];
      int64_t at = plan->order_offset[r] + (k - first);
      T_CHECK(v == dag->rank_offset[r] + (k - first) && n->position == k - first && n->rank == r,
              "compute nodes come first");
      if (at >= plan->order_offset[r + 1]) continue;
      const struct plan_action *a = &plan->order[at];
      T_CHECK(n->kind == a->kind && n->stage == a->stage && n->micro == a->micro, "compute nodes in the plan's order");
    }
  }
}

/* Bytes in use along each rank's compute order: never below zero, nothing left, and as high as dag_get_peak says. */
static void check_balance(const struct dag *dag) {
  int64_t *alloc = MEM_NEW(int64_t, dag->n_nodes), *release = MEM_NEW(int64_t, dag->n_nodes);
  for (int64_t k = 0; k < dag->n_buffers; k++) {
    const struct dag_buffer *b = &dag->buffers[k];
    alloc[b->alloc] += b->bytes;
    release[b->release] += b->bytes;
    T_CHECK(b->bytes > 0 && b->bytes % FOOTPRINT_ALIGN == 0, "%s of %lld bytes", buffer_kind_get_name(b->kind),
            (long long)b->bytes);
    T_CHECK(dag->nodes[b->alloc].rank == b->rank && dag->nodes[b->release].rank == b->rank &&
                dag->nodes[b->alloc].stream == STREAM_COMPUTE && dag->nodes[b->release].stream == STREAM_COMPUTE &&
                dag->nodes[b->alloc].position <= dag->nodes[b->release].position,
            "the life of %s", buffer_kind_get_name(b->kind));
    T_CHECK(k == 0 || dag->buffers[k - 1].alloc <= b->alloc, "sorted by rank, then alloc");
    T_CHECK(k >= dag->buffer_offset[b->rank] && k < dag->buffer_offset[b->rank + 1], "offsets");
  }
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    int64_t use = dag->device_static[r], peak = use;
    for (int32_t k = get_stream_start(dag, r, STREAM_COMPUTE); k < get_stream_end(dag, r, STREAM_COMPUTE); k++) {
      int32_t v = dag->stream_nodes[k];
      T_CHECK(alloc[v] == dag->nodes[v].device_alloc && release[v] == dag->nodes[v].device_free, "sums of node %d", v);
      use += alloc[v];
      if (use > peak) peak = use;
      use -= release[v];
      T_CHECK(use >= dag->device_static[r], "rank %d below zero", r);
    }
    T_CHECK(use == dag->device_static[r], "rank %d keeps %lld bytes", r, (long long)(use - dag->device_static[r]));
    T_CHECK(peak == dag_get_peak(dag, r, NULL), "rank %d peak", r);
  }
  mem_free(alloc);
  mem_free(release);
}

static int32_t find_node(const struct dag *dag, enum node_kind kind, int32_t stage, int32_t micro) {
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (dag->nodes[v].kind == kind && dag->nodes[v].stage == stage && dag->nodes[v].micro == micro) return v;
  return -1;
}

/* Either a full backward or the named half of a split one. */
static int32_t find_pass(const struct dag *dag, enum node_kind half, int32_t stage, int32_t micro) {
  int32_t v = find_node(dag, NODE_B, stage, micro);
  return v >= 0 ? v : find_node(dag, half, stage, micro);
}

static const struct dag_buffer *find_buffer(const struct dag *dag, enum buffer_kind kind, int32_t stage,
                                            int32_t micro) {
  for (int64_t k = 0; k < dag->n_buffers; k++)
    if (dag->buffers[k].kind == kind && dag->buffers[k].stage == stage && dag->buffers[k].micro == micro)
      return &dag->buffers[k];
  return NULL;
}

/* A buffer exists while compute nodes first and last run. */
static void check_covers(const struct dag *dag, const struct dag_buffer *b, int32_t first, int32_t last,
                         int64_t bytes) {
  T_CHECK(b && first >= 0 && last >= 0, "a buffer is missing");
  if (!b) return;
  T_CHECK(b->bytes == bytes, "%s: %lld bytes", buffer_kind_get_name(b->kind), (long long)b->bytes);
  T_CHECK(dag->nodes[b->alloc].position <= dag->nodes[first].position &&
              dag->nodes[b->release].position >= dag->nodes[last].position,
          "%s stage %d micro-batch %d", buffer_kind_get_name(b->kind), b->stage, b->micro);
}

static const struct dag_buffer *find_last(const struct dag *dag, enum buffer_kind kind, int32_t stage, int32_t micro) {
  const struct dag_buffer *last = NULL;
  for (int64_t k = 0; k < dag->n_buffers; k++)
    if (dag->buffers[k].kind == kind && dag->buffers[k].stage == stage && dag->buffers[k].micro == micro)
      last = &dag->buffers[k];
  return last;
}

/* What may be away between forward and backward: one buffer, or two about the time when it is. */
static void check_movable(const struct dag *dag, const struct plan *plan, enum buffer_kind kind, bool moves, int32_t f,
                          int32_t last, int64_t bytes) {
  int32_t s = dag->nodes[f].stage, i = dag->nodes[f].micro;
  const struct plan_move *m = plan_find_move(plan, s, i);
  const struct dag_buffer *first = find_buffer(dag, kind, s, i), *again = find_last(dag, kind, s, i);
  if (bytes == 0) return;
  if (!m || !moves) {
    T_CHECK(first == again, "%s twice", buffer_kind_get_name(kind));
    check_covers(dag, first, f, last, bytes);
    return;
  }
  int32_t order = dag->rank_offset[dag->nodes[f].rank];
  check_covers(dag, first, f, order + m->out_start, bytes);
  check_covers(dag, again, order + m->in_start, last, bytes);
  T_CHECK(first->release == order + m->out_end && again->alloc == order + m->in_start, "%s of a block that moves",
          buffer_kind_get_name(kind));
  const struct dag_buffer *guest = find_buffer(dag, BUFFER_GUEST, s, i);
  int32_t host = dag->rank_offset[m->peer];
  T_CHECK(guest && guest->rank == m->peer && guest->alloc == host + m->peer_start &&
              guest->release == host + m->peer_end,
          "the block of stage %d micro-batch %d on another rank", s, i);
}

/* Every (stage, micro-batch) has what its passes read, as long as they need it. */
static void check_lives(const struct dag *dag, const struct plan *plan, const struct model *model) {
  for (int32_t s = 0; s < plan->n_stages; s++)
    for (int32_t i = 0; i < plan->n_micro; i++) {
      int32_t f = find_node(dag, NODE_F, s, i), in = find_pass(dag, NODE_I, s, i), w = find_pass(dag, NODE_W, s, i);
      if (plan->forward_only) in = w = f;
      struct footprint_stage regions;
      footprint_stage(model, plan->stages[s].first_layer, plan->stages[s].n_layers, plan->micro[i], NULL,
                      plan->moved ? plan->moved + plan->stages[s].first_layer : NULL, &regions);
      int64_t boundary = footprint_boundary(model, plan->micro[i]);
      if (regions.keep_input) check_covers(dag, find_buffer(dag, BUFFER_KEEP_INPUT, s, i), f, in, regions.keep_input);
      if (regions.keep_weight) check_covers(dag, find_buffer(dag, BUFFER_KEEP_WEIGHT, s, i), f, w, regions.keep_weight);
      check_movable(dag, plan, BUFFER_MOVE_INPUT, true, f, in, regions.move_input);
      check_movable(dag, plan, BUFFER_MOVE_WEIGHT, true, f, w, regions.move_weight);
      bool hidden = plan->moved && plan->moved[plan->stages[s].first_layer] >> FOOTPRINT_MOVES_HIDDEN & 1;
      if (s > 0) check_movable(dag, plan, BUFFER_INPUT, hidden, f, w, boundary);
      T_CHECK(s > 0 || !find_buffer(dag, BUFFER_INPUT, s, i), "the first stage has no input");
      bool sends = s + 1 < plan->n_stages && plan_get_holder(plan, s) != plan_get_holder(plan, s + 1);
      if (sends) check_covers(dag, find_buffer(dag, BUFFER_OUTPUT, s, i), f, f, boundary);
      T_CHECK(sends || !find_buffer(dag, BUFFER_OUTPUT, s, i), "nothing to send");
      if (plan->forward_only) continue;
      if (s + 1 < plan->n_stages) check_covers(dag, find_buffer(dag, BUFFER_D_OUTPUT, s, i), in, w, boundary);
      if (s > 0 && plan_get_holder(plan, s) != plan_get_holder(plan, s - 1))
        check_covers(dag, find_buffer(dag, BUFFER_D_INPUT, s, i), in, in, boundary);
      if (in != w && regions.grad_weight)
        check_covers(dag, find_buffer(dag, BUFFER_GRAD_WEIGHT, s, i), in, w, regions.grad_weight);
    }
}

/* ---- runs with random delays ---- */

static void check_times(const struct naive_run *run, const struct plan *plan) {
  const struct dag *dag = run->dag;
  double gradients = 0; /* when the last one of all ranks is complete */
  for (int64_t e = 0; e < dag->n_edges; e++)
    if (!(run->blocking && naive_run_is_partner(dag, dag->edge_from[e], dag->edge_to[e])))
      T_CHECK(run->end[dag->edge_from[e]] <= run->start[dag->edge_to[e]], "edge %lld", (long long)e);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    int kind = dag->nodes[v].kind;
    bool completes = kind == NODE_B || kind == NODE_W || (plan->clip && kind == NODE_RT);
    if (completes && run->end[v] > gradients) gradients = run->end[v];
  }
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    if (dag->nodes[v].kind == NODE_N)
      T_CHECK(run->end[v] >= gradients, "a norm ends before all gradients are complete");
    if (dag->nodes[v].kind == NODE_U && plan->clip)
      T_CHECK(run->start[v] >= gradients, "an update starts before the norm is known");
    if (dag->nodes[v].kind == NODE_RT) /* the update of its layer comes after it */
      for (int32_t u = 0; u < dag->n_nodes; u++)
        if (dag->nodes[u].kind == NODE_U && dag->nodes[u].layer == dag->nodes[v].layer)
          T_CHECK(run->start[u] >= run->end[v], "an update of a tied weight before the other use's gradient");
  }
}

/* The message has left before its buffer goes, and does not arrive before there is a buffer for it. */
static void check_message_buffers(const struct naive_run *run) {
  const struct dag *dag = run->dag;
  for (int64_t k = 0; k < dag->n_buffers; k++) {
    const struct dag_buffer *b = &dag->buffers[k];
    if (b->kind == BUFFER_OUTPUT || b->kind == BUFFER_D_INPUT) {
      int32_t send = find_node(dag, b->kind == BUFFER_OUTPUT ? NODE_SF : NODE_SB, b->stage, b->micro);
      int32_t last = get_stream_end(dag, b->rank, STREAM_COMPUTE) - 1;
      if (b->release != dag->stream_nodes[last])
        T_CHECK(run->end[send] <= run->start[b->release], "a buffer is freed before its message has left");
    }
    if (b->kind != BUFFER_INPUT && b->kind != BUFFER_D_OUTPUT) continue;
    int32_t receive = find_node(dag, b->kind == BUFFER_INPUT ? NODE_RF : NODE_RB, b->stage, b->micro);
    if (receive < 0) continue;
    int32_t use = b->kind == BUFFER_INPUT ? find_node(dag, NODE_F, b->stage, b->micro)
                                          : find_pass(dag, NODE_I, b->stage, b->micro);
    if (b->alloc > use) { /* with its block, back from another rank */
      receive = find_node(dag, NODE_LR, b->stage, b->micro);
      T_CHECK(receive >= 0 && run->start[receive] >= run->end[b->alloc - 1], "a block is back before its memory");
      continue;
    }
    T_CHECK(b->alloc == use - (dag->nodes[use].position > 0), "charged one node ahead");
    if (dag->nodes[b->alloc].position > 0)
      T_CHECK(run->start[receive] >= run->end[b->alloc - 1], "a message arrives before its buffer is there");
  }
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

/* The high-water mark over time is the one that the compute order alone predicts. */
static void check_peaks(const struct naive_run *run) {
  const struct dag *dag = run->dag;
  struct event *events = MEM_NEW(struct event, 2 * dag->n_buffers);
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    size_t n = 0;
    for (int64_t k = dag->buffer_offset[r]; k < dag->buffer_offset[r + 1]; k++) {
      const struct dag_buffer *b = &dag->buffers[k];
      events[n++] = (struct event){run->start[b->alloc], b->bytes};
      events[n++] = (struct event){run->end[b->release], -b->bytes};
    }
    qsort(events, n, sizeof *events, compare_events);
    int64_t use = dag->device_static[r], peak = use;
    for (size_t k = 0; k < n; k++) {
      use += events[k].bytes;
      if (use > peak) peak = use;
    }
    T_CHECK(peak == dag_get_peak(dag, r, NULL), "rank %d: %lld bytes", r, (long long)peak);
  }
  mem_free(events);
}

static void check_runs(const struct dag *dag, const struct plan *plan) {
  for (int mode = 0; mode < 2; mode++) {
    double *length = draw_lengths(dag);
    struct naive_run *run = naive_run_create(dag, length, mode);
    int32_t n = naive_run_go(run);
    T_CHECK(n == dag->n_nodes, "%s: %d of %d nodes ran", mode ? "blocking" : "eager", n, dag->n_nodes);
    if (n == dag->n_nodes) {
      check_times(run, plan);
      check_message_buffers(run);
      check_peaks(run);
    }
    naive_run_destroy(&run);
    mem_free(length);
  }
}

/* Edges from a send to a compute node: they leave at least one compute node for the message to travel. */
static void check_bounded(const struct dag *dag) {
  for (int64_t e = 0; e < dag->n_edges; e++) {
    const struct dag_node *send = &dag->nodes[dag->edge_from[e]], *n = &dag->nodes[dag->edge_to[e]];
    if ((send->kind != NODE_SF && send->kind != NODE_SB) || n->stream != STREAM_COMPUTE) continue;
    int32_t producer = send->kind == NODE_SF ? find_node(dag, NODE_F, send->stage, send->micro)
                                             : find_pass(dag, NODE_I, send->stage, send->micro);
    T_CHECK(n->rank == send->rank && n->position >= dag->nodes[producer].position + 2, "%d nodes later",
            n->position - dag->nodes[producer].position);
    n_bounded++;
  }
}

static struct dag *check_graph(const struct plan *plan, const struct model *model) {
  struct dag *dag = NULL;
  T_CHECK(dag_build(plan, model, &dag) == STATUS_OK, "%s", error_text());
  if (!dag) exit(1);
  T_CHECK(dag_check(dag, plan) == STATUS_OK, "%s", error_text());
  check_structure(dag, plan, model);
  check_balance(dag);
  check_lives(dag, plan, model);
  check_runs(dag, plan);
  check_bounded(dag);
  return dag;
}

/* ---- the planners' graphs ---- */

static int32_t get_most_live(const struct dag *dag, enum buffer_kind kind, int32_t rank) {
  int32_t live = 0, most = 0;
  for (int32_t k = get_stream_start(dag, rank, STREAM_COMPUTE); k < get_stream_end(dag, rank, STREAM_COMPUTE); k++) {
    int32_t v = dag->stream_nodes[k];
    for (int64_t b = dag->buffer_offset[rank]; b < dag->buffer_offset[rank + 1]; b++)
      live += dag->buffers[b].kind == kind && dag->buffers[b].alloc == v;
    if (live > most) most = live;
    for (int64_t b = dag->buffer_offset[rank]; b < dag->buffer_offset[rank + 1]; b++)
      live -= dag->buffers[b].kind == kind && dag->buffers[b].release == v;
  }
  return most;
}

static void check_live_activations(const struct dag *dag, const struct plan *plan) {
  int32_t p = plan->n_stages, m = plan->n_micro;
  bool is_1f1b = !strcmp(plan->planner, "1f1b");
  if (!is_1f1b && strcmp(plan->planner, "gpipe")) return;
  for (int32_t s = 0; s < p; s++) {
    int32_t expected = is_1f1b && p - s < m ? p - s : m, live = get_most_live(dag, BUFFER_KEEP_WEIGHT, s);
    T_CHECK(live == expected, "%s p %d m %d stage %d: %d live", plan->planner, p, m, s, live);
    /* What is sent waits for one exchange with the neighbour, not for the whole step. */
    if (is_1f1b)
      T_CHECK(get_most_live(dag, BUFFER_D_INPUT, s) <= expected + 1 && get_most_live(dag, BUFFER_OUTPUT, s) <= expected,
              "p %d m %d stage %d: %d, %d sent buffers", p, m, s, get_most_live(dag, BUFFER_D_INPUT, s),
              get_most_live(dag, BUFFER_OUTPUT, s));
  }
}

static void test_planners(void) {
  struct model *models[2] = {make_tiny_model(8, false), make_tiny_model(8, true)};
  for (const struct planner *const *planner = planner_get_all(); *planner; planner++) {
    int32_t chunks = get_test_chunks(planner_get_name(*planner)), largest = chunks == 1 ? 8 : chunks == 2 ? 5 : 0;
    for (int32_t p = 1; p <= largest; p++)
      for (int32_t m = 1; m <= 3 * p + 1; m += 1 + (chunks == 2)) {
        const struct model *model = models[(p + m) % 2];
        struct plan *plan = make_plan(model, planner_get_name(*planner), p, m, m % 3);
        struct dag *dag = check_graph(plan, model);
        check_live_activations(dag, plan);
        dag_destroy(&dag);
        struct plan *forward = plan_make_forward(plan, m, plan->micro);
        dag = check_graph(forward, model);
        /* Where a micro-batch comes back to a rank, what was sent may wait until the first one does. */
        int32_t most = chunks == 1 ? 3 : 2 * p + 2;
        for (int32_t s = 0; s < p; s++)
          T_CHECK(get_most_live(dag, BUFFER_OUTPUT, s) <= most && get_most_live(dag, BUFFER_KEEP_WEIGHT, s) <= 1,
                  "an evaluation keeps little: p %d m %d stage %d", p, m, s);
        dag_destroy(&dag);
        plan_destroy(&forward);
        plan_destroy(&plan);
      }
  }
  for (int k = 0; k < 2; k++) model_destroy(&models[k]);
}

static void test_random_ties(void) {
  for (int trial = 0; trial < 200; trial++) {
    struct model *model = make_tiny_model(4, true);
    draw_ties(model);
    struct plan *plan = make_random_plan(model);
    struct dag *dag = check_graph(plan, model);
    dag_destroy(&dag);
    plan_destroy(&plan);
    model_destroy(&model);
  }
}

static void test_random_plans(void) {
  struct model *models[2] = {make_tiny_model(4, false), make_tiny_model(4, true)};
  for (int trial = 0; trial < 400; trial++) {
    struct plan *plan = make_random_plan(models[trial % 2]);
    struct dag *dag = check_graph(plan, models[trial % 2]);
    dag_destroy(&dag);
    plan_destroy(&plan);
  }
  T_CHECK(n_bounded > 100, "sends without a reply were met: %d", n_bounded);
  for (int k = 0; k < 2; k++) model_destroy(&models[k]);
}

/* ---- golden times ---- */

static double run_uniform(const struct dag *dag, double *start) {
  double *length = MEM_NEW(double, dag->n_nodes), makespan = 0;
  for (int32_t v = 0; v < dag->n_nodes; v++)
    length[v] = dag->nodes[v].kind == NODE_F ? 1 : dag->nodes[v].kind == NODE_B ? 2 : 0;
  struct naive_run *run = naive_run_create(dag, length, true);
  T_CHECK(naive_run_go(run) == dag->n_nodes, "runs to its end");
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (run->end[v] > makespan) makespan = run->end[v];
  if (start) memcpy(start, run->start, sizeof(double) * (size_t)dag->n_nodes);
  naive_run_destroy(&run);
  mem_free(length);
  return makespan;
}

/* 1F1B, p = 4, m = 8, forward 1, backward 2, no communication: start times by hand. */
static void test_golden_times(void) {
  static const double golden[4][16] = {
      {0, 1, 2, 3, 10, 12, 13, 15, 16, 18, 19, 21, 22, 25, 28, 31},
      {1, 2, 3, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 26, 29},
      {2, 3, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23, 24, 27},
      {3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24, 25},
  };
  struct model *model = make_tiny_model(6, false);
  struct plan *plan = make_plan(model, "1f1b", 4, 8, true);
  struct dag *dag;
  T_CHECK(dag_build(plan, model, &dag) == STATUS_OK, "%s", error_text());
  double *start = MEM_NEW(double, dag->n_nodes);
  T_CHECK(run_uniform(dag, start) == 33, "makespan");
  for (int32_t r = 0; r < 4; r++)
    for (int k = 0; k < 16; k++)
      T_CHECK(start[dag->rank_offset[r] + k] == golden[r][k], "rank %d, node %d: %g", r, k,
              start[dag->rank_offset[r] + k]);
  mem_free(start);
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
}

/* (m + p - 1)(forward + backward) for GPipe and 1F1B; the order of messages and their buffers cost nothing. */
static void test_makespans(void) {
  static const char *const planners[] = {"gpipe", "1f1b"};
  struct model *model = make_tiny_model(6, true);
  for (int k = 0; k < 2; k++)
    for (int32_t p = 1; p <= 8; p++)
      for (int32_t m = 1; m <= 3 * p + 1; m += 1 + p / 3) {
        struct plan *plan = make_plan(model, planners[k], p, m, m % 2);
        struct dag *dag;
        T_CHECK(dag_build(plan, model, &dag) == STATUS_OK, "%s", error_text());
        double makespan = run_uniform(dag, NULL);
        T_CHECK(makespan == 3 * (m + p - 1), "%s p %d m %d: %g", plan->planner, p, m, makespan);
        dag_destroy(&dag);
        plan_destroy(&plan);
      }
  model_destroy(&model);
}

static void test_descriptions(void) {
  static const struct {
    struct dag_node node;
    const char *text;
  } cases[] = {
      {{1, 1, 3, -1, -1, 0, NODE_B, STREAM_COMPUTE, 0, 0, 0, 0, 0}, "B stage 1 micro-batch 3"},
      {{0, 0, 2, -1, 1, 0, NODE_SF, STREAM_SEND, 0, 0, 0, 0, 0}, "SF stage 0 micro-batch 2 to rank 1"},
      {{0, 0, 2, -1, 1, 0, NODE_RB, STREAM_RECEIVE, 0, 0, 0, 0, 0}, "RB stage 0 micro-batch 2 from rank 1"},
      {{0, 2, -1, 5, -1, 0, NODE_U, STREAM_COMPUTE, 0, 0, 0, 0, 0}, "U layer 5"},
      {{0, -1, -1, -1, -1, 0, NODE_N, STREAM_SEND, 0, 0, 0, 0, 0}, "N"},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    char text[80], small[5];
    dag_describe_node(&cases[k].node, text, sizeof text);
    T_CHECK(!strcmp(text, cases[k].text), "%s", text);
    dag_describe_node(&cases[k].node, small, sizeof small);
    T_CHECK(strlen(small) < sizeof small && !strncmp(small, cases[k].text, strlen(small)), "%s", small);
  }
}

int main(void) {
  test_planners();
  test_random_plans();
  test_random_ties();
  test_golden_times();
  test_makespans();
  test_descriptions();
  T_CHECK(mem_balance() == 0, "%lld blocks left", (long long)mem_balance());
  return t_end();
}
