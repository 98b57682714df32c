/* Training on any number of ranks has the bits of training on one: losses, norms, gradients, weights, moments. */
#include "make_plan.h"
#include "train_case.h"

struct equal_case {
  char name[96];
  const char *json;
  struct train_setup setup;
  int64_t rows, micro_batch, time;
  const int32_t *times; /* [steps] length of all rows of a step; NULL: drawn anew for each row, up to `time` */
  int steps;
};

static struct batch make_step(const struct equal_case *c, const struct model *model, int step) {
  struct train_rows rows =
      train_create_rows((uint64_t)step + 1, c->rows, c->times ? c->times[step] : c->time, model->config.vocab_size);
  if (!c->times) train_draw_lengths(&rows, (uint64_t)step);
  struct batch batch = train_make_batch(&rows, model->config.vocab_size, c->micro_batch);
  train_free_rows(&rows);
  return batch;
}

/* The first batch's gradients, then the steps, on both sides. Takes the sides. */
static void compare_sides(const struct equal_case *c, const struct model *model, struct train_side *side,
                          struct train_side *alone) {
  struct batch batch = make_step(c, model, 0);
  struct trainer_result a = train_gradients(side, &batch), b = train_gradients(alone, &batch);
  train_compare_results(c->name, 0, &a, &b);
  train_compare_gradients(c->name, side, alone);
  trainer_clear_gradients(side->trainer);
  trainer_clear_gradients(alone->trainer);
  for (int i = 0; i < c->steps; i++) {
    batch_fini(&batch);
    batch = make_step(c, model, i);
    a = train_step(side, &batch, i + 1);
    b = train_step(alone, &batch, i + 1);
    train_compare_results(c->name, i + 1, &a, &b);
  }
  train_compare_weights(c->name, side, alone);
  batch_fini(&batch);
  train_close(side);
  train_close(alone);
}

static struct train_side open_alone(const struct train_job *job, const struct model *model,
                                    const struct optimizer_config *optimizer, const struct batch *batch) {
  struct train_setup setup = {.optimizer = *optimizer};
  return train_open(job->self, model, &setup, batch);
}

static void run_model(const struct train_job *job, const struct equal_case *c, const struct model *model) {
  struct batch batch = make_step(c, model, 0);
  struct train_side side = train_open(job->comm, model, &c->setup, &batch);
  struct train_side alone = open_alone(job, model, &c->setup.optimizer, &batch);
  batch_fini(&batch);
  compare_sides(c, model, &side, &alone);
}

static void run_case(const struct train_job *job, const struct equal_case *c) {
  struct model *model = train_make_model(c->json);
  run_model(job, c, model);
  model_destroy(&model);
}

/* Both planners with fewer micro-batches than ranks, as many, and more; models, threads and clipping take turns. */
static void test_grid(const struct train_job *job) {
  static const char *const models[] = {TRAIN_GPT2(5, "true"), TRAIN_LLAMA(5, "false"), TRAIN_LLAMA(5, "true"),
                                       TRAIN_GPT2(5, "false")};
  static const char *const planners[] = {"gpipe", "1f1b"};
  int turn = 0;
  for (int m = 1; m <= 2 * job->size + 1; m++)
    for (int k = 0; k < 2; k++, turn++) {
      struct equal_case c = {.json = models[(turn + turn / 4) % 4],
                             .setup = {.planner = planners[k],
                                       .threads = 1 + turn % 3,
                                       .optimizer = train_make_optimizer(m % 2 ? 0 : 0.3)},
                             .rows = 2 * m,
                             .micro_batch = 2,
                             .time = 9,
                             .steps = 2};
      snprintf(c.name, sizeof c.name, "%s, %d micro-batches", planners[k], m);
      run_case(job, &c);
    }
}

/* Has a layer use the matrix of another layer's last product, which is of as many numbers, in place of its own. */
static void tie_layers(struct model *model, int32_t layer, int32_t user) {
  const struct layer *owner = &model->layers[layer];
  int tensor = owner->ops[owner->n_ops - 1].weight;
  T_CHECK(tensor >= 0 && owner->tensors[tensor].offset > 0, "layer %d ends in no product", layer);
  model->layers[user].tensors[tensor].tied = true;
  model->ties = mem_resize(model->ties, sizeof *model->ties * (size_t)(model->n_ties + 1));
  model->ties[model->n_ties++] = (struct tie){
      .layer = layer, .user = user, .tensor = tensor, .user_tensor = tensor, .floats = owner->tensors[tensor].count};
}

