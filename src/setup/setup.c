#include "setup/setup.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cost/cost.h"
#include "data/dataset.h"
#include "device/device.h"
#include "input/deck.h"
#include "input/params_idle.h"
#include "model/footprint.h"
#include "setup/costs.h"
#include "setup/same_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 4096 };

/* Sends a text that rank 0 has (NULL elsewhere, and on rank 0 when there is none) to all; owned by the caller. */
static char *broadcast_text_all(struct comm *comm, char *text) {
  int64_t bytes = text ? (int64_t)strlen(text) + 1 : 0;
  comm_broadcast_all(comm, 0, &bytes, sizeof bytes);
  if (bytes == 0) return NULL;
  if (comm_get_rank(comm) != 0) text = mem_alloc((size_t)bytes);
  comm_broadcast_all(comm, 0, text, bytes);
  return text;
}

char *setup_share_text_all(struct comm *comm, const char *text) {
  char *theirs = comm_get_rank(comm) == 0 ? mem_strdup(text) : NULL;
  return broadcast_text_all(comm, theirs);
}

/* Where a file lies, without a look at the file system. */
static char *place_deck(const char *deck) {
  char *here = deck[0] == '/' ? NULL : getcwd(NULL, 0);
  char *place = here ? mem_format("%s/%s", here, deck) : mem_strdup(deck);
  free(here);
  return place;
}

/* Rank 0 alone reads the deck where all ranks name one place. A rank that names another must find the same deck there;
 * one that has no file there, under the name that rank 0 has for its own, is in another working directory. */
static int compare_deck_all(struct comm *comm, const char *deck, const char *text) {
  char *mine = place_deck(deck), *name = setup_share_text_all(comm, deck), *theirs = setup_share_text_all(comm, mine);
  char *found = NULL;
  int status = STATUS_OK;
  if (strcmp(mine, theirs)) {
    bool same_name = !strcmp(deck, name);
    status = same_name && access(mine, F_OK) ? STATUS_OK : deck_read_text(deck, &found);
    if (!status && found && !deck_is_same_text(found, text))
      status =
          error_raise(STATUS_MISTAKE, "the deck %s is another than %s, which rank 0 (%s) has: give all ranks the same",
                      mine, theirs, comm_get_host(comm, 0));
  }
  mem_free(found);
  mem_free(mine);
  mem_free(name);
  mem_free(theirs);
  return comm_agree_all(comm, status);
}

int setup_compare_params_all(struct comm *comm, const struct params *params) {
  char *mine = params_format_shared(params), *theirs = setup_share_text_all(comm, mine);
  char *who = mem_format("rank 0 (%s)", comm_get_host(comm, 0));
  int status = params_compare_shared(params, theirs, who);
  mem_free(who);
  mem_free(theirs);
  mem_free(mine);
  return comm_agree_all(comm, status);
}

int setup_params_all(struct comm *comm, const char *deck, const char *const *overrides, int n_overrides,
                     struct params *params, char **deck_text) {
  char *text = NULL;
  int status = deck && comm_get_rank(comm) == 0 ? deck_read_text(deck, &text) : STATUS_OK;
  status = comm_agree_all(comm, status);
  if (status) return status;
  text = broadcast_text_all(comm, text);
  if (deck) status = compare_deck_all(comm, deck, text);
  if (!status) {
    bool parsed = !params_parse(text, overrides, n_overrides, params);
    status = comm_agree_all(comm, parsed ? STATUS_OK : error_status());
    if (!status) status = setup_compare_params_all(comm, params);
    if (status && parsed) params_fini(params);
  }
  if (deck_text && !status)
    *deck_text = text;
  else
    mem_free(text);
  return status;
}

int setup_model_all(struct comm *comm, const struct params *params, struct model **model, char **json) {
  char *text = NULL;
  int status = comm_get_rank(comm) == 0 ? request_read_config(params, &text) : STATUS_OK;
  status = comm_agree_all(comm, status);
  if (status) return status;
  text = broadcast_text_all(comm, text);
  status = request_check_precision(params);
  if (!status) status = request_create_model(params, text, model);
  status = comm_agree_all(comm, status);
  if (status)
    mem_free(text);
  else
    *json = text;
  return status;
}

int setup_open_data_all(struct comm *comm, const struct params *params, const struct model *model, const char *key,
                        const struct params_mix *mix, bool shuffle, struct dataset **dataset) {
  int status = comm_agree_all(comm, dataset_open(params, mix, shuffle, model->config.vocab_size, dataset));
  return status ? status : same_data_compare_ranks_all(comm, key, *dataset);
}

