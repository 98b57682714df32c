/* Obscura's orders and its model of time: worked examples start by start, tables, closed forms against the simulator. A
 * forward takes 1, a backward 2, a recomputation r; messages take none. A recomputation waits for its gradient but
 * where said.
 */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura_model.h"
#include "planner/one_f_one_b.h"
#include "planner/planner.h"
#include "planner_cases.h"
#include "sim/sim.h"
#include "t.h"
#include "tiny_model.h"

enum { MAX_MICRO = 64, MAX_LAYERS = 64 };

struct pipeline {
  struct model *model;
  struct plan *plan;
  struct dag *dag;
  struct sim *sim;
  double *seconds;
};

/* What to plan: steps NONE is 1F1B with recomputation on the first n stages. */
enum { NONE = -1 };
struct order_case {
  int steps, p, m, n;
  bool early;
};

/* `r` is what the plan is made to expect. */
static bool open_pipeline(const struct order_case *c, double r, struct pipeline *pipe) {
  static struct micro_shape micro[MAX_MICRO];
  static uint32_t ops[MAX_LAYERS];
  struct params params = *get_test_params();
  for (int32_t i = 0; i < c->m; i++) micro[i] = micro_shape_make(1, 4, 4, 4);
  *pipe = (struct pipeline){.model = make_tiny_model(c->p, false)};
  for (int32_t l = 0; l < pipe->model->n_layers; l++)
    ops[l] = recompute_get_ops(&pipe->model->layers[l], PARAMS_RECOMPUTE_FULL);
  if (c->steps != NONE) params.obscura.steps = c->steps;
  params.obscura.adjusted_stages = c->n;
  params.obscura.faithful = true;
  struct plan_request request = {.model = pipe->model,
                                 .n_ranks = c->p,
                                 .n_stages = c->p,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = c->m,
                                 .micro = micro,
                                 .recompute_ops = ops,
                                 .recompute_early = c->early,
                                 .n_recompute_stages = c->steps == NONE ? c->n : PLAN_ALL_STAGES,
                                 .params = &params};
  int status = planner_run(c->steps == NONE ? "1f1b" : "obscura", &request, &pipe->plan);
  for (int32_t s = 0; s < c->p && !status; s++)
    pipe->plan->pace[s] =
        (struct plan_pace){.forward = 100, .rebuild = (int32_t)lround(100 * r), .input = 100, .weight = 100};
  if (!status) status = dag_build(pipe->plan, pipe->model, &pipe->dag);
  T_CHECK(!status, "p %d m %d n %d: %s", c->p, c->m, c->n, error_text());
  if (status) {
    plan_destroy(&pipe->plan);
    model_destroy(&pipe->model);
    return false;
  }
  pipe->sim = sim_create(pipe->dag, pipe->plan->n_stages);
  pipe->seconds = MEM_NEW(double, pipe->dag->n_nodes);
  return true;
}

static void close_pipeline(struct pipeline *pipe) {
  sim_destroy(&pipe->sim);
  mem_free(pipe->seconds);
  dag_destroy(&pipe->dag);
  plan_destroy(&pipe->plan);
  model_destroy(&pipe->model);
}

static const struct sim_result *run(struct pipeline *pipe, double r) {
  for (int32_t v = 0; v < pipe->dag->n_nodes; v++) {
    int kind = pipe->dag->nodes[v].kind;
    pipe->seconds[v] = kind == NODE_F ? 1 : kind == NODE_B ? 2 : kind == NODE_R ? r : 0;
  }
  struct sim_times times = {pipe->seconds, 0};
  return sim_run(pipe->sim, &times, 1);
}

static double time_case(struct order_case c, double r) {
  struct pipeline pipe;
  if (!open_pipeline(&c, r, &pipe)) return 0;
  double makespan = run(&pipe, r)->makespan;
  close_pipeline(&pipe);
  return makespan;
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-9; }

