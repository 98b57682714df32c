/* penstock plan DECK: what a deck's plan will do, without running it. One process, no MPI: the ranks planned for are
 * pipeline.stages.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "data/dataset.h"
#include "input/deck.h"
#include "plan/plan_csv.h"
#include "planner/bound.h"
#include "record/rundir.h"
#include "report/plan_report.h"
#include "report/report.h"
#include "setup/costs.h"
#include "setup/predict.h"
#include "setup/setup.h"
#include "store/disk.h"

/* A deck made ready for planning. */
struct plan_job {
  struct params params;
  char *json, *notes;
  struct model *model;
  struct cost *cost;
  struct micro_shape *micro;
  int64_t *limits;
  struct deck_request request;
};

static void close_job(struct plan_job *job) {
  request_close(&job->request);
  cost_destroy(&job->cost);
  model_destroy(&job->model);
  mem_free(job->micro);
  mem_free(job->limits);
  mem_free(job->json);
  mem_free(job->notes);
  params_fini(&job->params);
}

/* pipeline.stages, where the deck leaves it out: that of the file of planner "file", else 1. */
static int choose_ranks(struct params *params) {
  int32_t n;
  char value[32];
  int status = request_count_ranks(params, &n);
  if (status || params_is_set(params, PARAM_pipeline_stages)) return status;
  if (n == 0) log_warn("pipeline.stages is not given: this is the plan for 1 rank");
  snprintf(value, sizeof value, "%d", (int)(n ? n : 1));
  params_set_used(params, PARAM_pipeline_stages, value, n ? "the ranks of plan_file" : "one rank when it is not given");
  return STATUS_OK;
}

static int read_params(const char *deck, const struct option_list *overrides, struct params *params) {
  static const enum param_id needed[] = {PARAM_data_sequence_length, PARAM_data_global_batch};
  char *text;
  int status = deck_read_text(deck, &text);
  if (status) return status;
  status = params_parse(text, overrides->items, overrides->n, params);
  mem_free(text);
  if (!status) setup_warn_idle(params);
  if (!status) status = params_require(params, "a plan", needed, sizeof needed / sizeof *needed);
  return status ? status : choose_ranks(params);
}

/* Tokens of the longest row: with fixed batching every row, else that of the token files. */
static int find_longest(const struct plan_job *job, int64_t *longest) {
  static const enum param_id needed[] = {PARAM_data_train};
  const struct params *params = &job->params;
  struct dataset *dataset = NULL;
  *longest = params->data.sequence_length;
  if (params->data.batching == PARAMS_BATCHING_FIXED) return STATUS_OK;
  int status = params_require(params, "a plan for rows of their own lengths", needed, 1);
  if (!status)
    status = dataset_open(params, &params->data.train, params->data.shuffle, job->model->config.vocab_size, &dataset);
  if (!status) *longest = dataset_get_longest(dataset);
  dataset_close(&dataset);
  return status;
}

static int make_request(struct plan_job *job) {
  const struct params *params = &job->params;
  int32_t n_ranks = (int32_t)params->pipeline.stages;
  int64_t longest;
  int status = request_check_count(params, n_ranks);
  if (!status) status = request_check_rank_limits(params, n_ranks);
  if (!status) status = find_longest(job, &longest);
  if (status) return status;
  int32_t n_micro = planner_make_worst(params->data.global_batch, params->data.micro_batch, longest, &job->micro);
  job->limits = MEM_NEW(int64_t, n_ranks);
  for (int32_t r = 0; r < n_ranks; r++) job->limits[r] = request_get_limit(params, r, INT64_MAX);
  status = request_open(params, job->model, n_ranks, n_micro, job->micro, job->limits, &job->request);
  job->request.plan.notes = &job->notes; /* beside those of the costs */
  if (!status) status = costs_open(params, job->model, n_ranks, NULL, &job->cost, &job->notes);
  job->request.plan.cost = job->cost;
  if (!status) cost_put_sizes(job->cost, job->model);
  return status;
}

static int open_job(const char *deck, const struct option_list *overrides, struct plan_job *job) {
  *job = (struct plan_job){0};
  int status = read_params(deck, overrides, &job->params);
  if (!status) status = request_read_config(&job->params, &job->json);
  if (!status) status = request_create_model(&job->params, job->json, &job->model);
  if (!status) status = request_check_positions(&job->params, job->model);
  return status ? status : make_request(job);
}

/* Writes a text that this call frees. */
static int print_text(char *text) {
  fputs(text, stdout);
  mem_free(text);
  return cmd_check_output();
}

static struct plan_report make_report(const struct plan_job *job, const struct prediction *p) {
  struct bound bound = bound_make(p->plan, job->model, job->cost);
  return (struct plan_report){p->plan,    p->dag,    job->model, p->simulated.result, cost_get_source(job->cost),
                              job->notes, bound.cut, bound.any,  bound.cut_staying,   bound.any_staying};
}

/* ---- one plan ---- */

static int write_plan(const struct plan_job *job, const struct prediction *prediction, const char *path) {
  int status = rundir_check_free(job->params.run.folder, "plan.h5"); /* again: planning may have taken long */
  if (!status) status = disk_make_named_folder(job->params.run.folder);
  if (!status) status = disk_check_writable(path);
  if (status) return status;
  char *deck = params_format_used(&job->params, path);
  status = predict_write(prediction, job->model, job->cost, path, deck, job->json);
  mem_free(deck);
  return status;
}

