/* `penstock deck`: checks a deck without running it, and prints what the table of parameters says. */
#include "cmd/cmd.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "cmd/options.h"
#include "data/dataset.h"
#include "input/deck.h"
#include "input/params.h"
#include "input/params_idle.h"
#include "input/params_print.h"
#include "model/model.h"
#include "planner/planner.h"
#include "record/checkpoint.h"
#include "setup/costs.h"
#include "setup/request.h"
#include "setup/setup.h"

static int check_partition(const struct params *params, const struct model *model) {
  const struct params_partition *cut = &params->pipeline.partition;
  if (cut->kind != PARAMS_CUT_LIST) return STATUS_OK;
  struct plan_request request = {.model = model, .n_stages = (int32_t)cut->n, .params = params, .partition = *cut};
  struct plan_stage *stages = MEM_NEW(struct plan_stage, request.n_stages);
  int status = partition_make(&request, stages);
  mem_free(stages);
  return status;
}

/* Checks what is known of the model without ranks and data. A deck need not have a model: *model is NULL then. */
static int check_model(const struct params *params, struct model **model, char **notes) {
  *model = NULL;
  char *json = params_format_model_json(params);
  if (!json && !params->model.config) return STATUS_OK;
  int status = json ? STATUS_OK : file_read_text(params->model.config, &json);
  if (!status) status = model_create_of_deck(params, json, model, notes);
  mem_free(json);
  if (status) return status;
  status = request_check_positions(params, *model);
  if (!status) status = check_partition(params, *model);
  if (status) model_destroy(model);
  return status;
}

/* ---- what other commands would refuse ---- */

static int check_training(const struct params *params, const struct model *model) {
  (void)model;
  return params_require_training(params);
}

static int check_plan(const struct params *params, const struct model *model) {
  static const enum param_id needed[] = {PARAM_data_sequence_length, PARAM_data_global_batch};
  if (!model) return error_raise(STATUS_MISTAKE, "the deck names no model: set model.config or model.model_type");
  return params_require(params, "a plan", needed, sizeof needed / sizeof *needed);
}

/* The request of a plan, and a plan as if memory sufficed, which takes no search. */
static int check_request(const struct params *params, const struct model *model, int32_t n_ranks) {
  struct micro_shape *micro;
  struct deck_request request;
  struct cost *cost = NULL;
  struct plan *plan = NULL;
  char *notes = NULL;
  int status = request_check_count(params, n_ranks);
  if (status) return status;
  int32_t n_micro =
      planner_make_worst(params->data.global_batch, params->data.micro_batch, params->data.sequence_length, &micro);
  status = request_open(params, model, n_ranks, n_micro, micro, NULL, &request);
  if (!status) status = costs_open(params, model, n_ranks, NULL, &cost, &notes);
  request.plan.cost = cost;
  request.plan.simulate = false;
  request.plan.host_limit = request.plan.disk_limit = NULL;
  if (!status) status = planner_run(params_get_choice(params, PARAM_pipeline_planner), &request.plan, &plan);
  plan_destroy(&plan);
  cost_destroy(&cost);
  request_close(&request);
  mem_free(notes);
  mem_free(micro);
  return status;
}

/* Where the deck does not say how many ranks there are, only what does not depend on them is known. */
static int check_planner(const struct params *params, const struct model *model) {
  int32_t n_ranks;
  int status = request_count_ranks(params, &n_ranks);
  if (status || !model || !params_is_set(params, PARAM_data_sequence_length) ||
      !params_is_set(params, PARAM_data_global_batch))
    return status;
  return n_ranks ? check_request(params, model, n_ranks) : request_check_ops(params, model);
}

static int check_start(const struct params *params, const struct model *model) {
  struct checkpoint_origin origin = {0};
  (void)model;
  if (!params->model.init_from) return STATUS_OK;
  int status = checkpoint_read_origin(params->model.init_from, &origin);
  checkpoint_fini_origin(&origin);
  return status;
}

static int check_precision(const struct params *params, const struct model *model) {
  (void)model;
  return request_check_precision(params);
}

