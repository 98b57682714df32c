#include "report/report_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/plan.h"
#include "report/columns.h"

static bool is_pass(int8_t kind) { return kind == NODE_F || kind == NODE_B || kind == NODE_I || kind == NODE_W; }

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }
static double clamp(double x, double low, double high) { return most(low, least(x, high)); }

/* ---- the view ---- */

static int64_t *get_slot(const struct step_view *v, int kind, int32_t stage, int32_t micro) {
  if (kind < 0 || kind >= NODE_KIND_COUNT || stage < 0 || stage >= v->n_stages || micro < 0 || micro >= v->n_micro)
    return NULL;
  return &v->find[((int64_t)kind * v->n_stages + stage) * v->n_micro + micro];
}

static const struct node_row *find_row(const struct step_view *v, int kind, int32_t stage, int32_t micro) {
  const int64_t *slot = get_slot(v, kind, stage, micro);
  return slot && *slot >= 0 ? &v->rows[*slot] : NULL;
}

static void measure(struct step_view *v) {
  for (int64_t i = 0; i < v->n_rows; i++) {
    const struct node_row *row = &v->rows[i];
    if (row->rank >= v->n_ranks) v->n_ranks = row->rank + 1;
    if (row->stage >= v->n_stages) v->n_stages = row->stage + 1;
    if (row->microbatch >= v->n_micro) v->n_micro = row->microbatch + 1;
    v->end = most(v->end, row->end_s);
    if (is_pass(row->kind)) v->passes_end = most(v->passes_end, row->end_s);
    if (row->kind == NODE_RT || row->kind == NODE_ST) v->ties_end = most(v->ties_end, row->end_s);
    if (row->stream != STREAM_COMPUTE) continue;
    v->begin = least(v->begin, row->start_s);
    v->compute_end = most(v->compute_end, row->end_s);
  }
}

/* What find_ending goes through: qsort has no context, so the ends are sorted beside the rows' numbers. */
struct end {
  double end_s;
  int64_t row;
};

static int compare_ends(const void *left, const void *right) {
  const struct end *a = left, *b = right;
  if (a->end_s != b->end_s) return a->end_s < b->end_s ? -1 : 1;
  return (a->row < b->row) - (a->row > b->row);
}

static void sort_ends(struct step_view *v) {
  struct end *ends = MEM_NEW(struct end, v->n_rows);
  for (int64_t i = 0; i < v->n_rows; i++) ends[i] = (struct end){v->rows[i].end_s, i};
  for (int32_t r = 0; r < v->n_ranks; r++)
    qsort(ends + v->rank_offset[r], (size_t)(v->rank_offset[r + 1] - v->rank_offset[r]), sizeof *ends, compare_ends);
  v->by_end = MEM_NEW(int64_t, v->n_rows);
  for (int64_t i = 0; i < v->n_rows; i++) v->by_end[i] = ends[i].row;
  mem_free(ends);
}

void step_view_init(struct step_view *v, const struct node_row *rows, int64_t n_rows, double seconds) {
  *v = (struct step_view){.rows = rows, .n_rows = n_rows, .end = seconds};
  measure(v);
  int64_t n = (int64_t)NODE_KIND_COUNT * v->n_stages * v->n_micro;
  v->find = MEM_NEW(int64_t, n);
  v->rank_offset = MEM_NEW(int64_t, v->n_ranks + 1);
  for (int64_t i = 0; i < n; i++) v->find[i] = -1;
  for (int64_t i = 0; i < n_rows; i++) {
    int64_t *slot = get_slot(v, rows[i].kind, rows[i].stage, rows[i].microbatch);
    if (slot) *slot = i;
    v->rank_offset[rows[i].rank + 1]++;
  }
  for (int32_t r = 0; r < v->n_ranks; r++) v->rank_offset[r + 1] += v->rank_offset[r];
  sort_ends(v);
}

void step_view_fini(struct step_view *v) {
  mem_free(v->find);
  mem_free(v->rank_offset);
  mem_free(v->by_end);
}

/* ---- the idle time before a node ---- */

/* When what a node needs was made, when its message could move (both ends were ready), when it was there. -INFINITY:
 * always; is_norm: the gradient norm stood between, which is no delay. */
struct need {
  double made, moving, there;
  bool is_norm;
};

/* The pass of another stage that makes what a pass needs, and the message that brings it. */
static struct need find_pass_need(const struct step_view *v, const struct node_row *node) {
  struct need need = {-INFINITY, -INFINITY, -INFINITY, false};
  bool forward = node->kind == NODE_F;
  if (node->kind == NODE_W || (node->kind == NODE_R && v->recompute_early)) return need;
  int32_t from = node->stage + (forward ? -1 : 1);
  const struct node_row *maker = find_row(v, forward ? NODE_F : NODE_B, from, node->microbatch);
  if (!maker && !forward) maker = find_row(v, NODE_I, from, node->microbatch);
  const struct node_row *send = find_row(v, forward ? NODE_SF : NODE_SB, from, node->microbatch);
  const struct node_row *receive = find_row(v, forward ? NODE_RF : NODE_RB, node->stage, node->microbatch);
  if (maker) need.made = maker->end_s;
  if (send) need.moving = send->start_s;
  if (receive) {
    need.moving = most(need.moving, receive->start_s);
    need.there = receive->end_s;
  }
  return need;
}

