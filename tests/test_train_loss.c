/* What is trained: the mean over all labels of the step, however rows are grouped into micro-batches and wherever the
 * layers live; one norm and one clipping factor; gradients that are the slopes of the loss.
 */
#include "train_case.h"

/* A batch of the same rows in other micro-batches, with a side of its own. */
struct group {
  struct batch batch;
  struct train_side side;
};

static struct group open_group(const struct train_job *job, const struct model *model, const struct train_rows *rows,
                               int64_t micro_batch, const struct optimizer_config *optimizer) {
  struct train_setup setup = {.optimizer = *optimizer};
  struct group group = {.batch = train_make_batch(rows, model->config.vocab_size, micro_batch)};
  group.side = train_open(job->comm, model, &setup, &group.batch);
  return group;
}

static void close_group(struct group *group) {
  train_close(&group->side);
  batch_fini(&group->batch);
}

/* ---- closeness ---- */

static bool is_close(double a, double b, double tolerance) { return fabs(a - b) <= tolerance * fabs(b); }

/* The 2-norm of a difference against the norm of what it should be, and a share of the whole's: some exact values are
 * zero. */
static void compare_close(const char *name, const struct rank_state *a, float *const *of_a, float *const *of_b,
                          double tolerance, double whole) {
  for (int32_t l = 0; l < a->model->n_layers; l++)
    for (int t = 0; a->holds[l] && t < a->model->layers[l].n_tensors; t++) {
      const struct tensor *tensor = &a->model->layers[l].tensors[t];
      if (tensor->tied) continue;
      const float *x = of_a[l] + tensor->offset, *y = of_b[l] + tensor->offset;
      double difference = 0, norm = 0;
      for (int64_t i = 0; i < tensor->count; i++) {
        difference += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        norm += (double)y[i] * y[i];
      }
      double allowed = tolerance * (sqrt(norm) + 1e-3 * whole);
      T_CHECK(sqrt(difference) <= allowed, "%s: %s differs by %.3g, allowed %.3g", name, tensor->name, sqrt(difference),
              allowed);
    }
}

/* Sum of squares of this rank's gradients, a tied table in the embedding's layer. */
static double sum_own_squares(const struct rank_state *s) {
  double sum = 0;
  for (int32_t l = 0; l < s->model->n_layers; l++)
    for (int64_t i = 0; s->holds[l] && i < s->model->layers[l].n_floats; i++) sum += (double)s->g[l][i] * s->g[l][i];
  return sum;
}

/* ---- groupings ---- */