static int32_t get_peak(const struct plan *plan, int32_t rank) {
  int32_t live = 0, most = 0;
  for (int64_t k = plan->order_offset[rank]; k < plan->order_offset[rank + 1]; k++) {
    live += plan->order[k].kind == NODE_F;
    if (live > most) most = live;
    live -= plan->order[k].kind == NODE_B;
  }
  return most;
}

/* ---- worked examples ---- */

static const char *const plain_s3 =
    "F0@3 B0@4 F1@6 B1@7 F2@9 B2@10 F3@12 B3@13 F4@15 B4@16 F5@18 B5@19 F6@21 B6@22 F7@24 B7@25";
static const char *const plain_s2 =
    "F0@2 F1@3 B0@6 F2@8 B1@9 F3@11 B2@12 F4@14 B3@15 F5@17 B4@18 F6@20 B5@21 F7@23 B6@24 B7@27";

/* "F0@0 R0@8 B0@9 ...": the compute nodes of a rank with their starts. */
static void write_starts(const struct pipeline *pipe, const struct sim_result *r, int32_t rank, char *text,
                         size_t size) {
  size_t n = 0;
  for (int64_t k = 0; k < pipe->plan->order_offset[rank + 1] - pipe->plan->order_offset[rank] && n < size; k++) {
    int32_t v = pipe->dag->rank_offset[rank] + (int32_t)k;
    const struct dag_node *node = &pipe->dag->nodes[v];
    n += (size_t)snprintf(text + n, size - n, "%s%s%d@%g", k ? " " : "", node_kind_get_name(node->kind), node->micro,
                          r->start[v]);
  }
}

/* "RB3@20" in an example is R3 at 20 and B3 r later. */
static void expand(const char *example, double r, char *text, size_t size) {
  size_t n = 0;
  for (const char *at = example; *at; at += strcspn(at, " "), at += *at == ' ') {
    int micro;
    double start;
    const char *space = at == example ? "" : " ";
    if (sscanf(at, "RB%d@%lf", &micro, &start) == 2)
      n += (size_t)snprintf(text + n, size - n, "%sR%d@%g B%d@%g", space, micro, start, micro, start + r);
    else
      n += (size_t)snprintf(text + n, size - n, "%s%.*s", space, (int)strcspn(at, " "), at);
  }
}

struct example {
  int steps, n;
  double r, makespan;
  const char *stages[4];
};

static void check_example(const struct example *e) {
  struct pipeline pipe;
  if (!open_pipeline(&(struct order_case){e->steps, 4, 8, e->n, false}, e->r, &pipe)) return;
  const struct sim_result *result = run(&pipe, e->r);
  T_CHECK(is_near(result->makespan, e->makespan), "steps %d n %d: %g", e->steps, e->n, result->makespan);
  for (int32_t s = 0; s < 4; s++) {
    char text[1024], expected[1024];
    if (!e->stages[s]) continue;
    write_starts(&pipe, result, s, text, sizeof text);
    expand(e->stages[s], e->r, expected, sizeof expected);
    T_CHECK(!strcmp(text, expected), "steps %d n %d stage %d:\n%s\nshould be\n%s", e->steps, e->n, (int)s, text,
            expected);
  }
  close_pipeline(&pipe);
}

