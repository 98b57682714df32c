#include "setup/predict.h"

#include "base/error.h"
#include "base/mem.h"
#include "dag/dag_price.h"
#include "model/footprint.h"
#include "record/plan_file.h"

int predict_request(const char *planner, const struct plan_request *request, const struct cost *cost,
                    struct prediction *prediction) {
  *prediction = (struct prediction){.time_scale = 1};
  int status = request_plan(planner, request, &prediction->plan, &prediction->dag);
  if (!status) sim_plan_open(prediction->dag, prediction->plan, request->model, cost, 1, 1, &prediction->simulated);
  return status;
}

int predict_plan(struct plan *plan, const struct model *model, const struct cost *cost, double time_scale,
                 int32_t n_iterations, struct prediction *prediction) {
  *prediction = (struct prediction){.plan = plan, .time_scale = time_scale};
  int status = dag_build(plan, model, &prediction->dag);
  if (!status) status = dag_check(prediction->dag, plan);
  if (status)
    predict_fini(prediction);
  else
    sim_plan_open(prediction->dag, plan, model, cost, time_scale, n_iterations, &prediction->simulated);
  return status;
}

static bool is_kept(enum region region) { return region == REGION_KEEP_INPUT || region == REGION_KEEP_WEIGHT; }

/* Bytes of what an op's forward writes that stay for the backward; those of a layer's ops sum to what it keeps. An op
 * in place writes what another has made; the head writes the gradient of its input. Where only the layer's are known
 * they are the first op's, as its times are. */
static int64_t count_kept(const struct model *model, const struct footprint *f, const struct layer *layer,
                          const struct op *op, struct micro_shape micro) {
  if (layer->has_sizes) return op == layer->ops ? f->bytes[REGION_KEEP_INPUT] + f->bytes[REGION_KEEP_WEIGHT] : 0;
  int acts[2] = {op->in == op->out ? -1 : op->out, op->stats};
  int64_t bytes = 0;
  for (int i = 0; i < 2; i++)
    if (acts[i] >= 0 && is_kept(f->act[acts[i]].region)) bytes += footprint_act(model, &layer->acts[acts[i]], micro);
  if (op->in >= 0 && is_kept(f->grad[op->in].region)) bytes += footprint_act(model, &layer->acts[op->in], micro);
  return bytes;
}

static int32_t find_largest(const struct plan *plan) {
  int32_t largest = 0;
  for (int32_t i = 1; i < plan->n_micro; i++)
    if ((int64_t)plan->micro[i].rows * plan->micro[i].length >
        (int64_t)plan->micro[largest].rows * plan->micro[largest].length)
      largest = i;
  return largest;
}

/* One row an op, for the largest micro-batch. Owned by the caller. */
static struct plan_file_cost *list_costs(const struct prediction *p, const struct model *model, const struct cost *cost,
                                         int64_t *n) {
  const struct plan *plan = p->plan;
  struct plan_file_cost *rows = MEM_NEW(struct plan_file_cost, (int64_t)model->n_layers * LAYER_MAX_OPS);
  int32_t largest = find_largest(plan);
  const struct micro_shape *micro = &plan->micro[largest];
  *n = 0;
  for (int32_t l = 0; l < model->n_layers; l++) {
    const struct layer *layer = &model->layers[l];
    int32_t rank = plan_find_rank(plan, plan_get_stage(plan, l), largest);
    int64_t n_body = dag_price_count_body(plan, model, rank);
    struct footprint f;
    footprint_layer(model, layer, *micro, plan_get_discarded(plan, l, largest), 0, &f);
    for (int32_t o = 0; o < layer->n_ops; o++) {
      double seconds[PASS_COUNT];
      for (enum pass pass = 0; pass < PASS_COUNT; pass++)
        seconds[pass] =
            cost_get_op(cost, rank, l, o, pass, *micro) * cost_get_share_factor(cost, pass, n_body) / p->time_scale;
      rows[(*n)++] = (struct plan_file_cost){.layer = l,
                                             .op = o,
                                             .kind = (int8_t)layer->ops[o].kind,
                                             .forward_s = seconds[PASS_FORWARD],
                                             .input_s = seconds[PASS_INPUT],
                                             .weight_s = seconds[PASS_WEIGHT],
                                             .bytes_kept = count_kept(model, &f, layer, &layer->ops[o], *micro)};
    }
  }
  return rows;
}

int predict_write(const struct prediction *p, const struct model *model, const struct cost *cost, const char *path,
                  const char *deck, const char *model_json) {
  struct plan_file_prediction prediction = {.start_s = p->simulated.result->start,
                                            .end_s = p->simulated.result->end,
                                            .after = p->simulated.result->binder,
                                            .step_s = p->simulated.result->step,
                                            .time_scale = p->time_scale,
                                            .cost_source = cost_get_source(cost)};
  struct plan_file_cost *costs = list_costs(p, model, cost, &prediction.n_costs);
  prediction.costs = costs;
  struct plan_file_content content = {p->plan, p->dag, model, deck, model_json, &prediction};
  int status = plan_file_write(path, &content);
  mem_free(costs);
  return status;
}

void predict_fini(struct prediction *p) {
  sim_plan_close(&p->simulated);
  dag_destroy(&p->dag);
  plan_destroy(&p->plan);
  *p = (struct prediction){0};
}
