#include "train_case.h"

struct train_job train_job_open(int *argc, char ***argv) {
  struct train_job job = {0};
  if (comm_open_all(argc, argv, false, &job.comm)) {
    fprintf(stderr, "%s\n", error_text());
    exit(1);
  }
  watchdog_set_timeout(job.comm, 40);
  job.self = comm_create_self(job.comm);
  job.rank = comm_get_rank(job.comm);
  job.size = comm_get_size(job.comm);
  return job;
}

int train_job_close(struct train_job *job) {
  int32_t failures = t_failures, *all = MEM_NEW(int32_t, job->size);
  int64_t *offsets = MEM_NEW(int64_t, job->size + 1);
  comm_gather_all(job->comm, &failures, sizeof failures, all, offsets);
  for (int r = 0; r < job->size; r++) t_failures += r == job->rank ? 0 : all[r];
  mem_free(all);
  mem_free(offsets);
  comm_destroy_self(&job->self);
  comm_close_all(&job->comm);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}

void train_must(struct comm *comm, int status) {
  if (!status) return;
  fprintf(stderr, "failed: %s\n", error_text());
  comm_abort(comm, 1);
}

struct train_rows train_create_rows(uint64_t seed, int64_t rows, int64_t time, int64_t vocab) {
  struct train_rows r = {rows, time, MEM_NEW(int32_t, rows * time), MEM_NEW(int32_t, rows * time),
                         MEM_NEW(int32_t, rows)};
  struct rng_key key = {.seed = seed, .purpose = RNG_TEST, .a = 1};
  for (int64_t i = 0; i < rows * time; i++) {
    uint64_t bits = rng_bits(&key, (uint64_t)i);
    r.token[i] = (int32_t)(bits % (uint64_t)vocab);
    r.label[i] = (bits >> 32) % 8 == 0 ? -100 : (int32_t)((bits >> 40) % (uint64_t)vocab);
  }
  for (int64_t i = 0; i < rows; i++) r.length[i] = (int32_t)time;
  return r;
}

void train_cut_row(struct train_rows *r, int64_t row, int32_t length) {
  r->length[row] = length;
  for (int64_t t = length; t < r->time; t++) r->label[row * r->time + t] = -100;
}

void train_draw_lengths(struct train_rows *r, uint64_t seed) {
  struct rng_key key = {.seed = seed, .purpose = RNG_TEST, .a = 2};
  for (int64_t i = 0; i < r->rows; i++)
    train_cut_row(r, i, 1 + (int32_t)(rng_bits(&key, (uint64_t)i) % (uint64_t)r->time));
}

void train_free_rows(struct train_rows *r) {
  mem_free(r->token);
  mem_free(r->label);
  mem_free(r->length);
}

struct batch train_make_batch(const struct train_rows *r, int64_t vocab, int64_t micro_batch) {
  struct batch batch = {0};
  int status = batch_build_from_arrays(r->rows, r->time, r->token, r->label, r->length, vocab, micro_batch, &batch);
  T_CHECK(!status, "%s", error_text());
  return batch;
}

struct micro_shape *train_list_shapes(const struct batch *batch) {
  struct micro_shape *micro = MEM_NEW(struct micro_shape, batch->n_micro);
  for (int32_t i = 0; i < batch->n_micro; i++) micro[i] = batch->micro[i].shape;
  return micro;
}

struct optimizer_config train_make_optimizer(double clip) {
  return (struct optimizer_config){.lr = 0.01,
                                   .min_lr = 0.002,
                                   .schedule = PARAMS_SCHEDULE_COSINE,
                                   .warmup_steps = 1,
                                   .decay_steps = 10,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .eps = 1e-8,
                                   .weight_decay = 0.1,
                                   .clip = clip};
}

struct train_side train_open_plan(struct comm *comm, const struct model *model, const struct train_setup *setup,
                                  struct plan *plan) {
  struct train_side side = {.comm = comm, .plan = plan};
  struct trainer_config config = {
      .comm = comm,
      .model = model,
      .plan = plan,
      .backend = "cpu",
      .device = {.threads = setup->threads ? setup->threads : 1,
                 .limit = setup->limit ? setup->limit : INT64_MAX,
                 .poison = true},
      .optimizer = setup->optimizer,
      .sync_messages = setup->sync_messages,
      .spill_folder = setup->spill_folder,
      .run = "test",
  };
  train_must(comm, trainer_create(&config, &side.trainer));
  trainer_init(side.trainer, 5);
  return side;
}

struct train_side train_open(struct comm *comm, const struct model *model, const struct train_setup *setup,
                             const struct batch *batch) {
  struct micro_shape *micro = train_list_shapes(batch);
  struct plan_request request = {.model = model,
                                 .n_ranks = comm_get_size(comm),
                                 .n_stages = comm_get_size(comm),
                                 .partition.kind = setup->n_partition ? PARAMS_CUT_LIST : PARAMS_CUT_EVEN,
                                 .partition.blocks = setup->partition,
                                 .partition.n = setup->n_partition,
                                 .n_micro = batch->n_micro,
                                 .micro = micro,
                                 .clip = setup->optimizer.clip > 0};
  struct plan *plan = NULL;
  train_must(comm, planner_run(setup->planner ? setup->planner : "1f1b", &request, &plan));
  mem_free(micro);
  return train_open_plan(comm, model, setup, plan);
}

