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
static double find_made(const struct step_view *v, int32_t receive, double *moving) {
  int32_t send = v->match[receive];
  *moving = v->start[receive];
  if (send < 0) return v->begin;
  int32_t maker = step_view_find_need(v, send, STREAM_COMPUTE, STREAM_COMPUTE + 1);
  *moving = most(*moving, v->start[send]);
  return maker < 0 ? v->start[send] : v->end[maker];
}

static void cut_receive(struct walk *w, int32_t receive, double until, struct step_gap *gap) {
  double *idle = w->rank->idle[w->place], moving;
  double made = find_made(w->view, receive, &moving), there = clamp(w->view->end[receive], gap->from, until);
  gap->made = clamp(made, gap->from, there);
  gap->moving = clamp(moving, gap->made, there);
  gap->there = there;
  double message = there - gap->made;
  idle[IDLE_MESSAGE] += message;
  idle[IDLE_DATA] += there - gap->from - message;
  idle[IDLE_OTHER] += until - there;
}

static void cut_norm(struct walk *w, double until, const struct step_gap *gap) {
  double *idle = w->rank->idle[w->place == IDLE_FILL ? IDLE_FILL : IDLE_DRAIN];
  double made = clamp(w->view->passes_end, gap->from, until), there = clamp(w->view->ties_end, made, until);
  idle[IDLE_DATA] += made - gap->from;
  idle[IDLE_MESSAGE] += there - made;
  idle[IDLE_OTHER] += until - there;
}

/* Splits gap->from..until, which the end of node u closes (-1: not known). */
static void cut_wait(struct walk *w, int32_t u, double until, struct step_gap *gap) {
  const struct dag_node *n = u < 0 ? NULL : &w->view->nodes[u];
  double *idle = w->rank->idle[w->place];
  gap->made = gap->moving = gap->there = gap->from;
  if (n && n->kind == NODE_N) {
    cut_norm(w, until, gap);
  } else if (n && n->stream == STREAM_RECEIVE) {
    cut_receive(w, u, until, gap);
  } else {
    double ended = n && n->stream == STREAM_SEND ? clamp(w->view->end[u], gap->from, until) : gap->from;
    idle[IDLE_SEND] += ended - gap->from;
    idle[IDLE_OTHER] += until - ended;
  }
}

/* Cuts idle time that ends with a block of activations: only the time after everything else that the node needs is
 * there counts as offload. */
static void cut_block(struct walk *w, struct step_gap *gap) {
  const struct step_view *v = w->view;
  int32_t block = gap->after, need = step_view_find_need(v, gap->node, STREAM_COMPUTE, STREAM_COPY_OUT), way = block;
  double start = v->start[gap->node], *idle = w->rank->idle[w->place];
  double ready = need < 0 ? gap->from : clamp(v->end[need], gap->from, start);
  cut_wait(w, need, ready, gap);
  gap->there = ready;
  double gone = clamp(v->end[block], ready, start);
  idle[IDLE_OFFLOAD] += gone - ready;
  idle[IDLE_OTHER] += start - gone;
  if (v->match[block] >= 0 && dag_is_receive(&v->nodes[block])) way = v->match[block];
  double exposed = v->end[block] - clamp(v->start[way], gap->from, v->end[block]);
  w->rank->block_exposed += exposed;
  if (v->nodes[block].stage >= 0) w->stages[v->nodes[block].stage].exposed += exposed;
}

static struct step_gap cut_gap(struct walk *w, int32_t node) {
  const struct step_view *v = w->view;
  struct step_gap gap = {.node = node, .after = v->after[node], .from = w->now};
  if (gap.after >= 0 && v->nodes[gap.after].stream >= STREAM_COPY_OUT)
    cut_block(w, &gap);
  else
    cut_wait(w, gap.after, v->start[node], &gap);
  return gap;
}

/* ---- sums ---- */

static void add_block(const struct step_view *v, int32_t i, struct step_rank *rank, struct step_stage *stages) {
  const struct dag_node *n = &v->nodes[i];
  if (n->kind >= NODE_KIND_COUNT || dag_is_receive(n)) return;
  bool leaves = n->kind == NODE_ES || n->kind == NODE_EV;
  double seconds = v->end[i] - v->start[i], bytes = leaves ? (double)n->bytes : 0;
  rank->blocks += leaves;
  rank->block_bytes += bytes;
  rank->block_seconds += seconds;
  if (n->stage < 0) return;
  struct step_stage *stage = &stages[n->stage];
  if (leaves) stage->rank = n->rank;
  stage->blocks += leaves;
  stage->bytes += bytes;
  stage->seconds += seconds;
}

/* Until the end of the last compute node; what of that they took is busy. */
static void add_compute(struct walk *w, const int32_t *offset, step_gap_see *see, void *context) {
  const struct step_view *v = w->view;
  double busy = 0, now = w->now;
  for (int32_t k = offset[0]; k < offset[1]; k++) {
    int32_t i = v->stream_nodes[k];
    if (v->start[i] > now) {
      w->now = now;
      struct step_gap gap = cut_gap(w, i);
      if (see) see(context, &gap);
      now = v->start[i];
    }
    w->place = IDLE_BETWEEN;
    if (v->end[i] <= now) continue;
    busy += v->end[i] - now;
    if (v->nodes[i].kind < NODE_KIND_COUNT) w->rank->kinds[v->nodes[i].kind] += v->end[i] - now;
    now = v->end[i];
  }
  w->rank->busy += busy;
  w->now = now;
}

/* Every instant of the step goes to exactly one part. */
static void add_rank(struct walk *w, const int32_t *offset, step_gap_see *see, void *context) {
  const struct step_view *v = w->view;
  w->place = IDLE_FILL;
  w->now = v->begin;
  add_compute(w, &offset[STREAM_COMPUTE], see, context);
  for (int32_t k = offset[STREAM_COPY_OUT]; k < offset[STREAM_COUNT]; k++)
    add_block(v, v->stream_nodes[k], w->rank, w->stages);
  double *idle = w->rank->idle[w->place == IDLE_FILL ? IDLE_FILL : IDLE_DRAIN];
  double made = clamp(v->compute_end, w->now, v->until);
  idle[IDLE_DATA] += made - w->now;
  idle[IDLE_OTHER] += v->until - made;
}

void step_parts_add(const struct step_view *v, struct step_rank *ranks, int32_t n_ranks, struct step_stage *stages,
                    step_gap_see *see, void *context) {
  for (int32_t rank = 0; rank < n_ranks; rank++) {
    static const int32_t none[STREAM_COUNT + 1];
    struct walk walk = {.view = v, .rank = &ranks[rank], .stages = stages};
    add_rank(&walk, rank < v->n_ranks ? &v->stream_offset[rank * STREAM_COUNT] : none, see, context);
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
