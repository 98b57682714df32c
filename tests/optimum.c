/* Exact search, one action after the other in the order of their starts. States after the same number of actions are
 * looked at together. Of two with the same actions done and the same layers discarded, the one that is later in
 * everything is dropped; so is one that cannot end before `most` any more, by what its stages have left to do.
 */
#include "optimum.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum { STAGES = OPTIMUM_STAGES, MICRO = OPTIMUM_MICRO, WAYS = OPTIMUM_WAYS, SLOTS = 1 << 16 };

/* What is done on a stage. way: what an alive micro-batch lacks; 0: nothing, never or not any more. */
struct progress {
  uint8_t n_forward, n_backward;
  uint8_t way[MICRO];
};

/* A state. Times are no earlier than what may come next: the last start, the clock of the stage that needs them. */
struct state {
  struct progress done[STAGES];
  int16_t start;                   /* of the last action */
  int16_t clock[STAGES];           /* end of the stage's last action */
  int16_t forward[STAGES][MICRO];  /* when an input is there; 0: not yet, or taken */
  int16_t backward[STAGES][MICRO]; /* the same of a gradient */
  int32_t next;                    /* in the same slot; -1: none */
};

/* Ways to discard layers of a stage. Way 0 discards nothing. */
struct ways {
  int32_t n;
  int32_t seconds[WAYS];
  int64_t bytes[WAYS];
  int32_t forward, backward;
  int64_t kept, limit;
};

struct search {
  int32_t n_stages, n_micro, most;
  struct ways ways[STAGES];
  int32_t drain[STAGES];         /* backwards of the stages before */
  int32_t turn[STAGES];          /* from the end of a forward to that of the step at the earliest */
  struct state *states, *before; /* [room] after this number of actions, and after one less */
  int32_t n, room, n_before;
  int32_t slots[SLOTS]; /* the first state of a hash; -1: none */
};

static int16_t later(int16_t a, int32_t b) { return a > b ? a : (int16_t)b; }

/* ---- ways ---- */

static bool is_worse(const struct ways *w, int32_t seconds, int64_t bytes) {
  for (int32_t k = 0; k < w->n; k++)
    if (w->seconds[k] <= seconds && w->bytes[k] >= bytes) return true;
  return false;
}

static void sum_layers(const struct optimum_stage *stage, uint32_t mask, int32_t *seconds, int64_t *bytes) {
  *seconds = 0;
  *bytes = 0;
  for (int32_t l = 0; l < stage->n_layers; l++) {
    if (!(mask >> l & 1)) continue;
    *seconds += stage->layers[l].recompute;
    *bytes += stage->layers[l].kept;
  }
}

/* Lists the sets of layers of which none frees more in less time. */
static struct ways list_ways(const struct optimum_stage *stage) {
  struct ways w = {.n = 1, .limit = stage->limit}; /* the first discards nothing */
  for (int32_t l = 0; l < stage->n_layers; l++) {
    w.forward += stage->layers[l].forward;
    w.backward += stage->layers[l].backward;
    w.kept += stage->layers[l].kept;
  }
  for (uint32_t mask = 1; mask < (uint32_t)1 << stage->n_layers; mask++) {
    int32_t seconds, n = 1;
    int64_t bytes;
    sum_layers(stage, mask, &seconds, &bytes);
    if (is_worse(&w, seconds, bytes)) continue;
    for (int32_t k = 1; k < w.n; k++) {
      if (w.seconds[k] >= seconds && w.bytes[k] <= bytes) continue;
      w.seconds[n] = w.seconds[k];
      w.bytes[n++] = w.bytes[k];
    }
    w.seconds[n] = seconds;
    w.bytes[n++] = bytes;
    w.n = n;
  }
  return w;
}

/* ---- states ---- */

static uint32_t hash(const struct state *s) {
  const unsigned char *bytes = (const unsigned char *)s->done;
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < sizeof s->done; i++) h = (h ^ bytes[i]) * 16777619u;
  return (h ^ h >> 15) % SLOTS;
}

/* True when nothing in `a` is later than in `b`; both have the same done. */
static bool is_no_later(const struct search *x, const struct state *a, const struct state *b) {
  if (a->start > b->start) return false;
  for (int32_t s = 0; s < x->n_stages; s++) {
    if (a->clock[s] > b->clock[s]) return false;
    for (int32_t i = 0; i < x->n_micro; i++)
      if (a->forward[s][i] > b->forward[s][i] || a->backward[s][i] > b->backward[s][i]) return false;
  }
  return true;
}

static void put(struct search *x, struct state *s) {
  int32_t *slot = &x->slots[hash(s)];
  for (int32_t *k = slot; *k >= 0;) {
    struct state *other = &x->states[*k];
    bool same = !memcmp(other->done, s->done, sizeof s->done);
    if (same && is_no_later(x, other, s)) return;
    if (same && is_no_later(x, s, other)) {
      other->start = -1; /* it is dropped */
      *k = other->next;
    } else {
      k = &other->next;
    }
  }
  if (x->n == x->room) {
    x->room *= 2;
    x->states = mem_resize(x->states, sizeof *x->states * (size_t)x->room);
    x->before = mem_resize(x->before, sizeof *x->before * (size_t)x->room);
  }
  s->next = *slot;
  *slot = x->n;
  x->states[x->n++] = *s;
}

/* Raises times to the earliest at which they matter. */
static void raise(const struct search *x, struct state *s) {
  for (int32_t q = 0; q < x->n_stages; q++) {
    s->clock[q] = later(s->clock[q], s->start);
    for (int32_t i = 0; i < x->n_micro; i++) {
      if (s->forward[q][i]) s->forward[q][i] = later(s->forward[q][i], s->clock[q]);
      if (s->backward[q][i]) s->backward[q][i] = later(s->backward[q][i], s->clock[q]);
    }
  }
}