void train_close(struct train_side *side) {
  trainer_destroy(&side->trainer);
  plan_destroy(&side->plan);
}

struct trainer_result train_step(struct train_side *side, const struct batch *batch, int64_t step) {
  struct trainer_result result;
  train_must(side->comm, trainer_step(side->trainer, batch, step, &result));
  return result;
}

struct trainer_result train_gradients(struct train_side *side, const struct batch *batch) {
  struct trainer_result result;
  train_must(side->comm, trainer_compute_gradients(side->trainer, batch, &result));
  return result;
}

double train_evaluate(struct train_side *side, const struct batch *batch) {
  double sum;
  train_must(side->comm, trainer_evaluate(side->trainer, batch, 1, &sum));
  return sum;
}

struct model *train_make_model(const char *json) {
  struct model *model = NULL;
  if (model_create(json, "test", 0.1, &model, NULL)) {
    fprintf(stderr, "%s\n", error_text());
    exit(1);
  }
  return model;
}

/* ---- comparisons ---- */
static void train_compare_bits(const char *name, const char *what, int32_t layer, int64_t n, const float *a,
                               const float *b) {
  int64_t first = 0;
  while (first < n && !memcmp(&a[first], &b[first], sizeof *a)) first++;
  T_CHECK(first == n, "%s: %s of layer %d differ from element %lld of %lld on: %.9g, alone %.9g", name, what, layer,
          (long long)first, (long long)n, (double)a[first], (double)b[first]);
}

float *train_get_copy(const struct rank_state *s) {
  const struct rank_tie *tie = rank_state_find_tie(s, 0);
  return tie && rank_tie_is_copy(tie) ? tie->w : NULL;
}

/* Of the head's table 61 or 67 x 32, of inner tensors 32 x 32 or more: multiples of 16, so that none is padded. */
static int64_t train_count_tied(const struct rank_tie *tie) { return tie->tie->floats; }

void train_compare_gradients(const char *name, const struct train_side *side, const struct train_side *alone) {
  const struct rank_state *a = side->trainer->state, *b = alone->trainer->state;
  for (int32_t l = 0; l < a->model->n_layers; l++)
    if (a->holds[l]) train_compare_bits(name, "gradients", l, a->model->layers[l].n_floats, a->g[l], b->g[l]);
  for (int32_t i = 0; i < a->n_ties; i++) {
    const struct rank_tie *tie = &a->ties[i], *other = rank_state_find_tie(b, tie->tie->user);
    if (rank_tie_is_copy(tie))
      train_compare_bits(name, "gradients of the copy", tie->tie->user, train_count_tied(tie), tie->g_user,
                         other->has_owner ? other->g_owner : other->g_user);
  }
}

void train_compare_weights(const char *name, const struct train_side *side, const struct train_side *alone) {
  const struct rank_state *a = side->trainer->state, *b = alone->trainer->state;
  for (int32_t l = 0; l < a->model->n_layers; l++) {
    if (!a->holds[l]) continue;
    int64_t n = a->model->layers[l].n_floats;
    train_compare_bits(name, "weights", l, n, a->w[l], b->w[l]);
    train_compare_bits(name, "first moments", l, n, a->m[l], b->m[l]);
    train_compare_bits(name, "second moments", l, n, a->v[l], b->v[l]);
  }
  for (int32_t i = 0; i < a->n_ties; i++) {
    const struct rank_tie *tie = &a->ties[i], *other = rank_state_find_tie(b, tie->tie->user);
    int32_t user = tie->tie->user;
    if (!rank_tie_is_copy(tie)) continue;
    train_compare_bits(name, "the copy", user, train_count_tied(tie), tie->w, other->w);
    train_compare_bits(name, "first moments of the copy", user, train_count_tied(tie), tie->m, other->m);
    train_compare_bits(name, "second moments of the copy", user, train_count_tied(tie), tie->v, other->v);
  }
}

void train_compare_results(const char *name, int64_t step, const struct trainer_result *a,
                           const struct trainer_result *b) {
  T_CHECK(!memcmp(&a->loss, &b->loss, sizeof a->loss), "%s: step %lld: loss %.17g, alone %.17g", name, (long long)step,
          a->loss, b->loss);
  T_CHECK(!memcmp(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm), "%s: step %lld: norm %.17g, alone %.17g", name,
          (long long)step, a->grad_norm, b->grad_norm);
  T_CHECK(a->finite && isfinite(a->loss) && a->loss > 0 && a->grad_norm > 0, "%s: step %lld: loss %g, norm %g", name,
          (long long)step, a->loss, a->grad_norm);
}
