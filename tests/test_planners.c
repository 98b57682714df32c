/* The planners' plans against closed forms and worked examples, through the simulator: makespans, starts, peaks; every
 * plan checked against deadlock; requests that planners decline. Times are those of a rank's whole share: forward 1,
 * input and weight pass 1 each, full backward 2, divided by the stages that a rank holds; messages take none. */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "deck_texts.h"
#include "planner/planner.h"
#include "planner_cases.h"
#include "sim/sim.h"
#include "t.h"
#include "tiny_model.h"

enum { MAX_MICRO = 64 };

struct step_case {
  struct model *model;
  struct plan *plan;
  struct dag *dag;
  struct sim *sim;
  double *seconds;
};

static void set_times(struct step_case *c, int32_t chunks) {
  for (int32_t v = 0; v < c->dag->n_nodes; v++) {
    int kind = c->dag->nodes[v].kind;
    double share = kind == NODE_B ? 2 : kind == NODE_F || kind == NODE_I || kind == NODE_W;
    c->seconds[v] = share / chunks;
  }
}

/* False when the planner declines. */
static bool open_clipped_case(struct step_case *c, const char *planner, int32_t p, int32_t m, int32_t chunks,
                              bool clip) {
  static struct micro_shape micro[MAX_MICRO];
  for (int32_t i = 0; i < m; i++) micro[i] = micro_shape_make(1, 4, 4, 4);
  *c = (struct step_case){.model = make_tiny_model(p * chunks, clip && m % 2)};
  struct plan_request request = {.model = c->model,
                                 .params = get_test_params(),
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .n_chunks = chunks,
                                 .n_micro = m,
                                 .micro = micro,
                                 .clip = clip};
  int status = planner_run(planner, &request, &c->plan);
  if (!status) status = dag_build(c->plan, c->model, &c->dag);
  T_CHECK(!status, "%s p %d m %d chunks %d: %s", planner, p, m, chunks, error_text());
  if (status) {
    plan_destroy(&c->plan);
    model_destroy(&c->model);
    return false;
  }
  c->sim = sim_create(c->dag, c->plan->n_stages);
  c->seconds = MEM_NEW(double, c->dag->n_nodes);
  set_times(c, chunks);
  return true;
}

static bool open_case(struct step_case *c, const char *planner, int32_t p, int32_t m, int32_t chunks) {
  return open_clipped_case(c, planner, p, m, chunks, m % 3 == 0);
}

static void close_case(struct step_case *c) {
  sim_destroy(&c->sim);
  mem_free(c->seconds);
  dag_destroy(&c->dag);
  plan_destroy(&c->plan);
  model_destroy(&c->model);
}

static double run_iterations(struct step_case *c, int32_t n) {
  struct sim_times times = {c->seconds, 0};
  return sim_run(c->sim, &times, n)->makespan;
}

static double run(struct step_case *c) { return run_iterations(c, 1); }

/* Most forwards of a rank whose weight pass is still to come, in units of a rank's whole share. */
static double get_peak(const struct step_case *c, int32_t rank, int32_t chunks) {
  int32_t live = 0, most = 0;
  for (int64_t k = c->plan->order_offset[rank]; k < c->plan->order_offset[rank + 1]; k++) {
    int kind = c->plan->order[k].kind;
    live += kind == NODE_F;
    if (live > most) most = live;
    live -= kind == NODE_B || kind == NODE_W;
  }
  return (double)most / chunks;
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-9; }

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

/* ---- examples ---- */

static void test_examples(void) {
  static const struct {
    const char *planner;
    int32_t p, m, chunks;
    double makespan, peaks[4]; /* peak 0: not told */
  } known[] = {
      {"gpipe", 4, 8, 1, 33, {8, 8, 8, 8}},
      {"1f1b", 4, 8, 1, 33, {4, 3, 2, 1}},
      {"interleaved", 4, 8, 2, 28.5, {5.5, 4.5, 3.5, 2.5}},
      {"interleaved", 4, 8, 4, 26.25, {4.75, 4.25, 3.75, 3.25}},
      {"interleaved", 4, 5, 2, 22.5, {0}},
      {"interleaved", 4, 7, 2, 26.5, {0}},
      {"interleaved", 5, 7, 2, 30, {0}},
      {"zb-h1", 4, 8, 1, 27, {4, 4, 4, 4}},
      {"zb-h2", 4, 8, 1, 27, {7, 7, 7, 7}},
      {"zb-v", 4, 8, 2, 25.5, {4, 4, 4, 4}},
  };
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    struct step_case c;
    if (!open_case(&c, known[k].planner, known[k].p, known[k].m, known[k].chunks)) continue;
    double makespan = run(&c);
    T_CHECK(is_near(makespan, known[k].makespan), "%s p %d m %d chunks %d: %g", known[k].planner, known[k].p,
            known[k].m, known[k].chunks, makespan);
    for (int32_t r = 0; r < 4 && known[k].peaks[0] > 0; r++)
      T_CHECK(is_near(get_peak(&c, r, known[k].chunks), known[k].peaks[r]), "%s rank %d: peak %g", known[k].planner, r,
              get_peak(&c, r, known[k].chunks));
    close_case(&c);
  }
}

