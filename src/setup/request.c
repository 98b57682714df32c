#include "setup/request.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/device.h"
#include "planner/fit.h"

int request_read_config(const struct params *params, char **json) {
  *json = params_format_model_json(params);
  if (*json) return STATUS_OK;
  if (!params->model.config)
    return error_raise(STATUS_MISTAKE, "the deck names no model: set model.config or model.model_type");
  return file_read_text(params->model.config, json);
}

int request_create_model(const struct params *params, const char *json, struct model **model) {
  char *notes = NULL;
  int status = model_create_of_deck(params, json, model, &notes);
  if (!status && notes && *notes) log_warn("%s", notes);
  mem_free(notes);
  if (!status) (*model)->half = params->device.precision == PARAMS_PRECISION_BF16;
  return status;
}

int request_check_precision(const struct params *params) {
  if (device_of_deck(params)->precisions >> params->device.precision & 1) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "device.precision is %s, which backend %s does not compute in this version: leave it "
                     "out, or set device.backend to timed",
                     params_get_choice(params, PARAM_device_precision),
                     params_get_choice(params, PARAM_device_backend));
}

int request_check_positions(const struct params *params, const struct model *model) {
  int64_t length = params->data.sequence_length, most = model->config.max_positions;
  if (length <= most) return STATUS_OK;
  const char *place = params->sources[PARAM_data_sequence_length].text;
  const char *model_place = params->model.config ? params->model.config : params->sources[PARAM_model_model_type].text;
  if (model->config.learned_positions)
    return error_raise(STATUS_MISTAKE,
                       "%s: 'data.sequence_length' is %lld; allowed: at most %lld, which is 'n_positions' of the model "
                       "(%s)",
                       place, (long long)length, (long long)most, model_place);
  log_warn("%s: 'data.sequence_length' is %lld, beyond %lld, which is 'max_position_embeddings' of the model (%s)",
           place, (long long)length, (long long)most, model_place);
  return STATUS_OK;
}

/* Every rank keeps the graph, about 1.5 KiB a micro-batch and stage. */
int request_check_count(const struct params *params, int32_t n_stages) {
  enum { MOST_PASSES = 1 << 22 };
  int64_t rows = params->data.global_batch, size = params->data.micro_batch;
  int64_t most = n_stages < MOST_PASSES ? MOST_PASSES / n_stages : 1;
  int64_t n = (rows + size - 1) / size;
  if (n <= most) return STATUS_OK;
  return error_raise(
      STATUS_MISTAKE,
      "data.global_batch %lld with data.micro_batch %lld makes %lld micro-batches a step; on %d stages at "
      "most %lld are possible: raise data.micro_batch to %lld, or lower data.global_batch",
      (long long)rows, (long long)size, (long long)n, n_stages, (long long)most, (long long)((rows + most - 1) / most));
}

int64_t request_get_limit(const struct params *params, int32_t rank, int64_t otherwise) {
  const struct params_rank_sizes *list = &params->memory.rank_limits;
  for (int64_t i = 0; i < list->n; i++)
    if (list->ranks[i] == rank) return list->bytes[i];
  return params_is_given(params, PARAM_memory_device_limit) ? params->memory.device_limit : otherwise;
}

int64_t request_get_host_limit(const struct params *params, int64_t most) {
  bool given = params_is_given(params, PARAM_memory_host_limit);
  return given && params->memory.host_limit < most ? params->memory.host_limit : most;
}

int request_check_rank_limits(const struct params *params, int32_t n_ranks) {
  const struct params_rank_sizes *list = &params->memory.rank_limits;
  for (int64_t i = 0; i < list->n; i++)
    if (list->ranks[i] >= n_ranks)
      return error_raise(STATUS_MISTAKE, "memory.rank_limits names rank %lld; the ranks are 0 to %d",
                         (long long)list->ranks[i], (int)n_ranks - 1);
  return STATUS_OK;
}

int request_plan(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag) {
  struct dag *built = NULL;
  int status = fit_make(planner, request, plan, &built);
  /* First, as it says what would fit. */
  if (!status) status = dag_check_memory(built, *plan);
  if (status) status = fit_advise(planner, request, status, *plan, built);
  if (!status) status = dag_check(built, *plan);
  if (status) plan_destroy(plan);
  if (status || !dag)
    dag_destroy(&built);
  else
    *dag = built;
  return status;
}
