#include "input/params_check.h"

#include "base/mem.h"
#include "input/param_table.h"
#include "input/param_value.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct check {
  const struct params *params;
  const bool *broken;
  struct mistakes *mistakes;
};

/* Adds "PLACE: 'section.key' PROBLEM", at the place that gave the key. */
static void contradict(const struct check *check, enum param_id id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void contradict(const struct check *check, enum param_id id, const char *format, ...) {
  char problem[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(problem, sizeof problem, format, arguments);
  va_end(arguments);
  const char *place = check->params->sources[id].text;
  mistakes_add(check->mistakes, "%s: '%s.%s' %s", place ? place : "default", param_rows[id].section, param_rows[id].key,
               problem);
}

static bool is_sound(const struct check *check, enum param_id a, enum param_id b) {
  return !check->broken[a] && !check->broken[b];
}

/* Returns true when a model type is one of the words of `family`. */
static bool belongs(const char *family, const char *model_type) {
  size_t n = strlen(model_type);
  for (const char *word = family; (word = strstr(word, model_type)) != NULL; word += n)
    if ((word == family || word[-1] == ' ') && (word[n] == ' ' || !word[n])) return true;
  return !family[0];
}

static void check_model_key(const struct check *check, enum param_id id, const char *model_type) {
  const struct params *params = check->params;
  const struct param_row *row = &param_rows[id];
  if (!params_is_given(params, id)) return;
  if (params_is_given(params, PARAM_model_config))
    contradict(check, id, "cannot be given beside 'model.config' (%s): change the file, or leave config out",
               params->sources[PARAM_model_config].text);
  else if (!model_type && !check->broken[PARAM_model_model_type])
    contradict(check, id, "needs 'model.model_type' beside it");
  else if (model_type && !belongs(row->family, model_type))
    contradict(check, id, "is a key of %s; the model_type is %s", row->family, model_type);
}

static void check_model(const struct check *check) {
  const struct params *params = check->params;
  const char *model_type = params_get_choice(params, PARAM_model_model_type);
  if (check->broken[PARAM_model_config]) return;
  if (params_is_given(params, PARAM_model_config) && params_is_given(params, PARAM_model_model_type))
    contradict(check, PARAM_model_model_type, "cannot be given beside 'model.config' (%s), which has its own",
               params->sources[PARAM_model_config].text);
  for (int id = 0; id < PARAM_COUNT; id++)
    if (param_rows[id].of_model) check_model_key(check, (enum param_id)id, model_type);
}

static void check_rate(const struct check *check) {
  const struct params *params = check->params;
  if (is_sound(check, PARAM_optimizer_lr, PARAM_optimizer_min_lr) && params->optimizer.min_lr > params->optimizer.lr)
    contradict(check, PARAM_optimizer_min_lr, "is %g, above 'optimizer.lr', which is %g", params->optimizer.min_lr,
               params->optimizer.lr);
}

static void check_schedule(const struct check *check) {
  const struct params *params = check->params;
  long long warm_up = params->optimizer.warmup_steps, decay = params->optimizer.decay_steps, steps = params->run.steps;
  bool falls =
      params->optimizer.schedule == PARAMS_SCHEDULE_LINEAR || params->optimizer.schedule == PARAMS_SCHEDULE_COSINE;
  if (check->broken[PARAM_optimizer_schedule] || check->broken[PARAM_optimizer_warmup_steps] ||
      !is_sound(check, PARAM_optimizer_decay_steps, PARAM_run_steps))
    return;
  if (falls && warm_up > decay)
    contradict(check, PARAM_optimizer_warmup_steps, "is %lld, beyond 'optimizer.decay_steps', which is %lld", warm_up,
               decay);
  else if (params->optimizer.schedule == PARAMS_SCHEDULE_CONSTANT && warm_up > steps)
    contradict(check, PARAM_optimizer_warmup_steps, "is %lld, beyond 'run.steps', which is %lld", warm_up, steps);
  else if (params->optimizer.schedule == PARAMS_SCHEDULE_WSD && steps && warm_up + decay > steps)
    contradict(check, PARAM_optimizer_warmup_steps,
               "(%lld) and 'optimizer.decay_steps' (%lld) are longer than 'run.steps' "
               "(%lld)",
               warm_up, decay, steps);
}

static void check_evaluation(const struct check *check) {
  const struct params *params = check->params;
  if (is_sound(check, PARAM_run_evaluate_every, PARAM_data_validation) && params->run.evaluate_every > 0 &&
      !params->data.validation.n)
    contradict(check, PARAM_run_evaluate_every, "is %lld, but 'data.validation' names no file",
               (long long)params->run.evaluate_every);
}

/* Stages a rank as far as the deck tells; 0: the planner finds it out. */
static long long count_chunks(const struct check *check) {
  const struct params *params = check->params;
  int planner = params->pipeline.planner;
  if (check->broken[PARAM_pipeline_chunks] || check->broken[PARAM_pipeline_planner]) return 0;
  if (params_is_set(params, PARAM_pipeline_chunks)) return params->pipeline.chunks;
  bool finds =
      planner == PARAMS_PLANNER_INTERLEAVED || planner == PARAMS_PLANNER_ZB_V || planner == PARAMS_PLANNER_FILE;
  return finds ? 0 : 1;
}

static void check_stages(const struct check *check) {
  const struct params *params = check->params;
  long long stages = params->pipeline.stages, chunks = count_chunks(check);
  if (!params_is_set(params, PARAM_pipeline_stages) || check->broken[PARAM_pipeline_stages]) return;
  const struct params_partition *cut = &params->pipeline.partition;
  if (cut->kind == PARAMS_CUT_LIST && chunks == 1 && cut->n != stages)
    contradict(check, PARAM_pipeline_partition, "lists %lld stages, 'pipeline.stages' is %lld", (long long)cut->n,
               stages);
  else if (cut->kind == PARAMS_CUT_LIST && chunks > 1 && cut->n != stages * chunks)
    contradict(check, PARAM_pipeline_partition,
               "lists %lld stages; 'pipeline.stages' %lld times 'pipeline.chunks' %lld are %lld", (long long)cut->n,
               stages, chunks, stages * chunks);
  const struct params_rank_sizes *limits = &params->memory.rank_limits;
  if (limits->n && limits->ranks[limits->n - 1] >= stages)
    contradict(check, PARAM_memory_rank_limits, "names rank %lld; with %lld stages the ranks are 0 to %lld",
               (long long)limits->ranks[limits->n - 1], stages, stages - 1);
}

/* A plan made elsewhere, and who takes it. */
static void check_plan_file(const struct check *check) {
  const struct params *params = check->params;
  if (!is_sound(check, PARAM_pipeline_planner, PARAM_pipeline_plan_file)) return;
  bool takes = params->pipeline.planner == PARAMS_PLANNER_FILE;
  bool given = params_is_set(params, PARAM_pipeline_plan_file);
  if (takes && !given)
    contradict(check, PARAM_pipeline_planner, "is file, but 'pipeline.plan_file' names none");
  else if (given && !takes)
    contradict(check, PARAM_pipeline_plan_file,
               "is given, but 'pipeline.planner' is %s: set that to file, or leave plan_file out",
               params_get_choice(params, PARAM_pipeline_planner));
}

/* Blocks for the disk need a folder. */
static void check_swap(const struct check *check) {
  const struct params *params = check->params;
  if (!is_sound(check, PARAM_pipeline_swap_tier, PARAM_memory_spill_folder)) return;
  if (params->pipeline.swap_tier == PARAMS_SWAP_TIER_DISK && !params->memory.spill_folder)
    contradict(check, PARAM_pipeline_swap_tier, "is disk, but 'memory.spill_folder' names no folder");
}

/* Times by hand need the hand. */
static void check_cost(const struct check *check) {
  const struct params *params = check->params;
  if (check->broken[PARAM_cost_source]) return;
  int source = params->cost.source;
  if (source == PARAMS_COST_SOURCE_UNIFORM && !check->broken[PARAM_cost_uniform] &&
      !params_is_set(params, PARAM_cost_uniform))
    contradict(check, PARAM_cost_source, "is uniform, but 'cost.uniform' gives no times");
  if (source == PARAMS_COST_SOURCE_TABLE && !check->broken[PARAM_cost_table] &&
      !params_is_set(params, PARAM_cost_table))
    contradict(check, PARAM_cost_source, "is table, but 'cost.table' names no file");
}

void params_check(const struct params *params, const bool broken[PARAM_COUNT], struct mistakes *mistakes) {
  const struct check check = {params, broken, mistakes};
  check_model(&check);
  check_rate(&check);
  check_schedule(&check);
  check_evaluation(&check);
  check_stages(&check);
  check_plan_file(&check);
  check_swap(&check);
  check_cost(&check);
}
