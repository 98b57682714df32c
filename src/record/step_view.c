#include "record/step_view.h"

#include "base/mem.h"

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

static bool is_kind(int kind) { return kind >= 0 && kind < NODE_KIND_COUNT; }

static bool is_pass(int kind) { return kind == NODE_F || kind == NODE_B || kind == NODE_I || kind == NODE_W; }

/* ---- indices ---- */

static int64_t *get_slot(const struct step_view *v, int kind, int32_t stage, int32_t micro) {
  if (!is_kind(kind) || stage < 0 || stage >= v->n_stages || micro < 0 || micro >= v->n_micro) return NULL;
  return &v->find[((int64_t)kind * v->n_stages + stage) * v->n_micro + micro];
}

/* The row of a kind, stage and micro-batch, of this rank (-1: any). */
static int64_t find_row(const struct step_view *v, int kind, int32_t rank, int32_t stage, int32_t micro) {
  const int64_t *slot = get_slot(v, kind, stage, micro);
  if (!slot || *slot < 0) return -1;
  return rank < 0 || v->rows[*slot].rank == rank ? *slot : -1;
}

/* Of a rank's rows of a kind that are of no micro-batch, the one that ends last; of a layer, if it has one and this is
 * not -1. */
static int64_t find_shared(const struct step_view *v, int kind, int32_t rank, int32_t layer) {
  int64_t last = -1;
  if (rank < 0 || rank >= v->n_ranks) return -1;
  for (int64_t k = v->shared_offset[rank]; k < v->shared_offset[rank + 1]; k++) {
    const struct node_row *row = &v->rows[v->shared[k]];
    if (row->kind != kind || (layer >= 0 && row->layer >= 0 && row->layer != layer)) continue;
    if (last < 0 || row->end_s >= v->rows[last].end_s) last = v->shared[k];
  }
  return last;
}

static bool is_shared(const struct node_row *row) { return row->microbatch < 0 && row->stream != STREAM_COMPUTE; }

static void measure(struct step_view *v) {
  for (int64_t i = 0; i < v->n_rows; i++) {
    const struct node_row *row = &v->rows[i];
    if (row->rank >= v->n_ranks) v->n_ranks = row->rank + 1;
    if (row->stage >= v->n_stages) v->n_stages = row->stage + 1;
    if (row->microbatch >= v->n_micro) v->n_micro = row->microbatch + 1;
    v->end = most(v->end, row->end_s);
    if (is_pass(row->kind)) v->passes_end = most(v->passes_end, row->end_s);
    if (is_kind(row->kind) && node_kind_get_message((enum node_kind)row->kind) == MESSAGE_TIE)
      v->ties_end = most(v->ties_end, row->end_s);
    if (row->stream != STREAM_COMPUTE) continue;
    v->begin = least(v->begin, row->start_s);
    v->compute_end = most(v->compute_end, row->end_s);
  }
}

/* n[k] becomes the sum of those up to k. */
static void add_up(int64_t *n, int32_t count) {
  for (int32_t k = 0; k < count; k++) n[k + 1] += n[k];
}

static void make_indices(struct step_view *v) {
  int64_t n = (int64_t)NODE_KIND_COUNT * v->n_stages * v->n_micro, n_shared = 0;
  v->find = MEM_NEW(int64_t, n);
  v->rank_offset = MEM_NEW(int64_t, v->n_ranks + 1);
  v->shared_offset = MEM_NEW(int64_t, v->n_ranks + 1);
  for (int64_t i = 0; i < n; i++) v->find[i] = -1;
  for (int64_t i = 0; i < v->n_rows; i++) {
    const struct node_row *row = &v->rows[i];
    int64_t *slot = get_slot(v, row->kind, row->stage, row->microbatch);
    if (slot) *slot = i;
    v->rank_offset[row->rank + 1]++;
    v->shared_offset[row->rank + 1] += is_shared(row);
  }
  add_up(v->rank_offset, v->n_ranks);
  add_up(v->shared_offset, v->n_ranks);
  v->shared = MEM_NEW(int64_t, v->shared_offset[v->n_ranks]);
  for (int64_t i = 0; i < v->n_rows; i++)
    if (is_shared(&v->rows[i])) v->shared[n_shared++] = i;
}

/* ---- what came before ---- */

