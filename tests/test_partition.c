/* The cost-balanced partition against all cuts there are: the least largest stage, then the evenest; limits kept where
 * a cut can keep them; speeds of ranks; and the whole blocks of the even partition where nothing is known of costs. */
#include "planner/partition_auto.h"

#include <math.h>

#include "cost_case.h"
#include "model/footprint.h"
#include "tiny_model.h"

enum { LENGTH = 16, MICROS = 3, MAX_STAGES = 8 };

enum { PAIRS = LENGTH * (LENGTH + 1) / 2 };
static const struct micro_shape micro[MICROS] = {
    {2, LENGTH, 32, 32, 2 * PAIRS}, {2, LENGTH, 32, 32, 2 * PAIRS}, {1, LENGTH, 16, 16, PAIRS}};

static struct plan_request make_request(const struct model *model, const struct cost *cost, int32_t p,
                                        const int64_t *limits) {
  return (struct plan_request){.model = model,
                               .cost = cost,
                               .n_ranks = p,
                               .n_stages = p,
                               .partition.kind = PARAMS_CUT_AUTO,
                               .n_micro = MICROS,
                               .micro = micro,
                               .device_limit = limits};
}

struct value {
  double largest, squares;
};

static struct value measure(const struct plan_request *r, const struct plan_stage *stages) {
  struct value v = {0};
  for (int32_t s = 0; s < r->n_stages; s++) {
    double t = count_stage_seconds(r->cost, r->model, s, stages[s].first_layer, stages[s].n_layers,
                                   micro_shape_fill(micro[0].rows, LENGTH));
    v.largest = fmax(v.largest, t);
    v.squares += t * t;
  }
  return v;
}

/* The next cut in the order of odometers: sizes at least 1 each. */
static bool advance(struct plan_stage *stages, int32_t p, int32_t n_layers) {
  for (int32_t s = p - 1; s > 0; s--) {
    int32_t room = n_layers - (p - s); /* the largest first layer of stage s */
    if (stages[s].first_layer == room) continue;
    stages[s].first_layer++;
    for (int32_t k = s + 1; k < p; k++) stages[k].first_layer = stages[k - 1].first_layer + 1;
    for (int32_t k = 0; k < p; k++)
      stages[k].n_layers = (k + 1 < p ? stages[k + 1].first_layer : n_layers) - stages[k].first_layer;
    return true;
  }
  return false;
}

static void start(struct plan_stage *stages, int32_t p, int32_t n_layers) {
  for (int32_t s = 0; s < p; s++) stages[s] = (struct plan_stage){s, s == p - 1 ? n_layers - s : 1};
}

static struct value search(const struct plan_request *r) {
  struct plan_stage stages[MAX_STAGES];
  struct value best = {INFINITY, INFINITY};
  start(stages, r->n_stages, r->model->n_layers);
  do {
    struct value v = measure(r, stages);
    bool same = fabs(v.largest - best.largest) <= 1e-9 * v.largest;
    if (same ? v.squares < best.squares : v.largest < best.largest) best = v;
  } while (advance(stages, r->n_stages, r->model->n_layers));
  return best;
}

static void test_all_cuts(void) {
  static const char *const yaml[] = {
      "cost: {source: preset}\n",
      "cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 2, weight_ms: 0.5}}\n",
      "cost: {source: preset}\ndevice: {rank_speeds: {0: 0.5}}\n",
  };
  for (int y = 0; y < 3; y++)
    for (int blocks = 2; blocks <= 5; blocks++)
      for (int32_t p = 1; p <= 5; p++) {
        struct model *model = make_tiny_model(blocks, blocks % 2);
        struct cost *cost = make_cost_case(yaml[y], model, p);
        struct plan_request r = make_request(model, cost, p, NULL);
        struct plan_stage stages[MAX_STAGES];
        T_CHECK(!partition_make(&r, stages), "%s", error_text());
        struct value v = measure(&r, stages), best = search(&r);
        T_CHECK(fabs(v.largest - best.largest) <= 1e-9 * best.largest, "%s%d blocks, %d stages: %g, best %g", yaml[y],
                blocks, p, v.largest, best.largest);
        T_CHECK(fabs(v.squares - best.squares) <= 1e-9 * best.squares, "%s%d blocks, %d stages: squares %g, best %g",
                yaml[y], blocks, p, v.squares, best.squares);
        int32_t next = 0;
        for (int32_t s = 0; s < p; s++) {
          T_CHECK(stages[s].first_layer == next && stages[s].n_layers > 0, "stage %d of %d", s, p);
          next += stages[s].n_layers;
        }
        T_CHECK(next == model->n_layers, "%d layers", next);
        cost_destroy(&cost);
        model_destroy(&model);
      }
}

