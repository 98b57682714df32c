#include "report/timeline.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/plan.h"
#include "report/report_step.h"

enum { MOST_RANKS = 1 << 20 };

static int compare_rows(const void *left, const void *right) {
  const struct node_row *a = left, *b = right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
  if (a->start_s != b->start_s) return a->start_s < b->start_s ? -1 : 1;
  return (a->position > b->position) - (a->position < b->position);
}

/* Rows whose times are known, in order. */
static int keep_rows(struct timeline *t, int64_t n_rows) {
  for (int64_t i = 0; i < n_rows; i++) {
    struct node_row *row = &t->rows[i];
    if (row->rank < 0 || row->rank >= MOST_RANKS || row->kind < 0 || row->kind >= NODE_KIND_COUNT || row->stream < 0 ||
        row->stream >= STREAM_COUNT)
      return error_raise(STATUS_FAILED, "a damaged row of /nodes: node %d, rank %d, stream %d, kind %d", (int)row->node,
                         (int)row->rank, row->stream, row->kind);
    if (row->rank >= t->n_ranks) t->n_ranks = row->rank + 1;
    if (isfinite(row->start_s) && isfinite(row->end_s)) t->rows[t->n_rows++] = *row;
  }
  if (t->n_rows) qsort(t->rows, (size_t)t->n_rows, sizeof *t->rows, compare_rows);
  return STATUS_OK;
}

/* Step, parts of each rank, memory. */
static void measure(struct timeline *t, double seconds, const struct timeline_memory *memory) {
  struct step_view view;
  struct report sums = {.n_ranks = t->n_ranks};
  t->ranks = sums.ranks = MEM_NEW(struct report_rank, t->n_ranks);
  t->bytes_static = MEM_NEW(int64_t, t->n_ranks);
  step_view_init(&view, t->rows, t->n_rows, seconds);
  step_view_add(&view, &sums);
  mem_free(sums.stages);
  t->begin_s = view.begin;
  t->end_s = view.end;
  step_view_fini(&view);
  for (int32_t r = 0; r < t->n_ranks; r++) {
    bool known = r < memory->n_ranks;
    t->ranks[r].rank = r;
    t->ranks[r].limit_bytes = known && memory->limit_bytes ? memory->limit_bytes[r] : INT64_MAX;
    t->bytes_static[r] = known && memory->bytes_static ? memory->bytes_static[r] : 0;
    t->ranks[r].peak_bytes = t->bytes_static[r];
  }
}

/* ---- bars ---- */

static void start_bar(struct timeline *t, int64_t row) {
  const struct node_row *node = &t->rows[row];
  t->bars[t->n_bars++] = (struct timeline_bar){
      .row = row, .count = 1, .start_s = node->start_s, .end_s = node->end_s, .on_path = t->on_path[row]};
}

static double get_length(const struct node_row *node) { return node->end_s - node->start_s; }

/* Adds a compute node to the last bar. */
static void join_bar(struct timeline *t, int64_t row) {
  struct timeline_bar *bar = &t->bars[t->n_bars - 1];
  if (get_length(&t->rows[row]) > get_length(&t->rows[bar->row])) bar->row = row;
  if (t->rows[row].end_s > bar->end_s) bar->end_s = t->rows[row].end_s;
  bar->on_path |= t->on_path[row];
  bar->count++;
  t->merged = true;
}

/* The compute bars of a rank, none but the last shorter than `least` together with the one after it. */
static void add_compute(struct timeline *t, int64_t first, int64_t end, double least) {
  int32_t rank = t->rows[first].rank;
  int64_t in_use = t->bytes_static[rank], begin = t->n_bars;
  for (int64_t i = first; i < end; i++) {
    const struct node_row *node = &t->rows[i];
    if (node->stream != STREAM_COMPUTE) continue;
    if (t->n_bars > begin && node->end_s - t->bars[t->n_bars - 1].start_s < least)
      join_bar(t, i);
    else
      start_bar(t, i);
    struct timeline_bar *bar = &t->bars[t->n_bars - 1];
    in_use += node->device_alloc;
    if (in_use > bar->bytes_in_use) bar->bytes_in_use = in_use;
    if (in_use > t->ranks[rank].peak_bytes) t->ranks[rank].peak_bytes = in_use;
    bar->bytes_after = in_use -= node->device_free;
  }
}

static void add_bars(struct timeline *t) {
  int64_t n_compute = 0, n_drawn_rows = 0;
  t->n_drawn = t->n_ranks < TIMELINE_MOST_RANKS ? t->n_ranks : TIMELINE_MOST_RANKS;
  for (; n_drawn_rows < t->n_rows && t->rows[n_drawn_rows].rank < t->n_drawn; n_drawn_rows++)
    n_compute += t->rows[n_drawn_rows].stream == STREAM_COMPUTE;
  /* Two neighbours span `least`, so that a rank has at most its share of the bars. */
  double least = 0;
  if (n_compute > TIMELINE_MOST_BARS) least = 2 * (t->end_s - t->begin_s) * t->n_drawn / TIMELINE_MOST_BARS;
  t->has_messages = n_drawn_rows <= TIMELINE_MOST_BARS;
  t->bars = MEM_NEW(struct timeline_bar, t->has_messages ? n_drawn_rows : n_compute);
  t->bar_offset = MEM_NEW(int64_t, t->n_drawn + 1);
  for (int64_t first = 0, end = 0; first < n_drawn_rows; first = end) {
    int32_t rank = t->rows[first].rank;
    while (end < n_drawn_rows && t->rows[end].rank == rank) end++;
    add_compute(t, first, end, least);
    for (int64_t i = first; i < end && t->has_messages; i++)
      if (t->rows[i].stream != STREAM_COMPUTE) start_bar(t, i);
    t->bar_offset[rank + 1] = t->n_bars;
  }
  /* A rank without rows has no bars. */
  for (int32_t r = 0; r < t->n_drawn; r++)
    if (t->bar_offset[r + 1] < t->bar_offset[r]) t->bar_offset[r + 1] = t->bar_offset[r];
}

int timeline_init(struct timeline *t, const char *title, int64_t step, double seconds, struct node_row *rows,
                  int64_t n_rows, const struct timeline_memory *memory) {
  *t = (struct timeline){.title = title, .step = step, .rows = rows};
  int status = keep_rows(t, n_rows);
  if (!status && t->n_rows > 0) {
    measure(t, seconds, memory);
    timeline_mark_path(t);
    add_bars(t);
  }
  if (status) timeline_fini(t);
  return status;
}

void timeline_fini(struct timeline *t) {
  mem_free(t->rows);
  mem_free(t->on_path);
  mem_free(t->bars);
  mem_free(t->bar_offset);
  mem_free(t->ranks);
  mem_free(t->bytes_static);
  *t = (struct timeline){0};
}