/* Tied tensors anywhere: of two blocks, not at the beginning of a layer's parameters, the user after its owner or
 * before it, with the head's tie or without. */
static void test_ties(const struct train_job *job) {
  static const char *const models[] = {TRAIN_LLAMA(5, "true"), TRAIN_GPT2(5, "false")};
  for (int k = 0; k < 4; k++) {
    struct equal_case c = {.json = models[k % 2],
                           .setup = {.optimizer = train_make_optimizer(k / 2 ? 0.3 : 0)},
                           .rows = 6,
                           .micro_batch = 2,
                           .time = 9,
                           .steps = 2};
    struct model *model = train_make_model(c.json);
    tie_layers(model, 1, 7);
    tie_layers(model, 8, 2);
    snprintf(c.name, sizeof c.name, "tied blocks, case %d", k);
    run_model(job, &c, model);
    model_destroy(&model);
  }
}

/* Stages of any size, cut inside blocks too. */
static void test_partitions(const struct train_job *job) {
  static const double lists[][4] = {{5},           {3.5, 1.5},    {0, 5},           {0.5, 4.5},
                                    {0, 4.5, 0.5}, {1.5, 1.5, 2}, {0.5, 2, 2.5, 0}, {0, 0.5, 0.5, 4}};
  static const int ranks[] = {1, 2, 2, 2, 3, 3, 4, 4};
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
    if (ranks[i] != job->size) continue;
    struct equal_case c = {
        .json = i % 2 ? TRAIN_LLAMA(5, "true") : TRAIN_GPT2(5, "true"),
        .setup = {.partition = lists[i], .n_partition = ranks[i], .optimizer = train_make_optimizer(i % 2 ? 1 : 0)},
        .rows = 5,
        .micro_batch = 1,
        .time = 8,
        .steps = 2};
    snprintf(c.name, sizeof c.name, "partition list %zu", i);
    run_case(job, &c);
  }
}

/* Blocks that the ranks do not divide: none is lost. */
static void test_uneven(const struct train_job *job) {
  struct equal_case c = {.json = job->size == 4 ? TRAIN_LLAMA(30, "false") : TRAIN_LLAMA(7, "false"),
                         .setup = {.optimizer = train_make_optimizer(1)},
                         .rows = 4,
                         .micro_batch = 2,
                         .time = 6,
                         .steps = 1};
  snprintf(c.name, sizeof c.name, "blocks that %d ranks do not divide", job->size);
  run_case(job, &c);
  struct model *model = train_make_model(c.json);
  struct batch batch = make_step(&c, model, 0);
  struct train_side side = train_open(job->comm, model, &c.setup, &batch);
  int32_t least = INT32_MAX, most = 0, sum = 0;
  for (int32_t s = 0; s < side.plan->n_stages; s++) {
    int32_t ends = (s == 0) + (s == side.plan->n_stages - 1), n = side.plan->stages[s].n_layers - ends;
    T_CHECK(n % 2 == 0, "stage %d has half a block", s);
    least = n < least ? n : least;
    most = n > most ? n : most;
    sum += n;
  }
  T_CHECK(sum == model->n_layers - 2 && most - least <= 2, "stages of %d to %d layers, %d in all", least, most, sum);
  batch_fini(&batch);
  train_close(&side);
  model_destroy(&model);
}

/* Seven blocks on two ranks by hand: 3 + 4 are right, 3 + 5 are refused with the counts. */
static void test_by_hand(const struct train_job *job) {
  static const double right[] = {3, 4}, wrong[] = {3, 5};
  if (job->size != 2) return;
  struct equal_case c = {.name = "3 and 4 blocks",
                         .json = TRAIN_GPT2(7, "true"),
                         .setup = {.partition = right, .n_partition = 2, .optimizer = train_make_optimizer(0)},
                         .rows = 3,
                         .micro_batch = 1,
                         .time = 6,
                         .steps = 1};
  run_case(job, &c);
  struct model *model = train_make_model(c.json);
  struct micro_shape micro = micro_shape_fill(1, 6);
  struct plan_request request = {.model = model,
                                 .n_ranks = 2,
                                 .n_stages = 2,
                                 .partition.kind = PARAMS_CUT_LIST,
                                 .partition.blocks = wrong,
                                 .partition.n = 2,
                                 .n_micro = 1,
                                 .micro = &micro};
  struct plan *plan = NULL;
  T_CHECK(planner_run("1f1b", &request, &plan) == STATUS_MISTAKE, "a partition with a block too many is taken");
  T_CHECK(strstr(error_text(), "sum 8") && strstr(error_text(), "has 7"), "%s", error_text());
  model_destroy(&model);
}

