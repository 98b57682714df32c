#include "record/step_view.h"

#include "base/mem.h"

/* ---- instants ---- */

static double most(double a, double b) { return a > b ? a : b; }

static bool is_pass(int kind) { return kind == NODE_F || kind == NODE_B || kind == NODE_I || kind == NODE_W; }

/* The nodes of a stream are in order: the last ones end last. */
static void measure_compute(struct step_view *v, const int32_t *offset) {
  if (offset[0] == offset[1]) return;
  int32_t first = v->stream_nodes[offset[0]], last = v->stream_nodes[offset[1] - 1];
  if (v->start[first] < v->begin) v->begin = v->start[first];
  v->compute_end = most(v->compute_end, v->end[last]);
  for (int32_t k = offset[1] - 1; k >= offset[0]; k--) {
    if (!is_pass(v->nodes[v->stream_nodes[k]].kind)) continue;
    v->passes_end = most(v->passes_end, v->end[v->stream_nodes[k]]);
    return;
  }
}

/* A receive ends with its send, or a little later by the clock of another rank. */
static void measure_sends(struct step_view *v) {
  for (int32_t i = 0; i < v->n_nodes; i++) {
    int kind = v->nodes[i].kind;
    if (kind == NODE_SF || kind == NODE_SB) v->message_seconds += v->end[i] - v->start[i];
    if (kind == NODE_ST) v->ties_end = most(v->ties_end, v->end[i]);
  }
}

static void measure(struct step_view *v) {
  for (int32_t r = 0; r < v->n_ranks; r++) {
    const int32_t *offset = &v->stream_offset[r * STREAM_COUNT];
    for (int s = 0; s < STREAM_COUNT; s++)
      if (offset[s] < offset[s + 1]) v->until = most(v->until, v->end[v->stream_nodes[offset[s + 1] - 1]]);
    measure_compute(v, &offset[STREAM_COMPUTE]);
  }
  measure_sends(v);
}

int32_t step_view_find_need(const struct step_view *v, int32_t node, enum stream first, enum stream end) {
  int32_t last = -1;
  for (int64_t e = v->in_offset[node]; e < v->in_offset[node + 1]; e++) {
    int32_t u = v->edge_from[e];
    if (v->nodes[u].stream < first || v->nodes[u].stream >= end) continue;
    if (last < 0 || v->end[u] > v->end[last]) last = u;
  }
  return last;
}

void step_view_init_graph(struct step_view *v, const struct dag *dag, int32_t n_stages, const double *start,
                          const double *end, const int32_t *after) {
  *v = (struct step_view){.n_nodes = dag->n_nodes,
                          .n_ranks = dag->n_ranks,
                          .n_stages = n_stages,
                          .nodes = dag->nodes,
                          .stream_offset = dag->stream_offset,
                          .stream_nodes = dag->stream_nodes,
                          .start = start,
                          .end = end,
                          .after = after,
                          .match = dag->match,
                          .in_offset = dag->in_offset,
                          .edge_from = dag->edge_from};
  measure(v);
}

/* ---- rows ---- */

/* The arrays that a view of rows owns. */
struct step_arrays {
  struct dag_node *nodes;
  double *start, *end;
  int32_t *stream_offset, *stream_nodes, *after, *match, *edge_from;
  int64_t *in_offset, max_edges;
  int32_t *find;                   /* [NODE_KIND_COUNT][n_stages][n_micro] node, -1: none */
  int32_t *shared_offset, *shared; /* of each rank the nodes of no micro-batch beside compute: norm and ties */
};

static bool is_kind(int kind) { return kind >= 0 && kind < NODE_KIND_COUNT; }

static struct dag_node make_node(const struct node_row *row) {
  return (struct dag_node){.rank = row->rank,
                           .stage = row->stage,
                           .micro = row->microbatch,
                           .layer = row->layer,
                           .peer = row->peer,
                           .kind = (uint8_t)(is_kind(row->kind) ? row->kind : NODE_KIND_COUNT),
                           .stream =
                               (uint8_t)(row->stream >= 0 && row->stream < STREAM_COUNT ? row->stream : STREAM_DISK),
                           .bytes = row->bytes};
}