int setup_limits_all(struct comm *comm, const struct params *params, int64_t share_bytes, int64_t *limits) {
  int size = comm_get_size(comm);
  int status = request_check_rank_limits(params, size);
  if (status) return status;
  int64_t limit = request_get_limit(params, comm_get_rank(comm), share_bytes);
  int64_t *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(comm, &limit, sizeof limit, limits, offsets);
  mem_free(offsets);
  return STATUS_OK;
}

/* Host memory for blocks: what the deck gives, but no more than each rank's share of its node. hosts[size] is filled
 * in. */
static void share_host_all(struct comm *comm, const struct params *params, int64_t share_bytes, int64_t *hosts) {
  int64_t limit = request_get_host_limit(params, share_bytes);
  int64_t *offsets = MEM_NEW(int64_t, comm_get_size(comm) + 1);
  comm_gather_all(comm, &limit, sizeof limit, hosts, offsets);
  mem_free(offsets);
}

static int make_plan(const char *planner, const struct plan_request *request, struct plan **plan) {
  if (request->n_stages != request->n_ranks)
    return error_raise(
        STATUS_MISTAKE,
        "pipeline.stages is %d but the job has %d ranks: start it with mpiexec -n %d, or set pipeline.stages to %d",
        request->n_stages, request->n_ranks, request->n_stages, request->n_ranks);
  return request_plan(planner, request, plan, NULL);
}

/* Every rank holds the same plan, or the job is broken. */
static void compare_hashes_all(struct comm *comm, const struct plan *plan) {
  uint64_t hash = plan->hash;
  comm_broadcast_all(comm, 0, &hash, sizeof hash);
  CHECK(hash == plan->hash, "the plan arrived damaged: hash %016llx, rank 0 has %016llx",
        (unsigned long long)plan->hash, (unsigned long long)hash);
}

int setup_plan_all(struct comm *comm, const char *planner, const struct plan_request *request, struct plan **plan) {
  struct plan *made = NULL;
  void *packed = NULL;
  size_t bytes = 0;
  bool plans = comm_get_rank(comm) == 0;
  int status = comm_agree_all(comm, plans ? make_plan(planner, request, &made) : STATUS_OK);
  if (status) {
    plan_destroy(&made);
    return status;
  }
  if (plans) packed = plan_pack(made, &bytes);
  int64_t length = (int64_t)bytes;
  comm_broadcast_all(comm, 0, &length, sizeof length);
  if (!plans) packed = mem_alloc((size_t)length);
  comm_broadcast_all(comm, 0, packed, length);
  status = plans ? STATUS_OK : plan_unpack(packed, (size_t)length, &made);
  mem_free(packed);
  status = comm_agree_all(comm, status);
  if (status) return status;
  compare_hashes_all(comm, made);
  *plan = made;
  return STATUS_OK;
}

/* The planner's request with the costs that it weighs; freed by request_close and cost_destroy. */
static int open_request(const struct params *params, const struct model *model, int32_t n_ranks, int32_t n_micro,
                        const struct micro_shape *micro, const int64_t *limits, struct deck_request *request,
                        struct cost **cost) {
  char *notes = NULL; /* they are about predictions */
  int status = request_open(params, model, n_ranks, n_micro, micro, limits, request);
  if (!status) status = costs_open(params, model, n_ranks, NULL, cost, &notes);
  request->plan.cost = *cost;
  if (!status && cost_has_sizes(*cost) && !footprint_is_given(model))
    log_warn("memory is that of the model's layers: a device that computes takes no other, so the columns of bytes in "
             "cost.table do not act");
  mem_free(notes);
  return status;
}

/* Logs the planner's notes on its plan, on rank 0. */
static void log_notes(const char *notes) {
  for (const char *line = notes; line && *line;) {
    int n = (int)strcspn(line, "\n");
    log_note("%.*s", n, line);
    line += n + (line[n] == '\n');
  }
}

int setup_deck_plan_all(struct comm *comm, const struct params *params, const struct model *model, int64_t longest,
                        int64_t share_bytes, struct plan **plan, char **notes) {
  struct micro_shape *micro;
  int status = request_check_count(params, comm_get_size(comm));
  if (status) return status;
  struct deck_request request = {0};
  struct cost *cost = NULL;
  int32_t n_micro = planner_make_worst(params->data.global_batch, params->data.micro_batch, longest, &micro);
  int64_t *limits = MEM_NEW(int64_t, comm_get_size(comm)), *hosts = MEM_NEW(int64_t, comm_get_size(comm));
  share_host_all(comm, params, share_bytes, hosts);
  status = setup_limits_all(comm, params, share_bytes, limits);
  if (!status && comm_get_rank(comm) == 0)
    status = open_request(params, model, comm_get_size(comm), n_micro, micro, limits, &request, &cost);
  request.plan.host_limit = hosts;
  status = comm_agree_all(comm, status);
  if (!status) status = setup_plan_all(comm, params_get_choice(params, PARAM_pipeline_planner), &request.plan, plan);
  if (!status && !notes) log_notes(request.notes);
  if (!status && notes) {
    *notes = request.notes;
    request.notes = NULL;
  }
  request_close(&request);
  cost_destroy(&cost);
  mem_free(limits);
  mem_free(hosts);
  mem_free(micro);
  return status;
}

