#include "exec/trainer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "exec/op_times.h"
#include "store/spill.h"

#include <string.h>

static bool *list_layers(const struct plan *plan, int32_t rank) {
  bool *holds = MEM_NEW(bool, plan->n_layers);
  for (int32_t s = 0; s < plan->n_stages; s++)
    for (int32_t l = 0; l < plan->stages[s].n_layers && plan_holds(plan, s, rank); l++)
      holds[plan->stages[s].first_layer + l] = true;
  return holds;
}

/* Where the plan sends blocks of this rank to disk. */
static int open_spill(struct trainer *t) {
  const struct trainer_config *c = &t->config;
  int32_t rank = comm_get_rank(c->comm);
  struct dag *dag = NULL;
  if (!c->plan->n_moves || !trainer_computes(t)) return STATUS_OK;
  int status = dag_build(c->plan, c->model, &dag);
  if (status) return status;
  int64_t most = dag_get_pool_peak(dag, rank, POOL_DISK, NULL);
  dag_destroy(&dag);
  if (most == 0) return STATUS_OK;
  if (!c->spill_folder)
    return error_raise(STATUS_MISTAKE, "the plan sends activations to disk: set memory.spill_folder to a folder there");
  return spill_open(c->spill_folder, c->run ? c->run : "run", rank, c->plan->disk_limit[rank], most, &t->spill);
}

int trainer_create(const struct trainer_config *config, struct trainer **trainer) {
  struct trainer *t = MEM_NEW(struct trainer, 1);
  t->config = *config;
  t->op_seconds = MEM_NEW(double, OP_TIMES);
  const struct device_ops *ops = device_find(config->backend);
  t->config.device.host_limit = config->plan->host_limit[comm_get_rank(config->comm)];
  int status = ops ? ops->open(&t->config.device, &t->device)
                   : error_raise(STATUS_MISTAKE, "device.backend '%s' is not available", config->backend);
  if (!status && !ops->computes && !config->cost)
    status = error_raise(STATUS_MISTAKE,
                         "device.backend '%s' computes nothing, and this needs results: set device.backend to cpu",
                         config->backend);
  if (!status) {
    bool *holds = list_layers(config->plan, comm_get_rank(config->comm));
    status = rank_state_create(config->model, t->device, holds, config->weights_only, &t->state);
    mem_free(holds);
  }
  if (!status) status = open_spill(t);
  if (status) trainer_destroy(&t);
  *trainer = t;
  return status;
}

static void destroy_graph(struct step_graph *graph) {
  plan_destroy(&graph->plan);
  dag_destroy(&graph->dag);
  sim_plan_close(&graph->simulated);
  mem_free(graph->expected);
  graph->expected = NULL;
}

void trainer_destroy(struct trainer **trainer) {
  struct trainer *t = *trainer;
  if (!t) return;
  destroy_graph(&t->train);
  destroy_graph(&t->evaluate);
  rank_state_destroy(&t->state);
  spill_close(&t->spill);
  if (t->device) t->device->ops->close(&t->device);
  mem_free(t->spans);
  mem_free(t->op_seconds);
  mem_free(t);
  *trainer = NULL;
}

void trainer_abandon(struct trainer *t) {
  if (t->spill) spill_abandon(t->spill);
}

bool trainer_computes(const struct trainer *t) { return t->device->ops->computes; }

void trainer_init(struct trainer *t, uint64_t seed) {
  if (trainer_computes(t)) rank_state_init(t->state, seed);
}

bool trainer_needs_tokens(const struct trainer *t) { return t->state->needs_tokens; }

int trainer_build_batch(const struct trainer *t, const struct dataset *dataset, int64_t first, int64_t rows,
                        int64_t micro_batch, struct batch *batch) {
  if (trainer_needs_tokens(t)) return batch_build(dataset, first, rows, micro_batch, batch);
  return batch_build_shapes(dataset, first, rows, micro_batch, batch);
}

static bool has_shapes(const struct plan *plan, const struct micro_shape *micro, int32_t n) {
  return plan && plan->n_micro == n && !memcmp(plan->micro, micro, sizeof *micro * (size_t)n);
}