/* "0F0@0 0F1@1 ...": the compute nodes of a rank with their starts. */
static void write_starts(const struct step_case *c, const struct sim_result *r, int32_t rank, char *text, size_t size) {
  size_t n = 0;
  for (int64_t k = 0; k < c->plan->order_offset[rank + 1] - c->plan->order_offset[rank] && n < size; k++) {
    int32_t v = c->dag->rank_offset[rank] + (int32_t)k;
    const struct dag_node *node = &c->dag->nodes[v];
    n += (size_t)snprintf(text + n, size - n, "%s%d%s%d@%g", k ? " " : "", node->stage, node_kind_get_name(node->kind),
                          node->micro, r->start[v]);
  }
}

/* Worked by hand. */
static void test_starts(void) {
  static const struct {
    const char *planner;
    int32_t p, m, chunks, rank;
    const char *starts;
  } known[] = {
      {"zb-h1", 2, 2, 1, 0, "0F0@0 0F1@1 0I0@3 0W0@4 0I1@5 0W1@6"},
      {"zb-h1", 2, 2, 1, 1, "1F0@1 1I0@2 1F1@3 1I1@4 1W0@5 1W1@6"},
      {"zb-h2", 2, 3, 1, 0, "0F0@0 0F1@1 0F2@2 0I0@3 0W0@4 0I1@5 0W1@6 0I2@7 0W2@8"},
      {"zb-h2", 2, 3, 1, 1, "1F0@1 1I0@2 1F1@3 1I1@4 1F2@5 1I2@6 1W0@7 1W1@8 1W2@9"},
      {"interleaved", 2, 2, 2, 0, "0F0@0 0F1@0.5 2F0@1 2F1@1.5 2B0@3 2B1@4.5 0B0@5.5 0B1@6.5"},
      {"interleaved", 2, 2, 2, 1, "1F0@0.5 1F1@1 3F0@1.5 3B0@2 3F1@3 3B1@3.5 1B0@4.5 1B1@5.5"},
      {"zb-v", 2, 2, 2, 1, "1F0@0.5 2F0@1 1F1@1.5 2F1@2 2I0@2.5 2W0@3 1I0@3.5 2I1@4 1I1@4.5 1W0@5 2W1@5.5 1W1@6"},
  };
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    struct step_case c;
    if (!open_case(&c, known[k].planner, known[k].p, known[k].m, known[k].chunks)) continue;
    struct sim_times times = {c.seconds, 0};
    char text[512];
    write_starts(&c, sim_run(c.sim, &times, 1), known[k].rank, text, sizeof text);
    T_CHECK(!strcmp(text, known[k].starts), "%s: %s", known[k].planner, text);
    close_case(&c);
  }
}

/* ---- closed forms ---- */

/* Any number of micro-batches runs, fewer than stages too (3 on 6), and never slower than 1f1b. */
static void test_interleaved(void) {
  for (int32_t p = 2; p <= 8; p++)
    for (int32_t v = 2; v <= 4; v++)
      for (int32_t m = 1; m <= 3 * p + 1; m++) {
        struct step_case c;
        if (!open_case(&c, "interleaved", p, m, v)) continue;
        double makespan = run(&c), bound = 3.0 * m + 3.0 * (p - 1) / v;
        if (m % p == 0) T_CHECK(is_near(makespan, bound), "p %d m %d v %d: %g, should be %g", p, m, v, makespan, bound);
        T_CHECK(makespan <= 3.0 * (m + p - 1) + 1e-9 && makespan >= 3.0 * m, "p %d m %d v %d: %g, slower than 1f1b", p,
                m, v, makespan);
        for (int32_t s = 0; s < p && m % p == 0; s++)
          T_CHECK(is_near(get_peak(&c, s, v), least(2 * (p - s - 1) + (v - 1) * p + 1, m * v) / (double)v),
                  "p %d m %d v %d rank %d: %g", p, m, v, s, get_peak(&c, s, v));
        close_case(&c);
      }
}

