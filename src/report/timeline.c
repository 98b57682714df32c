#include "report/timeline.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/plan.h"
#include "record/step_path.h"
#include "report/columns.h"
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

/* Step, critical path, parts of each rank, memory. */
static void measure(struct timeline *t, double seconds, const struct timeline_memory *memory) {
  struct step_view view;
  struct report sums = {.n_ranks = t->n_ranks};
  t->ranks = sums.ranks = MEM_NEW(struct report_rank, t->n_ranks);
  t->bytes_static = MEM_NEW(int64_t, t->n_ranks);
  step_view_init_rows(&view, t->rows, t->n_rows, seconds, false);
  report_step_add(&view, &sums);
  mem_free(sums.stages);
  t->on_path = MEM_NEW(bool, t->n_rows);
  struct step_path path = step_path_find(&view, t->on_path);
  step_path_fini(&path);
  t->begin_s = view.begin;
  t->end_s = view.until;
  step_view_fini(&view);
  for (int32_t r = 0; r < t->n_ranks; r++) {
    bool known = r < memory->n_ranks;
    t->ranks[r].rank = r;
    t->ranks[r].limit_bytes = known && memory->limit_bytes ? memory->limit_bytes[r] : INT64_MAX;
    t->bytes_static[r] = known && memory->bytes_static ? memory->bytes_static[r] : 0;
    t->ranks[r].peak_bytes = t->bytes_static[r];
  }
}

/* ---- what is drawn ---- */

/* Calls `see` with each compute node of a rank and the device bytes in use during and after it. */
static void walk_levels(struct timeline *t, int32_t rank,
                        void (*see)(struct timeline *t, int64_t row, int64_t during, int64_t after)) {
  int64_t in_use = t->bytes_static[rank];
  for (int64_t i = t->row_offset[rank]; i < t->row_offset[rank + 1]; i++) {
    const struct node_row *node = &t->rows[i];
    if (node->stream != STREAM_COMPUTE) continue;
    in_use += node->device_alloc;
    see(t, i, in_use, in_use - node->device_free);
    in_use -= node->device_free;
  }
}

static void see_peak(struct timeline *t, int64_t row, int64_t during, int64_t after) {
  struct report_rank *rank = &t->ranks[t->rows[row].rank];
  (void)after;
  if (during > rank->peak_bytes) rank->peak_bytes = during;
}

static void see_bar(struct timeline *t, int64_t row, int64_t during, int64_t after) {
  const struct node_row *node = &t->rows[row];
  t->bars[t->n_bars++] = (struct timeline_bar){.row = row,
                                               .start_s = node->start_s,
                                               .end_s = node->end_s,
                                               .bytes_in_use = during,
                                               .bytes_after = after,
                                               .on_path = t->on_path[row]};
}

static void raise_level(struct timeline *t, int32_t rank, double from, double to, int64_t bytes) {
  double width = (t->end_s - t->begin_s) / t->n_columns;
  int last = width > 0 ? (int)fmin((to - t->begin_s) / width, t->n_columns - 1) : 0;
  for (int c = width > 0 ? (int)fmax((from - t->begin_s) / width, 0) : 0; c <= last; c++) {
    int64_t *level = &t->levels[(int64_t)rank * t->n_columns + c];
    if (bytes > *level) *level = bytes;
  }
}

static void see_level(struct timeline *t, int64_t row, int64_t during, int64_t after) {
  const struct node_row *node = &t->rows[row];
  bool has_next = row + 1 < t->row_offset[node->rank + 1] && t->rows[row + 1].stream == STREAM_COMPUTE;
  raise_level(t, node->rank, node->start_s, node->end_s, during);
  raise_level(t, node->rank, node->end_s, has_next ? t->rows[row + 1].start_s : t->end_s, after);
}

static void add_bars(struct timeline *t) {
  t->bars = MEM_NEW(struct timeline_bar, t->row_offset[t->n_drawn]);
  t->bar_offset = MEM_NEW(int64_t, t->n_drawn + 1);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    walk_levels(t, r, see_bar);
    for (int64_t i = t->row_offset[r]; i < t->row_offset[r + 1]; i++)
      if (t->rows[i].stream != STREAM_COMPUTE) see_bar(t, i, 0, 0);
    t->bar_offset[r + 1] = t->n_bars;
  }
}

