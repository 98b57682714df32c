/* Makes the request to a planner of the deck's keys. */
#include "setup/request.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "plan/plan_csv.h"
#include "plan/recompute.h"
#include "record/plan_file.h"

/* ---- a plan made elsewhere ---- */

static bool is_csv(const char *path) {
  size_t n = strlen(path);
  return n > 4 && !strcmp(path + n - 4, ".csv");
}

static int load_plan(const char *path, struct plan **plan) {
  struct plan_file file;
  int status = plan_file_read(path, &file);
  if (!status) status = plan_file_load(path, &file, plan);
  plan_file_fini(&file);
  return status;
}

static const struct planner *find_planner(const struct params *params) {
  return planner_find(params_get_choice(params, PARAM_pipeline_planner));
}

static bool takes_file(const struct params *params) {
  return find_planner(params)->takes_file && params->pipeline.plan_file;
}

static int read_plan_file(const char *path, char **csv, struct plan **given) {
  int status = is_csv(path) ? file_read_text(path, csv) : load_plan(path, given);
  return status ? error_wrap("pipeline.plan_file") : STATUS_OK;
}

static int count_rows(const char *text, const char *path, int32_t *n) {
  struct plan_csv *csv;
  int status = plan_csv_parse(text, path, &csv);
  if (status) return status;
  *n = csv->n_ranks;
  plan_csv_destroy(&csv);
  return STATUS_OK;
}

int request_count_ranks(const struct params *params, int32_t *n_ranks) {
  const char *path = params->pipeline.plan_file;
  char *csv = NULL;
  struct plan *given = NULL;
  *n_ranks = params_is_set(params, PARAM_pipeline_stages) ? (int32_t)params->pipeline.stages : 0;
  if (*n_ranks > 0 || !takes_file(params)) return STATUS_OK;
  int status = read_plan_file(path, &csv, &given);
  if (!status && csv) status = count_rows(csv, path, n_ranks);
  if (!status && given) *n_ranks = given->n_ranks;
  mem_free(csv);
  plan_destroy(&given);
  return status;
}

/* ---- recomputation ---- */

static int refuse_op(const struct model *model, const char *name) {
  char *ops = recompute_list_ops(model);
  int status =
      error_raise(STATUS_MISTAKE, "pipeline.recompute names the op '%s'; allowed are this model's: %s", name, ops);
  mem_free(ops);
  return status;
}

static int add_named(const struct model *model, const char *name, uint32_t *ops) {
  uint32_t any = 0;
  for (int32_t l = 0; l < model->n_layers; l++) {
    uint32_t named = recompute_get_named_ops(&model->layers[l], name);
    ops[l] |= named;
    any |= named;
  }
  return any ? STATUS_OK : refuse_op(model, name);
}

/* ops[n_layers]: those of the set, or of the list. */
static int choose_ops(const struct params *params, const struct model *model, uint32_t *ops) {
  const struct params_ops *chosen = &params->pipeline.recompute;
  int status = STATUS_OK;
  for (int32_t l = 0; chosen->n == 0 && l < model->n_layers; l++)
    ops[l] = recompute_get_ops(&model->layers[l], chosen->set);
  for (int64_t i = 0; i < chosen->n && !status; i++) status = add_named(model, chosen->names[i], ops);
  return status;
}

static void choose_stages(const struct params *params, struct deck_request *request) {
  const struct params_stages *chosen = &params->pipeline.recompute_stages;
  const struct params_ops *ops = &params->pipeline.recompute;
  bool given = params_is_set(params, PARAM_pipeline_recompute_stages);
  struct plan_request *plan = &request->plan;
  plan->n_recompute_stages = PLAN_ALL_STAGES;
  plan->recompute_as_needed =
      (ops->n == 0 && ops->set == PARAMS_RECOMPUTE_AUTO) || (given && chosen->kind == PARAMS_STAGES_AUTO);
  if (!given || chosen->kind == PARAMS_STAGES_AUTO || chosen->kind == PARAMS_STAGES_ALL) return;
  plan->n_recompute_stages = (int32_t)chosen->n;
  if (chosen->kind != PARAMS_STAGES_LIST) return;
  request->stages = MEM_NEW(int32_t, chosen->n);
  for (int64_t i = 0; i < chosen->n; i++) request->stages[i] = (int32_t)chosen->stages[i];
  plan->recompute_stages = request->stages;
}