static void test_examples(void) {
  const struct example examples[] = {
      {NONE,
       0,
       1,
       33,
       {"F0@0 F1@1 F2@2 F3@3 B0@10 F4@12 B1@13 F5@15 B2@16 F6@18 B3@19 F7@21 B4@22 B5@25 B6@28 B7@31",
        "F0@1 F1@2 F2@3 B0@8 F3@10 B1@11 F4@13 B2@14 F5@16 B3@17 F6@19 B4@20 F7@22 B5@23 B6@26 B7@29", plain_s2,
        plain_s3}},
      {NONE,
       2,
       1,
       40,
       {"F0@0 F1@1 F2@2 F3@3 RB0@11 F4@14 RB1@15 F5@18 RB2@19 F6@22 RB3@23 F7@26 RB4@27 RB5@31 RB6@34 RB7@37",
        "F0@1 F1@2 F2@3 RB0@8 F3@11 RB1@12 F4@15 RB2@16 F5@19 RB3@20 F6@23 RB4@24 F7@27 RB5@28 RB6@31 RB7@34",
        "F0@2 F1@3 B0@6 F2@8 B1@9 F3@12 B2@13 F4@16 B3@17 F5@20 B4@21 F6@24 B5@25 F7@28 B6@29 B7@32"}},
      {PARAMS_OBSCURA_STEPS_STRAWMAN,
       2,
       1,
       36,
       {"F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 F6@6 F7@7 RB0@11 RB1@14 RB2@17 RB3@20 RB4@23 RB5@27 RB6@30 RB7@33",
        "F0@1 F1@2 F2@3 F3@4 F4@5 F5@6 F6@7 RB0@8 RB1@11 RB2@14 RB3@17 RB4@20 F7@23 RB5@24 RB6@27 RB7@30",
        "F0@2 F1@3 B0@6 F2@8 B1@9 F3@11 B2@12 F4@14 B3@15 F5@17 B4@18 F6@20 B5@21 F7@24 B6@25 B7@28",
        "F0@3 B0@4 F1@6 B1@7 F2@9 B2@10 F3@12 B3@13 F4@15 B4@16 F5@18 B5@19 F6@21 B6@22 F7@25 B7@26"}},
      {PARAMS_OBSCURA_STEPS_RELAXED,
       2,
       1,
       36,
       {"F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 F6@6 F7@7 RB0@11 RB1@15 RB2@18 RB3@21 RB4@24 RB5@27 RB6@30 RB7@33",
        "F0@1 F1@2 F2@3 F3@4 F4@5 F5@6 F6@7 RB0@8 F7@11 RB1@12 RB2@15 RB3@18 RB4@21 RB5@24 RB6@27 RB7@30", plain_s2,
        plain_s3}},
      {PARAMS_OBSCURA_STEPS_REFINED,
       3,
       0.5,
       35,
       {"F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 RB0@11 F6@13.5 RB1@14.5 F7@17 RB2@18 RB3@21.5 RB4@25 RB5@27.5 RB6@30 "
        "RB7@32.5",
        "F0@1 F1@2 F2@3 F3@4 F4@5 RB0@8.5 F5@11 RB1@12 F6@14.5 RB2@15.5 F7@18 RB3@19 RB4@22.5 RB5@25 RB6@27.5 RB7@30",
        "F0@2 F1@3 F2@4 F3@5 RB0@6 F4@8.5 RB1@9.5 F5@12 RB2@13 F6@15.5 RB3@16.5 F7@19 RB4@20 RB5@22.5 RB6@25 RB7@27.5",
        plain_s3}},
  };
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check_example(&examples[i]);
}

/* Makespan, and again with recomputation that does not wait; live micro-batches; idle inside a stage before its first
 * backward and after, -1: not told. Of 4 stages and 8 micro-batches, r = 1. */
