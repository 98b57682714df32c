/* Training against a file of known results. Tolerances: doc/dev/testing.md. */
#include "verify/reference_file.h"
#include "verify/verify_internal.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/watchdog.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct reference_run {
  struct comm *comm;
  struct reference reference;
  struct params params;
  struct topo topo;
  struct model *model;
  struct plan *plan;
  struct verify_side side;
};

/* The file's own settings first, so that the caller's win. */
static int parse_params(struct reference_run *run, const char *const *overrides, int n_overrides) {
  char **own = NULL;
  int n = 0, status = reference_make_overrides(&run->reference, &own, &n);
  if (status) return status;
  const char **all = MEM_NEW(const char *, n + n_overrides);
  for (int i = 0; i < n; i++) all[i] = own[i];
  for (int i = 0; i < n_overrides; i++) all[n + i] = overrides[i];
  status = params_parse(NULL, all, n + n_overrides, &run->params);
  mem_free(all);
  reference_free_overrides(&own, n);
  return status;
}

/* Refuses overrides of keys that the file decides. */
static int check_overrides(const struct reference_run *run) {
  const struct params *p = &run->params;
  if (params_is_given(p, PARAM_model_config) || params_is_given(p, PARAM_model_model_type))
    return error_raise(STATUS_MISTAKE,
                       "verify --reference: the model is the file's; leave out model.config and model.model_type");
  if (p->data.global_batch > run->reference.rows)
    return error_raise(STATUS_MISTAKE, "data.global_batch is %lld but %s has %lld rows a step",
                       (long long)p->data.global_batch, run->reference.path, (long long)run->reference.rows);
  if (p->run.steps > run->reference.n_steps || p->run.steps < 1)
    return error_raise(STATUS_MISTAKE, "run.steps is %lld but %s has steps 1 to %lld", (long long)p->run.steps,
                       run->reference.path, (long long)run->reference.n_steps);
  return request_check_precision(p);
}

static int open_model(struct reference_run *run) {
  char *notes = NULL;
  int status = model_create(run->reference.config, run->reference.path, -1, &run->model, &notes);
  mem_free(notes);
  const struct model_config *c = status ? NULL : &run->model->config;
  if (!status && c->learned_positions && run->reference.time > c->max_positions)
    status = error_raise(
        STATUS_MISTAKE,
        "%s: rows of %lld tokens; allowed: at most %lld, the positions of the model in its attribute 'config'",
        run->reference.path, (long long)run->reference.time, (long long)c->max_positions);
  if (!status) status = reference_check_names(&run->reference, run->model);
  return status;
}

static int get_batch(void *context, int32_t i, struct batch *batch) {
  const struct reference_run *run = context;
  const struct reference *r = &run->reference;
  int64_t at = i * r->rows;
  return batch_build_from_arrays(run->params.data.global_batch, r->time, r->tokens + at * r->time,
                                 r->labels + at * r->time, r->lengths ? r->lengths + at : NULL,
                                 run->model->config.vocab_size, run->params.data.micro_batch, batch);
}

/* A layer's weights go through host memory. A tied tensor of it also goes to a copy of it. */
static int load_layer(const struct reference_run *run, int32_t layer) {
  const struct layer *l = &run->model->layers[layer];
  struct rank_state *s = run->side.trainer->state;
  float *block = MEM_NEW(float, l->n_floats);
  int status = STATUS_OK;
  for (int t = 0; t < l->n_tensors && !status; t++)
    if (!l->tensors[t].tied)
      status = reference_read_tensor(&run->reference, "weights_before", &l->tensors[t], block + l->tensors[t].offset);
  if (!status && s->holds[layer])
    s->device->ops->write(s->device, s->w[layer], block, l->n_floats * (int64_t)sizeof *block);
  const struct rank_tie *tie = rank_state_find_tie(s, layer);
  if (!status && tie && tie->tie->layer == layer && rank_tie_is_copy(tie)) rank_state_write_copy(s, tie, block);
  mem_free(block);
  return status;
}

static int load_weights(const struct reference_run *run) {
  const struct rank_state *s = run->side.trainer->state;
  int status = STATUS_OK;
  for (int32_t l = 0; l < run->model->n_layers && !status; l++)
    if (rank_state_needs_weights(s, l)) status = load_layer(run, l);
  return status;
}