static void add_columns(struct timeline *t) {
  int64_t n_compute = 0;
  for (int64_t i = 0; i < t->row_offset[t->n_drawn]; i++) n_compute += t->rows[i].stream == STREAM_COMPUTE;
  double n = fmin((double)n_compute / t->n_drawn / TIMELINE_COLUMN_PASSES, TIMELINE_MOST_COLUMNS);
  t->n_columns = (int)fmin(fmax(n, TIMELINE_LEAST_COLUMNS), (double)TIMELINE_MOST_CELLS / t->n_drawn);
  t->levels = MEM_NEW(int64_t, (int64_t)t->n_drawn * t->n_columns);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    raise_level(t, r, t->begin_s, t->end_s, t->bytes_static[r]);
    walk_levels(t, r, see_level);
  }
}

static void draw(struct timeline *t) {
  t->row_offset = MEM_NEW(int64_t, t->n_ranks + 1);
  for (int64_t i = 0; i < t->n_rows; i++) t->row_offset[t->rows[i].rank + 1]++;
  for (int32_t r = 0; r < t->n_ranks; r++) t->row_offset[r + 1] += t->row_offset[r];
  t->chunks = columns_find_chunks(t->rows, t->n_rows, &t->n_stages, &t->n_chunks);
  t->n_drawn = t->n_ranks < TIMELINE_MOST_RANKS ? t->n_ranks : TIMELINE_MOST_RANKS;
  for (int32_t r = 0; r < t->n_ranks; r++) walk_levels(t, r, see_peak);
  if (t->row_offset[t->n_drawn] <= TIMELINE_MOST_BARS)
    add_bars(t);
  else
    add_columns(t);
}

int timeline_get_shade(const struct timeline *t, const struct node_row *row) {
  bool pass =
      row->kind == NODE_F || row->kind == NODE_R || row->kind == NODE_B || row->kind == NODE_I || row->kind == NODE_W;
  if (!pass || row->stage < 0 || t->n_chunks < 2) return 0;
  return t->chunks[row->stage] * (TIMELINE_SHADES - 1) / (t->n_chunks - 1);
}

void timeline_fill_columns(const struct timeline *t, int32_t rank, struct columns *columns) {
  columns_clear(columns);
  for (int64_t i = t->row_offset[rank]; i < t->row_offset[rank + 1]; i++) {
    const struct node_row *row = &t->rows[i];
    if (row->stream == STREAM_COMPUTE)
      columns_add(columns, row->start_s, row->end_s, row->kind * TIMELINE_SHADES + timeline_get_shade(t, row));
  }
}

int timeline_init(struct timeline *t, const char *title, int64_t step, double seconds, struct node_row *rows,
                  int64_t n_rows, const struct timeline_memory *memory) {
  *t = (struct timeline){.title = title, .step = step, .rows = rows};
  int status = keep_rows(t, n_rows);
  if (!status && t->n_rows > 0) {
    measure(t, seconds, memory);
    draw(t);
  }
  if (status) timeline_fini(t);
  return status;
}

static bool is_pass(const struct node_row *row) {
  return row->kind == NODE_F || row->kind == NODE_R || row->kind == NODE_B || row->kind == NODE_I ||
         row->kind == NODE_W;
}

/* Returns the first pass among the rows from i to before end, in the order of their start; end where there is none. */
static int64_t find_pass(const struct timeline *t, int64_t i, int64_t end) {
  while (i < end && !is_pass(&t->rows[i])) i++;
  return i;
}

static bool has_same_passes(const struct timeline *a, const struct timeline *b, int32_t rank) {
  int64_t i = a->row_offset[rank], j = b->row_offset[rank];
  for (;; i++, j++) {
    i = find_pass(a, i, a->row_offset[rank + 1]);
    j = find_pass(b, j, b->row_offset[rank + 1]);
    bool ends = i == a->row_offset[rank + 1];
    if (ends || j == b->row_offset[rank + 1]) return ends && j == b->row_offset[rank + 1];
    const struct node_row *left = &a->rows[i], *right = &b->rows[j];
    if (left->kind != right->kind || left->stage != right->stage || left->microbatch != right->microbatch) return false;
  }
}

bool timeline_is_of_plan(const struct timeline *measured, const struct timeline *predicted) {
  if (measured->n_ranks != predicted->n_ranks && measured->n_ranks != 1) return false;
  for (int32_t r = 0; r < measured->n_ranks; r++)
    if (!has_same_passes(measured, predicted, r)) return false;
  return true;
}

void timeline_fini(struct timeline *t) {
  mem_free(t->rows);
  mem_free(t->on_path);
  mem_free(t->bars);
  mem_free(t->bar_offset);
  mem_free(t->row_offset);
  mem_free(t->chunks);
  mem_free(t->levels);
  mem_free(t->ranks);
  mem_free(t->bytes_static);
  *t = (struct timeline){0};
}
