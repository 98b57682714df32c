#include "planner/one_f_one_b.h"

#include <math.h>
#include <stdbool.h>

#include "base/mem.h"

int32_t one_f_one_b_get_warm_up(int32_t stage, int32_t n_stages, int32_t n_micro) {
  int32_t depth = n_stages - stage;
  return depth < n_micro ? depth : n_micro;
}

struct one_f_one_b one_f_one_b_create(int32_t n_stages, int32_t n_micro) {
  struct one_f_one_b times = {.n_stages = n_stages,
                              .n_micro = n_micro,
                              .warm_up = MEM_NEW(int32_t, n_stages),
                              .steady = MEM_NEW(int32_t, n_stages),
                              .forward = MEM_NEW(double, n_stages),
                              .backward = MEM_NEW(double, n_stages),
                              .recompute = MEM_NEW(double, n_stages),
                              .send = MEM_NEW(double, n_stages),
                              .send_back = MEM_NEW(double, n_stages),
                              .copy = MEM_NEW(double, n_stages),
                              .capacity = MEM_NEW(int32_t, n_stages)};
  for (int32_t s = 0; s < n_stages; s++)
    times.warm_up[s] = times.steady[s] = one_f_one_b_get_warm_up(s, n_stages, n_micro);
  return times;
}

void one_f_one_b_free(struct one_f_one_b *times) {
  mem_free(times->warm_up);
  mem_free(times->steady);
  mem_free(times->forward);
  mem_free(times->backward);
  mem_free(times->recompute);
  mem_free(times->send);
  mem_free(times->send_back);
  mem_free(times->copy);
  mem_free(times->capacity);
  *times = (struct one_f_one_b){0};
}

/* How far each stage is. */
struct progress {
  const struct one_f_one_b *times;
  int32_t *forwards, *backwards;      /* [n_stages] done */
  double *clock;                      /* [n_stages] */
  double *forward_end, *backward_end; /* [n_stages][n_micro] */
  double *out_end, *in_end;           /* [n_stages] of the last copy each way */
  int32_t *away;                      /* [n_stages] blocks that have left and are not back */
};

static double *at(const struct progress *x, double *ends, int32_t stage, int32_t micro) {
  return &ends[(int64_t)stage * x->times->n_micro + micro];
}

/* Returns true when the next pass of a stage is a forward. */
static bool goes_forward(const struct one_f_one_b *t, int32_t s, int32_t forwards, int32_t backwards) {
  int32_t ahead = backwards + t->steady[s];
  return forwards < t->n_micro && forwards < (ahead > t->warm_up[s] ? ahead : t->warm_up[s]);
}

/* Returns when there is room for the block of forward f. */
static double make_room(struct progress *x, int32_t s, int32_t f, int32_t b) {
  int32_t on_device = f - b - x->away[s], newest = f > 1 ? f - 2 : 0;
  if (x->times->copy[s] <= 0 || on_device < x->times->capacity[s]) return 0;
  x->away[s]++;
  return x->out_end[s] = fmax(x->out_end[s], *at(x, x->forward_end, s, newest)) + x->times->copy[s];
}

/* Returns when the block of backward b is back, where one is away. */
static double bring_back(struct progress *x, int32_t s, int32_t b) {
  if (x->away[s] == 0 || b < x->times->capacity[s] - 2) return 0;
  x->away[s]--;
  double room = b > 1 ? *at(x, x->backward_end, s, b - 2) : 0;
  return x->in_end[s] = fmax(x->in_end[s], room) + x->times->copy[s];
}

/* Runs the next pass of a stage if what it needs is there. */
static bool go(struct progress *x, int32_t s) {
  const struct one_f_one_b *t = x->times;
  int32_t f = x->forwards[s], b = x->backwards[s], last = t->n_stages - 1;
  bool forward = goes_forward(t, s, f, b);
  if (!forward && (b == t->n_micro || b == f)) return false;
  double ready = 0;
  if (forward && s > 0) {
    if (x->forwards[s - 1] <= f) return false;
    ready = *at(x, x->forward_end, s - 1, f) + t->send[s - 1];
  } else if (!forward && s < last) {
    if (x->backwards[s + 1] <= b) return false;
    ready = *at(x, x->backward_end, s + 1, b) + t->send_back[s];
  }
  double block = forward ? make_room(x, s, f, b) : bring_back(x, s, b);
  x->clock[s] = fmax(x->clock[s], block); /* a recomputation needs it too */
  double recompute = forward ? 0 : t->recompute[s];
  double start = t->early ? fmax(x->clock[s] + recompute, ready) : fmax(x->clock[s], ready) + recompute;
  x->clock[s] = start + (forward ? t->forward[s] : t->backward[s]);
  *at(x, forward ? x->forward_end : x->backward_end, s, forward ? x->forwards[s]++ : x->backwards[s]++) = x->clock[s];
  return true;
}

double one_f_one_b_time(const struct one_f_one_b *times) {
  int64_t n = (int64_t)times->n_stages * times->n_micro;
  struct progress x = {.times = times,
                       .forwards = MEM_NEW(int32_t, times->n_stages),
                       .backwards = MEM_NEW(int32_t, times->n_stages),
                       .clock = MEM_NEW(double, times->n_stages),
                       .out_end = MEM_NEW(double, times->n_stages),
                       .in_end = MEM_NEW(double, times->n_stages),
                       .away = MEM_NEW(int32_t, times->n_stages),
                       .forward_end = MEM_NEW(double, n),
                       .backward_end = MEM_NEW(double, n)};
  for (bool any = true; any;) {
    any = false;
    for (int32_t s = 0; s < times->n_stages; s++)
      while (go(&x, s)) any = true;
    for (int32_t s = times->n_stages - 1; s >= 0; s--)
      while (go(&x, s)) any = true;
  }
  double end = 0;
  for (int32_t s = 0; s < times->n_stages; s++)
    end = x.backwards[s] == times->n_micro ? fmax(end, x.clock[s]) : INFINITY;
  mem_free(x.forwards);
  mem_free(x.backwards);
  mem_free(x.clock);
  mem_free(x.out_end);
  mem_free(x.in_end);
  mem_free(x.away);
  mem_free(x.forward_end);
  mem_free(x.backward_end);
  return end;
}