static int open_trainer(struct reference_run *run) {
  struct trainer_config config = {
      .comm = run->comm,
      .model = run->model,
      .plan = run->plan,
      .backend = params_get_choice(&run->params, PARAM_device_backend),
      .device = setup_make_device(&run->params, &run->topo, run->plan->device_limit[comm_get_rank(run->comm)]),
      .optimizer = setup_make_optimizer(&run->params),
      .sync_messages = run->params.device.sync_messages,
      .spill_folder = run->params.memory.spill_folder,
      .run = run->params.run.name};
  int status = trainer_create(&config, &run->side.trainer);
  if (!status) trainer_init(run->side.trainer, 0);
  return status ? status : load_weights(run);
}

/* Every rank reads the file by itself: the text of its model and the tokens tell copies apart. */
static int compare_copies_all(const struct reference_run *run) {
  const struct reference *r = &run->reference;
  size_t bytes = (size_t)(r->n_steps * r->rows * r->time) * sizeof *r->tokens;
  uint64_t mine = hash_bytes(r->config, strlen(r->config), 0), theirs;
  mine = hash_bytes(r->labels, bytes, hash_bytes(r->tokens, bytes, mine));
  theirs = mine;
  comm_broadcast_all(run->comm, 0, &theirs, sizeof theirs);
  int status = mine == theirs ? STATUS_OK
                              : error_raise(STATUS_MISTAKE, "%s is another file than that of rank 0 (%s)", r->path,
                                            comm_get_host(run->comm, 0));
  return comm_agree_all(run->comm, status);
}

static int open_run_all(struct reference_run *run, const char *path, const char *const *overrides, int n_overrides) {
  int status = reference_open(path, &run->reference);
  if (!status) status = parse_params(run, overrides, n_overrides);
  if (!status) status = check_overrides(run);
  if (!status) status = open_model(run);
  status = comm_agree_all(run->comm, status);
  if (!status) status = setup_compare_params_all(run->comm, &run->params);
  if (!status) status = compare_copies_all(run);
  if (!status) watchdog_set_timeout(run->comm, run->params.run.hang_timeout);
  if (!status) status = setup_topo_all(run->comm, &run->params, &run->topo);
  if (!status)
    status = setup_deck_plan_all(run->comm, &run->params, run->model, run->reference.time, run->topo.memory_share_bytes,
                                 &run->plan, NULL);
  return status ? status : comm_agree_all(run->comm, open_trainer(run));
}

static int compare_tensor(const struct reference_run *run, int32_t layer, int t, struct verify_tensor *out) {
  const struct layer *l = &run->model->layers[layer];
  const struct tensor *tensor = &l->tensors[t];
  struct rank_state *s = run->side.trainer->state;
  float *wanted = MEM_NEW(float, tensor->count), *weight = MEM_NEW(float, tensor->count);
  double norm, global = run->reference.grad_norm[0];
  snprintf(out->name, sizeof out->name, "%s", tensor->name);
  int status = reference_read_tensor(&run->reference, "grad_first_step", tensor, wanted);
  if (!status) {
    out->gradient_error = verify_norm_difference(tensor->count, run->side.first[layer] + tensor->offset, wanted, &norm);
    out->gradient_allowed = verify_allow_gradient(norm, global);
    status = reference_read_tensor(&run->reference, "weights_after", tensor, wanted);
  }
  if (!status) {
    s->device->ops->read(s->device, weight, s->w[layer] + tensor->offset, tensor->count * (int64_t)sizeof *weight);
    out->weight_error = verify_norm_difference(tensor->count, weight, wanted, &norm);
    out->weight_allowed = verify_allow_weight(l, t, norm);
  }
  mem_free(wanted);
  mem_free(weight);
  return status;
}

