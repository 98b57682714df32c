/* The time of a schedule: every action starts as soon as it can. */
#include <math.h>

#include "base/mem.h"
#include "planner/obscura/obscura_schedule.h"

struct obscura_clockwork {
  double *send, *send_back;           /* [n_stages] of messages to stage s + 1, and from there back to s */
  double *clock;                      /* [n_stages] */
  int32_t *next;                      /* [n_stages] place of the next action */
  double *forward_end, *backward_end; /* [n_stages][n_micro]; INFINITY: not done */
  double *out_free, *in_free;         /* [n_stages] when the last copy each way ends */
  double *gone, *back;                /* [n_stages][n_micro] when the block is gone, and is back */
};

struct obscura_clockwork *obscura_clockwork_create(const struct obscura *x, const struct obscura_draft *d) {
  struct obscura_clockwork *c = MEM_NEW(struct obscura_clockwork, 1);
  int64_t n = (int64_t)x->n_stages * x->n_micro;
  c->send = MEM_NEW(double, x->n_stages);
  c->send_back = MEM_NEW(double, x->n_stages);
  c->clock = MEM_NEW(double, x->n_stages);
  c->next = MEM_NEW(int32_t, x->n_stages);
  c->forward_end = MEM_NEW(double, n);
  c->backward_end = MEM_NEW(double, n);
  c->out_free = MEM_NEW(double, x->n_stages);
  c->in_free = MEM_NEW(double, x->n_stages);
  c->gone = MEM_NEW(double, n);
  c->back = MEM_NEW(double, n);
  for (int32_t s = 0; s + 1 < x->n_stages; s++) obscura_draft_get_messages(x, d, s, &c->send[s], &c->send_back[s]);
  return c;
}

void obscura_clockwork_destroy(struct obscura_clockwork **clockwork) {
  struct obscura_clockwork *c = *clockwork;
  if (!c) return;
  mem_free(c->send);
  mem_free(c->send_back);
  mem_free(c->clock);
  mem_free(c->next);
  mem_free(c->forward_end);
  mem_free(c->backward_end);
  mem_free(c->out_free);
  mem_free(c->in_free);
  mem_free(c->gone);
  mem_free(c->back);
  mem_free(c);
  *clockwork = NULL;
}

/* When what an action needs from another stage is there; INFINITY: not yet known. */
static double get_ready(const struct obscura_schedule *s, const struct obscura_clockwork *c, int32_t stage,
                        const struct obscura_action *a) {
  if (a->kind == NODE_F && stage > 0)
    return c->forward_end[(int64_t)(stage - 1) * s->n_micro + a->micro] + c->send[stage - 1];
  if (a->kind == NODE_B && stage + 1 < s->n_stages)
    return c->backward_end[(int64_t)(stage + 1) * s->n_micro + a->micro] + c->send_back[stage];
  return 0;
}

/* Starts the copies back that may begin with the action at `place`. */
static void start_copies(const struct obscura_schedule *s, struct obscura_clockwork *c, int32_t stage,
                         const struct obscura_action *actions, int32_t place, double start) {
  int32_t first = place;
  while (first > 0 && actions[first - 1].kind >= NODE_KIND_COUNT) first--;
  for (int32_t k = first; k < place; k++) {
    if (actions[k].kind != OBSCURA_IN) continue;
    double copy = obscura_schedule_get_way(s, stage, actions[k].micro)->copy;
    c->in_free[stage] = fmax(c->in_free[stage], start) + copy;
    c->back[(int64_t)stage * s->n_micro + actions[k].micro] = c->in_free[stage];
  }
}

/* Runs a compute action that is ready. Returns its end. */
static double run_action(const struct obscura_schedule *s, struct obscura_clockwork *c, int32_t stage,
                         const struct obscura_action *actions, int32_t place, double start) {
  const struct obscura_action *a = &actions[place];
  const struct stage_need *need = &s->draft->needs[stage];
  const struct obscura_way *way = obscura_schedule_get_way(s, stage, a->micro);
  int64_t at = (int64_t)stage * s->n_micro + a->micro;
  if (s->ways->may_leave[stage]) start_copies(s, c, stage, actions, place, start);
  if (s->moved[at] && a->kind == (s->chosen[at] ? NODE_R : NODE_B)) start = fmax(start, c->back[at]);
  if (a->kind == NODE_R) return start + way->seconds;
  double end = start + (a->kind == NODE_F ? need->forward : need->backward);
  (a->kind == NODE_F ? c->forward_end : c->backward_end)[at] = end;
  if (a->kind == NODE_F && s->moved[at]) c->gone[at] = c->out_free[stage] = fmax(c->out_free[stage], end) + way->copy;
  return end;
}

/* Runs a stage as far as it can; false when it could not go on at all. */
static bool run_stage(const struct obscura_schedule *s, struct obscura_clockwork *c, int32_t stage) {
  const struct obscura_action *actions = s->actions + (int64_t)stage * OBSCURA_MOST_ACTIONS * s->n_micro;
  int32_t first = c->next[stage], k = first;
  double clock = c->clock[stage];
  for (; k < s->n_actions[stage]; k++) {
    const struct obscura_action *a = &actions[k];
    if (a->kind == OBSCURA_OUT) clock = fmax(clock, c->gone[(int64_t)stage * s->n_micro + a->micro]);
    if (a->kind >= NODE_KIND_COUNT) continue;
    double ready = get_ready(s, c, stage, a);
    if (ready == INFINITY) break;
    clock = run_action(s, c, stage, actions, k, ready > clock ? ready : clock);
  }
  c->next[stage] = k;
  c->clock[stage] = clock;
  return k > first;
}

double obscura_schedule_time(const struct obscura_schedule *s, struct obscura_clockwork *c) {
  for (int64_t i = 0; i < (int64_t)s->n_stages * s->n_micro; i++) c->forward_end[i] = c->backward_end[i] = INFINITY;
  for (int32_t stage = 0; stage < s->n_stages; stage++) {
    c->clock[stage] = c->out_free[stage] = c->in_free[stage] = 0;
    c->next[stage] = 0;
  }
  for (bool any = true; any;) {
    any = false;
    for (int32_t stage = 0; stage < s->n_stages; stage++) any |= run_stage(s, c, stage);
    for (int32_t stage = s->n_stages - 2; stage >= 0; stage--) any |= run_stage(s, c, stage);
  }
  double end = 0;
  for (int32_t stage = 0; stage < s->n_stages; stage++)
    end = c->next[stage] == s->n_actions[stage] ? fmax(end, c->clock[stage]) : INFINITY;
  return end;
}
