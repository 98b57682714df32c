/* The common part of both ways of verifying: a side that trains and remembers. */
#include "verify/verify_internal.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/watchdog.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void verify_fini(struct verify_result *result) {
  mem_free(result->loss);
  mem_free(result->loss_error);
  mem_free(result->grad_norm);
  mem_free(result->norm_error);
  mem_free(result->tensors);
  *result = (struct verify_result){0};
}

double verify_norm_difference(int64_t n, const float *a, const float *b, double *norm_b) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = (double)a[i] - (double)b[i];
    difference += d * d;
    norm += (double)b[i] * (double)b[i];
  }
  *norm_b = sqrt(norm);
  return sqrt(difference);
}

/* A gradient is held against its own norm and this share of the global one. */
#define TENSOR_TOLERANCE 5e-5
#define GLOBAL_SHARE 1e-3
/* The exact gradient of an attention's key bias is zero; AdamW scales up what rounding leaves of it. */
#define KEY_BIAS_TOLERANCE 1e-3

/* True when the tensor holds the bias of attention keys: all of a fused bias, or the second of three. */
static bool holds_key_bias(const struct layer *layer, int tensor) {
  for (int o = 0; layer->kind == LAYER_ATTENTION && o < layer->n_ops; o++) {
    const struct op *op = &layer->ops[o];
    if (op->kind != OP_MATMUL || op->bias < 0 || strcmp(op->name, "qkv")) continue;
    bool fused = layer->tensors[op->bias].count == layer->acts[op->out].width;
    return tensor == op->bias + (fused ? 0 : 1);
  }
  return false;
}

double verify_allow_gradient(double norm, double global) { return TENSOR_TOLERANCE * (norm + GLOBAL_SHARE * global); }

double verify_allow_weight(const struct layer *layer, int tensor, double norm) {
  return (holds_key_bias(layer, tensor) ? KEY_BIAS_TOLERANCE : TENSOR_TOLERANCE) * norm;
}

bool verify_is_within(const struct verify_result *r) {
  bool within = true;
  for (int32_t i = 0; i < r->n_steps; i++)
    within = within && r->loss_error[i] <= r->loss_allowed && r->norm_error[i] <= r->norm_allowed;
  for (int32_t t = 0; t < r->n_tensors; t++) {
    const struct verify_tensor *v = &r->tensors[t];
    within = within && v->gradient_error <= v->gradient_allowed && v->weight_error <= v->weight_allowed;
  }
  return within;
}

static void remember_gradients(struct verify_side *side) {
  struct rank_state *s = side->trainer->state;
  side->first = MEM_NEW(float *, s->model->n_layers);
  for (int32_t l = 0; l < s->model->n_layers; l++) {
    if (!s->holds[l]) continue;
    int64_t n = s->model->layers[l].n_floats;
    side->first[l] = MEM_NEW(float, n);
    s->device->ops->read(s->device, side->first[l], s->g[l], n * (int64_t)sizeof(float));
  }
}

static int check_signal(int32_t n_done) {
  const char *signal = interrupt_get_signal();
  if (!signal) return STATUS_OK;
  return error_raise(STATUS_STOPPED, "stopped by %s after %d steps; nothing is compared", signal, n_done);
}

static int train_steps(struct verify_side *side, verify_get_batch *get, void *context, struct comm *alive) {
  struct batch batch = {0};
  struct trainer_result result;
  int status = get(context, 0, &batch);
  if (!status) status = trainer_compute_gradients(side->trainer, &batch, &result);
  if (!status) {
    remember_gradients(side);
    trainer_clear_gradients(side->trainer);
  }
  for (int32_t i = 0; i < side->n_steps && !status; i++) {
    status = check_signal(i);
    if (!status) status = get(context, i, &batch);
    if (!status) status = trainer_step(side->trainer, &batch, i + 1, &result);
    if (status) break;
    side->loss[i] = result.loss;
    side->grad_norm[i] = result.grad_norm;
    if (alive) comm_poll(alive);
  }
  batch_fini(&batch);
  return status;
}

int verify_side_run(struct verify_side *side, int32_t n_steps, verify_get_batch *get, void *context,
                    struct comm *alive) {
  side->n_steps = n_steps;
  side->loss = MEM_NEW(double, n_steps);
  side->grad_norm = MEM_NEW(double, n_steps);
  int status = train_steps(side, get, context, alive);
  if (!status) return STATUS_OK;
  watchdog_end_job(alive ? alive : side->trainer->config.comm, status, error_text());
}

void verify_side_fini(struct verify_side *side) {
  int32_t n = side->trainer ? side->trainer->config.model->n_layers : 0;
  for (int32_t l = 0; l < n && side->first; l++) mem_free(side->first[l]);
  mem_free(side->first);
  mem_free(side->loss);
  mem_free(side->grad_norm);
  trainer_destroy(&side->trainer);
}
