#include "run/forecast.h"

#include <math.h>

#include "base/mem.h"
#include "dag/dag_price.h"
#include "model/footprint.h"
#include "sim/sim_plan.h"

static bool is_receive(int kind) { return node_kind_get_end((enum node_kind)kind) == NODE_IS_RECEIVE; }

/* ---- ops ---- */

/* A stage's sums for one micro-batch. */
struct stage_ops {
  double seconds[OP_TIMES];
  int64_t counts[OP_TIMES];
};

struct pricing {
  const struct plan *plan;
  const struct model *model;
  const struct cost *cost;
};

static void price_layer(const struct pricing *p, int32_t rank, int32_t l, int32_t micro, int64_t n_body,
                        struct stage_ops *sums) {
  const struct layer *layer = &p->model->layers[l];
  const struct micro_shape *m = &p->plan->micro[micro];
  uint32_t discarded = plan_get_discarded(p->plan, l, micro);
  for (int o = 0; o < layer->n_ops; o++)
    for (int pass = 0; pass < PASS_REPORT_COUNT; pass++) {
      if (pass == PASS_RECOMPUTE && !(discarded && footprint_is_rebuilt(layer, o, discarded))) continue;
      enum pass run_as = pass == PASS_RECOMPUTE ? PASS_FORWARD : (enum pass)pass;
      int slot = op_times_slot(layer->kind, o, (enum pass)pass);
      sums->counts[slot]++;
      sums->seconds[slot] +=
          cost_get_op(p->cost, rank, l, o, run_as, *m) * cost_get_share_factor(p->cost, run_as, n_body);
    }
}

static bool is_like_before(const struct plan *plan, int32_t i) {
  return plan->n_recompute == 0 && micro_shape_costs_alike(plan->micro[i], plan->micro[i - 1]);
}

static void price_ops(const struct pricing *p, double *seconds, int64_t *counts) {
  struct stage_ops *sums = MEM_NEW(struct stage_ops, 1);
  for (int32_t s = 0; s < p->plan->n_stages; s++) {
    const struct plan_stage *stage = &p->plan->stages[s];
    for (int32_t i = 0; i < p->plan->n_micro; i++) {
      int32_t rank = plan_find_rank(p->plan, s, i);
      if (i == 0 || rank != plan_find_rank(p->plan, s, i - 1) || !is_like_before(p->plan, i)) {
        *sums = (struct stage_ops){{0}, {0}};
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
          price_layer(p, rank, l, i, dag_price_count_body(p->plan, p->model, rank), sums);
      }
      for (int slot = 0; slot < OP_TIMES; slot++) {
        seconds[slot] += sums->seconds[slot];
        counts[slot] += sums->counts[slot];
      }
    }
  }
  mem_free(sums);
}

/* ---- sums of a step ---- */

void forecast_make(const struct plan *plan, const struct dag *dag, const struct model *model, const struct cost *cost,
                   double time_scale, struct forecast *forecast, struct forecast_counts *counts) {
  *forecast = (struct forecast){0};
  *counts = (struct forecast_counts){{0}, {0}};
  struct sim_plan simulated;
  sim_plan_open(dag, plan, model, cost, time_scale, 1, &simulated);
  const struct sim_result *result = simulated.result;
  forecast->step = result->step;
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    int kind = dag->nodes[v].kind;
    if (is_receive(kind)) continue;
    counts->kinds[kind]++;
    forecast->kinds[kind] += result->end[v] - result->start[v];
  }
  sim_plan_close(&simulated);
  price_ops(&(struct pricing){plan, model, cost}, forecast->ops, counts->ops);
  for (int slot = 0; slot < OP_TIMES; slot++)
    forecast->ops[slot] = cost_knows_ops(cost) ? forecast->ops[slot] / time_scale : NAN;
}

void forecast_measure(const struct dag *dag, int32_t rank, const struct trace_span *spans, const double *ops,
                      double seconds, struct forecast *measured) {
  *measured = (struct forecast){.step = seconds};
  for (int32_t v = dag->rank_offset[rank]; v < dag->rank_offset[rank + 1]; v++) {
    const struct trace_span *span = &spans[v - dag->rank_offset[rank]];
    int kind = dag->nodes[v].kind;
    if (!is_receive(kind)) measured->kinds[kind] += span->end - span->start;
  }
  for (int slot = 0; slot < OP_TIMES; slot++) measured->ops[slot] = ops[slot];
}

double forecast_get_bubble(const struct forecast *forecast, int32_t n_ranks) {
  double busy = 0, whole = n_ranks * forecast->step;
  for (int kind = 0; kind < NODE_KIND_COUNT; kind++)
    if (node_kind_get_stream((enum node_kind)kind) == STREAM_COMPUTE) busy += forecast->kinds[kind];
  return whole > 0 ? 1 - busy / whole : 0;
}
