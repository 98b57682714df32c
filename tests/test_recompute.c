/* Recomputation changes nothing but memory: every set, on every choice of stages, glued, early and block by block,
 * gives the bits of a training without it, and the peak that the graph says (the trainer holds the two against each
 * other each step). */
#include "plan/recompute.h"
#include "train_case.h"

enum { MICROS = 4 };
enum way { GLUED, EARLY, BY_BLOCK, WAYS };

static struct plan *make_plan(const struct model *model, int n_ranks, const struct batch *batch) {
  struct micro_shape *micro = train_list_shapes(batch);
  struct plan_request request = {.model = model,
                                 .n_ranks = n_ranks,
                                 .n_stages = n_ranks,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = batch->n_micro,
                                 .micro = micro,
                                 .clip = true};
  struct plan *plan = NULL;
  T_CHECK(!planner_run("1f1b", &request, &plan), "%s", error_text());
  mem_free(micro);
  return plan;
}

/* The set of which blocks with an odd number discard nothing: the backward of a stage's last block, which comes first,
 * then has no recomputation before it. */
enum { EVEN_BLOCKS = PARAMS_recompute_COUNT + 100 };

/* What a set or, beyond the sets, a random mask discards. */
static uint32_t choose_ops(const struct model *model, int32_t l, int set) {
  const struct layer *layer = &model->layers[l];
  if (set == EVEN_BLOCKS) return layer->block % 2 ? 0 : recompute_get_ops(layer, PARAMS_RECOMPUTE_FULL);
  if (set < PARAMS_recompute_COUNT) return recompute_get_ops(layer, (enum params_recompute)set);
  struct rng_key key = {.seed = 11, .purpose = RNG_TEST, .a = (uint32_t)set};
  return recompute_get_ops(layer, PARAMS_RECOMPUTE_FULL) & (uint32_t)rng_bits(&key, (uint64_t)l);
}

static void put_recomputation(const struct model *model, struct plan *plan, int set, uint32_t which, enum way way) {
  uint32_t *ops = MEM_NEW(uint32_t, plan->n_layers);
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t l = 0; l < plan->n_layers; l++) ops[l] = choose_ops(model, l, set);
  for (int32_t s = 0; s < plan->n_stages; s++) stages[s] = which >> s & 1;
  recompute_put(plan, ops, stages);
  plan->recompute_early = way == EARLY;
  if (way == BY_BLOCK) recompute_cut(plan, model, stages);
  int status = plan_check(plan);
  T_CHECK(!status, "%s", error_text());
  plan_freeze(plan);
  mem_free(ops);
  mem_free(stages);
}

/* Trains three steps with and without; returns the peak of this rank with it. */
static int64_t compare(const struct train_job *job, const char *json, int set, uint32_t which, enum way way) {
  struct model *model = train_make_model(json);
  struct train_rows rows = train_create_rows(3, 2 * MICROS - 1, 12, model->config.vocab_size);
  train_draw_lengths(&rows, 4);
  struct batch batch = train_make_batch(&rows, model->config.vocab_size, 2);
  struct train_setup setup = {.optimizer = train_make_optimizer(1)};
  struct plan *plan = make_plan(model, job->size, &batch);
  put_recomputation(model, plan, set, which, way);
  struct dag *dag = NULL;
  T_CHECK(!dag_build(plan, model, &dag) && !dag_check(dag, plan), "%s", error_text());
  dag_destroy(&dag);
  struct train_side side = train_open_plan(job->comm, model, &setup, plan);
  struct train_side alone = train_open_plan(job->self, model, &setup, make_plan(model, 1, &batch));
  int64_t peak = 0;
  for (int64_t step = 1; step <= 3; step++) {
    struct trainer_result a = train_step(&side, &batch, step), b = train_step(&alone, &batch, step);
    train_compare_results("recomputed", step, &a, &b);
    peak = a.peak;
  }
  train_compare_weights("recomputed", &side, &alone);
  train_close(&side);
  train_close(&alone);
  batch_fini(&batch);
  train_free_rows(&rows);
  model_destroy(&model);
  return peak;
}

int main(int argc, char **argv) {
  struct train_job job = train_job_open(&argc, &argv);
  static const char *const models[] = {TRAIN_LLAMA(4, "false"), TRAIN_GPT2(4, "true")};
  for (int k = 0; k < 2; k++) {
    int64_t none = compare(&job, models[k], PARAMS_RECOMPUTE_NONE, 0, GLUED);
    for (int set = PARAMS_RECOMPUTE_CMB; set < PARAMS_recompute_COUNT + 4; set++) {
      int64_t peak[WAYS];
      for (int way = 0; way < WAYS; way++) peak[way] = compare(&job, models[k], set, 0xff, (enum way)way);
      /* Where more than one micro-batch is live, recomputing all of it must save; the last stage holds one. A stage of
       * several blocks rebuilds no more than one of them at a time. */
      if (set == PARAMS_RECOMPUTE_FULL && job.rank + 2 < job.size)
        T_CHECK(peak[GLUED] < none && peak[EARLY] < none, "%lld, %lld", (long long)peak[GLUED], (long long)none);
      if (set == PARAMS_RECOMPUTE_FULL && job.size <= 2)
        T_CHECK(peak[BY_BLOCK] < peak[GLUED], "%lld, %lld", (long long)peak[BY_BLOCK], (long long)peak[GLUED]);
    }
    compare(&job, models[k], PARAMS_RECOMPUTE_FULL, 1, GLUED);
    compare(&job, models[k], PARAMS_RECOMPUTE_MLP, 2, EARLY);
    compare(&job, models[k], PARAMS_RECOMPUTE_FULL, 1, BY_BLOCK);
    compare(&job, models[k], EVEN_BLOCKS, 0xff, BY_BLOCK);
  }
  return train_job_close(&job);
}