/* The row of a kind on a rank that ends last within from..to. The gaps of a rank do not overlap, so that all its
 * searches together see each row a few times, however many passes a step has. */
static const struct node_row *find_ending(const struct step_view *v, int32_t rank, bool (*matches)(int8_t kind),
                                          double from, double to) {
  int64_t first = v->rank_offset[rank], low = first, high = v->rank_offset[rank + 1];
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (v->rows[v->by_end[middle]].end_s <= to)
      low = middle + 1;
    else
      high = middle;
  }
  for (int64_t i = low - 1; i >= first && v->rows[v->by_end[i]].end_s > from; i--)
    if (matches(v->rows[v->by_end[i]].kind)) return &v->rows[v->by_end[i]];
  return NULL;
}

static bool is_norm(int8_t kind) { return kind == NODE_N; }
static bool is_tie_receive(int8_t kind) { return kind == NODE_RT; }
static bool is_send(int8_t kind) { return kind == NODE_SF || kind == NODE_SB || kind == NODE_ST; }

static struct need find_update_need(const struct step_view *v, const struct node_row *node, double from) {
  const struct node_row *tie = find_ending(v, node->rank, is_tie_receive, from, node->start_s);
  const struct node_row *other = NULL;
  for (int64_t i = 0; tie && i < v->n_rows; i++)
    if (v->rows[i].kind == NODE_ST && v->rows[i].rank != node->rank) other = &v->rows[i];
  struct need need = {-INFINITY, -INFINITY, -INFINITY, false};
  if (find_ending(v, node->rank, is_norm, from, node->start_s)) {
    need = (struct need){v->passes_end, -INFINITY, most(v->passes_end, v->ties_end), true};
  } else if (tie) {
    need = (struct need){other ? other->start_s : -INFINITY, -INFINITY, tie->end_s, false};
  }
  return need;
}

/* ---- sums ---- */

static void note_late(struct report *report, const struct step_view *v, const struct node_row *node,
                      enum report_cause cause, double seconds) {
  double step = v->end - v->begin;
  if (seconds < 0.01 * step || seconds < 1e-4) return;
  struct report_late late = {.step = node->step,
                             .rank = node->rank,
                             .stage = node->stage,
                             .micro = node->microbatch,
                             .layer = node->layer,
                             .kind = (uint8_t)node->kind,
                             .cause = cause,
                             .seconds = seconds};
  int64_t filled = report->n_late < REPORT_WORST ? report->n_late : REPORT_WORST, at = filled;
  report->n_late++;
  while (at > 0 && report->worst[at - 1].seconds < seconds) at--;
  for (int64_t i = filled < REPORT_WORST ? filled : REPORT_WORST - 1; i > at; i--)
    report->worst[i] = report->worst[i - 1];
  if (at < REPORT_WORST) report->worst[at] = late;
}

/* A step of a block's way that gives memory to what comes next on its rank. */
static bool is_leaving(int8_t kind) { return kind == NODE_EV || kind == NODE_ES || kind == NODE_LS || kind == NODE_SW; }

/* The block that a pass waited for from `there` on: its own that came back, or another that left. NULL: none. *begin:
 * since when that was under way. */
static const struct node_row *find_block(const struct step_view *v, const struct node_row *node, double there,
                                         double *begin) {
  const struct node_row *leaving = find_ending(v, node->rank, is_leaving, there, node->start_s);
  const struct node_row *back = find_row(v, NODE_LD, node->stage, node->microbatch);
  const struct node_row *send = find_row(v, NODE_LS, node->stage, node->microbatch);
  if (!back) back = find_row(v, NODE_LR, node->stage, node->microbatch);
  bool waits = back && back->end_s > there && back->end_s <= node->start_s;
  const struct node_row *last = waits && (!leaving || back->end_s > leaving->end_s) ? back : leaving;
  if (last) *begin = last->kind == NODE_LR && send ? send->start_s : last->start_s;
  return last;
}

/* Cuts the idle time from..node->start_s. */
static void add_gap(const struct step_view *v, struct report *report, struct report_rank *sum, double from,
                    const struct node_row *node) {
  struct need need = node->kind == NODE_U ? find_update_need(v, node, from) : find_pass_need(v, node);
  double made = clamp(need.made, from, node->start_s), there = clamp(need.there, made, node->start_s), free = there;
  const struct node_row *send = find_ending(v, node->rank, is_send, there, node->start_s);
  if (send && !need.is_norm) free = send->end_s;
  double begin = 0, gone = free;
  const struct node_row *block = need.is_norm ? NULL : find_block(v, node, free, &begin);
  if (block) {
    free = there; /* a send of this rank that ended before the block did held nothing up, as the simulator has it */
    gone = clamp(block->end_s, free, node->start_s);
    double exposed = block->end_s - clamp(begin, from, block->end_s);
    sum->block_exposed += exposed;
    if (block->stage >= 0) report->stages[block->stage].exposed += exposed;
  }
  sum->bubble += made - from;
  sum->wait += free - made;
  sum->offload += gone - free;
  sum->other += node->start_s - gone;
  if (need.is_norm) return;
  note_late(report, v, node, block ? REPORT_BLOCK : send ? REPORT_SEND : REPORT_START, node->start_s - there);
  note_late(report, v, node, REPORT_MESSAGE, clamp(need.moving, made, there) - made);
}