/* Files are opened as training does, from the working directory that this command has. */
static int check_files(const struct params *params, const struct model *model, const struct params_mix *mix) {
  struct dataset *dataset = NULL;
  if (!model || !mix->n || !params_is_set(params, PARAM_data_sequence_length)) return STATUS_OK;
  int status = dataset_open(params, mix, false, model->config.vocab_size, &dataset);
  dataset_close(&dataset);
  return status;
}

static int check_train(const struct params *params, const struct model *model) {
  return check_files(params, model, &params->data.train);
}

static int check_validation(const struct params *params, const struct model *model) {
  return check_files(params, model, &params->data.validation);
}

/* X(commands that do it, check): each is done alone and says the mistakes of its own. */
#define TRIALS(X)                                                                                                      \
  X("train and verify", check_training)                                                                                \
  X("plan and profile", check_plan)                                                                                    \
  X("plan and train", check_planner)                                                                                   \
  X("train", check_start)                                                                                              \
  X("train and verify", check_precision)                                                                               \
  X("train and verify", check_train)                                                                                   \
  X("evaluations of train", check_validation)

/* A deck may serve one command and not another: who would refuse it is told. */
static void print_refusals(const struct params *params, const struct model *model) {
  static const struct {
    const char *who;
    int (*check)(const struct params *params, const struct model *model);
  } trials[] = {
#define X(who, check) {who, check},
      TRIALS(X)
#undef X
  };
  for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
    if (!trials[i].check(params, model)) continue;
    char *text = mem_strdup(error_text());
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
      printf("refused by %s: %s\n", trials[i].who, line);
    mem_free(text);
  }
  error_clear();
}

static int check_deck(const char *path, const struct option_list *overrides) {
  struct params params;
  struct model *model;
  char *text, *notes = NULL;
  int status = deck_read_text(path, &text);
  if (!status) status = params_parse(text, overrides->items, overrides->n, &params);
  mem_free(text);
  if (status) return status;
  status = check_model(&params, &model, &notes);
  if (status) {
    mem_free(notes);
    params_fini(&params);
    return status;
  }
  int n_given = 0;
  for (int id = 0; id < PARAM_COUNT; id++) n_given += params_is_given(&params, (enum param_id)id);
  printf("%s: OK, %d of %d keys given\n", path, n_given, PARAM_COUNT);
  if (model)
    printf("model: %s, %lld blocks, %lld parameters\n", model->config.model_type, (long long)model->config.n_blocks,
           (long long)model->n_parameters);
  if (notes && *notes) printf("%s\n", notes);
  mem_free(notes);
  char *idle = params_list_idle(&params);
  fputs(idle, stdout);
  mem_free(idle);
  print_refusals(&params, model);
  model_destroy(&model);
  params_fini(&params);
  return STATUS_OK;
}

int cmd_deck(int argc, char **argv) {
  bool reference = false, manual = false, man = false, done;
  struct option_list overrides = {0};
  const struct option_spec specs[] = {
      OPTION_OVERRIDES(&overrides),
      {"--reference", OPTION_FLAG, NULL, "prints a deck of every key with its default (inputs/reference.yml)",
       &reference},
      {"--manual", OPTION_FLAG, NULL, "prints the manual's page of all keys (doc/user/parameters.md)", &manual},
      {"--man", OPTION_FLAG, NULL, "prints the keys as a section of a man page", &man},
      {NULL, OPTION_FLAG, NULL, NULL, NULL},
  };
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done) {
    if (reference + manual + man + (argc - 1) != 1)
      status = error_raise(STATUS_MISTAKE, "deck takes one deck, or one of --reference, --manual, --man");
    else if (argc == 1 && overrides.n)
      status = error_raise(STATUS_MISTAKE, "-D %s sets a key of a deck: --reference, --manual and --man take none",
                           overrides.items[0]);
    else if (reference)
      params_print_reference(stdout);
    else if (manual)
      params_print_manual(stdout);
    else if (man)
      params_print_man(stdout);
    else
      status = check_deck(argv[1], &overrides);
  }
  options_fini(&overrides);
  return status;
}
