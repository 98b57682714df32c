/* Graph and simulator as they grow. Without arguments: simulated nodes a second and the planning time (request_plan:
 * plan, checks, graph) of every planner, on as many ranks as usual clusters have. With RANKS MICRO-BATCHES [PLANNER]:
 * that one case step by step, with its memory. One process, one thread: rates and planning times are medians of CPU
 * time, so that other programs hardly count. The last line is for scripts: key=value.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "dag/dag_price.h"
#include "input/deck.h"
#include "plan/recompute.h"
#include "rate.h"
#include "setup/request.h"
#include "sim/sim.h"

enum { MOST_TIMES = 15, LENGTH = 16 };

/* A shape whose layers are just enough for its ranks, with the costs of a deck. */
struct shape {
  int32_t n_ranks, n_micro;
  struct params params;
  struct model *model;
  struct cost *cost;
  struct micro_shape *micro;
};

static void must(int status) {
  if (!status) return;
  fprintf(stderr, "bench_graph: %s\n", error_text());
  exit(1);
}

/* Times of the deck that has the shape's params. */
static void open_cost(struct shape *s, const char *deck) {
  char *notes, *text = deck_wrap_text("bench", deck);
  must(params_parse(text, NULL, 0, &s->params));
  must(cost_create(&s->params, s->model, s->n_ranks, &s->cost, &notes));
  mem_free(text);
  mem_free(notes);
}

/* Two blocks a rank: planners with two stages a rank cut whole ones. */
static void open_shape(struct shape *s, int32_t n_ranks, int32_t n_micro) {
  *s = (struct shape){.n_ranks = n_ranks, .n_micro = n_micro};
  char *json = mem_format("{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 16, "
                          "\"intermediate_size\": 40, \"num_hidden_layers\": %d, \"num_attention_heads\": 2, "
                          "\"max_position_embeddings\": 64}",
                          (int)(2 * n_ranks));
  must(model_create(json, "bench", -1, &s->model, NULL));
  mem_free(json);
  open_cost(s, "cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, send_ms: 0.1}}");
  planner_make_worst(n_micro, 1, LENGTH, &s->micro);
}

static void close_shape(struct shape *s) {
  params_fini(&s->params);
  cost_destroy(&s->cost);
  model_destroy(&s->model);
  mem_free(s->micro);
}

static struct plan_request make_request(const struct shape *s) {
  return (struct plan_request){.model = s->model,
                               .params = &s->params,
                               .cost = s->cost,
                               .n_ranks = s->n_ranks,
                               .n_stages = s->n_ranks,
                               .partition.kind = PARAMS_CUT_EVEN,
                               .n_micro = s->n_micro,
                               .micro = s->micro,
                               .clip = true};
}

/* As request_plan, but step by step, telling the seconds of each. */
static void print_steps(const struct shape *s, const char *planner) {
  struct plan_request request = make_request(s);
  struct plan *plan;
  struct dag *dag;
  double at = clock_now(), begun = at, now;
#define TELL(name) (now = clock_now(), printf("%-28s %8.3f s\n", name, now - at), at = now)
  must(planner_run(planner, &request, &plan));
  TELL("plan, checked, hashed");
  must(dag_build(plan, s->model, &dag));
  TELL("graph");
  must(dag_check(dag, plan));
  TELL("its checks");
  double *seconds = MEM_NEW(double, dag->n_nodes);
  dag_price(dag, plan, s->model, s->cost, seconds);
  TELL("prices");
  struct sim *sim = sim_create(dag, plan->n_stages);
  TELL("simulator made");
  struct sim_times times = {seconds, 0};
  double step = sim_run(sim, &times, 1)->step;
  TELL("simulated");
#undef TELL
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%s, %d ranks x %d micro-batches: step %.6g s\n", planner, (int)s->n_ranks, (int)s->n_micro, step);
  printf("result nodes=%d edges=%lld seconds=%.2f gib=%.2f\n", (int)dag->n_nodes, (long long)dag->n_edges, at - begun,
         (double)usage.ru_maxrss / (1 << 20));
  sim_destroy(&sim);
  mem_free(seconds);
  dag_destroy(&dag);
  plan_destroy(&plan);
}

