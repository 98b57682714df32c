#include "planner/obscura/obscura_model.h"

#include <math.h>

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

int32_t obscura_model_get_plain(const struct obscura_model *m, int32_t stage) {
  return least(m->n_micro, m->n_stages - stage);
}

/* The stage runs all 2(p - s - 1) forwards ahead that fit into its forward bubbles of 1F1B. */
int32_t obscura_model_get_moved(const struct obscura_model *m, int32_t stage) {
  if (stage >= m->n_adjusted) return obscura_model_get_plain(m, stage);
  return least(m->n_micro, 3 * (m->n_stages - stage) - 2);
}

/* The stage runs as many forwards ahead as stage k can: what an earlier stage hides beyond that, stage k cannot hide.
 */
int32_t obscura_model_get_refined(const struct obscura_model *m, int32_t stage) {
  if (stage >= m->n_adjusted) return obscura_model_get_plain(m, stage);
  return least(m->n_micro, m->n_stages - stage + 2 * (m->n_stages - m->n_adjusted));
}

int32_t obscura_model_get_lambda(const struct obscura_model *m, int32_t stage) {
  if (m->lambda == 0 || stage >= m->n_adjusted) return 0;
  return m->lambda + m->n_adjusted - 1 - stage;
}

double obscura_model_get_transfer(const struct obscura_model *m, int32_t stage) {
  int32_t lambda = obscura_model_get_lambda(m, stage), before = m->n_adjusted - 1 - stage;
  if (lambda == 0) return 0;
  double rebuilt = m->backward + m->recompute;
  double evicting = fmax(lambda * (m->transfer - m->forward) - before * rebuilt, 0);
  double loading = fmax(lambda * (m->transfer - rebuilt), 0);
  return evicting + loading + m->epsilon * (m->forward + rebuilt);
}

double obscura_model_get_time(const struct obscura_model *m, int32_t stage) {
  int32_t p = m->n_stages, k = m->n_adjusted - 1;
  if (stage > k) return m->n_micro * m->slowest + (p - stage - 1) * m->slowest;
  double busy = m->n_micro * m->slowest_adjusted + (k - stage) * m->slowest_adjusted;
  busy += obscura_model_get_transfer(m, stage);
  if (stage == p - 1) return busy;
  return fmax(obscura_model_get_time(m, stage + 1) + m->slowest_adjusted, busy);
}

bool obscura_model_allows(const struct obscura_model *m) {
  return m->transfer <= m->forward + m->backward + m->recompute;
}