/* Prices the nodes and simulates them: when each of this rank's nodes is expected to run. */
static void expect_graph(const struct trainer *t, struct step_graph *graph) {
  const struct dag *dag = graph->dag;
  int32_t rank = comm_get_rank(t->config.comm), first = dag->rank_offset[rank], n = dag->rank_offset[rank + 1] - first;
  sim_plan_open(dag, graph->plan, t->config.model, t->config.cost, t->config.time_scale, 1, &graph->simulated);
  const struct sim_result *result = graph->simulated.result;
  graph->expected = MEM_NEW(struct trace_span, n);
  for (int32_t i = 0; i < n; i++)
    graph->expected[i] = (struct trace_span){result->start[first + i], result->end[first + i]};
  graph->expected_end = result->makespan;
}

/* Makes the graph fit the batch, if it does not yet. */
static int update_graph(struct trainer *t, const struct batch *batch, bool forward_only) {
  struct step_graph *graph = forward_only ? &t->evaluate : &t->train;
  struct micro_shape *micro = MEM_NEW(struct micro_shape, batch->n_micro);
  for (int32_t i = 0; i < batch->n_micro; i++) micro[i] = batch->micro[i].shape;
  int status = STATUS_OK;
  if (!has_shapes(graph->plan, micro, batch->n_micro)) {
    destroy_graph(graph);
    graph->plan = forward_only ? plan_make_forward(t->config.plan, batch->n_micro, micro)
                               : plan_dup_with_micro(t->config.plan, micro);
    status = dag_build(graph->plan, t->config.model, &graph->dag);
    graph->n_builds++;
    if (!status) {
      int32_t rank = comm_get_rank(t->config.comm);
      graph->peak = dag_get_peak(graph->dag, rank, NULL);
      graph->host_peak = dag_get_pool_peak(graph->dag, rank, POOL_HOST, NULL);
      graph->disk_peak = dag_get_pool_peak(graph->dag, rank, POOL_DISK, NULL);
      if (!trainer_computes(t)) expect_graph(t, graph);
    }
  }
  mem_free(micro);
  return status;
}

static struct op_batch *make_op_batches(const struct batch *batch) {
  struct op_batch *ops = MEM_NEW(struct op_batch, batch->n_micro);
  for (int32_t i = 0; i < batch->n_micro; i++) {
    const struct micro_batch *b = &batch->micro[i];
    ops[i].shape = b->shape;
    ops[i].lengths = b->lengths;
    ops[i].tokens = b->token;
    ops[i].labels = b->label;
  }
  return ops;
}

static int run_graph(struct trainer *t, const struct step_graph *graph, const struct batch *batch, int64_t step,
                     bool keep_gradients, struct exec_result *result) {
  int32_t rank = comm_get_rank(t->config.comm);
  int32_t n_nodes = graph->dag->rank_offset[rank + 1] - graph->dag->rank_offset[rank];
  struct trace_span *spans = mem_resize(t->spans, sizeof *spans * (size_t)(n_nodes ? n_nodes : 1));
  t->spans = spans;
  struct op_batch *micro = make_op_batches(batch);
  struct exec_step run = {.comm = t->config.comm,
                          .state = t->state,
                          .plan = graph->plan,
                          .dag = graph->dag,
                          .micro = micro,
                          .loss_scale = batch->labels ? 1.0f / (float)batch->labels : 0.0f,
                          .optimizer = &t->config.optimizer,
                          .step = step,
                          .sync_messages = t->config.sync_messages,
                          .keep_gradients = keep_gradients,
                          .way = trainer_computes(t) ? &exec_way_work : &exec_way_timed,
                          .model = {&graph->simulated.times, graph->expected, graph->expected_end},
                          .spill = t->spill,
                          .spans = spans,
                          .op_seconds = graph == &t->train ? t->op_seconds : NULL};
  memset(t->op_seconds, 0, sizeof *t->op_seconds * OP_TIMES);
  t->device->ops->reset_peak(t->device);
  if (t->spill) spill_reset_peak(t->spill);
  int status = exec_run(&run, result);
  mem_free(micro);
  return status;
}

static double get_copy_cpu(const struct trainer *t) {
  return t->device->ops->get_copy_cpu(t->device) + (t->spill ? spill_get_cpu(t->spill) : 0);
}

