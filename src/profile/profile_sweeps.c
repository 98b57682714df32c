/* Passes over parameters: what each layer's share of the norm and its update take, one layer after the other as at the
 * end of a step. */

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "exec/optimizer.h"
#include "profile/profile_internal.h"

struct sweeps {
  struct profile_work *work;
  struct rank_state *state;
  int n;
  struct profile_sweep *rows;      /* [n] different kinds and sizes */
  struct profile_samples *samples; /* [n] */
  int64_t step;
  double mark, total; /* total: of one round */
};

/* Keeps values and moments ordinary numbers however often it is done. */
static const struct optimizer_config optimizer = {
    .lr = 1e-6, .schedule = PARAMS_SCHEDULE_CONSTANT, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

static struct profile_samples *find_samples(struct sweeps *s, enum profile_sweep_kind kind, int64_t floats) {
  for (int i = 0; i < s->n; i++)
    if (s->rows[i].kind == kind && s->rows[i].floats == floats) return &s->samples[i];
  s->rows[s->n] = (struct profile_sweep){kind, floats, 0};
  return &s->samples[s->n++];
}

/* Notes the seconds since the last call. */
static void note(struct sweeps *s, enum profile_sweep_kind kind, int64_t floats) {
  double now = clock_now();
  if (floats > 0) profile_samples_add(find_samples(s, kind, floats), now - s->mark);
  s->total += now - s->mark;
  s->mark = clock_now();
}

/* Parameters that the update of a layer goes over. */
static int64_t count_updated(const struct rank_state *state, int32_t layer) {
  const struct rank_tie *t = rank_state_find_tie(state, layer);
  bool copy = t && layer == t->tie->user && rank_tie_is_copy(t);
  return state->model->layers[layer].n_floats + (copy ? t->tie->floats : 0);
}

/* The tie whose gradient is completed with a layer; NULL: none. */
static const struct rank_tie *find_completed(const struct rank_state *state, int32_t layer) {
  const struct rank_tie *t = rank_state_find_tie(state, layer);
  return t && (layer == t->tie->layer || rank_tie_is_copy(t)) ? t : NULL;
}

/* The norm of all layers comes before the first update. */
static void run_round(struct sweeps *s) {
  struct rank_state *state = s->state;
  s->mark = clock_now();
  s->total = 0;
  s->step++;
  for (int32_t l = 0; l < state->model->n_layers; l++) {
    int bad;
    if (!state->holds[l]) continue;
    const struct rank_tie *tie = find_completed(state, l);
    if (tie) {
      optimizer_finish_gradient(state, l);
      note(s, PROFILE_TIE, tie->tie->floats);
    }
    optimizer_sum_layer(state, l, &bad);
    note(s, PROFILE_NORM, state->model->layers[l].n_floats);
  }
  for (int32_t l = 0; l < state->model->n_layers; l++) {
    if (!state->holds[l]) continue;
    optimizer_update_layer(state, &optimizer, l, s->step, 1);
    note(s, PROFILE_UPDATE, count_updated(state, l));
    comm_poll(s->work->comm);
    s->mark = clock_now();
  }
}

static void forget(struct sweeps *s) {
  for (int i = 0; i < s->n; i++) s->samples[i].n = 0;
}

/* Rows that an earlier piece gave stay; its layers are other ones, or the same again. */
static void put_rows(struct profile *profile, const struct profile_sweep *rows, int n) {
  struct profile_sweep *all = MEM_NEW(struct profile_sweep, profile->n_sweeps + n);
  int64_t m = 0;
  for (int64_t i = 0; i < profile->n_sweeps; i++) {
    bool again = false;
    for (int k = 0; k < n; k++)
      again = again || (rows[k].kind == profile->sweeps[i].kind && rows[k].floats == profile->sweeps[i].floats);
    if (!again) all[m++] = profile->sweeps[i];
  }
  for (int k = 0; k < n; k++) all[m++] = rows[k];
  profile_set_sweeps(profile, all, m);
  mem_free(all);
}

int profile_sweeps_all(struct profile_work *w, struct rank_state *state, double budget) {
  struct sweeps s = {.work = w, .state = state};
  s.rows = MEM_NEW(struct profile_sweep, 3 * state->model->n_layers);
  s.samples = MEM_NEW(struct profile_samples, 3 * state->model->n_layers);
  int status = profile_begin_all(w, STATUS_OK, "norm and update of parameters");
  if (!status) {
    double total = 0;
    run_round(&s); /* touches pages */
    run_round(&s);
    int n = profile_choose_repetitions_all(w, s.total, budget - 2 * s.total);
    forget(&s);
    for (int i = 0; i < n; i++) run_round(&s);
    for (int i = 0; i < s.n; i++) total += s.rows[i].seconds = profile_samples_get_median(&s.samples[i]);
    profile_take_slowest_all(w, total, s.rows, s.n * (int64_t)sizeof *s.rows);
    if (w->profile) put_rows(w->profile, s.rows, s.n);
  }
  for (int i = 0; i < s.n; i++) profile_samples_fini(&s.samples[i]);
  mem_free(s.samples);
  mem_free(s.rows);
  return status;
}
