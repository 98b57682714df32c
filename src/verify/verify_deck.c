/* A deck's real plan against the same training on one rank: everything must have the same bits. */
#include "verify/verify_internal.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct deck_run {
  struct comm *comm;
  const struct params *params;
  struct topo topo;
  struct model *model;
  char *json;
  struct dataset *data;
  struct plan *plan, *plan_alone;
  struct verify_side real, alone; /* alone: on rank 0 only */
};

static int open_data_all(struct deck_run *run) {
  const struct params *p = run->params;
  int status = setup_open_data_all(run->comm, p, run->model, "data.train", &p->data.train, p->data.shuffle, &run->data);
  if (!status) status = request_check_positions(p, run->model);
  return comm_agree_all(run->comm, status);
}

/* Plans the micro-batches of the real plan for one rank, without a limit. */
static int make_plan_alone(struct deck_run *run) {
  const struct plan *real = run->plan;
  struct plan_request request = {.model = run->model,
                                 .n_ranks = 1,
                                 .n_stages = 1,
                                 .params = run->params,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = real->n_micro,
                                 .micro = real->micro,
                                 .clip = real->clip};
  return planner_run("1f1b", &request, &run->plan_alone);
}

static int open_trainer(const struct deck_run *run, struct comm *comm, const struct plan *plan, int64_t limit,
                        struct trainer **trainer) {
  struct trainer_config config = {.comm = comm,
                                  .model = run->model,
                                  .plan = plan,
                                  .backend = params_get_choice(run->params, PARAM_device_backend),
                                  .device = setup_make_device(run->params, &run->topo, limit),
                                  .optimizer = setup_make_optimizer(run->params),
                                  .sync_messages = run->params->device.sync_messages,
                                  .spill_folder = run->params->memory.spill_folder,
                                  .run = run->params->run.name};
  int status = trainer_create(&config, trainer);
  if (!status) trainer_init(*trainer, (uint64_t)run->params->run.seed);
  return status;
}

static int get_batch(void *context, int32_t i, struct batch *batch) {
  const struct deck_run *run = context;
  int64_t rows = run->params->data.global_batch;
  return batch_build(run->data, i * rows, rows, run->params->data.micro_batch, batch);
}

/* Sends a layer's array from its rank to rank 0, into `out`. */
static void fetch_layer_all(const struct deck_run *run, int32_t layer, float *const *arrays, float *out) {
  int rank = comm_get_rank(run->comm), owner = plan_get_holder(run->plan, plan_get_stage(run->plan, layer));
  int64_t bytes = run->model->layers[layer].n_floats * (int64_t)sizeof(float);
  if (owner == 0) {
    if (rank == 0) memcpy(out, arrays[layer], (size_t)bytes);
    return;
  }
  struct comm_request *request = NULL;
  if (rank == owner) request = comm_send_begin(run->comm, 0, 0, arrays[layer], bytes);
  if (rank == 0) request = comm_receive_begin(run->comm, owner, 0, out, bytes);
  if (request) comm_wait(run->comm, &request, "the comparison of layers");
}

/* The plan's sums go in another order. */
static bool is_close(const struct deck_run *run) { return run->plan->free_order; }

static void compare_layer(const struct deck_run *run, int32_t layer, const float *gradient, const float *weight,
                          struct verify_result *result) {
  const struct layer *l = &run->model->layers[layer];
  for (int t = 0; t < l->n_tensors; t++) {
    if (l->tensors[t].tied) continue;
    struct verify_tensor *v = &result->tensors[result->n_tensors++];
    int64_t at = l->tensors[t].offset, n = l->tensors[t].count;
    const float *g = run->alone.first[layer] + at, *w = run->alone.trainer->state->w[layer] + at;
    double norm, global = run->alone.grad_norm[0];
    snprintf(v->name, sizeof v->name, "%s", l->tensors[t].name);
    v->gradient_error = verify_norm_difference(n, gradient + at, g, &norm);
    if (is_close(run)) v->gradient_allowed = verify_allow_gradient(norm, global);
    v->weight_error = verify_norm_difference(n, weight + at, w, &norm);
    if (is_close(run)) v->weight_allowed = verify_allow_weight(l, t, norm);
    /* Bits, not values: a NaN here and there, or a zero's sign, would not show in a norm. */
    if (memcmp(gradient + at, g, (size_t)n * sizeof *g) || memcmp(weight + at, w, (size_t)n * sizeof *w))
      result->exact = false;
  }
}

static void compare_layers_all(const struct deck_run *run, struct verify_result *result) {
  for (int32_t l = 0; l < run->model->n_layers; l++) {
    int64_t n = run->model->layers[l].n_floats;
    float *gradient = MEM_NEW(float, n ? n : 1), *weight = MEM_NEW(float, n ? n : 1);
    if (n) fetch_layer_all(run, l, run->real.first, gradient);
    if (n) fetch_layer_all(run, l, run->real.trainer->state->w, weight);
    if (comm_get_rank(run->comm) == 0) compare_layer(run, l, gradient, weight, result);
    mem_free(gradient);
    mem_free(weight);
  }
}

