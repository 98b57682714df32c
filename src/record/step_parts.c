#include "record/step_parts.h"

#include <stddef.h>

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }
static double clamp(double x, double low, double high) { return most(low, least(x, high)); }

/* A walk over one rank's compute nodes. */
struct walk {
  const struct step_view *view;
  struct step_rank *rank;
  struct step_stage *stages;
  enum idle_place place; /* of the idle time before the next compute node */
  double now;            /* until which all time has its part */
};

/* ---- the idle time before a node ---- */

/* When what a receive brings was made: the end of the pass that made it, at the latest when the message left. */
static double find_made(const struct step_view *v, int64_t receive, double *moving) {
  int64_t send = step_view_find_send(v, receive), maker = send < 0 ? -1 : step_view_find_maker(v, send);
  *moving = v->rows[receive].start_s;
  if (send < 0) return v->begin;
  *moving = most(*moving, v->rows[send].start_s);
  return maker < 0 ? v->rows[send].start_s : v->rows[maker].end_s;
}

static void cut_receive(struct walk *w, int64_t receive, double until, struct step_gap *gap) {
  double *idle = w->rank->idle[w->place], moving;
  double made = find_made(w->view, receive, &moving), there = clamp(w->view->rows[receive].end_s, gap->from, until);
  gap->made = clamp(made, gap->from, there);
  gap->moving = clamp(moving, gap->made, there);
  gap->there = there;
  double message = there - gap->made;
  idle[IDLE_MESSAGE] += message;
  idle[IDLE_DATA] += there - gap->from - message;
  idle[IDLE_OTHER] += until - there;
}

static void cut_norm(struct walk *w, double until, struct step_gap *gap) {
  double *idle = w->rank->idle[w->place == IDLE_FILL ? IDLE_FILL : IDLE_DRAIN];
  double made = clamp(w->view->passes_end, gap->from, until), there = clamp(w->view->ties_end, made, until);
  idle[IDLE_DATA] += made - gap->from;
  idle[IDLE_MESSAGE] += there - made;
  idle[IDLE_OTHER] += until - there;
}

/* Splits gap->from..until, which the end of row u closes (-1: not known). */
static void cut_wait(struct walk *w, int64_t u, double until, struct step_gap *gap) {
  const struct node_row *row = u < 0 ? NULL : &w->view->rows[u];
  double *idle = w->rank->idle[w->place];
  gap->made = gap->moving = gap->there = gap->from;
  if (row && row->kind == NODE_N) {
    cut_norm(w, until, gap);
  } else if (row && row->stream == STREAM_RECEIVE) {
    cut_receive(w, u, until, gap);
  } else {
    double ended = row && row->stream == STREAM_SEND ? clamp(row->end_s, gap->from, until) : gap->from;
    idle[IDLE_SEND] += ended - gap->from;
    idle[IDLE_OTHER] += until - ended;
  }
}

/* Of the way of a block only the time is offload that the rest of what the node needs leaves. */
static void cut_block(struct walk *w, int64_t node, int64_t block, struct step_gap *gap) {
  const struct step_view *v = w->view;
  const struct node_row *row = &v->rows[block], *way = row;
  double start = v->rows[node].start_s, *idle = w->rank->idle[w->place];
  int64_t need = step_view_find_need(v, node, STREAM_COPY_OUT), send = -1;
  double ready = need < 0 ? gap->from : clamp(v->rows[need].end_s, gap->from, start);
  cut_wait(w, need, ready, gap);
  gap->there = ready;
  double gone = clamp(row->end_s, ready, start);
  idle[IDLE_OFFLOAD] += gone - ready;
  idle[IDLE_OTHER] += start - gone;
  if (node_kind_get_end((enum node_kind)row->kind) == NODE_IS_RECEIVE) send = step_view_find_send(v, block);
  if (send >= 0) way = &v->rows[send];
  double exposed = row->end_s - clamp(way->start_s, gap->from, row->end_s);
  w->rank->block_exposed += exposed;
  if (row->stage >= 0) w->stages[row->stage].exposed += exposed;
}