static void test_zb_h1(void) {
  for (int32_t p = 2; p <= 10; p++)
    for (int32_t m = 1; m <= 6 * p; m++) {
      struct step_case c;
      if (!open_case(&c, "zb-h1", p, m, 1)) continue;
      double makespan = run(&c), first = 3 * m + p - 1, second = 2 * m + 2 * p - 1;
      T_CHECK(is_near(makespan, first > second ? first : second), "p %d m %d: %g", p, m, makespan);
      for (int32_t s = 0; s < p; s++)
        T_CHECK(get_peak(&c, s, 1) == least(p, m), "p %d m %d stage %d: peak %g", p, m, s, get_peak(&c, s, 1));
      close_case(&c);
    }
}

static void test_zb_h2(void) {
  for (int32_t p = 2; p <= 10; p++)
    for (int32_t m = 1; m <= 6 * p; m++) {
      struct step_case c;
      if (!open_case(&c, "zb-h2", p, m, 1)) continue;
      double makespan = run(&c), expected = m >= 2 * p - 2 ? 3 * m + p - 1 : 2 * p - 1 + (5 * m - 1) / 2;
      T_CHECK(is_near(makespan, expected), "p %d m %d: %g, should be %g", p, m, makespan, expected);
      for (int32_t s = 0; s < p; s++)
        T_CHECK(get_peak(&c, s, 1) == least(2 * p - 1, m), "p %d m %d stage %d: peak %g", p, m, s, get_peak(&c, s, 1));
      close_case(&c);
    }
}

/* Steps back to back. Without a global norm between them ZB-H2 loses its idle time once, the others each time. */
static void test_iterations(void) {
  for (int32_t p = 2; p <= 8; p++)
    for (int32_t m = 2 * p - 1; m <= 4 * p; m += 3)
      for (int32_t n = 2; n <= 4; n++) {
        static const char *const planners[] = {"1f1b", "zb-h1", "zb-h2"};
        double expected[] = {3 * n * (m + p - 1), n * (3 * m + p - 1), 3 * m * n + p - 1};
        for (int k = 0; k < 3; k++)
          for (int clip = 0; clip < 2; clip++) {
            struct step_case c;
            if (!open_clipped_case(&c, planners[k], p, m, 1, clip)) continue;
            double makespan = run_iterations(&c, n);
            double bound = clip ? n * run(&c) : expected[k];
            T_CHECK(is_near(makespan, bound), "%s p %d m %d, %d steps, clip %d: %g, should be %g", planners[k], p, m, n,
                    clip, makespan, bound);
            close_case(&c);
          }
      }
}

/* From m = p on no idle time but for (p-1)/2 of a forward. With fewer micro-batches never worse than ZB-H1. */
static void test_zb_v(void) {
  for (int32_t p = 1; p <= 10; p++)
    for (int32_t m = 1; m <= 6 * p; m += m < 2 * p ? 1 : 3) {
      struct step_case c;
      if (!open_case(&c, "zb-v", p, m, 2)) continue;
      double makespan = run(&c), h1 = 3 * m + p - 1 > 2 * m + 2 * p - 1 ? 3 * m + p - 1 : 2 * m + 2 * p - 1;
      if (m >= p) T_CHECK(is_near(makespan, 3 * m + (p - 1) / 2.0), "p %d m %d: %g", p, m, makespan);
      T_CHECK(p == 1 || makespan <= h1 + 1e-9, "p %d m %d: %g, zb-h1 %g", p, m, makespan, h1);
      for (int32_t r = 0; r < p; r++)
        T_CHECK(get_peak(&c, r, 2) <= p, "p %d m %d rank %d: peak %g", p, m, r, get_peak(&c, r, 2));
      T_CHECK(plan_get_holder(c.plan, 0) == 0 && plan_get_holder(c.plan, 2 * p - 1) == 0 &&
                  plan_get_holder(c.plan, p - 1) == p - 1 && plan_get_holder(c.plan, p) == p - 1,
              "placed as a V");
      close_case(&c);
    }
}

