/* The timed device follows the simulator: every planner's plan, run on real ranks with real messages, has the modelled
 * times of the simulated graph node by node, the simulated order, and the plan's peaks; and the clock follows the
 * model.
 */
#include <math.h>

#include "cost/cost.h"
#include "deck_texts.h"
#include "planner_cases.h"
#include "sim/sim.h"
#include "train_case.h"

enum { ROWS = 16, MICRO_ROWS = 2, TIME = 16, STEPS = 2 };

static struct cost *make_cost(const char *yaml, const struct model *model, int32_t n_ranks) {
  struct params params = parse_good(yaml, NULL);
  struct cost *cost = NULL;
  char *notes = NULL;
  int status = cost_create(&params, model, n_ranks, &cost, &notes);
  T_CHECK(!status, "%s: %s", yaml, error_text());
  if (status) exit(1);
  mem_free(notes);
  params_fini(&params);
  return cost;
}

/* NULL when the planner declines. */
static struct plan *make_plan(const char *planner, const struct model *model, int32_t p, const struct batch *batch,
                              bool clip) {
  struct micro_shape *micro = train_list_shapes(batch);
  struct plan_request request = {.model = model,
                                 .params = get_test_params(),
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .n_chunks = get_test_chunks(planner),
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = batch->n_micro,
                                 .micro = micro,
                                 .clip = clip};
  struct plan *plan = NULL;
  if (planner_run(planner, &request, &plan)) error_clear();
  mem_free(micro);
  return plan;
}

/* This rank's nodes: messages have the modelled times to the digit, so every receive was posted as early as it could
 * be; compute nodes end at or after theirs, in its order. */
static void compare_nodes(const char *name, const struct trainer *t, const struct trainer_result *result,
                          const struct sim_result *sim, int rank) {
  const struct dag *dag = t->train.dag;
  int32_t first = dag->rank_offset[rank];
  for (int32_t v = first; v < dag->rank_offset[rank + 1]; v++) {
    const struct trace_span *span = &t->spans[v - first];
    double start = span->start - result->start, end = span->end - result->start;
    if (dag->nodes[v].kind == NODE_N) /* begins where its rank gets there */
      T_CHECK(start <= end && fabs(end - sim->end[v]) < 1e-9, "%s: norm until %.9f s, simulated %.9f", name, end,
              sim->end[v]);
    else if (dag->nodes[v].stream != STREAM_COMPUTE)
      T_CHECK(fabs(start - sim->start[v]) < 1e-9 && fabs(end - sim->end[v]) < 1e-9,
              "%s: node %d: %.9f to %.9f s, simulated %.9f to %.9f", name, v, start, end, sim->start[v], sim->end[v]);
    else
      T_CHECK(start > sim->start[v] - 1e-9 && end > sim->end[v] - 1e-6,
              "%s: node %d: %.9f to %.9f s, simulated %.9f to %.9f", name, v, start, end, sim->start[v], sim->end[v]);
  }
  const int32_t *offset = &dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  for (int32_t k = offset[0] + 1; k < offset[1]; k++) {
    int32_t before = dag->stream_nodes[k - 1], after = dag->stream_nodes[k];
    T_CHECK(t->spans[before - first].end <= t->spans[after - first].start && sim->end[before] <= sim->start[after],
            "%s: nodes %d and %d overlap or change places", name, before, after);
  }
}

static void run_case(const struct train_job *job, const char *planner, const char *costs, double scale, bool clip) {
  struct model *model = train_make_model(TRAIN_LLAMA(10, "true"));
  struct train_rows rows = train_create_rows(1, ROWS, TIME, model->config.vocab_size);
  struct batch batch = train_make_batch(&rows, model->config.vocab_size, MICRO_ROWS);
  struct cost *cost = make_cost(costs, model, job->size);
  struct plan *plan = make_plan(planner, model, job->size, &batch, clip);
  if (plan) {
    struct trainer_config config = {.comm = job->comm,
                                    .model = model,
                                    .plan = plan,
                                    .backend = "timed",
                                    .device = {.threads = 1, .limit = INT64_MAX},
                                    .optimizer = train_make_optimizer(clip),
                                    .sync_messages = strstr(costs, "sync_messages: true") != NULL,
                                    .cost = cost,
                                    .time_scale = scale};
    struct trainer *trainer;
    train_must(job->comm, trainer_create(&config, &trainer));
    double closest = INFINITY;
    struct trainer_result result = {0};
    for (int step = 1; step <= STEPS; step++) {
      train_must(job->comm, trainer_step(trainer, &batch, step, &result));
      closest = fmin(closest, result.seconds / result.modelled - 1);
    }
    struct sim *sim = sim_create(trainer->train.dag, plan->n_stages);
    struct sim_times times = {trainer->train.simulated.times.seconds, cost_get_eager_bytes(cost)};
    const struct sim_result *simulated = sim_run(sim, &times, 1);
    T_CHECK(fabs(result.modelled - simulated->makespan) < 1e-9, "%s: modelled %.9f s, simulated %.9f", planner,
            result.modelled, simulated->makespan);
    T_CHECK(closest > -1e-6, "%s: a step ends %.2f %% before its modelled end", planner, -100 * closest);
    T_CHECK(result.peak == dag_get_peak(trainer->train.dag, job->rank, NULL), "%s: peak %lld", planner,
            (long long)result.peak);
    T_CHECK(isnan(result.loss) && isnan(result.grad_norm) && result.finite, "%s: loss %g", planner, result.loss);
    compare_nodes(planner, trainer, &result, simulated, job->rank);
    sim_destroy(&sim);
    trainer_destroy(&trainer);
    plan_destroy(&plan);
  } else {
    T_CHECK(strcmp(planner, "1f1b") != 0, "%s declines", planner);
  }
  cost_destroy(&cost);
  batch_fini(&batch);
  train_free_rows(&rows);
  model_destroy(&model);
}

int main(int argc, char **argv) {
  struct train_job job = train_job_open(&argc, &argv);
  for (const struct planner *const *p = planner_get_all(); *p; p++) {
    if (!get_test_chunks(planner_get_name(*p))) continue;
    run_case(&job, planner_get_name(*p),
             "cost: {source: uniform, uniform: {forward_ms: 2.5, input_ms: 2.5, weight_ms: 2.5, send_ms: 0.5, "
             "evict_ms: 1.5}}\n",
             1, false);
    /* Every message waits for its receiver. */
    run_case(&job, planner_get_name(*p), "device: {preset: a100-80g}\ncost: {source: preset}\n", 0.2, true);
  }
  /* Twice as fast; messages that take longer than passes. */
  run_case(&job, "1f1b", "cost: {source: uniform, uniform: {forward_ms: 5, input_ms: 5, weight_ms: 5, send_ms: 15}}\n",
           2, true);
  /* Every message waits for its receiver, however short: in the model and really. */
  static const char *const waiting[] = {"1f1b", "zb-v"};
  for (int i = 0; i < 2; i++)
    run_case(&job, waiting[i],
             "device: {sync_messages: true}\n"
             "cost: {source: uniform, uniform: {forward_ms: 5, input_ms: 5, weight_ms: 5, send_ms: 4}}\n",
             2, true);
  return train_job_close(&job);
}