/* From numbers of nodes to rows; false when no row knows any. */
static bool map_after(struct step_view *v) {
  int64_t n_nodes = 0;
  bool known = false;
  for (int64_t i = 0; i < v->n_rows; i++) n_nodes = v->rows[i].node >= n_nodes ? (int64_t)v->rows[i].node + 1 : n_nodes;
  int64_t *row_of = MEM_NEW(int64_t, n_nodes);
  for (int64_t k = 0; k < n_nodes; k++) row_of[k] = -1;
  for (int64_t i = 0; i < v->n_rows; i++)
    if (v->rows[i].node >= 0) row_of[v->rows[i].node] = i;
  for (int64_t i = 0; i < v->n_rows; i++) {
    int32_t after = v->rows[i].after;
    v->after[i] = after >= 0 && after < n_nodes ? row_of[after] : -1;
    known |= v->after[i] >= 0;
  }
  mem_free(row_of);
  return known;
}

static void guess_after(struct step_view *v) {
  for (int64_t i = 0; i < v->n_rows; i++)
    if (v->rows[i].stream == STREAM_COMPUTE) v->after[i] = step_view_find_need(v, i, STREAM_COUNT);
}

void step_view_init(struct step_view *v, const struct node_row *rows, int64_t n_rows, double seconds,
                    bool recompute_early) {
  *v = (struct step_view){.rows = rows, .n_rows = n_rows, .end = seconds, .recompute_early = recompute_early};
  measure(v);
  make_indices(v);
  v->after = MEM_NEW(int64_t, n_rows);
  if (!map_after(v)) guess_after(v);
}

void step_view_fini(struct step_view *v) {
  mem_free(v->rank_offset);
  mem_free(v->after);
  mem_free(v->find);
  mem_free(v->shared);
  mem_free(v->shared_offset);
}

/* ---- what a row needs ---- */

int64_t step_view_find_send(const struct step_view *v, int64_t receive) {
  const struct node_row *row = &v->rows[receive];
  enum node_message message = node_kind_get_message((enum node_kind)row->kind);
  enum node_kind kind = node_message_get_send(message);
  int64_t after = v->after[receive];
  if (after >= 0 && v->rows[after].kind == (int8_t)kind && v->rows[after].rank != row->rank) return after;
  if (row->microbatch < 0) return find_shared(v, kind, row->peer, -1);
  return find_row(v, kind, row->peer, row->stage - node_message_get_stage_step(message), row->microbatch);
}

/* Of these kinds, of a row's rank, stage and micro-batch, on streams before `streams`, the row that ends last of those
 * that have ended when the row starts. */
static int64_t find_last_of(const struct step_view *v, uint32_t kinds, const struct node_row *row,
                            enum stream streams) {
  int64_t last = -1;
  for (int kind = 0; kind < NODE_KIND_COUNT; kind++) {
    if (!(kinds >> kind & 1) || node_kind_get_stream((enum node_kind)kind) >= streams) continue;
    int64_t i = row->microbatch < 0 ? find_shared(v, kind, row->rank, row->layer)
                                    : find_row(v, kind, row->rank, row->stage, row->microbatch);
    if (i < 0 || v->rows[i].end_s > row->start_s) continue;
    if (last < 0 || v->rows[i].end_s > v->rows[last].end_s) last = i;
  }
  return last;
}

/* Of no micro-batch, so it comes after all: the stage's last pass of these kinds. */
static int64_t find_last_pass(const struct step_view *v, uint32_t kinds, const struct node_row *row) {
  for (int64_t i = v->rank_offset[row->rank + 1] - 1; i >= v->rank_offset[row->rank]; i--) {
    const struct node_row *pass = &v->rows[i];
    if (pass->stream == STREAM_COMPUTE && pass->stage == row->stage && is_kind(pass->kind) && kinds >> pass->kind & 1)
      return i;
  }
  return -1;
}

int64_t step_view_find_maker(const struct step_view *v, int64_t send) {
  const struct node_row *row = &v->rows[send];
  uint32_t kinds = node_kind_get_needs((enum node_kind)row->kind);
  if (row->microbatch < 0) return find_last_pass(v, kinds, row);
  return find_last_of(v, kinds, row, STREAM_COMPUTE + 1);
}

int64_t step_view_find_need(const struct step_view *v, int64_t i, enum stream streams) {
  const struct node_row *row = &v->rows[i];
  if (!is_kind(row->kind)) return -1;
  uint32_t kinds = node_kind_get_needs((enum node_kind)row->kind);
  if (row->kind == NODE_R && v->recompute_early) kinds &= ~(UINT32_C(1) << NODE_RB);
  return find_last_of(v, kinds, row, streams);
}