/* ---- all of them ---- */

/* Every order is proved free of cycles with rendezvous messages before it runs, with fewer micro-batches than stages
 * too. */
static void test_graphs(void) {
  static const struct {
    const char *planner;
    int32_t least_chunks, most_chunks;
  } all[] = {{"gpipe", 1, 1}, {"1f1b", 1, 1}, {"interleaved", 2, 3}, {"zb-h1", 1, 1},
             {"zb-h2", 1, 1}, {"zb-v", 2, 2}, {"adapipe", 1, 1},     {"bpipe", 1, 1}};
  static const int32_t sizes[] = {2, 3, 4, 8};
  for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
    for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
      for (int32_t v = all[k].least_chunks; v <= all[k].most_chunks; v++)
        for (int32_t m = 1; m <= 2 * sizes[j] + 1; m++) {
          struct step_case c;
          if (!open_case(&c, all[k].planner, sizes[j], m, v)) continue;
          T_CHECK(dag_check(c.dag, c.plan) == STATUS_OK, "%s p %d m %d v %d: %s", all[k].planner, sizes[j], m, v,
                  error_text());
          T_CHECK(run(&c) >= 3.0 * m - 1e-9, "no plan beats the work of one rank");
          close_case(&c);
        }
}

/* Bytes do not grow with the number of micro-batches once every rank is full. */
static void test_flat_memory(void) {
  static const char *const planners[] = {"1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"};
  for (int k = 0; k < 5; k++)
    for (int32_t p = 2; p <= 6; p++) {
      struct step_case few, many;
      int32_t chunks = k == 1 || k == 4 ? 2 : 1;
      if (!open_clipped_case(&few, planners[k], p, 3 * p, chunks, false)) continue;
      if (open_clipped_case(&many, planners[k], p, 9 * p, chunks, false)) {
        for (int32_t r = 0; r < p; r++)
          T_CHECK(dag_get_peak(few.dag, r, NULL) == dag_get_peak(many.dag, r, NULL), "%s p %d rank %d: %lld and %lld",
                  planners[k], p, r, (long long)dag_get_peak(few.dag, r, NULL),
                  (long long)dag_get_peak(many.dag, r, NULL));
        close_case(&many);
      }
      close_case(&few);
    }
}

static void test_declining(void) {
  static const struct {
    const char *planner;
    int32_t p, ranks, chunks;
    const char *reasons[3];
  } cases[] = {
      {"zb-v", 4, 4, 1, {"zb-v needs pipeline.chunks: 2", "it is 1", "zb-h1"}},
      {"zb-v", 4, 4, 3, {"zb-v needs pipeline.chunks: 2", "it is 3", "interleaved"}},
      {"interleaved", 4, 4, 1, {"pipeline.chunks", "it is 1", "1f1b"}},
      {"interleaved", 4, 3, 2, {"pipeline.stages is 4", "ranks are 3", "start 4 ranks"}},
      {"1f1b", 4, 4, 2, {"pipeline.chunks is 2", "interleaved", "1f1b"}},
      {"zb-h1", 4, 4, 2, {"pipeline.chunks is 2", "interleaved", "zb-h1"}},
      {"zb-h2", 4, 2, 1, {"pipeline.stages is 4", "ranks are 2", "zb-h2"}},
      {"gpipe", 4, 4, 3, {"pipeline.chunks is 3", "gpipe", "set pipeline.chunks to 1"}},
      {"interleaved", 4, 4, 4, {"pipeline.stages 4 x pipeline.chunks 4", "8 blocks", "at most 10 stages"}},
      {"interleaved", 4, 4, -1, {"pipeline.chunks -1", "pipeline.stages 4", ""}},
      {"file", 4, 4, 1, {"pipeline.plan_file", "plan.h5", ".csv"}},
  };
  struct model *model = make_tiny_model(8, false);
  struct micro_shape micro[2] = {micro_shape_make(1, 4, 4, 4), micro_shape_make(1, 4, 4, 4)};
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    struct plan_request request = {.model = model,
                                   .params = get_test_params(),
                                   .n_ranks = cases[k].ranks,
                                   .n_stages = cases[k].p,
                                   .n_chunks = cases[k].chunks,
                                   .n_micro = 2,
                                   .micro = micro};
    struct plan *plan;
    int status = planner_run(cases[k].planner, &request, &plan);
    T_CHECK(status == STATUS_MISTAKE && !plan, "case %zu: status %d", k, status);
    for (int j = 0; j < 3; j++)
      T_CHECK(strstr(error_text(), cases[k].reasons[j]), "case %zu: no '%s' in: %s", k, cases[k].reasons[j],
              error_text());
  }
  model_destroy(&model);
}

