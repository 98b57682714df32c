#include "run/evaluate_checkpoint.h"

#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "data/dataset.h"
#include "exec/trainer.h"
#include "record/checkpoint.h"
#include "setup/setup.h"

struct job {
  struct comm *comm;
  struct params *params;
  const struct evaluate_request *request;
  struct topo topo;
  struct model *model;
  char *json;
  struct dataset **data; /* [result's n_files] */
  struct plan *plan;
  struct trainer *trainer;
};

static int check_keys(const struct job *job) {
  static const enum param_id keys[] = {PARAM_data_sequence_length, PARAM_data_global_batch, PARAM_data_validation};
  int n = sizeof keys / sizeof *keys;
  return params_require(job->params, "evaluate", keys, job->request->n_prefixes ? n - 1 : n);
}

/* ---- the files ---- */

static void list_files(const struct job *job, struct evaluate_result *result) {
  const struct params_mix *mix = &job->params->data.validation;
  bool named = job->request->n_prefixes > 0;
  result->n_files = named ? job->request->n_prefixes : (int)mix->n;
  result->files = MEM_NEW(char *, result->n_files);
  result->sum = MEM_NEW(struct evaluation_sum, result->n_files);
  for (int f = 0; f < result->n_files; f++)
    result->files[f] = mem_strdup(named ? job->request->prefixes[f] : mix->prefixes[f]);
}

/* The ranks share the look at every id. */
static int open_data_all(struct job *job, const struct evaluate_result *result) {
  int rank = comm_get_rank(job->comm), size = comm_get_size(job->comm), status = STATUS_OK;
  job->data = MEM_NEW(struct dataset *, result->n_files);
  for (int f = 0; f < result->n_files && !status; f++) {
    const struct params_mix mix = {.prefixes = &result->files[f], .n = 1};
    status = setup_open_data_all(job->comm, job->params, job->model, "evaluation", &mix, false, &job->data[f]);
    if (!status) status = comm_agree_all(job->comm, dataset_check_vocabulary(job->data[f], rank, size));
  }
  return status;
}

static int64_t get_longest(const struct job *job, int n_files) {
  int64_t longest = 0;
  for (int f = 0; f < n_files; f++) {
    int64_t length = dataset_get_longest(job->data[f]);
    if (length > longest) longest = length;
  }
  return longest;
}

/* ---- the model on its ranks ---- */

/* Stages for forwards alone, in order, without the limits of training: the memory that counts is asked for as it is
 * needed. */
static int make_plan_all(struct job *job, int n_files) {
  const struct params *p = job->params;
  int size = comm_get_size(job->comm);
  struct micro_shape *micro;
  int status = request_check_count(p, size);
  if (status) return comm_agree_all(job->comm, status);
  int32_t n_micro = planner_make_worst(p->data.global_batch, p->data.micro_batch, get_longest(job, n_files), &micro);
  struct plan_request request = {.model = job->model,
                                 .n_ranks = size,
                                 .n_stages = size,
                                 .params = p,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = n_micro,
                                 .micro = micro};
  status = setup_plan_all(job->comm, "1f1b", &request, &job->plan);
  mem_free(micro);
  return status;
}

static int open_trainer_all(struct job *job) {
  int rank = comm_get_rank(job->comm);
  int64_t limit = request_get_limit(job->params, rank, job->topo.memory_share_bytes);
  struct trainer_config config = {.comm = job->comm,
                                  .model = job->model,
                                  .plan = job->plan,
                                  .backend = params_get_choice(job->params, PARAM_device_backend),
                                  .device = setup_make_device(job->params, &job->topo, limit),
                                  .sync_messages = job->params->device.sync_messages,
                                  .weights_only = true,
                                  .run = job->params->run.name};
  return comm_agree_all(job->comm, trainer_create(&config, &job->trainer));
}

static int load_all(struct job *job, struct evaluate_result *result) {
  int status = STATUS_OK;
  if (job->request->checkpoint) {
    result->checkpoint = mem_strdup(job->request->checkpoint);
  } else {
    char *folder = mem_format("%s/checkpoints", job->params->run.folder);
    status = checkpoint_find_listed_all(job->comm, folder, &result->checkpoint);
    mem_free(folder);
  }
  struct checkpoint_part part = trainer_get_part(job->trainer);
  struct checkpoint_info info = {0};
  if (!status) status = checkpoint_read_all(job->comm, result->checkpoint, job->model, true, &part, &info);
  result->step = info.step;
  return status;
}

static int open_job_all(struct job *job, struct evaluate_result *result) {
  int status = comm_agree_all(job->comm, check_keys(job));
  if (!status) status = comm_agree_all(job->comm, topo_init_all(job->comm, &job->topo));
  if (!status) status = setup_model_all(job->comm, job->params, &job->model, &job->json);
  if (status) return status;
  list_files(job, result);
  status = request_check_positions(job->params, job->model);
  if (!status) status = open_data_all(job, result);
  status = comm_agree_all(job->comm, status);
  if (!status) status = make_plan_all(job, result->n_files);
  if (!status) status = open_trainer_all(job);
  return status ? status : load_all(job, result);
}

static void close_job(struct job *job, int n_files) {
  trainer_destroy(&job->trainer);
  plan_destroy(&job->plan);
  for (int f = 0; job->data && f < n_files; f++) dataset_close(&job->data[f]);
  mem_free(job->data);
  model_destroy(&job->model);
  mem_free(job->json);
  topo_fini(&job->topo);
}

/* ---- what is asked for ---- */

/* Returns false when a rank has got a stop signal. Collective. */
static bool go_on_all(void *context, int64_t done, int64_t n_batches) {
  (void)done, (void)n_batches;
  struct job *job = context;
  const char *signal = interrupt_get_signal();
  int status = signal ? error_raise(STATUS_STOPPED, "stopped by %s", signal) : STATUS_OK;
  return !comm_agree_all(job->comm, status);
}

static int evaluate_file_all(struct job *job, int f, struct evaluation_sum *sum) {
  int64_t rows = dataset_count_rows(job->data[f]), most = job->request->most_rows;
  struct evaluation evaluation = {.trainer = job->trainer,
                                  .dataset = job->data[f],
                                  .n_rows = most > 0 && most < rows ? most : rows,
                                  .batch_rows = job->params->data.global_batch,
                                  .micro_rows = job->params->data.micro_batch,
                                  .go_on_all = go_on_all,
                                  .context = job};
  int status = evaluate_rows_all(&evaluation, sum);
  if (status) watchdog_end_job(job->comm, status, error_text());
  return sum->is_whole ? STATUS_OK : STATUS_STOPPED;
}

int evaluate_checkpoint_all(struct comm *comm, struct params *params, const struct evaluate_request *request,
                            struct evaluate_result *result) {
  struct job job = {.comm = comm, .params = params, .request = request};
  *result = (struct evaluate_result){0};
  watchdog_set_timeout(comm, params->run.hang_timeout);
  int status = open_job_all(&job, result);
  for (int f = 0; f < result->n_files && !status; f++) {
    struct evaluation_sum *sum = &result->sum[f], *total = &result->total;
    status = evaluate_file_all(&job, f, sum);
    total->loss += sum->loss;
    total->rows += sum->rows;
    total->tokens += sum->tokens;
    total->labels += sum->labels;
  }
  close_job(&job, result->n_files);
  return status;
}

void evaluate_result_fini(struct evaluate_result *result) {
  for (int f = 0; f < result->n_files; f++) mem_free(result->files[f]);
  mem_free(result->files);
  mem_free(result->sum);
  mem_free(result->checkpoint);
  *result = (struct evaluate_result){0};
}