/* The rank with half the speed gets fewer layers. */
static void test_speed(void) {
  struct model *model = make_tiny_model(12, false);
  struct cost *cost = make_cost_case("cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1}}\n"
                                     "device: {rank_speeds: {1: 0.5}}\n",
                                     model, 3);
  struct plan_request r = make_request(model, cost, 3, NULL);
  struct plan_stage stages[3];
  T_CHECK(!partition_make(&r, stages), "%s", error_text());
  int64_t body[3] = {0};
  for (int s = 0; s < 3; s++)
    for (int32_t k = 0; k < stages[s].n_layers; k++) body[s] += model->layers[stages[s].first_layer + k].block >= 0;
  /* 24 layers; rank 1 at half speed: 10, 4 and 10, or within one of it (9.6 : 4.8 : 9.6). */
  T_CHECK(body[0] + body[1] + body[2] == 24 && body[1] <= 5 && body[1] >= 4, "%d %d %d", (int)body[0], (int)body[1],
          (int)body[2]);
  cost_destroy(&cost);
  model_destroy(&model);
}

static int64_t count_static(const struct model *model, struct plan_stage stage) {
  bool *holds = MEM_NEW(bool, model->n_layers);
  for (int32_t l = 0; l < stage.n_layers; l++) holds[stage.first_layer + l] = true;
  int64_t bytes = footprint_static(model, holds);
  mem_free(holds);
  return bytes;
}

/* A rank that has room for little more than the parameters of the layers it may hold gets no more of them; a limit that
 * nothing fits under changes nothing. */
static void test_limits(void) {
  struct model *model = make_tiny_model(8, false);
  struct cost *cost = make_cost_case("cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1}}\n", model, 3);
  struct plan_request r = make_request(model, cost, 3, NULL);
  struct plan_stage free[3], limited[3];
  T_CHECK(!partition_make(&r, free), "%s", error_text());
  int64_t limits[3] = {count_static(model, free[0]), INT64_MAX, INT64_MAX};
  r.device_limit = limits;
  T_CHECK(!partition_make(&r, limited), "%s", error_text());
  T_CHECK(limited[0].n_layers < free[0].n_layers, "%d layers, without a limit %d", (int)limited[0].n_layers,
          (int)free[0].n_layers);
  T_CHECK(count_static(model, limited[0]) < limits[0], "over its limit");
  for (int s = 0; s < 3; s++) limits[s] = 64;
  T_CHECK(!partition_make(&r, limited), "%s", error_text());
  for (int s = 0; s < 3; s++) T_CHECK(limited[s].n_layers == free[s].n_layers, "stage %d", s);
  cost_destroy(&cost);
  model_destroy(&model);
}

static void test_edges(void) {
  struct model *model = make_tiny_model(2, false);
  struct cost *cost = make_cost_case("cost: {source: preset}\n", model, 8);
  struct plan_request r = make_request(model, cost, 6, NULL);
  struct plan_stage stages[MAX_STAGES];
  T_CHECK(!partition_make(&r, stages), "%s", error_text());
  for (int s = 0; s < 6; s++) T_CHECK(stages[s].n_layers == 1, "stage %d", s);
  r.n_stages = r.n_ranks = 7;
  T_CHECK(partition_make(&r, stages) == STATUS_MISTAKE && strstr(error_text(), "at most 6"), "%s", error_text());
  /* Nothing is known of costs: whole blocks. */
  r.cost = NULL;
  r.n_stages = r.n_ranks = 2;
  T_CHECK(!partition_make(&r, stages) && stages[0].n_layers == 3 && stages[1].n_layers == 3, "%s", error_text());
  cost_destroy(&cost);
  model_destroy(&model);
}

int main(void) {
  test_all_cuts();
  test_speed();
  test_limits();
  test_edges();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