/* Other lengths in each micro-batch of each step, and messages that no library sends eagerly (up to 128 KiB). */
static void test_lengths(const struct train_job *job, const char *planner) {
  struct equal_case c = {
      .json = "{\"model_type\": \"llama\", \"vocab_size\": 64, \"hidden_size\": 128, \"intermediate_size\": 96, "
              "\"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
              "\"max_position_embeddings\": 256}",
      .setup = {.planner = planner, .threads = 2, .optimizer = train_make_optimizer(1)},
      .rows = 16,
      .micro_batch = 2,
      .time = 128,
      .steps = 2};
  snprintf(c.name, sizeof c.name, "lengths anew, %s", planner);
  run_case(job, &c);
}

/* Longer and shorter than before, and a last micro-batch with fewer rows. */
static void test_shapes(const struct train_job *job) {
  static const int32_t times[] = {128, 129, 7};
  struct equal_case longer = {.name = "lengths 128, 129, 7",
                              .json = TRAIN_LLAMA(3, "true"),
                              .setup = {.optimizer = train_make_optimizer(1)},
                              .rows = 4,
                              .micro_batch = 2,
                              .times = times,
                              .steps = 3};
  run_case(job, &longer);
  struct equal_case fewer = {.name = "8 rows as 3, 3, 2",
                             .json = TRAIN_GPT2(4, "true"),
                             .setup = {.optimizer = train_make_optimizer(0)},
                             .rows = 8,
                             .micro_batch = 3,
                             .time = 11,
                             .steps = 3};
  run_case(job, &fewer);
  struct model *model = train_make_model(fewer.json);
  struct batch batch = make_step(&fewer, model, 0);
  T_CHECK(batch.n_micro == 3 && batch.micro[0].shape.rows == 3 && batch.micro[1].shape.rows == 3 &&
              batch.micro[2].shape.rows == 2,
          "8 rows are %d micro-batches", batch.n_micro);
  batch_fini(&batch);
  model_destroy(&model);
}

/* A plan drawn at random for this many ranks: stages anywhere, split and full backwards, any order that can run. */
static struct plan *draw_plan(const struct model *model, int size) {
  for (;;) {
    struct plan *plan = make_random_plan(model);
    if (plan->n_ranks == size && !plan->forward_only) {
      for (int32_t i = 0; i < plan->n_micro; i++) plan->micro[i] = micro_shape_make(2, 7, 14, 14);
      plan_freeze(plan);
      return plan;
    }
    plan_destroy(&plan);
  }
}

static void test_random_plans(const struct train_job *job) {
  for (int i = 0; i < 10; i++) {
    struct equal_case c = {
        .json = i % 2 ? TRAIN_GPT2(3, "true") : TRAIN_LLAMA(3, "true"), .micro_batch = 2, .time = 7, .steps = 1};
    struct model *model = train_make_model(c.json);
    struct plan *plan = draw_plan(model, job->size);
    c.rows = 2 * plan->n_micro;
    c.setup.optimizer = train_make_optimizer(plan->clip ? 0.2 : 0);
    snprintf(c.name, sizeof c.name, "random plan %d: %d stages, %d micro-batches", i, plan->n_stages, plan->n_micro);
    struct batch batch = make_step(&c, model, 0);
    struct train_side side = train_open_plan(job->comm, model, &c.setup, plan);
    struct train_side alone = open_alone(job, model, &c.setup.optimizer, &batch);
    batch_fini(&batch);
    compare_sides(&c, model, &side, &alone);
    model_destroy(&model);
  }
}

int main(int argc, char **argv) {
  /* No message is buffered (where MPI is built on UCX): no order may rely on it. */
  setenv("UCX_RNDV_THRESH", "0", 0);
  struct train_job job = train_job_open(&argc, &argv);
  test_lengths(&job, "1f1b");
  if (job.size <= 4) { /* on more ranks than that only what needs them */
    if (job.size == 4) test_lengths(&job, "gpipe");
    test_grid(&job);
    test_ties(&job);
    test_partitions(&job);
    test_uneven(&job);
    test_by_hand(&job);
    test_shapes(&job);
    test_random_plans(&job);
  }
  return train_job_close(&job);
}
