/* penstock simulate PLAN.h5: what a plan does, with the costs of its deck or others. One process, no MPI. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/simulate.h"
#include "input/deck.h"
#include "planner/bound.h"
#include "record/plan_file.h"
#include "report/plan_report.h"
#include "setup/costs.h"
#include "setup/predict.h"

static int parse_iterations(const char *text, int32_t *n) {
  char *end = NULL;
  long value = text ? strtol(text, &end, 10) : 1;
  *n = (int32_t)value;
  if (text && (end == text || *end || value < 1 || value > 1000000))
    return error_raise(STATUS_MISTAKE, "--iterations %s: a number of steps, 1 to 1000000", text);
  return STATUS_OK;
}

/* The plan is made: keys of what it was made from are taken, but change nothing, and who gives one should know.
 * run.folder is where a profile is looked for. */
static void warn_idle(const struct option_list *overrides) {
  static const char *const acting[] = {"cost.", "device.", "run.folder="};
  for (int i = 0; i < overrides->n; i++) {
    const char *item = overrides->items[i];
    bool acts = false;
    for (size_t k = 0; k < sizeof acting / sizeof *acting; k++)
      if (!strncmp(item, acting[k], strlen(acting[k]))) acts = true;
    if (!acts) log_warn("-D %s changes nothing: the plan is made; keys of cost and device act here", item);
  }
}

/* The deck that the plan was made from, with what -D changes. */
static int read_params(const char *path, const struct plan_file *file, const struct option_list *overrides,
                       struct params *params) {
  char *text = deck_wrap_text(path, file->deck);
  int status = params_parse(text, overrides->items, overrides->n, params);
  mem_free(text);
  if (!status) warn_idle(overrides);
  return status;
}

/* `plan` is taken over. */
static int simulate(const struct params *params, struct model *model, struct plan *plan, int32_t n, bool json,
                    char **text) {
  struct cost *cost = NULL;
  struct prediction prediction;
  char *notes = NULL;
  int status = costs_open(params, model, plan->n_ranks, NULL, &cost, &notes);
  if (status) {
    plan_destroy(&plan);
    return status;
  }
  cost_put_sizes(cost, model);
  status = predict_plan(plan, model, cost, 1, n, &prediction);
  if (!status) {
    struct bound bound = {NAN, NAN, NAN, NAN}; /* steps back to back take less than one by itself */
    if (n == 1) bound = bound_make(prediction.plan, model, cost);
    struct plan_report report = {
        prediction.plan, prediction.dag, model,     prediction.simulated.result, cost_get_source(cost),
        notes,           bound.cut,      bound.any, bound.cut_staying,           bound.any_staying};
    *text = json ? plan_report_format_json(&report, NULL, 0) : plan_report_format_times(&report);
    predict_fini(&prediction);
  }
  cost_destroy(&cost);
  mem_free(notes);
  return status;
}

int simulate_format(const char *path, const struct option_list *overrides, int32_t n, bool json, char **text) {
  struct plan_file file;
  struct params params = {0};
  struct model *model = NULL;
  struct plan *plan = NULL;
  int status = plan_file_read(path, &file);
  if (!status) status = read_params(path, &file, overrides, &params);
  if (!status) status = model_create_again(file.model_json, path, &model);
  if (!status) model->half = params.device.precision == PARAMS_PRECISION_BF16;
  if (!status) status = plan_file_load(path, &file, &plan);
  if (!status) status = simulate(&params, model, plan, n, json, text);
  model_destroy(&model);
  params_fini(&params);
  plan_file_fini(&file);
  return status;
}

int cmd_simulate(int argc, char **argv) {
  struct option_list overrides = {0};
  const char *text = NULL;
  bool json = false, done = false;
  int32_t n = 1;
  const struct option_spec specs[] = {
      OPTION_OVERRIDES(&overrides),
      {"--iterations", OPTION_TEXT, "N", "steps back to back (default: 1)", &text},
      {"--json", OPTION_FLAG, NULL, "prints one JSON object on standard output", &json},
      {0},
  };
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done && argc != 2)
    status = error_raise(STATUS_MISTAKE, "simulate takes one plan: penstock simulate RUN/plan.h5");
  if (!status && !done) status = parse_iterations(text, &n);
  char *result = NULL;
  if (!status && !done) status = simulate_format(argv[1], &overrides, n, json, &result);
  if (result) fputs(result, stdout);
  mem_free(result);
  options_fini(&overrides);
  return status;
}
