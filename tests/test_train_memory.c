/* Device memory: measured and predicted peaks are the same bytes, a limit of exactly the peak is enough, one byte less
 * is refused before training and by the device itself, and nothing grows over many steps.
 */
#include "setup/setup.h"
#include "train_case.h"

static const char *const json = TRAIN_LLAMA(4, "true");
enum { ROWS = 8, MICRO_ROWS = 2, TIME = 24 };

static struct batch make_lengths(const struct model *model, uint64_t seed) {
  struct train_rows rows = train_create_rows(seed, ROWS, TIME, model->config.vocab_size);
  if (seed) train_draw_lengths(&rows, seed);
  struct batch batch = train_make_batch(&rows, model->config.vocab_size, MICRO_ROWS);
  train_free_rows(&rows);
  return batch;
}

static struct dag *make_graph(const struct plan *plan, const struct model *model, const struct batch *batch) {
  struct micro_shape *micro = train_list_shapes(batch);
  struct plan *real = plan_dup_with_micro(plan, micro);
  struct dag *dag = NULL;
  T_CHECK(dag_build(real, model, &dag) == STATUS_OK, "%s", error_text());
  plan_destroy(&real);
  mem_free(micro);
  return dag;
}

/* The largest sum of live buffers, node by node in the rank's order: what is freed at a node's end counts during it. */
static int64_t sum_live(const struct dag *dag, int32_t rank) {
  int32_t first = dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  int32_t end = dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE + 1];
  int32_t *order = MEM_NEW(int32_t, dag->n_nodes);
  for (int32_t k = first; k < end; k++) order[dag->stream_nodes[k]] = k;
  int64_t peak = 0;
  for (int32_t k = first; k < end; k++) {
    int64_t live = 0;
    for (int64_t b = dag->buffer_offset[rank]; b < dag->buffer_offset[rank + 1]; b++)
      if (order[dag->buffers[b].alloc] <= k && k <= order[dag->buffers[b].release]) live += dag->buffers[b].bytes;
    peak = live > peak ? live : peak;
  }
  mem_free(order);
  return dag->device_static[rank] + peak;
}

static int64_t get_used(const struct train_side *side) {
  struct device *device = side->trainer->device;
  return device->ops->get_memory(device).used;
}

/* Peaks of steps whose lengths change; between steps only what is static stays. */
static void test_peaks(const struct train_job *job, const char *planner, double clip) {
  struct model *model = train_make_model(json);
  struct train_setup setup = {.planner = planner, .optimizer = train_make_optimizer(clip)};
  struct batch worst = make_lengths(model, 0);
  struct train_side side = train_open(job->comm, model, &setup, &worst);
  int64_t least = INT64_MAX, most = 0;
  for (int step = 1; step <= 6; step++) {
    struct batch batch = make_lengths(model, (uint64_t)step - 1);
    struct dag *dag = make_graph(side.plan, model, &batch);
    int64_t predicted = dag_get_peak(dag, job->rank, NULL), live = sum_live(dag, job->rank);
    struct trainer_result result = train_step(&side, &batch, step);
    T_CHECK(result.peak == predicted, "step %d: peak %lld, the graph's is %lld", step, (long long)result.peak,
            (long long)predicted);
    T_CHECK(result.peak == live, "step %d: peak %lld, buffers alive at once %lld", step, (long long)result.peak,
            (long long)live);
    T_CHECK(get_used(&side) == dag->device_static[job->rank], "step %d leaves %lld bytes in use, static are %lld", step,
            (long long)get_used(&side), (long long)dag->device_static[job->rank]);
    train_evaluate(&side, &batch);
    T_CHECK(get_used(&side) == dag->device_static[job->rank], "evaluation leaves %lld bytes",
            (long long)get_used(&side));
    least = predicted < least ? predicted : least;
    most = predicted > most ? predicted : most;
    dag_destroy(&dag);
    batch_fini(&batch);
  }
  T_CHECK(least < most, "all steps need %lld bytes", (long long)most);
  batch_fini(&worst);
  train_close(&side);
  model_destroy(&model);
}

/* ---- limits ---- */

static struct plan_request make_request(const struct train_job *job, const struct model *model,
                                        const struct micro_shape *micro, int32_t n, const int64_t *limits) {
  return (struct plan_request){.model = model,
                               .n_ranks = job->size,
                               .n_stages = job->size,
                               .partition.kind = PARAMS_CUT_EVEN,
                               .n_micro = n,
                               .micro = micro,
                               .device_limit = limits,
                               .clip = true};
}

/* The refusal of a plan that lacks one byte on one rank, the same words on all ranks; what it advises does fit. */
static void check_refusal(const struct train_job *job, const struct plan_request *request, int poor,
                          const int64_t *peaks) {
  struct plan *plan = NULL;
  int status = setup_plan_all(job->comm, "1f1b", request, &plan);
  T_CHECK(status == STATUS_MISTAKE && !plan, "status %d with one byte too little on rank %d", status, poor);
  char rank[32], peak[64];
  snprintf(rank, sizeof rank, "rank %d needs", poor);
  snprintf(peak, sizeof peak, "rank %d: %lld B", poor, (long long)peaks[poor]);
  const char *text = error_text(), *fit = strstr(text, "what would fit");
  T_CHECK(strstr(text, rank) && strstr(text, ", 1 byte (1 B) over its memory.device_limit"),
          "who lacks how much is not in: %s", text);
  T_CHECK(strstr(text, " stage ") && strstr(text, " micro-batch "), "the node is not in: %s", text);
  T_CHECK(fit && strstr(fit, peak) && strstr(fit, "data.micro_batch 1"), "what would fit is not in: %s", text);
  struct micro_shape *micro;
  struct plan_request smaller = *request;
  smaller.n_micro = planner_make_worst(ROWS, 1, TIME, &micro);
  smaller.micro = micro;
  T_CHECK(setup_plan_all(job->comm, "1f1b", &smaller, &plan) == STATUS_OK, "%s", error_text());
  plan_destroy(&plan);
  mem_free(micro);
}