/* Nodes a second in millions, the median. */
static double measure_simulator(int32_t n_ranks, int32_t n_micro) {
  struct shape s;
  struct plan *plan;
  struct dag *dag;
  double rates[MOST_TIMES];
  open_shape(&s, n_ranks, n_micro);
  struct plan_request request = make_request(&s);
  must(request_plan("1f1b", &request, &plan, &dag));
  double *seconds = MEM_NEW(double, dag->n_nodes);
  dag_price(dag, plan, s.model, s.cost, seconds);
  struct sim *sim = sim_create(dag, plan->n_stages);
  struct sim_times times = {seconds, 0};
  int32_t repeat = 2000000 / dag->n_nodes + 1;
  for (int i = 0; i < MOST_TIMES; i++) {
    double begun = rate_get_cpu();
    for (int32_t k = 0; k < repeat; k++) sim_run(sim, &times, 1);
    rates[i] = 1e-6 * repeat * dag->n_nodes / (rate_get_cpu() - begun);
  }
  sim_destroy(&sim);
  mem_free(seconds);
  dag_destroy(&dag);
  plan_destroy(&plan);
  close_shape(&s);
  return rate_get_median(rates, MOST_TIMES);
}

/* Seconds of request_plan, the median; below 0 when the planner declines. */
static double measure_planner(const char *planner, const struct shape *s) {
  double seconds[MOST_TIMES], spent = 0;
  int n = 0;
  while (n < MOST_TIMES && (n < 3 || spent < 1)) {
    struct plan_request request = make_request(s);
    struct plan *plan;
    struct dag *dag;
    double begun = rate_get_cpu();
    if (request_plan(planner, &request, &plan, &dag)) {
      error_clear();
      return -1;
    }
    seconds[n] = rate_get_cpu() - begun;
    spent += seconds[n++];
    dag_destroy(&dag);
    plan_destroy(&plan);
  }
  return rate_get_median(seconds, n);
}

static void print_planners(void) {
  static const int32_t shapes[][2] = {{8, 128}, {64, 256}, {512, 512}};
  enum { N_SHAPES = sizeof shapes / sizeof *shapes };
  struct shape opened[N_SHAPES];
  printf("\nplanning, ms       ");
  for (int k = 0; k < N_SHAPES; k++) {
    open_shape(&opened[k], shapes[k][0], shapes[k][1]);
    printf(" %4d ranks x %4d", (int)shapes[k][0], (int)shapes[k][1]);
  }
  printf("\n");
  for (const struct planner *const *p = planner_get_all(); *p; p++) {
    if ((*p)->takes_file) continue;                   /* takes what another has planned */
    if ((*p)->id == PARAMS_PLANNER_OBSCURA) continue; /* see print_obscura */
    printf("%-19s", planner_get_name(*p));
    for (int k = 0; k < N_SHAPES; k++) {
      double seconds = measure_planner(planner_get_name(*p), &opened[k]);
      if (seconds < 0)
        printf(" %16s", "declines");
      else
        printf(" %16.2f", 1e3 * seconds);
      fflush(stdout);
    }
    printf("\n");
  }
  for (int k = 0; k < N_SHAPES; k++) close_shape(&opened[k]);
}

/* Planner obscura where memory is short: Llama 2 made deeper, on devices of 80 GB. */
struct deep {
  struct shape shape; /* model and cost its own */
  int n_blocks;
};

static void open_deep(struct deep *deep, int32_t n_ranks, int32_t n_micro, int n_blocks) {
  struct shape *s = &deep->shape;
  char *json = mem_format("{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 5120, "
                          "\"intermediate_size\": 13824, \"num_hidden_layers\": %d, \"num_attention_heads\": 40, "
                          "\"max_position_embeddings\": 16384}",
                          n_blocks);
  *deep = (struct deep){.shape = {.n_ranks = n_ranks, .n_micro = n_micro}, .n_blocks = n_blocks};
  must(model_create(json, "bench", -1, &s->model, NULL));
  s->model->half = true;
  open_cost(s, "device: {preset: a100-80g, precision: bf16}\ncost: {source: preset}");
  planner_make_worst(n_micro, 1, n_ranks > 8 ? 16384 : 4096, &s->micro);
  mem_free(json);
}

