/* From gradients to weights: rates against closed forms, the clipping factor, AdamW against float64, norms by layer. */
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "exec/optimizer.h"
#include "kernels.h"
#include "t.h"

/* ---- rates ---- */

static void check_lr(const struct optimizer_config *c, int64_t step, double wanted) {
  double lr = optimizer_get_lr(c, step);
  T_CHECK(fabs(lr - wanted) <= 1e-15 + 1e-12 * fabs(wanted), "schedule %d, step %lld: rate %.15g, wanted %.15g",
          c->schedule, (long long)step, lr, wanted);
}

static void test_schedules(void) {
  struct optimizer_config c = {.lr = 0.8, .min_lr = 0.2, .warmup_steps = 4, .decay_steps = 12, .total_steps = 40};
  for (int schedule = PARAMS_SCHEDULE_CONSTANT; schedule <= PARAMS_SCHEDULE_WSD; schedule++) {
    c.schedule = (enum params_schedule)schedule;
    for (int step = 1; step <= 4; step++) check_lr(&c, step, 0.2 * step);
  }
  c.schedule = PARAMS_SCHEDULE_CONSTANT;
  check_lr(&c, 5, 0.8);
  check_lr(&c, 1000, 0.8);
  c.schedule = PARAMS_SCHEDULE_LINEAR;
  check_lr(&c, 5, 0.8 - 0.6 / 8);
  check_lr(&c, 8, 0.5);
  check_lr(&c, 12, 0.2);
  check_lr(&c, 13, 0.2);
  c.schedule = PARAMS_SCHEDULE_COSINE;
  check_lr(&c, 6, 0.2 + 0.3 * (1 + sqrt(0.5)));
  check_lr(&c, 8, 0.5);
  check_lr(&c, 10, 0.2 + 0.3 * (1 - sqrt(0.5)));
  check_lr(&c, 12, 0.2);
  check_lr(&c, 99, 0.2);
  c.schedule = PARAMS_SCHEDULE_WSD; /* flat until the last 12 of 40 steps */
  check_lr(&c, 5, 0.8);
  check_lr(&c, 28, 0.8);
  check_lr(&c, 31, 0.8 - 0.6 / 4);
  check_lr(&c, 34, 0.5);
  check_lr(&c, 40, 0.2);
  check_lr(&c, 41, 0.2);
}

/* No warm-up, and decays that are over before they begin. */
static void test_schedule_edges(void) {
  struct optimizer_config c = {.lr = 1, .min_lr = 0, .decay_steps = 2, .schedule = PARAMS_SCHEDULE_LINEAR};
  check_lr(&c, 1, 0.5);
  check_lr(&c, 2, 0);
  c = (struct optimizer_config){
      .lr = 1, .min_lr = 0.1, .warmup_steps = 3, .decay_steps = 3, .schedule = PARAMS_SCHEDULE_COSINE};
  check_lr(&c, 3, 1);
  check_lr(&c, 4, 0.1);
  c = (struct optimizer_config){
      .lr = 1, .min_lr = 0, .warmup_steps = 6, .decay_steps = 100, .total_steps = 10, .schedule = PARAMS_SCHEDULE_WSD};
  check_lr(&c, 6, 1);
  check_lr(&c, 8, 0.5);
  check_lr(&c, 10, 0);
}

static void test_scale(void) {
  struct optimizer_config c = {.clip = 0.5};
  T_CHECK(optimizer_get_scale(&c, 2) == 0.5 / (2 + 1e-6), "%.17g", optimizer_get_scale(&c, 2));
  T_CHECK(optimizer_get_scale(&c, 0.4999) == 1, "%.17g", optimizer_get_scale(&c, 0.4999));
  T_CHECK(optimizer_get_scale(&c, 0) == 1, "%.17g", optimizer_get_scale(&c, 0));
  c.clip = 0;
  T_CHECK(optimizer_get_scale(&c, 1e9) == 1, "%.17g", optimizer_get_scale(&c, 1e9));
}

/* ---- updates of a real model's layers ---- */

struct bench {
  struct model *model;
  struct device *device;
  struct rank_state *state;
};

static struct bench open_bench(bool tied) {
  struct bench b = {0};
  char json[256];
  snprintf(json, sizeof json,
           "{\"model_type\": \"gpt2\", \"vocab_size\": 29, \"n_embd\": 20, \"n_layer\": 1, \"n_head\": 2, "
           "\"n_positions\": 9, \"tie_word_embeddings\": %s}",
           tied ? "true" : "false");
  T_CHECK(model_create(json, "test", 0.1, &b.model, NULL) == STATUS_OK, "%s", error_text());
  struct device_config config = {.threads = 2, .limit = INT64_MAX, .poison = true};
  T_CHECK(device_find("cpu")->open(&config, &b.device) == STATUS_OK, "%s", error_text());
  bool holds[] = {true, true, true, true};
  T_CHECK(rank_state_create(b.model, b.device, holds, false, &b.state) == STATUS_OK, "%s", error_text());
  rank_state_init(b.state, 3);
  return b;
}

static void close_bench(struct bench *b) {
  rank_state_destroy(&b->state);
  b->device->ops->close(&b->device);
  model_destroy(&b->model);
}

/* A gradient: a function of step and place, of very different sizes. */
static float make_gradient(int64_t step, int32_t layer, int64_t i) {
  struct rng_key key = {.seed = (uint64_t)step, .purpose = RNG_TEST, .a = (uint32_t)layer};
  return (float)(rng_normal(&key, (uint64_t)i) * pow(10, -(double)(i % 4)));
}