/* A block on its way; the end that receives it from another rank counts nothing, as it waits. */
static void add_block(const struct node_row *node, struct report_rank *sum, struct report_stage *stages) {
  bool leaves = node->kind == NODE_ES || node->kind == NODE_EV;
  if (node->stream < STREAM_COPY_OUT || node->kind < 0 || node->kind >= NODE_KIND_COUNT) return;
  if (node_kind_get_end((enum node_kind)node->kind) == NODE_IS_RECEIVE) return;
  sum->blocks += leaves;
  sum->block_bytes += leaves ? (double)node->bytes : 0;
  sum->block_seconds += node->end_s - node->start_s;
  if (node->stage < 0) return;
  struct report_stage *stage = &stages[node->stage];
  if (leaves) stage->rank = node->rank;
  stage->blocks += leaves;
  stage->bytes += leaves ? (double)node->bytes : 0;
  stage->seconds += node->end_s - node->start_s;
}

/* The sums are complete: every instant of begin..end goes to exactly one part. */
static void add_rank(const struct step_view *v, struct report *report, int32_t rank) {
  struct report_rank *sum = &report->ranks[rank];
  double now = v->begin;
  for (int64_t i = v->rank_offset[rank]; i < v->rank_offset[rank + 1]; i++) {
    const struct node_row *node = &v->rows[i];
    add_block(node, sum, report->stages);
    if (node->stream != STREAM_COMPUTE) continue;
    if (node->start_s > now) {
      add_gap(v, report, sum, now, node);
      now = node->start_s;
    }
    if (node->end_s > now) {
      sum->busy += node->end_s - now;
      if (node->kind >= 0 && node->kind < NODE_KIND_COUNT) sum->kinds[node->kind] += node->end_s - now;
      now = node->end_s;
    }
  }
  double made = clamp(v->compute_end, now, v->end);
  sum->bubble += made - now;
  sum->other += v->end - made;
}

/* One step may have more stages than those before it. */
static void make_room(const struct step_view *v, struct report *report) {
  if (v->n_stages <= report->n_stages) return;
  report->stages = mem_resize(report->stages, sizeof *report->stages * (size_t)v->n_stages);
  for (int32_t s = report->n_stages; s < v->n_stages; s++) report->stages[s] = (struct report_stage){.rank = -1};
  report->n_stages = v->n_stages;
}

void step_view_add(const struct step_view *v, struct report *report) {
  make_room(v, report);
  for (int32_t rank = 0; rank < v->n_ranks; rank++) add_rank(v, report, rank);
}

/* ---- the picture ---- */

/* A class is a kind; of passes of a rank's odd chunks (its second stage, its fourth ...) the kind in lower case. */
static int find_class(const struct node_row *node, const int32_t *chunks) {
  bool odd = node->stage >= 0 && chunks[node->stage] % 2 == 1;
  return node->kind + (odd ? NODE_KIND_COUNT : 0);
}

static char get_letter(int class) {
  if (class < 0) return '.';
  char letter = node_kind_get_name((enum node_kind)(class % NODE_KIND_COUNT))[0];
  return class < NODE_KIND_COUNT ? letter : (char)(letter - 'A' + 'a');
}

char *step_view_draw(const struct step_view *v) {
  char *picture = mem_alloc((size_t)v->n_ranks * (REPORT_PICTURE_COLUMNS + 1) + 1);
  int32_t n_stages, n_chunks, *chunks = columns_find_chunks(v->rows, v->n_rows, &n_stages, &n_chunks);
  int chosen[REPORT_PICTURE_COLUMNS];
  struct columns columns;
  columns_init(&columns, REPORT_PICTURE_COLUMNS, 2 * NODE_KIND_COUNT, v->begin, v->end);
  for (int32_t rank = 0; rank < v->n_ranks; rank++) {
    char *line = picture + (size_t)rank * (REPORT_PICTURE_COLUMNS + 1);
    columns_clear(&columns);
    for (int64_t i = v->rank_offset[rank]; i < v->rank_offset[rank + 1]; i++) {
      const struct node_row *node = &v->rows[i];
      if (node->stream == STREAM_COMPUTE && node->kind >= 0 && node->kind < NODE_KIND_COUNT)
        columns_add(&columns, node->start_s, node->end_s, find_class(node, chunks));
    }
    columns_choose(&columns, chosen);
    for (int c = 0; c < REPORT_PICTURE_COLUMNS; c++) line[c] = get_letter(chosen[c]);
  }
  columns_fini(&columns);
  mem_free(chunks);
  return picture;
}