static void test_limits(const struct train_job *job) {
  struct model *model = train_make_model(json);
  struct micro_shape *micro;
  int32_t n = planner_make_worst(ROWS, MICRO_ROWS, TIME, &micro);
  int64_t *limits = MEM_NEW(int64_t, job->size), *peaks = MEM_NEW(int64_t, job->size);
  struct plan_request request = make_request(job, model, micro, n, NULL);
  struct plan *plan = NULL;
  train_must(job->comm, setup_plan_all(job->comm, "1f1b", &request, &plan));
  struct dag *dag = NULL;
  train_must(job->comm, dag_build(plan, model, &dag));
  for (int r = 0; r < job->size; r++) limits[r] = peaks[r] = dag_get_peak(dag, r, NULL);
  plan_destroy(&plan);
  request.device_limit = limits;
  for (int poor = 0; poor < job->size; poor++) {
    limits[poor]--;
    check_refusal(job, &request, poor, peaks);
    limits[poor]++;
  }
  train_must(job->comm, setup_plan_all(job->comm, "1f1b", &request, &plan));
  struct train_setup setup = {.limit = peaks[job->rank], .optimizer = train_make_optimizer(1)};
  struct train_side side = train_open_plan(job->comm, model, &setup, plan);
  struct batch worst = make_lengths(model, 0);
  struct trainer_result result = train_step(&side, &worst, 1);
  T_CHECK(result.peak == peaks[job->rank], "peak %lld with a limit of %lld", (long long)result.peak,
          (long long)peaks[job->rank]);
  batch_fini(&worst);
  train_close(&side);
  dag_destroy(&dag);
  mem_free(limits);
  mem_free(peaks);
  mem_free(micro);
  model_destroy(&model);
}

/* A step that nobody checked beforehand: the device refuses it and nothing stays behind. On this rank alone, as the
 * others of a real job would wait. */
static void test_device(const struct train_job *job) {
  struct model *model = train_make_model(json);
  struct batch worst = make_lengths(model, 0);
  struct train_setup setup = {.optimizer = train_make_optimizer(1)};
  struct train_side side = train_open(job->self, model, &setup, &worst);
  struct dag *dag = make_graph(side.plan, model, &worst);
  int64_t peak = dag_get_peak(dag, 0, NULL), held = dag->device_static[0];
  train_close(&side);
  setup.limit = peak - 1;
  side = train_open(job->self, model, &setup, &worst);
  struct trainer_result result;
  T_CHECK(trainer_step(side.trainer, &worst, 1, &result) == STATUS_FAILED, "a step one byte over the limit runs");
  T_CHECK(strstr(error_text(), "memory.device_limit") && strstr(error_text(), "step 1"), "%s", error_text());
  T_CHECK(get_used(&side) == held, "%lld bytes in use after the refusal, static are %lld", (long long)get_used(&side),
          (long long)held);
  struct trainer *none = NULL;
  struct trainer_config config = side.trainer->config;
  config.device.limit = held - 1;
  T_CHECK(trainer_create(&config, &none) == STATUS_FAILED && !none, "a model larger than the device is held");
  T_CHECK(strstr(error_text(), "memory.device_limit"), "%s", error_text());
  train_close(&side);
  dag_destroy(&dag);
  batch_fini(&worst);
  model_destroy(&model);
}

/* Many steps of lengths drawn anew under a limit of the largest one's peak: nothing grows and no hole is in the way. */
static void test_many_steps(const struct train_job *job) {
  enum { STEPS = 500 };
  struct model *model = train_make_model(json);
  struct train_setup setup = {.optimizer = train_make_optimizer(1)};
  struct batch batch = make_lengths(model, 1);
  struct train_side side = train_open(job->comm, model, &setup, &batch);
  int64_t held = get_used(&side);
  for (int step = 1; step <= STEPS; step++) {
    batch_fini(&batch);
    batch = make_lengths(model, (uint64_t)step);
    struct dag *dag = make_graph(side.plan, model, &batch);
    int64_t peak = dag_get_peak(dag, job->rank, NULL);
    setup.limit = peak > setup.limit ? peak : setup.limit;
    dag_destroy(&dag);
  }
  struct plan *plan = plan_dup(side.plan);
  train_close(&side);
  side = train_open_plan(job->comm, model, &setup, plan);
  int64_t peak = 0;
  for (int step = 1; step <= STEPS; step++) {
    batch_fini(&batch);
    batch = make_lengths(model, (uint64_t)step);
    struct trainer_result result = train_step(&side, &batch, step);
    peak = result.peak > peak ? result.peak : peak;
    T_CHECK(result.finite && get_used(&side) == held, "step %d leaves %lld bytes in use", step,
            (long long)get_used(&side));
  }
  T_CHECK(peak == setup.limit, "the largest peak is %lld, expected %lld", (long long)peak, (long long)setup.limit);
  batch_fini(&batch);
  train_close(&side);
  model_destroy(&model);
}

int main(int argc, char **argv) {
  struct train_job job = train_job_open(&argc, &argv);
  test_peaks(&job, "1f1b", 1);
  test_peaks(&job, "gpipe", 0);
  test_limits(&job);
  test_device(&job);
  test_many_steps(&job);
  return train_job_close(&job);
}
