/* The critical path in a timeline: from the pass that ends last, back to what ended last of all that it may have waited for.
 * Rows tell nothing of edges, so what a row waits for is found by what it is; of messages that wait for their receiver,
 * and of blocks that move, only the order of their stream is known.
 */
#include "report/timeline.h"

#include <stdlib.h>

#include "base/mem.h"
#include "plan/plan.h"

/* What a kind waits for beside its stream: of the same micro-batch, on its own rank or on its peer, `step` stages on. */
static const struct {
  uint8_t kind, before;
  int8_t step;
  bool on_peer;
} waits[] = {{NODE_F, NODE_F, -1, false}, {NODE_F, NODE_RF, 0, false},  {NODE_R, NODE_RB, 0, false},
             {NODE_B, NODE_B, 1, false},  {NODE_B, NODE_RB, 0, false},  {NODE_I, NODE_I, 1, false},
             {NODE_I, NODE_RB, 0, false}, {NODE_SF, NODE_F, 0, false},  {NODE_SB, NODE_B, 0, false},
             {NODE_SB, NODE_I, 0, false}, {NODE_RF, NODE_SF, -1, true}, {NODE_RB, NODE_SB, 1, true}};

/* Rows by rank, kind, stage and micro-batch. */
static int compare_places(const struct node_row *a, const struct node_row *b) {
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
  return (a->microbatch > b->microbatch) - (a->microbatch < b->microbatch);
}

static int compare_rows(const void *left, const void *right) {
  return compare_places(*(const struct node_row *const *)left, *(const struct node_row *const *)right);
}

struct finder {
  const struct timeline *t;
  const struct node_row **sorted; /* [n_rows] */
};

static int64_t find_row(const struct finder *f, int32_t rank, int kind, int32_t stage, int32_t micro) {
  struct node_row wanted = {.rank = rank, .kind = (int8_t)kind, .stage = stage, .microbatch = micro};
  const struct node_row *key = &wanted;
  const struct node_row **found = bsearch(&key, f->sorted, (size_t)f->t->n_rows, sizeof *f->sorted, compare_rows);
  return found ? *found - f->t->rows : -1;
}

/* The row that ends last of those that `at` may have waited for, -1: none. */
static int64_t find_before(const struct finder *f, int64_t at) {
  const struct timeline *t = f->t;
  const struct node_row *row = &t->rows[at];
  bool follows = at > 0 && t->rows[at - 1].rank == row->rank && t->rows[at - 1].stream == row->stream;
  int64_t best = follows ? at - 1 : -1;
  for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
    if (waits[k].kind != row->kind) continue;
    int32_t rank = waits[k].on_peer ? row->peer : row->rank;
    int64_t before = find_row(f, rank, waits[k].before, row->stage + waits[k].step, row->microbatch);
    if (before >= 0 && !t->on_path[before] && (best < 0 || t->rows[before].end_s >= t->rows[best].end_s)) best = before;
  }
  return best;
}

void timeline_mark_path(struct timeline *t) {
  struct finder f = {t, MEM_NEW(const struct node_row *, t->n_rows)};
  int64_t at = -1;
  t->on_path = MEM_NEW(bool, t->n_rows);
  for (int64_t i = 0; i < t->n_rows; i++) {
    f.sorted[i] = &t->rows[i];
    if (t->rows[i].stream == STREAM_COMPUTE && (at < 0 || t->rows[i].end_s > t->rows[at].end_s)) at = i;
  }
  qsort(f.sorted, (size_t)t->n_rows, sizeof *f.sorted, compare_rows);
  while (at >= 0 && !t->on_path[at]) {
    t->on_path[at] = true;
    at = find_before(&f, at);
  }
  mem_free(f.sorted);
}
