/* Recomputation as memory asks for it, against trying every number of stages; what is refused, and what that says. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "deck_texts.h"
#include "plan/recompute.h"
#include "planner_cases.h"
#include "setup/request.h"
#include "t.h"
#include "tiny_model.h"

static int32_t draw(int32_t n) {
  static const struct rng_key key = {.seed = 17, .purpose = RNG_TEST};
  static uint64_t drawn;
  return (int32_t)(rng_bits(&key, drawn++) % (uint64_t)n);
}

enum { BLOCKS = 8, MICROS = 6, RANKS_MOST = 4 };

struct job {
  struct model *model;
  struct micro_shape micro[MICROS];
  int64_t limits[RANKS_MOST];
  uint32_t ops[2 * BLOCKS + 2];
  struct plan_request request;
};

static void open_job(struct job *job, int32_t n_ranks) {
  *job = (struct job){.model = make_tiny_model(BLOCKS, draw(2))};
  for (int32_t i = 0; i < MICROS; i++) job->micro[i] = micro_shape_make(2, 8, 16, 16);
  for (int32_t l = 0; l < job->model->n_layers; l++)
    job->ops[l] = recompute_get_ops(&job->model->layers[l], PARAMS_RECOMPUTE_FULL);
  for (int32_t r = 0; r < n_ranks; r++) job->limits[r] = INT64_MAX;
  job->request = (struct plan_request){.model = job->model,
                                       .params = get_test_params(),
                                       .n_ranks = n_ranks,
                                       .n_stages = n_ranks,
                                       .partition.kind = PARAMS_CUT_EVEN,
                                       .n_micro = MICROS,
                                       .micro = job->micro,
                                       .device_limit = job->limits,
                                       .clip = draw(2),
                                       .recompute_ops = job->ops,
                                       .n_recompute_stages = PLAN_ALL_STAGES,
                                       .recompute_as_needed = true,
                                       .recompute_early = draw(2)};
}

/* Peaks of all ranks when n of the candidates recompute; returns the stages of the plan. */
static int32_t get_peaks(const struct job *job, const char *planner, int32_t n, int64_t *peaks) {
  struct plan_request request = job->request;
  struct plan *plan;
  struct dag *dag;
  int64_t none[RANKS_MOST] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
  request.n_recompute_stages = n;
  request.device_limit = none;
  T_CHECK(!planner_run(planner, &request, &plan) && !dag_build(plan, job->model, &dag), "%s", error_text());
  for (int32_t r = 0; r < plan->n_ranks; r++) peaks[r] = dag_get_peak(dag, r, NULL);
  int32_t n_stages = plan->n_stages;
  dag_destroy(&dag);
  plan_destroy(&plan);
  return n_stages;
}

/* The least number of the candidates with which all ranks fit; -1: none. */
static int32_t find_least(const struct job *job, const char *planner, int32_t most) {
  for (int32_t n = 0; n <= most; n++) {
    int64_t peaks[RANKS_MOST];
    bool fits = true;
    get_peaks(job, planner, n, peaks);
    for (int32_t r = 0; r < job->request.n_ranks; r++) fits = fits && peaks[r] <= job->limits[r];
    if (fits) return n;
  }
  return -1;
}

/* Limits at, or just below, what each rank needs with some number of stages recomputing. */
static void draw_limits(struct job *job, const char *planner, int32_t most) {
  for (int32_t r = 0; r < job->request.n_ranks; r++) {
    int64_t peaks[RANKS_MOST];
    get_peaks(job, planner, draw(most + 1), peaks);
    job->limits[r] = draw(4) ? peaks[r] - (draw(8) == 0) : INT64_MAX;
  }
}

static void check_plan(const struct job *job, const char *planner, int32_t least) {
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  int status = request_plan(planner, &job->request, &plan, &dag);
  T_CHECK(status == (least < 0 ? STATUS_MISTAKE : STATUS_OK), "%s: %d stages fit: %s", planner, least, error_text());
  if (status) {
    T_CHECK(strstr(error_text(), "what would fit: memory.device_limit") &&
                !strncmp(error_text(), "no plan fits, not even with recomputation", 41),
            "%s", error_text());
    return;
  }
  const int32_t *list = job->request.recompute_stages;
  int32_t n = 0;
  for (int32_t s = 0; s < plan->n_stages; s++) n += plan_recomputes(plan, s, 0);
  T_CHECK(n == least, "%s: %d stages recompute, %d suffice", planner, n, least);
  for (int32_t k = 0; k < n; k++) T_CHECK(plan_recomputes(plan, list ? list[k] : k, 0), "%s: not the first", planner);
  T_CHECK(n == 0 || plan->recompute_early == job->request.recompute_early, "%s: recompute_early", planner);
  T_CHECK(!dag_check(dag, plan), "%s", error_text());
  dag_destroy(&dag);
  plan_destroy(&plan);
}

