/* Finds the stages that are adjusted: those over their limit in 1F1B, and all stages before them. With step cmb a
 * stage that fits when it discards cheap ops alone does that and is not adjusted, unless a later stage is.
 */
#include "base/mem.h"
#include "model/model.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"

static bool is_over(const struct obscura *x, const struct obscura_draft *d, int32_t stage) {
  return obscura_draft_get_peak(x, d, stage) > obscura_get_limit(x, d, stage);
}

uint32_t *obscura_list_cheap(const struct obscura *x) {
  uint32_t *ops = obscura_list_ops(x);
  for (int32_t l = 0; l < x->n_layers; l++)
    ops[l] &= recompute_get_ops(&x->request->model->layers[l], PARAMS_RECOMPUTE_CMB);
  return ops;
}

int32_t obscura_identify(const struct obscura *x, struct obscura_draft *d) {
  uint32_t *cheap = obscura_list_cheap(x);
  bool tries_cheap = x->options.steps >= PARAMS_OBSCURA_STEPS_CMB;
  int32_t n = 0, forced = x->options.adjusted_stages;
  for (int32_t s = forced == PARAMS_AUTO ? 0 : forced; s < x->n_stages; s++) {
    if (!is_over(x, d, s)) continue;
    if (tries_cheap) obscura_draft_discard(x, d, s, cheap);
    if (is_over(x, d, s)) n = s + 1;
  }
  if (forced != PARAMS_AUTO) n = forced < x->n_stages ? forced : x->n_stages;
  for (int32_t s = 0; s < n; s++) obscura_draft_discard(x, d, s, NULL);
  mem_free(cheap);
  return n;
}
