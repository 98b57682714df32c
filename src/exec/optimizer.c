#include "exec/optimizer.h"

#include "kernels.h"

#include <math.h>

/* Position in the decay, 0 at its start to 1 at its end. */
static double get_progress(int64_t step, int64_t from, int64_t to) {
  if (step >= to) return 1;
  return step <= from ? 0 : (double)(step - from) / (double)(to - from);
}

double optimizer_get_lr(const struct optimizer_config *c, int64_t step) {
  if (step <= c->warmup_steps) return c->lr * (double)step / (double)c->warmup_steps;
  double range = c->lr - c->min_lr;
  switch (c->schedule) {
  case PARAMS_SCHEDULE_CONSTANT: return c->lr;
  case PARAMS_SCHEDULE_LINEAR: return c->lr - range * get_progress(step, c->warmup_steps, c->decay_steps);
  case PARAMS_SCHEDULE_COSINE:
    return c->min_lr + 0.5 * range * (1 + cos(acos(-1.0) * get_progress(step, c->warmup_steps, c->decay_steps)));
  case PARAMS_SCHEDULE_WSD: {
    int64_t from = c->total_steps - c->decay_steps;
    if (from < c->warmup_steps) from = c->warmup_steps;
    return c->lr - range * get_progress(step, from, c->total_steps);
  }
  case PARAMS_schedule_COUNT: break;
  }
  return c->lr;
}

double optimizer_get_scale(const struct optimizer_config *c, double norm) {
  double scale = c->clip > 0 ? c->clip / (norm + 1e-6) : 1;
  return scale < 1 ? scale : 1;
}

void optimizer_finish_gradient(struct rank_state *s, int32_t layer) {
  const struct device_ops *ops = s->device->ops;
  const struct rank_tie *t = rank_state_find_tie(s, layer);
  if (!t) return;
  int64_t n = s->model->layers[t->tie->layer].tensors[t->tie->tensor].count;
  if (layer == t->tie->layer) {
    ops->add(s->device, n, t->g_user, t->g_owner);
    ops->fill(s->device, n, 0.0f, t->g_user);
  } else if (rank_tie_is_copy(t)) {
    ops->add(s->device, n, t->g_owner, t->g_user);
  }
}

double optimizer_sum_layer(struct rank_state *s, int32_t layer, int *bad_tensor) {
  const struct layer *l = &s->model->layers[layer];
  double sum = 0;
  *bad_tensor = -1;
  for (int t = 0; t < l->n_tensors; t++) {
    if (l->tensors[t].tied) continue;
    double part = s->device->ops->sum_squares(s->device, l->tensors[t].count, s->g[layer] + l->tensors[t].offset);
    if (!isfinite(part) && *bad_tensor < 0) *bad_tensor = t;
    sum += part;
  }
  return sum;
}

static struct adamw make_adamw(const struct optimizer_config *c, int64_t step, double grad_scale, bool decays) {
  return (struct adamw){.lr = (float)optimizer_get_lr(c, step),
                        .beta1 = (float)c->beta1,
                        .beta2 = (float)c->beta2,
                        .eps = (float)c->eps,
                        .weight_decay = decays ? (float)c->weight_decay : 0.0f,
                        .grad_scale = (float)grad_scale,
                        .step = step};
}

void optimizer_update_layer(struct rank_state *s, const struct optimizer_config *c, int32_t layer, int64_t step,
                            double grad_scale) {
  const struct layer *l = &s->model->layers[layer];
  const struct rank_tie *tie = rank_state_find_tie(s, layer);
  for (int t = 0; t < l->n_tensors; t++) {
    const struct tensor *tensor = &l->tensors[t];
    struct adamw p = make_adamw(c, step, grad_scale, tensor->decays);
    int64_t n = tensor->count, at = tensor->offset;
    if (!tensor->tied)
      s->device->ops->adamw(s->device, &p, n, s->w[layer] + at, s->g[layer] + at, s->m[layer] + at, s->v[layer] + at);
    else if (rank_tie_is_copy(tie))
      s->device->ops->adamw(s->device, &p, n, tie->w, tie->g_user, tie->m, tie->v);
  }
}