/* Every planner under random limits; on all stages and on those of a list. */
static void test_least(void) {
  static const int32_t odd[] = {1, 3};
  int n_none = 0, n_some = 0, n_never = 0;
  for (int trial = 0; trial < 120; trial++)
    for (const struct planner *const *p = planner_get_all(); *p; p++) {
      const char *name = planner_get_name(*p);
      if (strcmp(name, "1f1b") && strcmp(name, "gpipe") && strcmp(name, "zb-v") && strcmp(name, "interleaved"))
        continue;
      struct job job;
      int64_t peaks[RANKS_MOST];
      open_job(&job, 2 + draw(3));
      int32_t most = get_peaks(&job, name, PLAN_ALL_STAGES, peaks);
      if (most > 3 && draw(3) == 0) {
        job.request.recompute_stages = odd;
        job.request.n_recompute_stages = most = 2;
      }
      draw_limits(&job, name, most);
      int32_t least = find_least(&job, name, most);
      n_none += least == 0;
      n_some += least > 0;
      n_never += least < 0;
      check_plan(&job, name, least);
      model_destroy(&job.model);
    }
  T_CHECK(n_none > 10 && n_some > 50 && n_never > 10, "all outcomes: %d %d %d", n_none, n_some, n_never);
}

/* Without recompute_as_needed all that is named recomputes, whatever the limits. */
static void test_named(void) {
  struct job job;
  struct plan *plan = NULL;
  open_job(&job, 4);
  job.request.recompute_as_needed = false;
  job.request.n_recompute_stages = 2;
  T_CHECK(!request_plan("1f1b", &job.request, &plan, NULL), "%s", error_text());
  for (int32_t s = 0; s < 4; s++) T_CHECK(plan_recomputes(plan, s, 0) == (s < 2), "stage %d", s);
  char *first = recompute_describe(plan, job.model, 1), *last = recompute_describe(plan, job.model, 3);
  T_CHECK(!strcmp(first, "full") && !strcmp(last, ""), "'%s', '%s'", first, last);
  mem_free(first);
  mem_free(last);
  plan_destroy(&plan);
  job.request.n_recompute_stages = 5;
  T_CHECK(request_plan("1f1b", &job.request, &plan, NULL) == STATUS_MISTAKE &&
              strstr(error_text(), "pipeline.recompute_stages is 5; the plan has 4 stages"),
          "%s", error_text());
  model_destroy(&job.model);
}

/* Sets and lists by name, as told to people. */
static void test_descriptions(void) {
  static const char *const wanted[] = {
      [PARAMS_RECOMPUTE_AUTO] = "full",           [PARAMS_RECOMPUTE_NONE] = "",   [PARAMS_RECOMPUTE_CMB] = "cmb",
      [PARAMS_RECOMPUTE_ATTENTION] = "attention", [PARAMS_RECOMPUTE_MLP] = "mlp", [PARAMS_RECOMPUTE_FULL] = "full"};
  struct job job;
  open_job(&job, 2);
  job.request.recompute_as_needed = false;
  for (int set = 0; set <= PARAMS_recompute_COUNT; set++) {
    for (int32_t l = 0; l < job.model->n_layers; l++) {
      const struct layer *layer = &job.model->layers[l];
      job.ops[l] = set < PARAMS_recompute_COUNT
                       ? recompute_get_ops(layer, (enum params_recompute)set)
                       : recompute_get_named_ops(layer, "norm") | recompute_get_named_ops(layer, "qkv");
    }
    struct plan *plan = NULL;
    T_CHECK(!request_plan("1f1b", &job.request, &plan, NULL), "%s", error_text());
    char *text = recompute_describe(plan, job.model, 1);
    T_CHECK(!strcmp(text, set < PARAMS_recompute_COUNT ? wanted[set] : "norm, qkv"), "%d is '%s'", set, text);
    mem_free(text);
    plan_destroy(&plan);
  }
  char *ops = recompute_list_ops(job.model);
  T_CHECK(!strncmp(ops, "norm, qkv, ", 11) && strstr(ops, "core") && strstr(ops, "activation"), "%s", ops);
  mem_free(ops);
  model_destroy(&job.model);
}

/* When recomputation begins is the deck's to say, else the planner's. */
static void test_early(void) {
  static const struct {
    const char *deck;
    bool early;
  } cases[] = {{"pipeline: {planner: 1f1b}\n", true},
               {"pipeline: {planner: auto}\n", true},
               {"pipeline: {planner: obscura}\n", true},
               {"pipeline: {planner: 1f1b}\nobscura: {faithful: true}\n", true},
               {"pipeline: {planner: obscura}\nobscura: {faithful: true}\n", false},
               {"pipeline: {planner: obscura, recompute_early: true}\nobscura: {faithful: true}\n", true},
               {"pipeline: {planner: obscura, recompute_early: false}\n", false}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    struct job job;
    open_job(&job, 2);
    struct params params = parse_good(cases[k].deck, NULL);
    struct deck_request request;
    T_CHECK(!request_open(&params, job.model, 2, MICROS, job.micro, job.limits, &request), "%s", error_text());
    T_CHECK(request.plan.recompute_early == cases[k].early, "%s", cases[k].deck);
    request_close(&request);
    params_fini(&params);
    model_destroy(&job.model);
  }
}

int main(void) {
  test_least();
  test_named();
  test_descriptions();
  test_early();
  error_clear();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