/* n[k] becomes the sum of those up to k. */
static void add_up(int32_t *n, int32_t count) {
  for (int32_t k = 0; k < count; k++) n[k + 1] += n[k];
}

static int32_t *get_slot(const struct step_view *v, int kind, int32_t stage, int32_t micro) {
  if (!is_kind(kind) || stage < 0 || stage >= v->n_stages || micro < 0 || micro >= v->n_micro) return NULL;
  return &v->own->find[((int64_t)kind * v->n_stages + stage) * v->n_micro + micro];
}

static bool is_shared(const struct dag_node *n) { return n->micro < 0 && n->stream != STREAM_COMPUTE; }

static void copy_rows(struct step_view *v) {
  struct step_arrays *own = v->own;
  own->nodes = MEM_NEW(struct dag_node, v->n_nodes);
  own->start = MEM_NEW(double, v->n_nodes);
  own->end = MEM_NEW(double, v->n_nodes);
  for (int32_t i = 0; i < v->n_nodes; i++) {
    const struct node_row *row = &v->rows[i];
    own->nodes[i] = make_node(row);
    own->start[i] = row->start_s;
    own->end[i] = row->end_s;
    v->until = most(v->until, row->end_s);
    if (row->kind == NODE_RT) v->ties_end = most(v->ties_end, row->end_s);
    if (row->rank >= v->n_ranks) v->n_ranks = row->rank + 1;
    if (row->stage >= v->n_stages) v->n_stages = row->stage + 1;
    if (row->microbatch >= v->n_micro) v->n_micro = row->microbatch + 1;
  }
  v->nodes = own->nodes;
  v->start = own->start;
  v->end = own->end;
}

static void list_streams(struct step_view *v) {
  struct step_arrays *own = v->own;
  int32_t n_streams = v->n_ranks * STREAM_COUNT;
  int32_t *filled = MEM_NEW(int32_t, n_streams);
  own->stream_offset = MEM_NEW(int32_t, n_streams + 1);
  own->stream_nodes = MEM_NEW(int32_t, v->n_nodes);
  for (int32_t i = 0; i < v->n_nodes; i++)
    own->stream_offset[v->nodes[i].rank * STREAM_COUNT + v->nodes[i].stream + 1]++;
  add_up(own->stream_offset, n_streams);
  for (int32_t i = 0; i < v->n_nodes; i++) {
    int32_t stream = v->nodes[i].rank * STREAM_COUNT + v->nodes[i].stream;
    own->stream_nodes[own->stream_offset[stream] + filled[stream]++] = i;
  }
  v->stream_offset = own->stream_offset;
  v->stream_nodes = own->stream_nodes;
  mem_free(filled);
}

static void make_indices(struct step_view *v) {
  struct step_arrays *own = v->own;
  int64_t n = (int64_t)NODE_KIND_COUNT * v->n_stages * v->n_micro;
  int32_t n_shared = 0;
  own->find = MEM_NEW(int32_t, n);
  own->shared_offset = MEM_NEW(int32_t, v->n_ranks + 1);
  for (int64_t i = 0; i < n; i++) own->find[i] = -1;
  for (int32_t i = 0; i < v->n_nodes; i++) {
    const struct dag_node *node = &v->nodes[i];
    int32_t *slot = get_slot(v, node->kind, node->stage, node->micro);
    if (slot) *slot = i;
    own->shared_offset[node->rank + 1] += is_shared(node);
  }
  add_up(own->shared_offset, v->n_ranks);
  own->shared = MEM_NEW(int32_t, own->shared_offset[v->n_ranks]);
  for (int32_t k = 0; k < v->n_nodes; k++) /* by rank */
    if (is_shared(&v->nodes[v->stream_nodes[k]])) own->shared[n_shared++] = v->stream_nodes[k];
}

/* ---- what rows came after ---- */