static double get_relative_error(double value, double wanted) {
  if (value == wanted) return 0;
  return fabs(value - wanted) / (wanted == 0 ? 1 : fabs(wanted));
}

static void compare_course(const struct deck_run *run, struct verify_result *result) {
  int32_t n = run->real.n_steps;
  result->n_steps = n;
  result->loss = MEM_NEW(double, n);
  result->loss_error = MEM_NEW(double, n);
  result->grad_norm = MEM_NEW(double, n);
  result->norm_error = MEM_NEW(double, n);
  for (int32_t i = 0; i < n; i++) {
    result->loss[i] = run->real.loss[i];
    result->grad_norm[i] = run->real.grad_norm[i];
    result->loss_error[i] = get_relative_error(run->real.loss[i], run->alone.loss[i]);
    result->norm_error[i] = get_relative_error(run->real.grad_norm[i], run->alone.grad_norm[i]);
    if (memcmp(&run->real.loss[i], &run->alone.loss[i], sizeof(double)) ||
        memcmp(&run->real.grad_norm[i], &run->alone.grad_norm[i], sizeof(double)))
      result->exact = false;
  }
}

/* One stage that keeps all its activations is what the other side is: the comparison would show nothing. */
static int check_plan(const struct plan *plan) {
  if (plan->n_stages > 1 || plan->n_recompute > 0 || plan->n_moves > 0) return STATUS_OK;
  return error_raise(
      STATUS_MISTAKE,
      "the plan of this job is one stage without recomputation, which is what verify holds plans against: "
      "there is nothing to compare; start it on several ranks, as mpiexec -n 2 penstock verify DECK");
}

static int open_run_all(struct deck_run *run) {
  int status = comm_agree_all(run->comm, params_require_training(run->params));
  if (!status) status = setup_topo_all(run->comm, run->params, &run->topo);
  if (!status) status = setup_model_all(run->comm, run->params, &run->model, &run->json);
  if (!status) status = open_data_all(run);
  if (!status)
    status = setup_deck_plan_all(run->comm, run->params, run->model, dataset_get_longest(run->data),
                                 run->topo.memory_share_bytes, &run->plan, NULL);
  if (!status) status = comm_agree_all(run->comm, check_plan(run->plan));
  int rank = comm_get_rank(run->comm);
  if (!status)
    status = comm_agree_all(run->comm,
                            open_trainer(run, run->comm, run->plan, run->plan->device_limit[rank], &run->real.trainer));
  return status;
}

/* The other side, on rank 0. */
static int run_alone(struct deck_run *run, struct comm *self, int32_t steps) {
  int status = make_plan_alone(run);
  if (!status) status = open_trainer(run, self, run->plan_alone, INT64_MAX, &run->alone.trainer);
  return status ? status : verify_side_run(&run->alone, steps, get_batch, run, run->comm);
}

static void close_run(struct deck_run *run) {
  verify_side_fini(&run->real);
  verify_side_fini(&run->alone);
  plan_destroy(&run->plan);
  plan_destroy(&run->plan_alone);
  dataset_close(&run->data);
  model_destroy(&run->model);
  mem_free(run->json);
  topo_fini(&run->topo);
}

static void compare_all(struct deck_run *run, struct verify_result *result) {
  result->n_stages = run->plan->n_stages;
  result->n_micro = run->plan->n_micro;
  result->tensors = MEM_NEW(struct verify_tensor, (int64_t)run->model->n_layers * LAYER_MAX_TENSORS);
  if (is_close(run)) {
    result->loss_allowed = VERIFY_LOSS_TOLERANCE;
    result->norm_allowed = VERIFY_NORM_TOLERANCE;
  }
  result->exact = true;
  if (comm_get_rank(run->comm) == 0) compare_course(run, result);
  compare_layers_all(run, result);
  result->passed = is_close(run) ? verify_is_within(result) : result->exact;
  result->exact = !is_close(run);
}

int verify_deck_all(struct comm *comm, struct params *params, int64_t steps, struct verify_result *result) {
  struct deck_run run = {.comm = comm, .params = params};
  struct comm *self = comm_get_rank(comm) == 0 ? comm_create_self(comm) : NULL;
  *result = (struct verify_result){.passed = true};
  int status = open_run_all(&run);
  if (!status) {
    status = verify_side_run(&run.real, (int32_t)steps, get_batch, &run, NULL);
    if (!status && self) status = run_alone(&run, self, (int32_t)steps);
    status = comm_agree_all(comm, status);
    if (!status) compare_all(&run, result);
  }
  close_run(&run);
  comm_destroy_self(&self);
  return status;
}
