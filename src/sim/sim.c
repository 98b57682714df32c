/* One pass over the graph in the order in which its streams were laid out. That order is a linear extension of edges
 * and streams together (dag_order.c), so that when a node's turn comes all that it waits for has its times.
 */
#include "sim/sim.h"

#include "base/mem.h"
#include "sim/sim_measure.h"

struct sim {
  const struct dag *dag; /* borrowed */
  int32_t n_stages;
  double *free_at; /* [n_ranks * STREAM_COUNT] when the stream's last node ended */
  int32_t *last;   /* and which it was, -1: none */
  double *end;     /* [n_nodes] of the iteration under way */
  bool norm_holds; /* something waits for the norm: then it stands between iterations */
  double norm_end;
  struct step_rank *parts;   /* [n_ranks] room for sim_measure */
  struct step_stage *blocks; /* [n_stages] likewise */
  struct sim_result result;
};

static bool find_norm_holds(const struct dag *dag) {
  for (int64_t e = 0; e < dag->n_edges; e++)
    if (dag->nodes[dag->edge_from[e]].kind == NODE_N && dag->nodes[dag->edge_to[e]].kind != NODE_N) return true;
  return false;
}

struct sim *sim_create(const struct dag *dag, int32_t n_stages) {
  struct sim *s = MEM_NEW(struct sim, 1);
  s->dag = dag;
  s->n_stages = n_stages;
  s->norm_holds = find_norm_holds(dag);
  s->free_at = MEM_NEW(double, (int64_t)dag->n_ranks *STREAM_COUNT);
  s->last = MEM_NEW(int32_t, (int64_t)dag->n_ranks * STREAM_COUNT);
  s->end = MEM_NEW(double, dag->n_nodes);
  s->parts = MEM_NEW(struct step_rank, dag->n_ranks);
  s->blocks = MEM_NEW(struct step_stage, n_stages);
  s->result.start = MEM_NEW(double, dag->n_nodes);
  s->result.end = MEM_NEW(double, dag->n_nodes);
  s->result.binder = MEM_NEW(int32_t, dag->n_nodes);
  s->result.ranks = MEM_NEW(struct sim_rank, dag->n_ranks);
  s->result.stages = MEM_NEW(struct sim_stage, n_stages);
  return s;
}

void sim_destroy(struct sim **sim) {
  struct sim *s = *sim;
  if (!s) return;
  mem_free(s->free_at);
  mem_free(s->last);
  mem_free(s->end);
  mem_free(s->parts);
  mem_free(s->blocks);
  mem_free(s->result.start);
  mem_free(s->result.end);
  mem_free(s->result.binder);
  mem_free(s->result.ranks);
  mem_free(s->result.stages);
  mem_free(s);
  *sim = NULL;
}

/* The latest end among a node's edges and its stream, but for the edge from its own message's other end. */
static double find_ready(const struct sim *s, int32_t v, int32_t *binder) {
  const struct dag *dag = s->dag;
  const struct dag_node *n = &dag->nodes[v];
  int32_t stream = n->rank * STREAM_COUNT + n->stream, match = dag->match[v];
  double ready = s->free_at[stream];
  *binder = s->last[stream];
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    int32_t u = dag->edge_from[e];
    if (u == match || s->end[u] <= ready) continue;
    ready = s->end[u];
    *binder = u;
  }
  return ready;
}

static void set_times(struct sim *s, int32_t v, double start, double end, int32_t binder, bool keep) {
  const struct dag_node *n = &s->dag->nodes[v];
  int32_t stream = n->rank * STREAM_COUNT + n->stream;
  s->end[v] = s->free_at[stream] = end;
  s->last[stream] = v;
  if (!keep) return;
  s->result.start[v] = start;
  s->result.end[v] = end;
  s->result.binder[v] = binder;
}

/* A send, its receive with it. The receive begins when it is posted and ends with the send. */
static void run_message(struct sim *s, const struct sim_times *times, int32_t send, bool keep) {
  int32_t receive = s->dag->match[send], send_binder, receive_binder;
  double start = find_ready(s, send, &send_binder), posted = find_ready(s, receive, &receive_binder);
  if (posted > start && sim_is_rendezvous(times, &s->dag->nodes[send])) {
    start = posted;
    send_binder = receive_binder;
  }
  double end = start + times->seconds[send];
  set_times(s, send, start, end, send_binder, keep);
  set_times(s, receive, posted, end > posted ? end : posted, end > posted ? send : receive_binder, keep);
}

/* All norms end together; each begins when its rank gets there. One that nothing waits for is told only: messages of
 * the next iteration overtake it. */
static void run_norm(struct sim *s, const struct sim_times *times, const int32_t *norms, int32_t n, bool keep) {
  double latest = 0, longest = 0;
  int32_t last_binder = -1;
  for (int32_t i = 0; i < n; i++) {
    int32_t binder;
    double ready = find_ready(s, norms[i], &binder);
    if (ready >= latest) last_binder = binder;
    if (ready > latest) latest = ready;
    if (times->seconds[norms[i]] > longest) longest = times->seconds[norms[i]];
  }
  for (int32_t i = 0; i < n; i++) {
    int32_t binder, stream = s->dag->nodes[norms[i]].rank * STREAM_COUNT + STREAM_SEND, last = s->last[stream];
    double ready = find_ready(s, norms[i], &binder), free_at = s->free_at[stream];
    set_times(s, norms[i], ready, latest + longest, last_binder, keep);
    if (s->norm_holds) continue;
    s->free_at[stream] = free_at;
    s->last[stream] = last;
  }
  s->norm_end = latest + longest;
}

static void run_iteration(struct sim *s, const struct sim_times *times, bool keep) {
  const struct dag *dag = s->dag;
  for (int32_t k = 0; k < dag->n_nodes;) {
    int32_t v = dag->sequence[k];
    const struct dag_node *n = &dag->nodes[v];
    if (n->kind == NODE_N) {
      run_norm(s, times, &dag->sequence[k], dag->n_ranks, keep);
      k += dag->n_ranks;
    } else if (dag->match[v] >= 0) { /* the sending end comes first */
      run_message(s, times, v, keep);
      k += 2;
    } else {
      int32_t binder;
      double start = find_ready(s, v, &binder);
      set_times(s, v, start, start + times->seconds[v], binder, keep);
      k++;
    }
  }
}

const struct sim_result *sim_run(struct sim *s, const struct sim_times *times, int32_t n_iterations) {
  const struct dag *dag = s->dag;
  int64_t n_streams = (int64_t)dag->n_ranks * STREAM_COUNT;
  for (int64_t k = 0; k < n_streams; k++) {
    s->free_at[k] = 0;
    s->last[k] = -1;
  }
  for (int32_t v = 0; v < dag->n_nodes; v++) s->end[v] = 0; /* the hub's norm has an edge to those beside it */
  s->result.makespan = s->norm_end = 0;
  for (int32_t i = 0; i < n_iterations; i++) run_iteration(s, times, i == 0);
  for (int64_t k = 0; k < n_streams; k++)
    if (s->free_at[k] > s->result.makespan) s->result.makespan = s->free_at[k];
  if (s->norm_end > s->result.makespan) s->result.makespan = s->norm_end;
  s->result.n_iterations = n_iterations;
  s->result.step = s->result.makespan / n_iterations;
  sim_measure(s->dag, s->n_stages, s->parts, s->blocks, &s->result);
  return &s->result;
}