struct optimizer_config setup_make_optimizer(const struct params *params) {
  return (struct optimizer_config){
      .lr = params->optimizer.lr,
      .min_lr = params->optimizer.min_lr,
      .schedule = params->optimizer.schedule,
      .warmup_steps = params->optimizer.warmup_steps,
      .decay_steps = params->optimizer.decay_steps,
      .total_steps = params->run.steps,
      .beta1 = params->optimizer.betas.first,
      .beta2 = params->optimizer.betas.second,
      .eps = params->optimizer.eps,
      .weight_decay = params->optimizer.weight_decay,
      .clip = params->optimizer.clip,
  };
}

/* The first number of OMP_NUM_THREADS, which is a list with spaces as OpenMP reads it; 0 when the variable is not set
 * or holds anything else. */
static int read_omp_threads(void) {
  const char *text = getenv("OMP_NUM_THREADS");
  long first = 0;
  while (text) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || n < 1 || n > MOST_THREADS) return 0;
    if (!first) first = n;
    end += strspn(end, " \t");
    if (*end && *end != ',') return 0;
    text = *end ? end + 1 : NULL;
  }
  return (int)first;
}

/* OMP_NUM_THREADS when it says a number, else the cores of the rank's share. */
static int choose_threads(const struct params *params, const struct topo *topo, const char **reason) {
  if (params_is_given(params, PARAM_device_threads)) return (int)params->device.threads;
  int n = read_omp_threads();
  *reason = n ? "OMP_NUM_THREADS" : "the cores of this rank";
  return n ? n : topo->n_cores;
}

void setup_warn_idle(const struct params *params) {
  char *text = params_list_idle(params);
  for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) log_warn("%.*s", (int)(end - line), line);
  mem_free(text);
}

int setup_topo_all(struct comm *comm, const struct params *params, struct topo *topo) {
  int status = comm_agree_all(comm, topo_init_all(comm, topo));
  if (status) return status;
  const char *text = getenv("OMP_NUM_THREADS");
  if (text && !read_omp_threads() && !params_is_given(params, PARAM_device_threads))
    log_warn(
        "OMP_NUM_THREADS is '%.40s', no number of threads from 1 to %d: every rank takes the cores of its share, %d "
        "on rank 0",
        text, MOST_THREADS, topo->n_cores);
  if (topo->limited && !params_is_given(params, PARAM_memory_device_limit) && device_of_deck(params)->uses_node_memory)
    log_warn("without memory.device_limit rank 0 may use %lld bytes of what its limits leave%s",
             (long long)topo->memory_share_bytes, mem_describe_limits());
  return STATUS_OK;
}

struct device_config setup_make_device(const struct params *params, const struct topo *topo, int64_t limit) {
  const char *reason;
  return (struct device_config){.threads = choose_threads(params, topo, &reason),
                                .cores = topo->cores,
                                .n_cores = topo->n_cores,
                                .limit = limit,
                                .poison = getenv("PENSTOCK_POISON") != NULL};
}

void setup_note_plan(struct params *params, const struct plan *plan) {
  char value[32];
  if (params_is_given(params, PARAM_pipeline_chunks) || plan->n_stages % plan->n_ranks) return;
  snprintf(value, sizeof value, "%d", plan->n_stages / plan->n_ranks);
  params_set_used(params, PARAM_pipeline_chunks, value, "what the planner takes");
}

void setup_note_used(struct params *params, const struct comm *comm, const struct topo *topo) {
  char value[64];
  const char *reason = NULL;
  int threads = choose_threads(params, topo, &reason);
  if (reason) {
    snprintf(value, sizeof value, "%d", threads);
    params_set_used(params, PARAM_device_threads, value, reason);
  }
  if (!params_is_given(params, PARAM_pipeline_stages)) {
    snprintf(value, sizeof value, "%d", comm_get_size(comm));
    params_set_used(params, PARAM_pipeline_stages, value, "the number of ranks");
  }
  if (!params_is_given(params, PARAM_memory_device_limit) && device_of_deck(params)->uses_node_memory) {
    snprintf(value, sizeof value, "%lld B", (long long)topo->memory_share_bytes);
    params_set_used(params, PARAM_memory_device_limit, value,
                    topo->limited ? "what ulimit leaves rank 0" : "the share of its node's memory of rank 0");
  }
}
