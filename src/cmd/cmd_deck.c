/* `penstock deck`: checks a deck without running it, and prints what the table of parameters says. */
#include "cmd/cmd.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "cmd/options.h"
#include "exec/request.h"
#include "input/deck.h"
#include "input/params.h"
#include "input/params_print.h"
#include "model/model.h"
#include "plan/planner.h"

static int check_partition(const struct params *params, const struct model *model) {
  const struct params_partition *cut = &params->pipeline.partition;
  if (cut->kind != PARAMS_CUT_LIST) return STATUS_OK;
  struct plan_request request = {.model = model,
                                 .n_stages = (int32_t)cut->n,
                                 .partition = PARTITION_LIST,
                                 .partition_list = cut->blocks,
                                 .n_partition = (int32_t)cut->n};
  struct plan_stage *stages = MEM_NEW(struct plan_stage, request.n_stages);
  int status = partition_make(&request, stages);
  mem_free(stages);
  return status;
}

/* What can be known of the model without ranks and data. A deck need not have one. */
static int check_model(const struct params *params, char **line) {
  *line = NULL;
  char *json = params_format_model_json(params);
  if (!json && !params->model.config) return STATUS_OK;
  struct model *model = NULL;
  const char *source = params->model.config ? params->model.config : "model";
  int status = json ? STATUS_OK : file_read_text(params->model.config, &json);
  if (!status) status = model_create(json, source, -1, &model, NULL);
  mem_free(json);
  if (status) return status;
  status = request_check_positions(params, model);
  if (!status) status = check_partition(params, model);
  if (!status)
    *line = mem_format("model: %s, %lld blocks, %lld parameters", model->config.model_type,
                       (long long)model->config.n_blocks, (long long)model->n_parameters);
  model_destroy(&model);
  return status;
}

static int check_deck(const char *path, const struct option_list *overrides) {
  struct params params;
  char *text;
  int status = deck_read_text(path, &text);
  if (!status) status = params_parse(text, overrides->items, overrides->n, &params);
  mem_free(text);
  if (status) return status;
  char *model;
  status = check_model(&params, &model);
  if (status) {
    params_fini(&params);
    return status;
  }
  int n_given = 0;
  for (int id = 0; id < PARAM_COUNT; id++) n_given += params_is_given(&params, (enum param_id)id);
  printf("%s: OK, %d of %d keys given\n", path, n_given, PARAM_COUNT);
  if (model) printf("%s\n", model);
  mem_free(model);
  /* A deck may serve other commands; what training lacks is told all the same. */
  if (params_require_training(&params)) printf("%s\n", error_text());
  error_clear();
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
