/* Activations that wait on other ranks, in host memory and on disk come back as they were: training with random moves
 * of blocks, recomputation and split backwards among them, has the bits of training on one rank, and takes the
 * device's, the host's and the disk's memory as predicted (the trainer checks that in every step). */
#include <dirent.h>
#include <unistd.h>

#include "model/footprint.h"
#include "plan/recompute.h"
#include "random_moves.h"
#include "train_case.h"

static const char folder[] = "test_tiers-spill";

/* Some layers of some stages discard what they may. */
static void put_random_recompute(struct plan *plan, const struct model *model) {
  uint32_t *ops = MEM_NEW(uint32_t, plan->n_layers);
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t l = 0; l < plan->n_layers; l++)
    ops[l] = recompute_get_ops(&model->layers[l], (enum params_recompute)draw(PARAMS_recompute_COUNT));
  for (int32_t s = 0; s < plan->n_stages; s++) stages[s] = draw(2);
  recompute_put(plan, ops, stages);
  plan->recompute_early = draw(2);
  mem_free(ops);
  mem_free(stages);
}

/* One for all ranks: each draws the same numbers. */
static struct plan *draw_training(const struct model *model, int32_t n_ranks, unsigned tiers, int32_t *n_moves) {
  static const char *const planners[] = {"1f1b", "gpipe", "zb-h1", "interleaved", "zb-v", NULL};
  const char *name = planners[draw(6)];
  struct plan *plan = NULL;
  if (name) {
    plan = make_plan(model, name, n_ranks, 1 + draw(2 * n_ranks + 3), draw(2));
  } else {
    while (!plan || plan->forward_only || plan->n_ranks != n_ranks) {
      plan_destroy(&plan);
      plan = make_random_plan(model);
    }
  }
  if (draw(2)) put_random_recompute(plan, model);
  put_possible_tiers(plan, model, 1 + draw(3), tiers);
  for (int32_t k = 0; k < plan->n_moves; k++) n_moves[plan->moves[k].tier]++;
  plan_freeze(plan);
  return plan;
}

/* A batch cut as the plan is. */
static struct batch make_batch_for(const struct plan *plan, const struct model *model, int seed) {
  struct train_rows rows = train_create_rows((uint64_t)seed, 2 * plan->n_micro, 9, model->config.vocab_size);
  train_draw_lengths(&rows, (uint64_t)seed);
  struct batch batch = train_make_batch(&rows, model->config.vocab_size, 2);
  train_free_rows(&rows);
  return batch;
}

static void run_case(const struct train_job *job, int trial, unsigned tiers, int32_t *n_moves) {
  struct model *model = train_make_model(trial % 2 ? TRAIN_GPT2(6, "true") : TRAIN_LLAMA(6, "false"));
  struct plan *plan = draw_training(model, job->size, tiers, n_moves);
  struct train_setup setup = {.optimizer = train_make_optimizer(plan->clip ? 0.2 : 0),
                              .threads = 1 + trial % 2,
                              .sync_messages = trial % 3 == 0,
                              .spill_folder = folder};
  char name[96];
  snprintf(name, sizeof name, "trial %d: %s, %d micro-batches, %d moves", trial, plan->planner, plan->n_micro,
           plan->n_moves);
  struct batch batch = make_batch_for(plan, model, trial + 1);
  struct train_side side = train_open_plan(job->comm, model, &setup, plan);
  struct train_side alone = train_open(job->self, model, &(struct train_setup){.optimizer = setup.optimizer}, &batch);
  for (int step = 1; step <= 2; step++) {
    struct trainer_result a = train_step(&side, &batch, step), b = train_step(&alone, &batch, step);
    train_compare_results(name, step, &a, &b);
  }
  train_compare_weights(name, &side, &alone);
  batch_fini(&batch);
  train_close(&side);
  train_close(&alone);
  model_destroy(&model);
}

static void check_empty(const struct train_job *job) {
  comm_barrier_all(job->comm);
  DIR *dir = opendir(folder);
  int n = 0;
  for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) n += e->d_name[0] != '.';
  if (dir) closedir(dir);
  T_CHECK(dir && n == 0, "%d files are left in the spill folder", n);
  comm_barrier_all(job->comm);
  if (job->rank == 0) rmdir(folder);
}

int main(int argc, char **argv) {
  struct train_job job = train_job_open(&argc, &argv);
  static const unsigned tiers[] = {MOVES_TO_HOST, MOVES_TO_DISK, MOVES_TO_HOST | MOVES_TO_DISK | MOVES_TO_RANKS};
  int32_t n_moves[PLAN_TIER_COUNT] = {0};
  for (int trial = 0; trial < 24; trial++) run_case(&job, trial, tiers[trial % 3], n_moves);
  for (int tier = 0; tier < PLAN_TIER_COUNT; tier++)
    T_CHECK(n_moves[tier] > 10 || (tier == PLAN_TIER_RANK && job.size == 1), "only %d blocks moved to tier %s",
            n_moves[tier], plan_tier_get_name((enum plan_tier)tier));
  check_empty(&job);
  return train_job_close(&job);
}