/* This rank's tensors; *n is how many. Owned by the caller. */
static int compare_tensors(const struct reference_run *run, struct verify_tensor **tensors, int32_t *n) {
  *tensors = MEM_NEW(struct verify_tensor, (int64_t)run->model->n_layers * LAYER_MAX_TENSORS);
  *n = 0;
  int status = STATUS_OK;
  for (int32_t l = 0; l < run->model->n_layers; l++)
    for (int t = 0; run->side.first[l] && t < run->model->layers[l].n_tensors && !status; t++)
      if (!run->model->layers[l].tensors[t].tied) status = compare_tensor(run, l, t, &(*tensors)[(*n)++]);
  return status;
}

/* Sorts tensors from the order of ranks into that of layers: each rank's part, which begins at offsets[rank] bytes,
 * is in the order of its layers. */
static void sort_tensors(const struct reference_run *run, const struct verify_tensor *parts, const int64_t *offsets,
                         struct verify_tensor *tensors) {
  int64_t *next = MEM_NEW(int64_t, run->plan->n_ranks);
  for (int32_t r = 0; r < run->plan->n_ranks; r++) next[r] = offsets[r] / (int64_t)sizeof *parts;
  for (int32_t l = 0; l < run->model->n_layers; l++)
    for (int t = 0; t < run->model->layers[l].n_tensors; t++)
      if (!run->model->layers[l].tensors[t].tied)
        *tensors++ = parts[next[plan_get_holder(run->plan, plan_get_stage(run->plan, l))]++];
  mem_free(next);
}

static int gather_tensors_all(const struct reference_run *run, struct verify_result *result) {
  struct verify_tensor *own;
  int32_t n;
  int status = comm_agree_all(run->comm, compare_tensors(run, &own, &n));
  int64_t size = comm_get_size(run->comm), *offsets = MEM_NEW(int64_t, size + 1);
  int64_t most = (int64_t)run->model->n_layers * LAYER_MAX_TENSORS;
  struct verify_tensor *parts = MEM_NEW(struct verify_tensor, most);
  result->tensors = MEM_NEW(struct verify_tensor, most);
  if (!status) {
    comm_gather_root_all(run->comm, 0, own, n * (int64_t)sizeof *own, parts, offsets);
    result->n_tensors = (int32_t)(offsets[size] / (int64_t)sizeof *own);
    if (comm_get_rank(run->comm) == 0) sort_tensors(run, parts, offsets, result->tensors);
  }
  mem_free(parts);
  mem_free(offsets);
  mem_free(own);
  return status;
}

static void judge(const struct reference_run *run, struct verify_result *result) {
  int32_t n = run->side.n_steps;
  result->n_stages = run->plan->n_stages;
  result->n_micro = run->plan->n_micro;
  result->n_steps = n;
  result->loss_allowed = VERIFY_LOSS_TOLERANCE;
  result->norm_allowed = VERIFY_NORM_TOLERANCE;
  result->loss = MEM_NEW(double, n);
  result->loss_error = MEM_NEW(double, n);
  result->grad_norm = MEM_NEW(double, n);
  result->norm_error = MEM_NEW(double, n);
  for (int32_t i = 0; i < n; i++) {
    result->loss[i] = run->side.loss[i];
    result->grad_norm[i] = run->side.grad_norm[i];
    result->loss_error[i] = fabs(run->side.loss[i] - run->reference.loss[i]) / fabs(run->reference.loss[i]);
    result->norm_error[i] = fabs(run->side.grad_norm[i] - run->reference.grad_norm[i]) / run->reference.grad_norm[i];
  }
  result->passed = verify_is_within(result);
}

static void close_run(struct reference_run *run) {
  verify_side_fini(&run->side);
  plan_destroy(&run->plan);
  model_destroy(&run->model);
  topo_fini(&run->topo);
  params_fini(&run->params);
  reference_close(&run->reference);
}

int verify_reference_all(struct comm *comm, const char *path, const char *const *overrides, int n_overrides,
                         struct verify_result *result) {
  struct reference_run run = {.comm = comm};
  *result = (struct verify_result){0};
  int status = open_run_all(&run, path, overrides, n_overrides);
  if (!status) {
    status = verify_side_run(&run.side, (int32_t)run.params.run.steps, get_batch, &run, NULL);
    if (!status) status = gather_tensors_all(&run, result);
    if (!status && comm_get_rank(comm) == 0) judge(&run, result);
  }
  close_run(&run);
  return status;
}