/* CPU seconds of planner_run; *fits: the plan is within `limit`. */
static double measure_obscura(const struct deep *deep, bool faithful, enum params_swap_tier tier, int64_t limit,
                              bool *fits) {
  const struct shape *s = &deep->shape;
  struct params params = s->params;
  struct plan_request request = make_request(s);
  struct plan *plan = NULL;
  int64_t *limits = MEM_NEW(int64_t, s->n_ranks);
  uint32_t *ops = MEM_NEW(uint32_t, s->model->n_layers);
  for (int32_t r = 0; r < s->n_ranks; r++) limits[r] = limit;
  for (int32_t l = 0; l < s->model->n_layers; l++)
    ops[l] = recompute_get_ops(&s->model->layers[l], PARAMS_RECOMPUTE_FULL);
  params.obscura.faithful = faithful;
  request.partition.kind = PARAMS_CUT_AUTO;
  request.device_limit = limits;
  request.recompute_ops = ops;
  request.n_recompute_stages = PLAN_ALL_STAGES;
  request.recompute_as_needed = true;
  request.recompute_early = !faithful;
  request.params = &params;
  request.simulate = true;
  params.pipeline.swap_tier = (int)tier;
  double begun = rate_get_cpu();
  must(planner_run("obscura", &request, &plan));
  double seconds = rate_get_cpu() - begun;
  *fits = isfinite(planner_evaluate(&request, plan, NULL));
  plan_destroy(&plan);
  mem_free(limits);
  mem_free(ops);
  return seconds;
}

/* The smallest limit that the planner finds a plan for, within 2 %. */
static int64_t find_limit(const struct deep *deep, int64_t most) {
  int64_t low = 0;
  while (most - low > most / 50) {
    int64_t middle = low + (most - low) / 2;
    bool fits;
    measure_obscura(deep, false, PARAMS_SWAP_TIER_HOST, middle, &fits);
    if (fits)
      most = middle;
    else
      low = middle;
  }
  return most;
}

static void print_obscura(int32_t n_ranks, int32_t n_micro, int n_blocks) {
  struct deep deep;
  open_deep(&deep, n_ranks, n_micro, n_blocks);
  const int64_t most = (int64_t)80 << 30, limits[] = {most, (int64_t)(1.02 * (double)find_limit(&deep, most))};
  for (int i = 0; i < 2; i++) {
    bool fits[3];
    double faithful = measure_obscura(&deep, true, PARAMS_SWAP_TIER_HOST, limits[i], &fits[0]);
    double usual = measure_obscura(&deep, false, PARAMS_SWAP_TIER_HOST, limits[i], &fits[1]);
    double any_tier = measure_obscura(&deep, false, PARAMS_SWAP_TIER_AUTO, limits[i], &fits[2]);
    printf("obscura, %d ranks, %d blocks, %d micro-batches, %.1f GiB%s: faithful %.1f ms%s, default %.1f ms, any tier "
           "%.1f "
           "ms\n",
           (int)n_ranks, n_blocks, (int)n_micro, (double)limits[i] / (1 << 30), i ? " (hardly enough)" : "",
           1e3 * faithful, fits[0] ? "" : " (none fits)", 1e3 * usual, 1e3 * any_tier);
    fflush(stdout);
  }
  close_shape(&deep.shape);
}

int main(int argc, char **argv) {
  if (argc == 3 || argc == 4) {
    struct shape s;
    long n_ranks = strtol(argv[1], NULL, 10), n_micro = strtol(argv[2], NULL, 10);
    if (n_ranks >= 1 && n_ranks <= 100000 && n_micro >= 1 && n_micro <= 1000000) {
      open_shape(&s, (int32_t)n_ranks, (int32_t)n_micro);
      print_steps(&s, argc == 4 ? argv[3] : "1f1b");
      close_shape(&s);
      return 0;
    }
  }
  if (argc != 1) {
    fprintf(stderr, "usage: bench_graph [RANKS MICRO-BATCHES [PLANNER]]\n");
    return 2;
  }
  double small = measure_simulator(8, 128), large = measure_simulator(64, 256);
  printf("simulated nodes a second: %.1f million at 8 ranks x 128 micro-batches, %.1f at 64 x 256\n", small, large);
  print_planners();
  print_obscura(8, 128, 88);
  print_obscura(64, 256, 128);
  printf("result small=%.1f large=%.1f\n", small, large);
  return 0;
}