/* 1, 2 and 8 micro-batches of the same rows: loss, norm, every gradient. */
static void test_counts(const struct train_job *job, const char *json) {
  static const int64_t sizes[] = {8, 4, 1};
  struct model *model = train_make_model(json);
  struct train_rows rows = train_create_rows(11, 8, 10, model->config.vocab_size);
  struct optimizer_config optimizer = train_make_optimizer(0);
  struct group groups[3];
  struct trainer_result results[3];
  for (int i = 0; i < 3; i++) {
    groups[i] = open_group(job, model, &rows, sizes[i], &optimizer);
    results[i] = train_gradients(&groups[i].side, &groups[i].batch);
    T_CHECK(is_close(results[i].loss, results[0].loss, 1e-6), "loss %.9g, in one piece %.9g", results[i].loss,
            results[0].loss);
    T_CHECK(is_close(results[i].grad_norm, results[0].grad_norm, 1e-6), "norm %.9g, in one piece %.9g",
            results[i].grad_norm, results[0].grad_norm);
    const struct rank_state *a = groups[i].side.trainer->state, *b = groups[0].side.trainer->state;
    compare_close("micro-batches of another size", a, a->g, b->g, 1e-6, results[0].grad_norm);
  }
  for (int i = 0; i < 3; i++) close_group(&groups[i]);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* 32 rows as 4 x 8 and as 16 x 2. */
static void test_32_rows(const struct train_job *job) {
  struct model *model = train_make_model(TRAIN_LLAMA(3, "true"));
  struct train_rows rows = train_create_rows(12, 32, 6, model->config.vocab_size);
  train_draw_lengths(&rows, 3);
  struct optimizer_config optimizer = train_make_optimizer(0);
  struct group few = open_group(job, model, &rows, 8, &optimizer), many = open_group(job, model, &rows, 2, &optimizer);
  struct trainer_result a = train_gradients(&few.side, &few.batch), b = train_gradients(&many.side, &many.batch);
  T_CHECK(few.batch.n_micro == 4 && many.batch.n_micro == 16, "%d and %d", few.batch.n_micro, many.batch.n_micro);
  T_CHECK(is_close(a.loss, b.loss, 1e-6), "loss %.9g as 4 x 8, %.9g as 16 x 2", a.loss, b.loss);
  T_CHECK(is_close(a.grad_norm, b.grad_norm, 1e-6), "norm %.9g as 4 x 8, %.9g as 16 x 2", a.grad_norm, b.grad_norm);
  close_group(&few);
  close_group(&many);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* Weights after 3 steps of several rounds. With a large eps the update follows the gradient smoothly; with a small one
 * AdamW would blow up the rounding of gradients that are zero. */
static void test_weights(const struct train_job *job) {
  struct model *model = train_make_model(TRAIN_GPT2(3, "true"));
  struct optimizer_config optimizer = train_make_optimizer(1);
  optimizer.eps = 0.1;
  struct train_rows rows = train_create_rows(13, 6, 9, model->config.vocab_size);
  struct group few = open_group(job, model, &rows, 3, &optimizer), many = open_group(job, model, &rows, 1, &optimizer);
  struct rank_state *a = few.side.trainer->state, *b = many.side.trainer->state;
  float first = b->w[model->n_layers - 1] ? b->w[model->n_layers - 1][0] : 0;
  for (int step = 1; step <= 3; step++) {
    struct trainer_result x = train_step(&few.side, &few.batch, step), y = train_step(&many.side, &many.batch, step);
    T_CHECK(is_close(x.loss, y.loss, 1e-6), "step %d: loss %.9g as 2 x 3, %.9g as 6 x 1", step, x.loss, y.loss);
  }
  compare_close("weights after 3 steps", a, a->w, b->w, 1e-6, 0.1);
  if (b->w[model->n_layers - 1]) T_CHECK(b->w[model->n_layers - 1][0] != first, "nothing was trained");
  close_group(&few);
  close_group(&many);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* Rows of 16, 1, 1, 1 tokens: the mean over tokens, not of means. */
static void test_short_rows(const struct train_job *job) {
  struct model *model = train_make_model(TRAIN_LLAMA(3, "false"));
  struct optimizer_config optimizer = train_make_optimizer(0);
  struct train_rows rows = train_create_rows(14, 4, 16, model->config.vocab_size);
  for (int r = 1; r < 4; r++) train_cut_row(&rows, r, 1);
  for (int r = 1; r < 4; r++) rows.label[r * 16] = 5 * r;
  struct group one = open_group(job, model, &rows, 4, &optimizer), four = open_group(job, model, &rows, 1, &optimizer);
  struct trainer_result a = train_gradients(&one.side, &one.batch), b = train_gradients(&four.side, &four.batch);
  const struct rank_state *x = one.side.trainer->state, *y = four.side.trainer->state;
  T_CHECK(is_close(a.loss, b.loss, 1e-6), "loss %.9g as 1 x 4, %.9g as 4 x 1", a.loss, b.loss);
  compare_close("lengths 16, 1, 1, 1", x, x->g, y->g, 1e-6, b.grad_norm);
  close_group(&one);
  close_group(&four);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* ---- labels ---- */

/* Rows with labels of their own, through the pipeline together, one at a time, and together with all labels but one
 * row's taken away: a label that met another row would show. */
static void test_tagged_rows(const struct train_job *job) {
  enum { ROWS = 7, TIME = 12 };
  struct model *model = train_make_model(TRAIN_LLAMA(3, "true"));
  int64_t vocab = model->config.vocab_size;
  struct optimizer_config optimizer = train_make_optimizer(0);
  struct train_rows rows = train_create_rows(15, ROWS, TIME, vocab);
  for (int32_t i = 0; i < ROWS * TIME; i++) rows.label[i] = (int32_t)((rows.token[i] + 1 + 9 * (i / TIME)) % vocab);
  train_draw_lengths(&rows, 9);
  struct group all = open_group(job, model, &rows, 2, &optimizer);
  double sum = 0, together = train_evaluate(&all.side, &all.batch);
  for (int64_t r = 0; r < ROWS; r++) {
    struct train_rows one = {1, TIME, rows.token + r * TIME, rows.label + r * TIME, rows.length + r};
    struct train_rows masked = train_create_rows(15, ROWS, TIME, vocab);
    for (int64_t i = 0; i < ROWS * TIME; i++) masked.label[i] = i / TIME == r ? rows.label[i] : -100;
    struct train_rows among = {ROWS, TIME, rows.token, masked.label, rows.length};
    struct batch single = train_make_batch(&one, vocab, 1), marked = train_make_batch(&among, vocab, 2);
    double loss = train_evaluate(&all.side, &single), in_place = train_evaluate(&all.side, &marked);
    T_CHECK(is_close(in_place, loss, 1e-6), "row %lld: %.9g among the others, %.9g alone", (long long)r, in_place,
            loss);
    sum += loss;
    batch_fini(&single);
    batch_fini(&marked);
    train_free_rows(&masked);
  }
  T_CHECK(is_close(sum, together, 1e-6), "rows one by one %.9g, together %.9g", sum, together);
  close_group(&all);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* A micro-batch without labels adds nothing: the bits of the step without it. */
static void test_unlabelled_micro_batch(const struct train_job *job) {
  enum { TIME = 8 };
  struct model *model = train_make_model(TRAIN_GPT2(3, "true"));
  struct optimizer_config optimizer = train_make_optimizer(1);
  struct train_rows rows = train_create_rows(16, 4, TIME, model->config.vocab_size);
  for (int t = 0; t < 2 * TIME; t++) rows.label[t] = -100; /* the first of two micro-batches */
  struct train_rows rest = {2, TIME, rows.token + 2 * TIME, rows.label + 2 * TIME, rows.length + 2};
  struct group with = open_group(job, model, &rows, 2, &optimizer),
               without = open_group(job, model, &rest, 2, &optimizer);
  for (int step = 1; step <= 2; step++) {
    struct trainer_result a = train_step(&with.side, &with.batch, step),
                          b = train_step(&without.side, &without.batch, step);
    train_compare_results("a micro-batch without labels", step, &a, &b);
  }
  train_compare_weights("a micro-batch without labels", &with.side, &without.side);
  close_group(&with);
  close_group(&without);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* A step without labels changes nothing and says so. */
static void test_unlabelled_step(const struct train_job *job) {
  struct model *model = train_make_model(TRAIN_GPT2(3, "true"));
  struct optimizer_config optimizer = train_make_optimizer(1);
  struct train_rows rows = train_create_rows(17, 4, 8, model->config.vocab_size);
  struct group labelled = open_group(job, model, &rows, 2, &optimizer),
               other = open_group(job, model, &rows, 2, &optimizer);
  for (int i = 0; i < 32; i++) rows.label[i] = -100;
  struct batch empty = train_make_batch(&rows, model->config.vocab_size, 2);
  train_step(&labelled.side, &labelled.batch, 1);
  train_step(&other.side, &other.batch, 1);
  struct trainer_result skipped = train_step(&labelled.side, &empty, 2);
  T_CHECK(skipped.skipped && skipped.finite && skipped.loss == 0 && skipped.grad_norm == 0,
          "a step without labels: skipped %d, loss %g, norm %g", skipped.skipped, skipped.loss, skipped.grad_norm);
  double sum = train_evaluate(&labelled.side, &empty);
  T_CHECK(sum == 0, "loss without labels: %g", sum);
  train_compare_weights("a step without labels", &labelled.side, &other.side);
  struct trainer_result a = train_step(&labelled.side, &labelled.batch, 3),
                        b = train_step(&other.side, &other.batch, 3);
  train_compare_results("the step after", 3, &a, &b);
  batch_fini(&empty);
  close_group(&labelled);
  close_group(&other);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* What stands in the padding has no effect: other tokens, the same bits. */
static void test_padding(const struct train_job *job, const char *json) {
  struct model *model = train_make_model(json);
  struct optimizer_config optimizer = train_make_optimizer(1);
  struct train_rows rows = train_create_rows(18, 6, 14, model->config.vocab_size);
  train_draw_lengths(&rows, 4);
  struct group a = open_group(job, model, &rows, 3, &optimizer), b = open_group(job, model, &rows, 3, &optimizer);
  int64_t changed = 0;
  for (int32_t i = 0; i < b.batch.n_micro; i++) {
    const struct micro_batch *micro = &b.batch.micro[i];
    for (int32_t at = 0; at < micro->shape.rows * micro->shape.length; at++)
      if (at % micro->shape.length >= micro->lengths[at / micro->shape.length])
        micro->token[at] = 1 + (int32_t)(++changed % 60);
  }
  T_CHECK(changed > 10, "only %lld tokens of padding", (long long)changed);
  struct trainer_result x = train_gradients(&a.side, &a.batch), y = train_gradients(&b.side, &b.batch);
  train_compare_results("other padding", 0, &x, &y);
  train_compare_gradients("other padding", &a.side, &b.side);
  close_group(&a);
  close_group(&b);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* ---- the norm ---- */

static double gather_sum(const struct train_job *job, double value, double *least, double *most) {
  double *all = MEM_NEW(double, job->size), sum = 0;
  int64_t *offsets = MEM_NEW(int64_t, job->size + 1);
  comm_gather_all(job->comm, &value, sizeof value, all, offsets);
  *least = *most = all[0];
  for (int r = 0; r < job->size; r++) {
    sum += all[r];
    *least = fmin(*least, all[r]);
    *most = fmax(*most, all[r]);
  }
  mem_free(all);
  mem_free(offsets);
  return sum;
}

/* Every first moment after one step is (1 - beta1) x factor x gradient, with one factor everywhere. */
static void check_factor(const struct train_side *side, float *const *gradients, double factor) {
  const struct rank_state *s = side->trainer->state;
  for (int32_t l = 0; l < s->model->n_layers; l++)
    for (int64_t i = 0; s->holds[l] && i < s->model->layers[l].n_floats; i++) {
      double wanted = (1 - (double)0.9f) * factor * gradients[l][i];
      T_CHECK(fabs(s->m[l][i] - wanted) <= 1e-6 * fabs(wanted) + 1e-30, "layer %d: moment %.9g, %.9g wanted", l,
              (double)s->m[l][i], wanted);
    }
}

/* With a tiny embedding behind a norm the first stage's gradients are much larger than the others'. */
static void shrink_embedding(const struct train_side *side) {
  const struct rank_state *s = side->trainer->state;
  int64_t n = s->model->layers[0].tensors[0].count;
  float *copy = train_get_copy(s);
  for (int64_t i = 0; s->holds[0] && i < n; i++) s->w[0][i] *= 0.02f;
  for (int64_t i = 0; copy && i < n; i++) copy[i] *= 0.02f;
}

static void test_norm(const struct train_job *job, const char *json, bool tied) {
  struct model *model = train_make_model(json);
  struct optimizer_config optimizer = train_make_optimizer(0.1);
  optimizer.warmup_steps = 0;
  struct train_rows rows = train_create_rows(19, 4, 9, model->config.vocab_size);
  struct group group = open_group(job, model, &rows, 1, &optimizer);
  struct rank_state *s = group.side.trainer->state;
  shrink_embedding(&group.side);
  struct trainer_result result = train_gradients(&group.side, &group.batch);
  double least, most, norm = sqrt(gather_sum(job, sum_own_squares(s), &least, &most));
  T_CHECK(is_close(result.grad_norm, norm, 1e-9), "norm %.12g, from the gradients %.12g", result.grad_norm, norm);
  T_CHECK(job->size == 1 || tied || most > 100 * least, "squares from %g to %g", least, most);
  float **gradients = MEM_NEW(float *, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) {
    if (!s->holds[l]) continue;
    gradients[l] = MEM_NEW(float, model->layers[l].n_floats);
    memcpy(gradients[l], s->g[l], sizeof **gradients * (size_t)model->layers[l].n_floats);
  }
  trainer_clear_gradients(group.side.trainer);
  result = train_step(&group.side, &group.batch, 1);
  T_CHECK(is_close(result.grad_norm, norm, 1e-9) && norm > 0.2, "norm of the step %.12g", result.grad_norm);
  check_factor(&group.side, gradients, 0.1 / (norm + 1e-6));
  for (int32_t l = 0; l < model->n_layers; l++) mem_free(gradients[l]);
  mem_free(gradients);
  close_group(&group);
  train_free_rows(&rows);
  model_destroy(&model);
}

/* ---- slopes ---- */

/* Moves one weight wherever it is held. */
static void move_weight(const struct rank_state *s, int32_t layer, const struct tensor *tensor, int64_t i, float by) {
  if (s->holds[layer]) s->w[layer][tensor->offset + i] += by;
  if (layer == 0 && tensor->offset == 0 && train_get_copy(s)) train_get_copy(s)[i] += by;
}

/* The element with the largest gradient in one half of a tensor, and that gradient, on every rank. */
static int64_t find_element(const struct train_job *job, const struct train_side *side, int32_t layer,
                            const struct tensor *tensor, int half, double *gradient) {
  struct {
    int64_t element;
    double gradient;
  } found = {half * (tensor->count / 2), 0};
  const struct rank_state *s = side->trainer->state;
  int64_t end = half ? tensor->count : tensor->count / 2;
  for (int64_t i = found.element; s->holds[layer] && i < end; i++) {
    double g = s->g[layer][tensor->offset + i];
    if (fabs(g) <= fabs(found.gradient)) continue;
    found.element = i;
    found.gradient = g;
  }
  comm_broadcast_all(job->comm, plan_get_holder(side->plan, plan_get_stage(side->plan, layer)), &found, sizeof found);
  *gradient = found.gradient;
  return found.element;
}

static void check_slope(const struct train_job *job, struct group *group, int32_t layer, const struct tensor *tensor,
                        int half) {
  const struct rank_state *s = group->side.trainer->state;
  const float h = 0x1p-6f;
  double gradient;
  int64_t i = find_element(job, &group->side, layer, tensor, half, &gradient);
  float kept = s->holds[layer] ? s->w[layer][tensor->offset + i] : train_get_copy(s) ? train_get_copy(s)[i] : 0;
  move_weight(s, layer, tensor, i, h);
  double above = train_evaluate(&group->side, &group->batch);
  move_weight(s, layer, tensor, i, -2 * h);
  double below = train_evaluate(&group->side, &group->batch);
  if (s->holds[layer]) s->w[layer][tensor->offset + i] = kept;
  if (layer == 0 && tensor->offset == 0 && train_get_copy(s)) train_get_copy(s)[i] = kept;
  double slope = (above - below) / (2 * (double)h) / (double)group->batch.labels;
  T_CHECK(fabs(slope - gradient) <= 5e-3 * fabs(gradient) + 2e-5, "%s[%lld]: slope %.6g, gradient %.6g", tensor->name,
          (long long)i, slope, gradient);
}

/* Gradients of every kind of tensor against differences of the loss. */
static void test_slopes(const struct train_job *job, const char *json) {
  struct model *model = train_make_model(json);
  struct optimizer_config optimizer = train_make_optimizer(0);
  struct train_rows rows = train_create_rows(20, 3, 8, model->config.vocab_size);
  train_cut_row(&rows, 1, 5);
  struct group group = open_group(job, model, &rows, 2, &optimizer);
  train_gradients(&group.side, &group.batch);
  int32_t layers[] = {0, 1, 2, model->n_layers - 1};
  for (int k = 0; k < 4; k++) {
    const struct layer *layer = &model->layers[layers[k]];
    for (int t = 0; t < layer->n_tensors; t++)
      for (int half = 0; half < 2 && !layer->tensors[t].tied; half++)
        check_slope(job, &group, layers[k], &layer->tensors[t], half);
  }
  close_group(&group);
  train_free_rows(&rows);
  model_destroy(&model);
}

int main(int argc, char **argv) {
  struct train_job job = train_job_open(&argc, &argv);
  test_counts(&job, TRAIN_LLAMA(3, "false"));
  test_counts(&job, TRAIN_GPT2(3, "true"));
  test_32_rows(&job);
  test_weights(&job);
  test_short_rows(&job);
  test_tagged_rows(&job);
  test_unlabelled_micro_batch(&job);
  test_unlabelled_step(&job);
  test_padding(&job, TRAIN_LLAMA(3, "true"));
  test_padding(&job, TRAIN_GPT2(3, "true"));
  test_norm(&job, TRAIN_LLAMA(3, "false"), false);
  test_norm(&job, TRAIN_GPT2(3, "true"), true);
  test_slopes(&job, TRAIN_GPT2(2, "true"));
  test_slopes(&job, TRAIN_GPT2(2, "false"));
  test_slopes(&job, "{\"model_type\": \"llama\", \"vocab_size\": 67, \"hidden_size\": 32, \"intermediate_size\": 40, "
                    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                    "\"max_position_embeddings\": 64, \"attention_bias\": true, \"mlp_bias\": true}");
  return train_job_close(&job);
}