int request_check_ops(const struct params *params, const struct model *model) {
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  int status = choose_ops(params, model, ops);
  mem_free(ops);
  return status;
}

static int open_recompute(const struct params *params, const struct model *model, struct deck_request *request) {
  const struct params_ops *chosen = &params->pipeline.recompute;
  if (chosen->n == 0 && chosen->set == PARAMS_RECOMPUTE_NONE) return STATUS_OK;
  request->ops = MEM_NEW(uint32_t, model->n_layers);
  request->plan.recompute_ops = request->ops;
  choose_stages(params, request);
  return choose_ops(params, model, request->ops);
}

static int check_swap_stages(const struct params *params, int32_t n) {
  const struct params_stages *chosen = &params->pipeline.swap_stages;
  if (chosen->kind == PARAMS_STAGES_FIRST && chosen->n > n)
    return error_raise(STATUS_MISTAKE, "pipeline.swap_stages is %lld; the plan has %d stages", (long long)chosen->n,
                       (int)n);
  for (int64_t i = 0; chosen->kind == PARAMS_STAGES_LIST && i < chosen->n; i++)
    if (chosen->stages[i] >= n)
      return error_raise(STATUS_MISTAKE, "pipeline.swap_stages names stage %lld; the plan has stages 0 to %d",
                         (long long)chosen->stages[i], (int)n - 1);
  return STATUS_OK;
}

/* ---- the whole ---- */

static struct plan_request make_request(const struct params *params, int32_t n_ranks) {
  return (struct plan_request){
      .n_ranks = n_ranks,
      .n_stages = params_is_set(params, PARAM_pipeline_stages) ? (int32_t)params->pipeline.stages : n_ranks,
      .n_chunks = params_is_given(params, PARAM_pipeline_chunks) ? (int32_t)params->pipeline.chunks : 0,
      .params = params,
      .partition = params->pipeline.partition,
      .clip = params->optimizer.clip > 0,
  };
}

/* Returns true when a recomputation begins before its gradient. */
static bool begins_early(const struct params *params) {
  const struct planner *planner = find_planner(params);
  if (params_is_set(params, PARAM_pipeline_recompute_early)) return params->pipeline.recompute_early;
  return !planner->begins_early || planner->begins_early(params);
}

/* Where blocks may wait. Without a folder none do on disk. */
static void open_limits(const struct params *params, struct deck_request *request) {
  int32_t n = request->plan.n_ranks;
  bool spills = params->memory.spill_folder, limited = params_is_given(params, PARAM_memory_spill_limit);
  request->host = MEM_NEW(int64_t, n);
  request->disk = MEM_NEW(int64_t, n);
  for (int32_t r = 0; r < n; r++) {
    request->host[r] = request_get_host_limit(params, INT64_MAX);
    request->disk[r] = !spills ? 0 : limited ? params->memory.spill_limit : INT64_MAX;
  }
  request->plan.host_limit = request->host;
  request->plan.disk_limit = request->disk;
}

int request_open(const struct params *params, const struct model *model, int32_t n_ranks, int32_t n_micro,
                 const struct micro_shape *micro, const int64_t *limits, struct deck_request *request) {
  *request = (struct deck_request){.plan = make_request(params, n_ranks)};
  struct plan_request *plan = &request->plan;
  plan->model = model;
  plan->n_micro = n_micro;
  plan->micro = micro;
  plan->device_limit = limits;
  plan->notes = &request->notes;
  open_limits(params, request);
  plan->simulate = true;
  plan->recompute_early = begins_early(params);
  plan->recompute_by = params->pipeline.recompute_by;
  int status = check_swap_stages(params, plan->n_stages);
  if (!status) status = open_recompute(params, model, request);
  if (status || !takes_file(params)) return status;
  status = read_plan_file(params->pipeline.plan_file, &request->csv, &request->given);
  plan->plan_csv = request->csv;
  plan->given = request->given;
  return status;
}

void request_close(struct deck_request *request) {
  mem_free(request->ops);
  mem_free(request->stages);
  mem_free(request->csv);
  mem_free(request->host);
  mem_free(request->disk);
  mem_free(request->notes);
  plan_destroy(&request->given);
  *request = (struct deck_request){0};
}