/* AdamW in float64, element by element, as published: decay apart from the gradient, both moments corrected. */
static void test_adamw(void) {
  enum { STEPS = 10 };
  struct optimizer_config c = {.lr = 0.01,
                               .min_lr = 0.001,
                               .schedule = PARAMS_SCHEDULE_COSINE,
                               .warmup_steps = 2,
                               .decay_steps = 10,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .eps = 1e-8,
                               .weight_decay = 0.1};
  const double scale = 0.25;
  struct bench b = open_bench(false);
  for (int32_t l = 0; l < b.model->n_layers; l++) {
    const struct layer *layer = &b.model->layers[l];
    double *w = MEM_NEW(double, layer->n_floats), *m = MEM_NEW(double, layer->n_floats),
           *v = MEM_NEW(double, layer->n_floats);
    for (int64_t i = 0; i < layer->n_floats; i++) w[i] = (double)b.state->w[l][i];
    for (int step = 1; step <= STEPS; step++) {
      for (int t = 0; t < layer->n_tensors; t++)
        for (int64_t i = layer->tensors[t].offset; i < layer->tensors[t].offset + layer->tensors[t].count; i++) {
          double g = scale * (double)(b.state->g[l][i] = make_gradient(step, l, i)), lr = optimizer_get_lr(&c, step);
          m[i] = c.beta1 * m[i] + (1 - c.beta1) * g;
          v[i] = c.beta2 * v[i] + (1 - c.beta2) * g * g;
          w[i] *= 1 - lr * (layer->tensors[t].n_dims == 2 ? c.weight_decay : 0);
          w[i] -= lr * (m[i] / (1 - pow(c.beta1, step))) / (sqrt(v[i] / (1 - pow(c.beta2, step))) + c.eps);
        }
      optimizer_update_layer(b.state, &c, l, step, scale);
    }
    for (int64_t i = 0; i < layer->n_floats; i++) {
      T_CHECK(fabs((double)b.state->w[l][i] - w[i]) <= 2e-6 * (fabs(w[i]) + 0.1), "layer %d, %lld: weight %.9g, %.9g",
              l, (long long)i, (double)b.state->w[l][i], w[i]);
      T_CHECK(fabs((double)b.state->m[l][i] - m[i]) <= 1e-6 * pow(10, -(double)(i % 4)), "layer %d: m %.9g, %.9g", l,
              (double)b.state->m[l][i], m[i]);
      T_CHECK(fabs((double)b.state->v[l][i] - v[i]) <= 1e-5 * fabs(v[i]), "layer %d: v %.9g, %.9g", l,
              (double)b.state->v[l][i], v[i]);
      T_CHECK(b.state->g[l][i] == 0, "layer %d: a gradient is left: %g", l, (double)b.state->g[l][i]);
    }
    mem_free(w);
    mem_free(m);
    mem_free(v);
  }
  close_bench(&b);
}

/* ---- sums ---- */

static void fill_gradients(const struct bench *b, int32_t layer) {
  const struct layer *l = &b->model->layers[layer];
  for (int t = 0; t < l->n_tensors; t++)
    for (int64_t i = 0; i < l->tensors[t].count && !l->tensors[t].tied; i++)
      b->state->g[layer][l->tensors[t].offset + i] = make_gradient(7, layer, l->tensors[t].offset + i);
}

/* Sums of squares by layer; the two uses of a tied table are added once, and count in the embedding's layer. */
static void test_sums(bool tied) {
  struct bench b = open_bench(tied);
  int64_t n = b.model->layers[0].tensors[0].count;
  for (int32_t l = 0; l < b.model->n_layers; l++) fill_gradients(&b, l);
  float *g_user = tied ? rank_state_find_tie(b.state, 0)->g_user : NULL;
  for (int64_t i = 0; tied && i < n; i++) g_user[i] = make_gradient(8, 99, i);
  for (int32_t l = 0; l < b.model->n_layers; l++) {
    double sum = 0;
    for (int64_t i = 0; i < b.model->layers[l].n_floats; i++) {
      float g = b.state->g[l][i] + (tied && l == 0 && i < n ? g_user[i] : 0);
      sum += (double)g * (double)g;
    }
    int bad;
    optimizer_finish_gradient(b.state, l);
    double found = optimizer_sum_layer(b.state, l, &bad);
    T_CHECK(fabs(found - sum) <= 1e-12 * sum && bad == -1, "layer %d: %.15g, wanted %.15g", l, found, sum);
  }
  for (int64_t i = 0; tied && i < n; i++) T_CHECK(g_user[i] == 0, "the head's sum is left");
  close_bench(&b);
}

/* The tensor that is not finite is named by its place, the first of several. */
static void test_not_finite(void) {
  struct bench b = open_bench(true);
  const struct layer *layer = &b.model->layers[1];
  for (int t = layer->n_tensors - 1; t >= 0; t--) {
    int bad;
    b.state->g[1][layer->tensors[t].offset + layer->tensors[t].count - 1] = t % 2 ? INFINITY : NAN;
    double sum = optimizer_sum_layer(b.state, 1, &bad);
    T_CHECK(!isfinite(sum) && bad == t, "tensor %d is not finite, %d is named, sum %g", t, bad, sum);
  }
  close_bench(&b);
}

int main(void) {
  test_schedules();
  test_schedule_edges();
  test_scale();
  test_adamw();
  test_sums(false);
  test_sums(true);
  test_not_finite();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