static void test_idle(void) {
  static const struct {
    int steps, n;
    double makespan, early;
    int32_t peaks[4];
    double idle[4][2];
  } rows[] = {
      {NONE, 0, 33, 33, {4, 3, 2, 1}, {{6, 3}, {4, 2}, {2, 1}, {0, 0}}},
      {NONE, 1, 38, 37, {4, 3, 2, 1}, {{6, 0}, {4, 6}, {2, 5}, {0, 4}}},
      {NONE, 2, 40, 38, {4, 3, 2, 1}, {{7, 1}, {4, 0}, {2, 6}, {0, 5}}},
      {NONE, 3, 42, 39, {4, 3, 2, 1}, {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}},
      {NONE, 4, 44, 41, {4, 3, 2, 1}, {{9, 3}, {6, 2}, {3, 1}, {0, 0}}},
      {PARAMS_OBSCURA_STEPS_STRAWMAN, 1, 34, 33, {8, 3, 2, 1}, {{2, 0}, {4, 2}, {2, 1}, {0, 0}}},
      {PARAMS_OBSCURA_STEPS_RELAXED, 1, 34, 33, {8, 3, 2, 1}, {{2, 0}, {4, 2}, {2, 1}, {0, 0}}},
      {PARAMS_OBSCURA_STEPS_REFINED, 1, 34, 33, {8, 3, 2, 1}, {{2, 0}, {4, 2}, {2, 1}, {0, 0}}},
      {PARAMS_OBSCURA_STEPS_STRAWMAN, 2, 36, 35, {8, 7, 2, 1}, {{3, 1}, {0, 0}, {2, 2}, {0, 1}}},
      {PARAMS_OBSCURA_STEPS_RELAXED, 2, 36, 35, {8, 7, 2, 1}, {{3, 1}, {0, 0}, {2, 1}, {0, 0}}},
      {PARAMS_OBSCURA_STEPS_REFINED, 2, 36, 35, {8, 7, 2, 1}, {{3, 1}, {0, 0}, {2, 1}, {0, 0}}},
      {PARAMS_OBSCURA_STEPS_STRAWMAN, 3, 40, 38, {8, 7, 4, 1}, {{4, 4}, {1, 3}, {0, 0}, {0, 4}}},
      {PARAMS_OBSCURA_STEPS_RELAXED, 3, 40, 38, {8, 7, 4, 1}, {{4, 4}, {1, 3}, {0, 0}, {0, 0}}},
      {PARAMS_OBSCURA_STEPS_REFINED, 3, 40, 38, {6, 5, 4, 1}, {{6, 2}, {3, 1}, {0, 0}, {0, 0}}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct pipeline pipe;
    if (!open_pipeline(&(struct order_case){rows[i].steps, 4, 8, rows[i].n, false}, 1, &pipe)) continue;
    const struct sim_result *r = run(&pipe, 1);
    T_CHECK(is_near(r->makespan, rows[i].makespan), "row %zu: %g", i, r->makespan);
    for (int32_t s = 0; s < 4; s++) {
      T_CHECK(get_peak(pipe.plan, s) == rows[i].peaks[s], "row %zu stage %d: peak %d", i, (int)s,
              (int)get_peak(pipe.plan, s));
      if (rows[i].idle[s][0] < 0) continue;
      T_CHECK(is_near(r->stages[s].forward_bubble, rows[i].idle[s][0]) &&
                  is_near(r->stages[s].backward_bubble, rows[i].idle[s][1]),
              "row %zu stage %d: idle %g, %g", i, (int)s, r->stages[s].forward_bubble, r->stages[s].backward_bubble);
    }
    close_pipeline(&pipe);
    double early = time_case((struct order_case){rows[i].steps, 4, 8, rows[i].n, true}, 1);
    T_CHECK(is_near(early, rows[i].early), "row %zu: without waiting %g", i, early);
  }
}

/* 4 stages: 1F1B; then for 1, 2, 3 stages that recompute 1F1B, strawman, relaxed; then all stages recompute. */
static void test_table(void) {
  static const struct {
    double r;
    int m;
    double plain, steps[3][3], all;
  } rows[] = {
      {0.5, 8, 33, {{35.5, 33.5, 33.5}, {36.5, 34.5, 34}, {37.5, 36.5, 35}}, 38.5},
      {0.5, 12, 45, {{49.5, 46.5, 45.5}, {50.5, 48.5, 46}, {51.5, 50.5, 49}}, 52.5},
      {0.5, 16, 57, {{63.5, 60.5, 57.5}, {64.5, 62.5, 59.5}, {65.5, 64.5, 63}}, 66.5},
      {0.5, 32, 105, {{119.5, 116.5, 112}, {120.5, 118.5, 115.5}, {121.5, 120.5, 119}}, 122.5},
      {1, 12, 45, {{54, 48, 48}, {56, 52, 52}, {58, 56, 56}}, 60},
      {1, 16, 57, {{70, 64, 64}, {72, 68, 68}, {74, 72, 72}}, 76},
      {1, 32, 105, {{134, 128, 128}, {136, 132, 132}, {138, 136, 136}}, 140},
  };
  static const int32_t peaks[3][4] = {{10, 3, 2, 1}, {8, 7, 2, 1}, {6, 5, 4, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double r = rows[i].r;
    int m = rows[i].m;
    T_CHECK(is_near(time_case((struct order_case){NONE, 4, m, 0, false}, r), rows[i].plain), "row %zu", i);
    T_CHECK(is_near(time_case((struct order_case){NONE, 4, m, 4, false}, r), rows[i].all), "row %zu", i);
    for (int n = 1; n <= 3; n++)
      for (int steps = NONE; steps <= PARAMS_OBSCURA_STEPS_REFINED; steps++) {
        struct pipeline pipe;
        double expected =
            rows[i].steps[n - 1][steps == PARAMS_OBSCURA_STEPS_REFINED ? PARAMS_OBSCURA_STEPS_RELAXED + 1 : steps + 1];
        if (!open_pipeline(&(struct order_case){steps, 4, m, n, false}, r, &pipe)) continue;
        double makespan = run(&pipe, r)->makespan;
        T_CHECK(is_near(makespan, expected), "row %zu n %d steps %d: %g", i, n, steps, makespan);
        for (int32_t s = 0; s < 4 && m >= 12 && steps == PARAMS_OBSCURA_STEPS_REFINED; s++)
          T_CHECK(get_peak(pipe.plan, s) == peaks[n - 1][s], "m %d n %d stage %d", m, n, (int)s);
        close_pipeline(&pipe);
      }
  }
}

/* ---- the model ---- */

static struct obscura_model make_model(int32_t p, int32_t m, int32_t n, double r) {
  return (struct obscura_model){.n_stages = p,
                                .n_micro = m,
                                .n_adjusted = n,
                                .forward = 1,
                                .backward = 2,
                                .recompute = r,
                                .slowest = 3,
                                .slowest_adjusted = 3 + r};
}

static double time_quickly(const struct plan *plan, const struct obscura_model *model) {
  struct one_f_one_b times = one_f_one_b_create(model->n_stages, model->n_micro);
  for (int32_t s = 0; s < model->n_stages; s++) {
    times.warm_up[s] = times.steady[s] = get_peak(plan, s);
    times.forward[s] = 1;
    times.backward[s] = 2;
    times.recompute[s] = s < model->n_adjusted ? model->recompute : 0;
  }
  double seconds = one_f_one_b_time(&times);
  one_f_one_b_free(&times);
  return seconds;
}

/* Eq. 3 of stage 0 solved for even stages without transfers. */
static double solve_model(const struct obscura_model *m) {
  double pass = m->forward + m->backward, adjusted = pass + m->recompute;
  double hidden = pass * (m->n_micro + m->n_stages - 1) + m->n_adjusted * m->recompute;
  return fmax(hidden, (m->n_micro + m->n_adjusted - 1) * adjusted);
}

/* Eq. 3, its solution, the quick time and the simulated makespan are the same; the peaks are the counts. */
static void check_model(int p, int m, int n, double r) {
  struct pipeline pipe;
  if (!open_pipeline(&(struct order_case){PARAMS_OBSCURA_STEPS_REFINED, p, m, n, false}, r, &pipe)) return;
  struct obscura_model model = make_model(p, m, n, r);
  double makespan = run(&pipe, r)->makespan, time = obscura_model_get_time(&model, 0);
  T_CHECK(is_near(makespan, time), "p %d m %d n %d r %g: %g, Eq. 3 %g", p, m, n, r, makespan, time);
  T_CHECK(is_near(time, solve_model(&model)), "p %d m %d n %d r %g: %g, solved %g", p, m, n, r, time,
          solve_model(&model));
  T_CHECK(is_near(time_quickly(pipe.plan, &model), makespan), "p %d m %d n %d r %g", p, m, n, r);
  for (int32_t s = 0; s < p; s++)
    T_CHECK(get_peak(pipe.plan, s) == obscura_model_get_refined(&model, s), "p %d m %d n %d stage %d", p, m, n, (int)s);
  close_pipeline(&pipe);
}

static void test_model(void) {
  static const double rs[] = {.05, .1, .25, .39, .5, .75, 1};
  int n_cases = 0;
  for (int p = 2; p <= 10; p++)
    for (int m = p; m <= 6 * p; m += p)
      for (int n = 1; n <= p; n++)
        for (size_t i = 0; i < sizeof rs / sizeof *rs; i++, n_cases++) check_model(p, m, n, rs[i]);
  T_CHECK(n_cases == 2268, "%d cases", n_cases);
}

/* All forwards moved and as many as needed take the same time, which is no more than the strawman's. */
static void test_refinement(void) {
  for (int p = 2; p <= 6; p++)
    for (int m = 1; m <= 6 * p; m += 1 + p / 2)
      for (int n = 1; n <= p; n++) {
        double r = n % 2 ? 0.39 : 1, steps[3];
        for (int k = 0; k < 3; k++) steps[k] = time_case((struct order_case){k, p, m, n, false}, r);
        T_CHECK(is_near(steps[PARAMS_OBSCURA_STEPS_RELAXED], steps[PARAMS_OBSCURA_STEPS_REFINED]),
                "p %d m %d n %d: %g, %g", p, m, n, steps[1], steps[2]);
        T_CHECK(steps[PARAMS_OBSCURA_STEPS_STRAWMAN] > steps[PARAMS_OBSCURA_STEPS_RELAXED] - 1e-9,
                "p %d m %d n %d: %g, %g", p, m, n, steps[0], steps[1]);
      }
}

/* Memory of the paper's Table 1 (4 stages, GB): each stage's block, kept and recomputed, follows from the counts and is
 * the same on both stages to a few hundredths; with other counts it is not. */
static void test_counts(void) {
  static const double plain[] = {48.01, 42.62}, recomputing[] = {34.40, 32.25}, ahead[] = {46.18, 39.58};
  struct obscura_model model = make_model(4, 16, 2, 0.5);
  double adjusted[2], kept[2];
  for (int32_t s = 0; s < 2; s++) {
    int32_t few = obscura_model_get_plain(&model, s), many = obscura_model_get_moved(&model, s);
    T_CHECK(many - few == 2 * (4 - s - 1), "stage %d: %d more", (int)s, (int)(many - few));
    adjusted[s] = (ahead[s] - recomputing[s]) / (many - few);
    kept[s] = (plain[s] - recomputing[s]) / few + adjusted[s];
  }
  T_CHECK(fabs(adjusted[0] - adjusted[1]) < 0.15 && fabs(adjusted[0] - 1.96) < 0.01 && fabs(adjusted[1] - 1.83) < 0.01,
          "%g, %g", adjusted[0], adjusted[1]);
  T_CHECK(fabs(kept[0] - 5.37) < 0.01 && fabs(kept[1] - 5.29) < 0.01, "%g, %g", kept[0], kept[1]);
  /* Backward bubbles there are: min(m - 1, 3 (p - s - 1)). */
  for (int32_t p = 2; p <= 8; p++)
    for (int32_t m = 1; m <= 4 * p; m++)
      for (int32_t s = 0; s < p; s++) {
        model = make_model(p, m, p, 1);
        int32_t most = 3 * (p - s - 1) < m - 1 ? 3 * (p - s - 1) : m - 1;
        T_CHECK(obscura_model_get_moved(&model, s) - 1 == most, "p %d m %d stage %d", (int)p, (int)m, (int)s);
      }
}

static void test_equations(void) {
  struct obscura_model model = make_model(4, 8, 2, 1);
  static const double times[] = {36, 32, 27, 24};
  for (int32_t s = 0; s < 4; s++) T_CHECK(is_near(obscura_model_get_time(&model, s), times[s]), "stage %d", (int)s);
  /* 8 stages, 3 adjusted: 18, 17, 16 forwards; 6, 5, 4 blocks leave; 12 stay. */
  model = make_model(8, 32, 3, 0.5);
  model.lambda = 4;
  for (int32_t s = 0; s < 3; s++) {
    int32_t ahead = obscura_model_get_refined(&model, s), lambda = obscura_model_get_lambda(&model, s);
    T_CHECK(ahead == 18 - s && lambda == 6 - s, "stage %d: %d, %d", (int)s, (int)ahead, (int)lambda);
  }
  T_CHECK(obscura_model_get_lambda(&model, 3) == 0, "not adjusted");
  /* Blocks of 3: stage 2 has 4 (3 - 1) to evict late and 4 (3 - 2.5) to load; stage 0 has 6 blocks and two
   * micro-batches' backwards to hide them behind. A block of 1 costs nothing, one of 3.5 is the longest there may be.
   */
  model.transfer = 3;
  T_CHECK(is_near(obscura_model_get_transfer(&model, 2), 8 + 2), "%g", obscura_model_get_transfer(&model, 2));
  T_CHECK(is_near(obscura_model_get_transfer(&model, 0), 12 - 5 + 3), "%g", obscura_model_get_transfer(&model, 0));
  model.epsilon = 1;
  T_CHECK(is_near(obscura_model_get_transfer(&model, 2), 8 + 2 + 3.5), "%g", obscura_model_get_transfer(&model, 2));
  model.epsilon = 0;
  model.transfer = 1;
  T_CHECK(obscura_model_get_transfer(&model, 0) == 0, "%g", obscura_model_get_transfer(&model, 0));
  model.transfer = 3.5;
  T_CHECK(obscura_model_allows(&model), "3.5");
  model.transfer = 3.51;
  T_CHECK(!obscura_model_allows(&model), "3.51");
}

/* Gains over recomputation on all stages that the model predicts for the paper's settings, 8 stages. */
static void test_gains(void) {
  static const struct {
    int n, m;
    double r, gain;
  } rows[] = {{3, 16, 0.39, 1.311}, {3, 32, 0.39, 1.320}, {3, 64, 0.39, 1.269}, {3, 128, 0.39, 1.225},
              {5, 16, 0.39, 1.297}, {5, 32, 0.39, 1.278}, {5, 64, 0.39, 1.232}, {3, 16, 1, 1.278},
              {3, 32, 1, 1.147},    {3, 64, 1, 1.076},    {3, 128, 1, 1.038}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct obscura_model model = make_model(8, rows[i].m, rows[i].n, rows[i].r);
    double gain = 4.0 * (rows[i].m + 7) / obscura_model_get_time(&model, 0);
    T_CHECK(fabs(gain - rows[i].gain) < 6e-4, "n %d m %d r %g: %g", rows[i].n, rows[i].m, rows[i].r, gain);
    double run_gain = 4.0 * (rows[i].m + 7) /
                      time_case((struct order_case){PARAMS_OBSCURA_STEPS_REFINED, 8, rows[i].m > 64 ? 64 : rows[i].m,
                                                    rows[i].n, false},
                                rows[i].r);
    if (rows[i].m <= 64) T_CHECK(is_near(gain, run_gain), "n %d m %d: %g", rows[i].n, rows[i].m, run_gain);
  }
}

int main(void) {
  test_examples();
  test_idle();
  test_table();
  test_model();
  test_refinement();
  test_counts();
  test_equations();
  test_gains();
  return t_end();
}