/* From numbers of nodes in files to places; false when no row knows any. */
static bool map_after(struct step_view *v) {
  int64_t n_numbers = 0;
  bool known = false;
  for (int32_t i = 0; i < v->n_nodes; i++)
    if (v->rows[i].node >= n_numbers) n_numbers = (int64_t)v->rows[i].node + 1;
  int32_t *place = MEM_NEW(int32_t, n_numbers);
  for (int64_t k = 0; k < n_numbers; k++) place[k] = -1;
  for (int32_t i = 0; i < v->n_nodes; i++)
    if (v->rows[i].node >= 0) place[v->rows[i].node] = i;
  v->own->after = MEM_NEW(int32_t, v->n_nodes);
  for (int32_t i = 0; i < v->n_nodes; i++) {
    int32_t after = v->rows[i].after;
    v->own->after[i] = after >= 0 && after < n_numbers ? place[after] : -1;
    known |= v->own->after[i] >= 0;
  }
  v->after = v->own->after;
  mem_free(place);
  return known;
}

/* Guesses which node let a node start: among those that it needs and the one before it on its stream, the one that
 * ended last. A receive that was posted before its send began comes after that. */
static int32_t guess_before(const struct step_view *v, int32_t i, int32_t before) {
  int32_t need = step_view_find_need(v, i, STREAM_COMPUTE, STREAM_COUNT), match = v->match[i];
  if (match >= 0 && v->start[match] > v->start[i]) return match;
  return need >= 0 && (before < 0 || v->end[need] > v->end[before]) ? need : before;
}

/* The norms of all ranks come after the last pass or update before the last of them began. */
static void guess_norms(struct step_view *v) {
  int32_t last = -1, before = -1;
  for (int32_t i = 0; i < v->n_nodes; i++)
    if (v->nodes[i].kind == NODE_N && (last < 0 || v->start[i] > v->start[last])) last = i;
  const int32_t *offset = last < 0 ? NULL : &v->stream_offset[v->nodes[last].rank * STREAM_COUNT + STREAM_COMPUTE];
  for (int32_t k = last < 0 ? 0 : offset[0]; last >= 0 && k < offset[1]; k++)
    if (v->end[v->stream_nodes[k]] <= v->start[last]) before = v->stream_nodes[k];
  for (int32_t i = 0; i < v->n_nodes; i++)
    if (v->nodes[i].kind == NODE_N) v->own->after[i] = before;
}

static void guess_after(struct step_view *v) {
  for (int32_t s = 0; s < v->n_ranks * STREAM_COUNT; s++)
    for (int32_t k = v->stream_offset[s]; k < v->stream_offset[s + 1]; k++) {
      int32_t i = v->stream_nodes[k], before = k > v->stream_offset[s] ? v->stream_nodes[k - 1] : -1;
      v->own->after[i] = guess_before(v, i, before);
    }
  guess_norms(v);
}

/* ---- what rows need ---- */

static int32_t find_node(const struct step_view *v, int kind, int32_t rank, int32_t stage, int32_t micro) {
  const int32_t *slot = get_slot(v, kind, stage, micro);
  if (!slot || *slot < 0) return -1;
  return rank < 0 || v->nodes[*slot].rank == rank ? *slot : -1;
}

/* Finds the node that ends last among a rank's nodes of no micro-batch of this kind, and of this layer if both have
 * one. */
static int32_t find_shared(const struct step_view *v, int kind, int32_t rank, int32_t layer) {
  int32_t last = -1;
  if (rank < 0 || rank >= v->n_ranks) return -1;
  for (int32_t k = v->own->shared_offset[rank]; k < v->own->shared_offset[rank + 1]; k++) {
    int32_t i = v->own->shared[k];
    const struct dag_node *n = &v->nodes[i];
    if (n->kind != kind || (layer >= 0 && n->layer >= 0 && n->layer != layer)) continue;
    if (last < 0 || v->end[i] >= v->end[last]) last = i;
  }
  return last;
}

/* The stage's last pass of a kind: what is of no micro-batch comes after all of them. */
static int32_t find_last_pass(const struct step_view *v, int kind, const struct dag_node *of) {
  const int32_t *offset = &v->stream_offset[of->rank * STREAM_COUNT + STREAM_COMPUTE];
  for (int32_t k = offset[1] - 1; k >= offset[0]; k--) {
    const struct dag_node *n = &v->nodes[v->stream_nodes[k]];
    if (n->kind == kind && n->stage == of->stage) return v->stream_nodes[k];
  }
  return -1;
}

