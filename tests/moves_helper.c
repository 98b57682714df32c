/* Lets blocks of a plan move, for tests/test_run_spill.sh:
 *   moves_helper PLAN.h5 TIER STAGES OUT.h5   every block of these stages (0,1 or all) leaves right after its forward
 * for tier host or disk, and comes back when its backward begins */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/plan_move.h"
#include "record/plan_file.h"
#include "t.h"

static bool is_listed(const char *stages, int32_t stage) {
  for (const char *at = stages; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (!strcmp(stages, "all") || strtol(at, NULL, 10) == stage) return true;
  }
  return false;
}

static void put_moves(struct plan *plan, const struct model *model, enum plan_tier tier, const char *stages) {
  int32_t *forward, *use, n = 0;
  plan_move_find_uses(plan, &forward, &use);
  plan_reserve_moves(plan, plan->n_stages * plan->n_micro);
  for (int32_t s = 0; s < plan->n_stages; s++)
    for (int32_t i = 0; i < plan->n_micro && is_listed(stages, s); i++) {
      int32_t from = forward[s * plan->n_micro + i], to = use[s * plan->n_micro + i];
      bool disk = tier == PLAN_TIER_DISK;
      plan->moves[n++] = (struct plan_move){.stage = s,
                                            .micro = i,
                                            .tier = tier,
                                            .out_start = from,
                                            .out_end = from,
                                            .in_start = to,
                                            .peer = -1,
                                            .peer_start = -1,
                                            .peer_end = -1,
                                            .disk_start = disk ? from : -1,
                                            .disk_end = disk ? to : -1};
    }
  plan->n_moves = n;
  for (int32_t s = 0; s < plan->n_stages; s++)
    for (int32_t l = 0; l < plan->stages[s].n_layers; l++) {
      int32_t layer = plan->stages[s].first_layer + l;
      plan->moved[layer] = is_listed(stages, s) ? footprint_get_movable(&model->layers[layer]) : 0;
    }
  mem_free(forward);
  mem_free(use);
}

static int write_moved(const struct plan_file *file, struct plan *plan, enum plan_tier tier, const char *stages,
                       const char *path) {
  struct model *model = NULL;
  struct dag *dag = NULL;
  int status = model_create(file->model_json, "the plan's model", 0.02, &model, NULL);
  if (status) return status;
  put_moves(plan, model, tier, stages);
  plan->hash = 0;
  plan_freeze(plan);
  status = plan_check(plan);
  if (!status) status = dag_build(plan, model, &dag);
  struct plan_file_content content = {
      .plan = plan, .dag = dag, .model = model, .deck = file->deck, .model_json = file->model_json};
  if (!status) status = plan_file_write(path, &content);
  dag_destroy(&dag);
  model_destroy(&model);
  return status;
}

int main(int argc, char **argv) {
  struct plan_file file = {0};
  struct plan *plan = NULL;
  if (argc != 5) {
    fprintf(stderr, "usage: moves_helper PLAN.h5 host|disk STAGES OUT.h5\n");
    return 2;
  }
  int status = plan_file_read(argv[1], &file);
  if (!status) status = plan_file_load(argv[1], &file, &plan);
  if (!status)
    status = write_moved(&file, plan, strcmp(argv[2], "disk") ? PLAN_TIER_HOST : PLAN_TIER_DISK, argv[3], argv[4]);
  if (status) fprintf(stderr, "moves_helper: %s\n", error_text());
  plan_destroy(&plan);
  plan_file_fini(&file);
  return status ? 1 : 0;
}