/* Returns a time before which the step cannot end. */
static int32_t bound(const struct search *x, const struct state *s) {
  int32_t most = 0;
  for (int32_t q = 0; q < x->n_stages; q++) {
    const struct progress *d = &s->done[q];
    const struct ways *w = &x->ways[q];
    if (d->n_backward == x->n_micro) continue; /* its clock may have been raised since */
    int32_t end = s->clock[q] + (x->n_micro - d->n_forward) * w->forward;
    if (d->n_forward < x->n_micro && end + x->turn[q] > most) most = end + x->turn[q];
    end += (x->n_micro - d->n_backward) * w->backward + x->drain[q];
    for (int32_t i = d->n_backward; i < d->n_forward; i++) end += w->seconds[d->way[i]];
    if (end > most) most = end;
  }
  return most;
}

static int64_t count_kept(const struct ways *w, const struct progress *d) {
  int64_t kept = (d->n_forward - d->n_backward) * w->kept;
  for (int32_t i = d->n_backward; i < d->n_forward; i++) kept -= w->bytes[d->way[i]];
  return kept;
}

static void add(struct search *x, struct state *s) {
  raise(x, s);
  if (bound(x, s) < x->most) put(x, s);
}

/* ---- actions ---- */

static void try_forward(struct search *x, const struct state *s, int32_t q) {
  const struct ways *w = &x->ways[q];
  int32_t i = s->done[q].n_forward;
  if (i == x->n_micro || (q > 0 && !s->forward[q][i])) return;
  int64_t room = w->limit - count_kept(w, &s->done[q]) - w->kept;
  for (int32_t way = 0; way < w->n; way++) {
    if (w->bytes[way] + room < 0) continue;
    struct state t = *s;
    t.start = later(s->clock[q], s->forward[q][i]);
    t.clock[q] = (int16_t)(t.start + w->forward);
    t.done[q].n_forward++;
    t.done[q].way[i] = (uint8_t)way;
    t.forward[q][i] = 0;
    if (q + 1 < x->n_stages) t.forward[q + 1][i] = t.clock[q];
    if (q + 1 == x->n_stages) t.backward[q][i] = t.clock[q];
    add(x, &t);
  }
}

static void try_recompute(struct search *x, const struct state *s, int32_t q, int32_t i) {
  const struct ways *w = &x->ways[q];
  int32_t way = s->done[q].way[i];
  if (!way || count_kept(w, &s->done[q]) + w->bytes[way] > w->limit) return;
  struct state t = *s;
  t.start = s->clock[q];
  t.clock[q] = (int16_t)(t.start + w->seconds[way]);
  t.done[q].way[i] = 0;
  add(x, &t);
}

static void try_backward(struct search *x, const struct state *s, int32_t q) {
  const struct ways *w = &x->ways[q];
  int32_t i = s->done[q].n_backward;
  if (i == s->done[q].n_forward || s->done[q].way[i] || !s->backward[q][i]) return;
  struct state t = *s;
  t.start = later(s->clock[q], s->backward[q][i]);
  t.clock[q] = (int16_t)(t.start + w->backward);
  t.done[q].n_backward++;
  t.backward[q][i] = 0;
  if (q > 0) t.backward[q - 1][i] = t.clock[q];
  if (q == 0 && t.done[q].n_backward == x->n_micro) {
    if (t.clock[q] < x->most) x->most = t.clock[q]; /* all others ended before */
    return;
  }
  add(x, &t);
}

/* Goes on from all states of before. */
static void step(struct search *x) {
  for (int32_t k = 0; k < SLOTS; k++) x->slots[k] = -1;
  x->n = 0;
  for (int32_t k = 0; k < x->n_before; k++) {
    if (x->before[k].start < 0 || bound(x, &x->before[k]) >= x->most) continue;
    struct state s = x->before[k];
    for (int32_t q = 0; q < x->n_stages; q++) {
      try_backward(x, &s, q);
      for (int32_t i = s.done[q].n_backward; i < s.done[q].n_forward; i++) try_recompute(x, &s, q, i);
      try_forward(x, &s, q);
    }
  }
  struct state *states = x->before;
  x->before = x->states;
  x->states = states;
  x->n_before = x->n;
}

int32_t optimum_find(const struct optimum_pipeline *pipeline, int32_t most) {
  struct search *x = MEM_NEW(struct search, 1);
  x->n_stages = pipeline->n_stages;
  x->n_micro = pipeline->n_micro;
  x->most = most + 1; /* times begin with 1, as 0 says that nothing is there */
  x->room = 1024;
  x->states = MEM_NEW(struct state, x->room);
  x->before = MEM_NEW(struct state, x->room);
  for (int32_t q = 0; q < x->n_stages; q++) x->ways[q] = list_ways(&pipeline->stages[q]);
  for (int32_t q = 1; q < x->n_stages; q++) x->drain[q] = x->drain[q - 1] + x->ways[q - 1].backward;
  for (int32_t q = x->n_stages - 1, after = 0; q >= 0; q--) {
    after += x->ways[q].backward;
    x->turn[q] = after + x->drain[q];
    after += x->ways[q].forward;
  }
  x->before[0].start = 1;
  raise(x, &x->before[0]);
  for (x->n_before = 1; x->n_before > 0;) step(x);
  most = x->most - 1;
  mem_free(x->states);
  mem_free(x->before);
  mem_free(x);
  return most;
}