/* The order as a file of actions. */
static int write_export(const struct plan *plan, const char *path) {
  if (!path) return STATUS_OK;
  if (plan->n_moves)
    log_warn("%s has the order of passes only: the %d blocks of activations that move are in plan.h5", path,
             (int)plan->n_moves);
  char *text = plan_csv_format(plan);
  int status = disk_write_text(path, text);
  mem_free(text);
  return status;
}

/* The plan as a picture. The plan is what was asked for: without its page it is still there. */
static int write_page(const struct plan_job *job, const char *path, bool json) {
  const char *folder = job->params.run.folder;
  if (report_save_html(folder, path, NULL, 0)) {
    log_warn("%s; there is no picture of the plan", error_text());
    error_clear();
    return STATUS_OK;
  }
  return json ? STATUS_OK : print_text(mem_format("written: %s/report.html\n", folder));
}

static int plan_one(struct plan_job *job, bool json, const char *csv) {
  struct prediction prediction;
  const char *planner = params_get_choice(&job->params, PARAM_pipeline_planner);
  int status = rundir_check_free(job->params.run.folder, "plan.h5");
  if (!status && csv) status = rundir_check_output("--export", csv);
  if (!status && csv) status = disk_check_writable(csv);
  if (!status) status = predict_request(planner, &job->request.plan, job->cost, &prediction);
  if (status) return status;
  char *path = mem_format("%s/plan.h5", job->params.run.folder);
  struct plan_report report = make_report(job, &prediction);
  setup_note_plan(&job->params, prediction.plan);
  status = write_plan(job, &prediction, path);
  if (!status) status = write_export(prediction.plan, csv);
  if (!status) status = print_text(json ? plan_report_format_json(&report, NULL, 0) : plan_report_format(&report));
  if (!status && !json) status = print_text(mem_format("\nwritten: %s%s%s\n", path, csv ? ", " : "", csv ? csv : ""));
  if (!status) status = write_page(job, path, json);
  mem_free(path);
  predict_fini(&prediction);
  return status;
}

/* ---- every planner ---- */

/* Keeps the fastest prediction in *best. */
static void try_planner(const struct plan_job *job, const char *name, struct plan_choice *choice,
                        struct prediction *best) {
  struct prediction p;
  *choice = (struct plan_choice){.planner = name};
  if (predict_request(name, &job->request.plan, job->cost, &p)) {
    choice->reason = mem_strdup(error_text());
    error_clear();
    return;
  }
  struct plan_report report = make_report(job, &p);
  choice->step_s = p.simulated.result->step;
  choice->shares = plan_report_get_shares(&report);
  for (int32_t r = 0; r < p.plan->n_ranks; r++) {
    int64_t peak = dag_get_peak(p.dag, r, NULL);
    if (peak > choice->peak_bytes) choice->peak_bytes = peak;
  }
  for (int32_t s = 0; s < p.plan->n_stages; s++) choice->n_recompute += plan_recomputes(p.plan, s, 0);
  bool better = !best->plan || p.simulated.result->step < best->simulated.result->step;
  predict_fini(better ? best : &p);
  if (better) *best = p;
}

static int print_choices(const struct plan_job *job, const struct prediction *best, const struct plan_choice *choices,
                         int n, bool json) {
  if (json) {
    struct plan_report report = make_report(job, best);
    return print_text(plan_report_format_json(best->plan ? &report : NULL, choices, n));
  }
  int status = print_text(mem_format("costs: %s\n", cost_get_source(job->cost)));
  return status ? status : print_text(plan_report_format_choices(choices, n));
}

static int compare_planners(const struct plan_job *job, bool json) {
  const struct planner *const *planners = planner_get_all();
  struct prediction best = {0};
  int n = 0;
  while (planners[n]) n++;
  struct plan_choice *choices = MEM_NEW(struct plan_choice, n);
  for (int i = 0; i < n; i++) try_planner(job, planner_get_name(planners[i]), &choices[i], &best);
  plan_report_sort(choices, n);
  int status = print_choices(job, &best, choices, n, json);
  if (!status && !best.plan) status = error_raise(STATUS_MISTAKE, "no planner has a plan that fits");
  for (int i = 0; i < n; i++) mem_free(choices[i].reason);
  mem_free(choices);
  predict_fini(&best);
  return status;
}

int cmd_plan(int argc, char **argv) {
  struct option_list overrides = {0};
  bool json = false, compare = false, done = false;
  const char *csv = NULL;
  const struct option_spec specs[] = {
      OPTION_OVERRIDES(&overrides),
      {"--compare", OPTION_FLAG, NULL, "runs every planner and prints one table, best first; writes nothing", &compare},
      {"--export", OPTION_TEXT, "FILE.csv", "also writes the order as a file of actions, a row a rank", &csv},
      {"--json", OPTION_FLAG, NULL, "prints one JSON object on standard output", &json},
      {0},
  };
  struct plan_job job;
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done && argc != 2) status = error_raise(STATUS_MISTAKE, "plan takes one deck: penstock plan DECK");
  if (!status && compare && csv)
    status = error_raise(STATUS_MISTAKE, "--export writes one plan: leave --compare out, and name pipeline.planner");
  if (!status && !done) {
    status = open_job(argv[1], &overrides, &job);
    if (!status) status = compare ? compare_planners(&job, json) : plan_one(&job, json, csv);
    close_job(&job);
  }
  options_fini(&overrides);
  return status;
}