static int32_t find_needed(const struct step_view *v, int kind, const struct dag_node *of) {
  if (of->micro >= 0) return find_node(v, kind, of->rank, of->stage, of->micro);
  if (node_kind_get_stream((enum node_kind)kind) == STREAM_COMPUTE) return find_last_pass(v, kind, of);
  return find_shared(v, kind, of->rank, of->layer);
}

/* The send of a receive; of a tied weight the peer has one of another layer. */
static int32_t find_send(const struct step_view *v, int32_t receive) {
  const struct dag_node *n = &v->nodes[receive];
  enum node_message message = node_kind_get_message((enum node_kind)n->kind);
  enum node_kind kind = node_message_get_send(message);
  int32_t after = v->after[receive];
  if (after >= 0 && v->nodes[after].kind == kind && v->nodes[after].rank != n->rank) return after;
  if (n->micro < 0) return find_shared(v, kind, n->peer, -1);
  return find_node(v, kind, n->peer, n->stage - node_message_get_stage_step(message), n->micro);
}

static void add_needs(struct step_view *v, int32_t i, bool recompute_early, int64_t *n_edges) {
  struct step_arrays *own = v->own;
  const struct dag_node *n = &v->nodes[i];
  uint32_t kinds = is_kind(n->kind) ? node_kind_get_needs((enum node_kind)n->kind) : 0;
  if (n->kind == NODE_R && recompute_early) kinds &= ~(UINT32_C(1) << NODE_RB);
  for (int kind = 0; kinds >> kind; kind++) {
    int32_t from = kinds >> kind & 1 ? find_needed(v, kind, n) : -1;
    if (from < 0 || v->end[from] > v->start[i]) continue;
    if (*n_edges == own->max_edges) {
      own->max_edges = own->max_edges ? 2 * own->max_edges : 1024;
      own->edge_from = mem_resize(own->edge_from, sizeof *own->edge_from * (size_t)own->max_edges);
    }
    own->edge_from[(*n_edges)++] = from;
  }
}

static void make_edges(struct step_view *v, bool recompute_early) {
  struct step_arrays *own = v->own;
  int64_t n_edges = 0;
  own->in_offset = MEM_NEW(int64_t, v->n_nodes + (int64_t)1);
  own->match = MEM_NEW(int32_t, v->n_nodes);
  for (int32_t i = 0; i < v->n_nodes; i++) {
    const struct dag_node *n = &v->nodes[i];
    add_needs(v, i, recompute_early, &n_edges);
    own->in_offset[i + 1] = n_edges;
    own->match[i] = is_kind(n->kind) && dag_is_receive(n) ? find_send(v, i) : -1;
  }
  v->in_offset = own->in_offset;
  v->edge_from = own->edge_from;
  v->match = own->match;
}

void step_view_init_rows(struct step_view *v, const struct node_row *rows, int64_t n_rows, double seconds,
                         bool recompute_early) {
  *v = (struct step_view){.n_nodes = (int32_t)n_rows, .rows = rows, .until = seconds};
  v->own = MEM_NEW(struct step_arrays, 1);
  copy_rows(v);
  list_streams(v);
  make_indices(v);
  measure(v);
  bool known = map_after(v);
  make_edges(v, recompute_early);
  if (!known) guess_after(v);
}

void step_view_fini(struct step_view *v) {
  struct step_arrays *own = v->own;
  if (!own) return;
  mem_free(own->nodes);
  mem_free(own->start);
  mem_free(own->end);
  mem_free(own->stream_offset);
  mem_free(own->stream_nodes);
  mem_free(own->after);
  mem_free(own->match);
  mem_free(own->edge_from);
  mem_free(own->in_offset);
  mem_free(own->find);
  mem_free(own->shared_offset);
  mem_free(own->shared);
  mem_free(own);
  v->own = NULL;
}