static struct step_gap cut_gap(struct walk *w, int64_t node) {
  const struct step_view *v = w->view;
  int64_t after = v->after[node];
  struct step_gap gap = {.node = &v->rows[node], .after = after < 0 ? NULL : &v->rows[after], .from = w->now};
  if (after >= 0 && v->rows[after].stream >= STREAM_COPY_OUT)
    cut_block(w, node, after, &gap);
  else
    cut_wait(w, after, v->rows[node].start_s, &gap);
  return gap;
}

/* ---- sums ---- */

static void add_block(const struct node_row *row, struct step_rank *rank, struct step_stage *stages) {
  if (row->stream < STREAM_COPY_OUT || row->kind < 0 || row->kind >= NODE_KIND_COUNT) return;
  if (node_kind_get_end((enum node_kind)row->kind) == NODE_IS_RECEIVE) return;
  bool leaves = row->kind == NODE_ES || row->kind == NODE_EV;
  double seconds = row->end_s - row->start_s, bytes = leaves ? (double)row->bytes : 0;
  rank->blocks += leaves;
  rank->block_bytes += bytes;
  rank->block_seconds += seconds;
  if (row->stage < 0) return;
  struct step_stage *stage = &stages[row->stage];
  if (leaves) stage->rank = row->rank;
  stage->blocks += leaves;
  stage->bytes += bytes;
  stage->seconds += seconds;
}

static void add_busy(struct walk *w, const struct node_row *row) {
  if (row->end_s <= w->now) return;
  w->rank->busy += row->end_s - w->now;
  if (row->kind >= 0 && row->kind < NODE_KIND_COUNT) w->rank->kinds[row->kind] += row->end_s - w->now;
  w->now = row->end_s;
}

/* Every instant of the step goes to exactly one part. */
static void add_rank(struct walk *w, int32_t rank, void (*see)(void *context, const struct step_gap *gap),
                     void *context) {
  const struct step_view *v = w->view;
  bool has_rows = rank < v->n_ranks;
  w->place = IDLE_FILL;
  w->now = v->begin;
  for (int64_t i = has_rows ? v->rank_offset[rank] : 0; has_rows && i < v->rank_offset[rank + 1]; i++) {
    const struct node_row *row = &v->rows[i];
    add_block(row, w->rank, w->stages);
    if (row->stream != STREAM_COMPUTE) continue;
    if (row->start_s > w->now) {
      struct step_gap gap = cut_gap(w, i);
      if (see) see(context, &gap);
      w->now = row->start_s;
    }
    w->place = IDLE_BETWEEN;
    add_busy(w, row);
  }
  double *idle = w->rank->idle[w->place == IDLE_FILL ? IDLE_FILL : IDLE_DRAIN],
         made = clamp(v->compute_end, w->now, v->end);
  idle[IDLE_DATA] += made - w->now;
  idle[IDLE_OTHER] += v->end - made;
}

void step_parts_add(const struct step_view *v, struct step_rank *ranks, int32_t n_ranks, struct step_stage *stages,
                    void (*see)(void *context, const struct step_gap *gap), void *context) {
  for (int32_t rank = 0; rank < n_ranks; rank++) {
    struct walk walk = {.view = v, .rank = &ranks[rank], .stages = stages};
    add_rank(&walk, rank, see, context);
  }
}

/* ---- words ---- */

static double add_place(const struct step_rank *rank, enum idle_place place) {
  double sum = 0;
  for (int cause = 0; cause < IDLE_CAUSE_COUNT; cause++) sum += rank->idle[place][cause];
  return sum;
}

struct step_idle step_parts_get_idle(const struct step_rank *rank) {
  const double *between = rank->idle[IDLE_BETWEEN];
  return (struct step_idle){.fill = add_place(rank, IDLE_FILL),
                            .drain = add_place(rank, IDLE_DRAIN),
                            .data = between[IDLE_DATA],
                            .message = between[IDLE_MESSAGE],
                            .other = between[IDLE_SEND] + between[IDLE_OTHER],
                            .offload = between[IDLE_OFFLOAD]};
}

double step_parts_get_cause(const struct step_rank *rank, enum idle_cause cause) {
  double sum = 0;
  for (int place = 0; place < IDLE_PLACE_COUNT; place++) sum += rank->idle[place][cause];
  return sum;
}
