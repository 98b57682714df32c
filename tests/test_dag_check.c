/* What the checks of a graph refuse: too little memory, damaged messages and updates, orders that contradict each
 * other, deadlocks.
 */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "make_plan.h"
#include "naive_run.h"

static bool says(const char *part) { return strstr(error_text(), part) != NULL; }

static int32_t draw_node(const struct dag *dag, enum node_kind kind) {
  for (;;) {
    int32_t v = draw(dag->n_nodes);
    if (dag->nodes[v].kind == kind) return v;
  }
}

static void test_memory_limits(void) {
  struct model *model = make_tiny_model(6, true);
  struct plan *plan = make_plan(model, "1f1b", 3, 5, true);
  struct dag *dag;
  T_CHECK(dag_build(plan, model, &dag) == STATUS_OK, "%s", error_text());
  for (int32_t r = 0; r < 3; r++) {
    char text[160], name[80];
    int32_t node;
    int64_t peak = dag_get_peak(dag, r, &node);
    T_CHECK(node >= 0 && dag->nodes[node].rank == r && dag->nodes[node].stream == STREAM_COMPUTE,
            "the node of the peak");
    plan->device_limit[r] = peak;
    T_CHECK(dag_check(dag, plan) == STATUS_OK, "%s", error_text());
    plan->device_limit[r] = peak - 1;
    T_CHECK(dag_check(dag, plan) == STATUS_MISTAKE, "one byte less");
    dag_describe_node(&dag->nodes[node], name, sizeof name);
    snprintf(text, sizeof text, "rank %d needs %lld bytes (", r, (long long)peak);
    T_CHECK(says(text) && says(name) && says(" 1 byte (1 B) over its memory.device_limit"), "%s", error_text());
    plan->device_limit[r] = 0;
    T_CHECK(dag_check(dag, plan) == STATUS_MISTAKE && says("over"), "no memory at all");
    plan->device_limit[r] = INT64_MAX;
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
}

static void test_damaged_messages(void) {
  struct model *model = make_tiny_model(6, true);
  struct plan *plan = make_plan(model, "1f1b", 3, 5, true);
  for (int k = 0; k < 9; k++) {
    struct dag *dag;
    T_CHECK(dag_build(plan, model, &dag) == STATUS_OK && dag_check_messages(dag) == STATUS_OK, "%s", error_text());
    int32_t v = draw_node(dag, k % 2 ? NODE_RB : NODE_SF), u = draw_node(dag, NODE_RT);
    struct dag_node *n = &dag->nodes[v];
    switch (k) {
    case 0:
    case 1: n->bytes++; break;
    case 2: n->micro++; break;
    case 3: n->stage = n->stage ? 0 : 1; break;
    case 4: n->peer = (n->peer + 1) % 3; break;
    case 5: dag->match[v] = -1; break;
    case 6: dag->match[v] = u; break;
    case 7: n->peer = (n->peer + 2) % 3; break;
    default: dag->nodes[dag->match[v]].kind = NODE_RB; break;
    }
    T_CHECK(dag_check_messages(dag) == STATUS_FAILED && says("rank "), "damage %d", k);
    T_CHECK(dag_check(dag, plan) == STATUS_FAILED, "damage %d", k);
    dag_destroy(&dag);
  }
  plan_destroy(&plan);
  model_destroy(&model);
}

static int cut_edge(struct dag *dag, int32_t from, int32_t to) {
  int cut = 0;
  for (int64_t e = dag->in_offset[to]; e < dag->in_offset[to + 1]; e++)
    if (dag->edge_from[e] == from) dag->edge_from[e] = to, cut++; /* an edge to itself: no longer waits for the other */
  return cut;
}

/* Every edge that updates rest on, taken away one at a time. */
static void test_damaged_updates(void) {
  struct model *model = make_tiny_model(6, true);
  struct plan *plan = make_plan(model, "1f1b", 3, 5, true);
  struct dag *dag;
  T_CHECK(dag_build(plan, model, &dag) == STATUS_OK && dag_check_updates(dag, plan) == STATUS_OK, "%s", error_text());
  int n_refused = 0;
  for (int64_t e = 0; e < dag->n_edges; e++) {
    int32_t from = dag->edge_from[e], to = dag->edge_to[e];
    int kind = dag->nodes[to].kind, source = dag->nodes[from].kind;
    bool rests = (kind == NODE_U && dag->nodes[from].stream != STREAM_COMPUTE && source != NODE_SB) ||
                 (kind == NODE_N && source != NODE_ST);
    T_CHECK(cut_edge(dag, from, to) == 1, "each edge once");
    bool refused = dag_check_updates(dag, plan) == STATUS_FAILED;
    T_CHECK(refused == rests, "edge from %s to %s", node_kind_get_name((enum node_kind)source),
            node_kind_get_name((enum node_kind)kind));
    n_refused += refused;
    dag->edge_from[e] = from;
  }
  T_CHECK(n_refused == 14 + 4 + 7 + 3, "%d edges", n_refused); /* N, ST, RT -> U; to and from the first N; to others */
  int32_t update = draw_node(dag, NODE_U), layer = dag->nodes[update].layer;
  dag->nodes[update].layer = layer ? 0 : 1;
  T_CHECK(dag_check_updates(dag, plan) == STATUS_FAILED, "a layer with two updates or of another rank");
  dag->nodes[update].layer = layer;
  dag->nodes[draw_node(dag, NODE_B)].position = 100;
  T_CHECK(dag_check_updates(dag, plan) == STATUS_FAILED, "a backward after its update");
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
}

/* Orders that pass plan_check but contradict each other: rank 0 wants its later stage first. */
static void test_contradicting_orders(void) {
  struct model *model = make_tiny_model(4, false);
  for (int k = 0; k < 2; k++) {
    struct plan *plan = plan_create(model->n_layers, 3, 2, 1, 3);
    for (int32_t s = 0; s < 3; s++) {
      plan->stages[s] = (struct plan_stage){3 * s, s < 2 ? 3 : model->n_layers - 6};
      plan->replica_rank[s] = k ? s / 2 : s % 2; /* k 1: stages 0 and 1 meet inside rank 0 */
    }
    plan->forward_only = true;
    plan->micro[0] = micro_shape_make(1, 8, 8, 8);
    plan->order_offset[1] = 2;
    plan->order[0] = (struct plan_action){NODE_F, k ? 1 : 2, 0};
    plan->order[1] = (struct plan_action){NODE_F, 0, 0};
    plan->order[2] = (struct plan_action){NODE_F, k ? 2 : 1, 0};
    T_CHECK(plan_check(plan) == STATUS_OK, "%s", error_text());
    struct dag *dag;
    T_CHECK(dag_build(plan, model, &dag) == STATUS_FAILED && !dag, "no order exists");
    T_CHECK(says("contradict") && says("rank 0 F stage 0 micro-batch 0 waits for rank 0 F stage") &&
                says(" waits for "),
            "%s", error_text());
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

/* ---- deadlocks ---- */

/* The check says deadlock exactly when a blocking run gets stuck, for streams shuffled at random. */
static void test_shuffled_streams(void) {
  struct model *model = make_tiny_model(6, true);
  int n_stuck = 0, n_going = 0;
  for (int trial = 0; trial < 300; trial++) {
    struct plan *plan =
        trial % 2 ? make_random_plan(model) : make_plan(model, trial % 4 ? "gpipe" : "1f1b", 4, 3, true);
    struct dag *dag;
    T_CHECK(dag_build(plan, model, &dag) == STATUS_OK, "%s", error_text());
    for (int swaps = 1 + draw(3); swaps > 0; swaps--) {
      int32_t list = draw(dag->n_ranks) * STREAM_COUNT + (draw(2) ? STREAM_SEND : STREAM_RECEIVE);
      int32_t n = dag->stream_offset[list + 1] - dag->stream_offset[list];
      if (n < 2) continue;
      int32_t k = dag->stream_offset[list] + draw(n - 1), v = dag->stream_nodes[k], u = dag->stream_nodes[k + 1];
      dag->stream_nodes[k] = u, dag->stream_nodes[k + 1] = v;
      dag->nodes[u].position--, dag->nodes[v].position++;
    }
    double *length = draw_lengths(dag);
    struct naive_run *run = naive_run_create(dag, length, true);
    bool stuck = naive_run_go(run) < dag->n_nodes;
    T_CHECK((dag_check_deadlock(dag) == STATUS_FAILED) == stuck, "trial %d is %s", trial, stuck ? "stuck" : "going");
    n_stuck += stuck, n_going += !stuck;
    naive_run_destroy(&run);
    mem_free(length);
    dag_destroy(&dag);
    plan_destroy(&plan);
  }
  T_CHECK(n_stuck > 30 && n_going > 30, "both were met: %d stuck, %d going", n_stuck, n_going);
  model_destroy(&model);
}

/* A graph by hand. Each rank is a list of node names in program order; messages by letter. */
struct sketch {
  int32_t rank;
  enum node_kind kind;
  int message; /* number that both ends share, 0 for compute */
  bool waits;  /* starts only after the rank's previous entry has ended */
};

static struct dag *draw_sketch(const struct sketch *entries, int32_t n) {
  struct dag *dag = MEM_NEW(struct dag, 1);
  dag->n_ranks = 2;
  dag->n_nodes = n;
  dag->nodes = MEM_NEW(struct dag_node, n);
  dag->match = MEM_NEW(int32_t, n);
  dag->in_offset = MEM_NEW(int64_t, n + 1);
  dag->edge_from = MEM_NEW(int32_t, n);
  dag->edge_to = MEM_NEW(int32_t, n);
  dag->stream_offset = MEM_NEW(int32_t, 2 * STREAM_COUNT + 1);
  dag->stream_nodes = MEM_NEW(int32_t, n);
  for (int32_t v = 0; v < n; v++) {
    enum stream stream = node_kind_get_stream(entries[v].kind);
    dag->nodes[v] = (struct dag_node){.rank = entries[v].rank,
                                      .stage = 0,
                                      .micro = v,
                                      .layer = -1,
                                      .peer = !entries[v].rank,
                                      .kind = (uint8_t)entries[v].kind,
                                      .stream = (uint8_t)stream};
    dag->match[v] = -1;
    for (int32_t u = 0; u < n; u++)
      if (u != v && entries[v].message && entries[u].message == entries[v].message) dag->match[v] = u;
    dag->in_offset[v] = dag->n_edges;
    if (entries[v].waits) {
      dag->edge_from[dag->n_edges] = v - 1;
      dag->edge_to[dag->n_edges++] = v;
    }
  }
  dag->in_offset[n] = dag->n_edges;
  for (int32_t list = 0, k = 0; list < 2 * STREAM_COUNT; list++) {
    dag->stream_offset[list] = k;
    for (int32_t v = 0; v < n; v++)
      if (dag->nodes[v].rank * STREAM_COUNT + dag->nodes[v].stream == list) {
        dag->nodes[v].position = k - dag->stream_offset[list];
        dag->stream_nodes[k++] = v;
      }
    dag->stream_offset[list + 1] = k;
  }
  return dag;
}

static void check_sketch(const struct sketch *entries, int32_t n, const char *reason) {
  struct dag *dag = draw_sketch(entries, n);
  int status = dag_check_deadlock(dag);
  if (reason)
    T_CHECK(status == STATUS_FAILED && says(reason) && says("rank "), "%s", error_text());
  else
    T_CHECK(status == STATUS_OK, "%s", error_text());
  dag_destroy(&dag);
}

static void test_known_deadlocks(void) {
  /* Each message in its own window, all together stuck: the receiver takes them the other way round. */
  struct sketch windows[] = {{0, NODE_F, 0, false},  {0, NODE_F, 0, true},   {0, NODE_SF, 1, true},
                             {0, NODE_SF, 2, false}, {1, NODE_RF, 2, false}, {1, NODE_RF, 1, false},
                             {1, NODE_F, 0, true},   {1, NODE_F, 0, false}};
  check_sketch(windows, 8, "received first");
  windows[4].message = 1, windows[5].message = 2;
  check_sketch(windows, 8, NULL);
  /* Lists of blocking calls, four stages on two ranks: `send F2, F, send F0, recv B2` against `recv F3, send B3, F, B,
   * recv F1`: rank 0 gives F0 away before it takes B2, rank 1 gives B2 away before it takes F0. */
  struct sketch lists[] = {{0, NODE_SF, 1, false}, {0, NODE_F, 0, true},   {0, NODE_SF, 2, true},
                           {0, NODE_RB, 3, true},  {1, NODE_RF, 1, false}, {1, NODE_SB, 3, true},
                           {1, NODE_F, 0, true},   {1, NODE_B, 0, true},   {1, NODE_RF, 2, true}};
  check_sketch(lists, 9, "deadlock");
  lists[3].waits = false; /* full duplex: the gradient is received while the activation is sent */
  check_sketch(lists, 9, NULL);
  /* Both send first and receive after. */
  struct sketch both[] = {{0, NODE_SF, 1, false}, {0, NODE_RB, 2, true}, {1, NODE_SB, 2, false}, {1, NODE_RF, 1, true}};
  check_sketch(both, 4, "deadlock");
}

int main(void) {
  test_memory_limits();
  test_damaged_messages();
  test_damaged_updates();
  test_contradicting_orders();
  test_shuffled_streams();
  test_known_deadlocks();
  T_CHECK(mem_balance() == 0, "%lld blocks left", (long long)mem_balance());
  return t_end();
}