/* A list counts the blocks of each stage of the plan, not of each rank. */
static void test_listed_chunks(void) {
  struct model *model = make_tiny_model(7, false);
  struct micro_shape micro[3] = {micro_shape_make(1, 4, 4, 4), micro_shape_make(1, 4, 4, 4),
                                 micro_shape_make(1, 4, 4, 4)};
  const double list[] = {1, 2, 2.5, 1.5};
  struct plan_request request = {.model = model,
                                 .params = get_test_params(),
                                 .n_ranks = 2,
                                 .n_stages = 2,
                                 .n_chunks = 2,
                                 .partition.kind = PARAMS_CUT_LIST,
                                 .partition.blocks = list,
                                 .partition.n = 4,
                                 .n_micro = 3,
                                 .micro = micro};
  struct plan *plan;
  static const int32_t layers[] = {3, 4, 5, 4};
  T_CHECK(planner_run("interleaved", &request, &plan) == STATUS_OK, "%s", error_text());
  for (int s = 0; s < 4 && plan; s++)
    T_CHECK(plan->stages[s].n_layers == layers[s] && plan_get_holder(plan, s) == s % 2, "stage %d: %d layers", s,
            plan->stages[s].n_layers);
  plan_destroy(&plan);
  request.partition.n = 2;
  T_CHECK(planner_run("interleaved", &request, &plan) == STATUS_MISTAKE && strstr(error_text(), "are 4 stages"), "%s",
          error_text());
  model_destroy(&model);
}

/* Stages a rank where the request leaves them open. */
static void test_open_chunks(void) {
  struct model *model = make_tiny_model(8, false);
  struct micro_shape micro[3] = {micro_shape_make(1, 4, 4, 4), micro_shape_make(1, 4, 4, 4),
                                 micro_shape_make(1, 4, 4, 4)};
  struct plan_request request = {
      .model = model, .params = get_test_params(), .n_ranks = 3, .n_stages = 3, .n_micro = 3, .micro = micro};
  for (const struct planner *const *planner = planner_get_all(); *planner; planner++) {
    if (get_test_chunks(planner_get_name(*planner)) == 0) continue;
    struct plan *plan;
    T_CHECK(planner_run(planner_get_name(*planner), &request, &plan) == STATUS_OK, "%s", error_text());
    T_CHECK(plan && plan->n_stages == 3 * get_test_chunks(planner_get_name(*planner)), "%s",
            planner_get_name(*planner));
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

/* The checks of a deck, which lie below the planners, know of each what its row says: who takes a file, and who has one
 * stage a rank where the deck does not say. */
static void test_rows(void) {
  for (const struct planner *const *p = planner_get_all(); *p; p++) {
    struct params params;
    const char *name = planner_get_name(*p);
    char *deck = mem_format("pipeline: {planner: %s, plan_file: p.csv}\n", name);
    int status = parse_text(deck, NULL, &params);
    T_CHECK((status == STATUS_OK) == (*p)->takes_file, "%s: %s", deck, error_text());
    if (!status) params_fini(&params);
    mem_free(deck);
    deck = mem_format("pipeline: {planner: %s%s, stages: 2, partition: [1, 1, 1, 1]}\n", name,
                      (*p)->takes_file ? ", plan_file: p.csv" : "");
    status = parse_text(deck, NULL, &params);
    T_CHECK((status == STATUS_OK) == ((*p)->takes_file || (*p)->n_chunks > 1), "%s: %s", deck, error_text());
    if (!status) params_fini(&params);
    mem_free(deck);
    error_clear();
  }
}

int main(void) {
  test_examples();
  test_starts();
  test_interleaved();
  test_zb_h1();
  test_zb_h2();
  test_iterations();
  test_zb_v();
  test_graphs();
  test_flat_memory();
  test_declining();
  test_listed_chunks();
  test_open_chunks();
  test_rows();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