static int run_training(struct trainer *t, const struct batch *batch, int64_t step, bool keep_gradients,
                        struct trainer_result *result) {
  *result = (struct trainer_result){.finite = true, .bad_layer = -1, .bad_tensor = -1, .start = clock_now()};
  result->lr = optimizer_get_lr(&t->config.optimizer, step);
  result->skipped = batch->labels == 0;
  if (result->skipped) return STATUS_OK;
  struct exec_result run;
  double copy_cpu = get_copy_cpu(t);
  int status = update_graph(t, batch, false);
  if (!status) status = run_graph(t, &t->train, batch, step, keep_gradients, &run);
  if (status) return status;
  result->loss = run.loss_sum / (double)batch->labels;
  result->grad_norm = run.grad_norm;
  result->finite = run.finite;
  result->bad_layer = run.bad_layer;
  result->bad_tensor = run.bad_tensor;
  result->seconds = clock_now() - result->start;
  if (!trainer_computes(t)) { /* without what the ranks agree on before and after */
    result->start = run.start;
    result->seconds = run.seconds;
  }
  result->modelled = run.modelled;
  result->copy_cpu = get_copy_cpu(t) - copy_cpu;
  result->late = run.late;
  result->peak = t->device->ops->get_memory(t->device).peak;
  result->predicted_peak = t->train.peak;
  CHECK(result->peak == result->predicted_peak, "device peak of step %lld is %lld bytes, predicted were %lld",
        (long long)step, (long long)result->peak, (long long)result->predicted_peak);
  result->host_peak = t->device->ops->get_host_memory(t->device).peak;
  CHECK(result->host_peak == t->train.host_peak, "host peak of step %lld is %lld bytes, predicted were %lld",
        (long long)step, (long long)result->host_peak, (long long)t->train.host_peak);
  result->disk_peak = t->spill ? spill_get_peak(t->spill) : t->train.disk_peak;
  CHECK(result->disk_peak == t->train.disk_peak, "disk peak of step %lld is %lld bytes, predicted were %lld",
        (long long)step, (long long)result->disk_peak, (long long)t->train.disk_peak);
  return STATUS_OK;
}

int trainer_step(struct trainer *t, const struct batch *batch, int64_t step, struct trainer_result *result) {
  return run_training(t, batch, step, false, result);
}

int trainer_compute_gradients(struct trainer *t, const struct batch *batch, struct trainer_result *result) {
  return run_training(t, batch, 1, true, result);
}

void trainer_clear_gradients(struct trainer *t) {
  struct rank_state *s = t->state;
  const struct device_ops *ops = t->device->ops;
  for (int32_t l = 0; l < s->model->n_layers; l++)
    if (s->holds[l]) ops->fill(t->device, s->model->layers[l].n_floats, 0.0f, s->g[l]);
  for (int32_t i = 0; i < s->n_ties; i++)
    if (s->ties[i].g_user) ops->fill(t->device, s->ties[i].tie->floats, 0.0f, s->ties[i].g_user);
}

int trainer_evaluate(struct trainer *t, const struct batch *batch, int64_t step, double *loss_sum) {
  struct exec_result run;
  int status = update_graph(t, batch, true);
  if (!status) status = run_graph(t, &t->evaluate, batch, step, false, &run);
  if (status) return status;
  int size = comm_get_size(t->config.comm);
  double *parts = MEM_NEW(double, size);
  int64_t *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(t->config.comm, &run.loss_sum, sizeof run.loss_sum, parts, offsets);
  *loss_sum = 0;
  for (int r = 0; r < size; r++) *loss_sum += parts[r];
  mem_free(parts);
  mem_free(offsets);
  return STATUS_OK;
}

struct checkpoint_part trainer_get_part(const struct trainer *t) {
  const struct rank_state *s = t->state;
  struct checkpoint_part part = {.weights = s->w, .m = s->m, .v = s->v};
  for (int32_t i = 0; i < s->n_ties; i++) {
    const struct rank_tie *tie = &s->ties[i];
    if (!rank_tie_is_copy(tie)) continue;
    CHECK(part.n_copies < CHECKPOINT_MOST_COPIES, "a rank has %d tied tensors", (int)s->n_ties);
    part.copies[part.n_copies++] =
        (struct checkpoint_copy){tie->tie->layer, tie->tie->tensor, {tie->w, tie->m, tie->v}};
  }
  return part;
}
