/* Memory from the sizes of a table of layers: the textbook peaks of every schedule; the peaks of the model's own layout
 * but for its workspaces; recomputation as limits ask for it; a device that keeps time counts the same.
 */
#include <unistd.h>

#include "cost_case.h"
#include "dag/dag.h"
#include "model/footprint.h"
#include "plan/recompute.h"
#include "planner_cases.h"
#include "scratch.h"
#include "setup/request.h"
#include "tiny_model.h"

enum { KIB = 1024, KEPT = 10 * KIB, WEIGHT = 4 * KIB, PARAMETERS = 3 * KIB, LENGTH = 8 };

struct table {
  int64_t kept, kept_weight, parameters, output; /* of each layer of a block; embedding and head take nothing */
};

/* A model of so many blocks with the sizes of a table that is written and read again. */
static struct model *make_sized(int blocks, const struct table *t, struct cost **cost, int32_t n_ranks) {
  struct model *model = make_tiny_model(blocks, true);
  FILE *out = fopen("sizes.csv", "w");
  if (!out) exit(1);
  fprintf(out, "layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,parameter_bytes,"
               "output_bytes\n");
  for (int32_t l = 0; l < model->n_layers; l++) {
    const struct table none = {0}, *row = model->layers[l].block < 0 ? &none : t;
    fprintf(out, "%d,1,1,1,0,%lld,%lld,%lld,%lld\n", (int)l, (long long)row->kept, (long long)row->kept_weight,
            (long long)row->parameters, (long long)row->output);
  }
  fclose(out);
  *cost = make_cost_case("cost: {source: table, table: sizes.csv}\n", model, n_ranks);
  cost_put_sizes(*cost, model);
  return model;
}

static struct micro_shape *make_micros(int32_t m) {
  struct micro_shape *micro = MEM_NEW(struct micro_shape, m);
  for (int32_t i = 0; i < m; i++) micro[i] = micro_shape_make(2, LENGTH, 2 * LENGTH, 2 * LENGTH);
  return micro;
}

/* Peaks of the ranks, owned by the caller; NULL when the planner declines. */
static int64_t *find_peaks(const char *planner, const struct plan_request *request) {
  struct plan *plan;
  struct dag *dag;
  if (planner_run(planner, request, &plan)) {
    error_clear();
    return NULL;
  }
  T_CHECK(!dag_build(plan, request->model, &dag) && !dag_check(dag, plan), "%s: %s", planner, error_text());
  int64_t *peaks = MEM_NEW(int64_t, plan->n_ranks);
  for (int32_t r = 0; r < plan->n_ranks; r++) peaks[r] = dag_get_peak(dag, r, NULL);
  dag_destroy(&dag);
  plan_destroy(&plan);
  return peaks;
}

/* ---- textbook ---- */

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

/* Activations of a whole rank, in units of its layers' kept bytes, when all stay until the input pass (nothing until
 * the weight pass), or all until the weight pass. Times 2, as interleaving has halves. */
static int32_t expect_gpipe(int32_t s, int32_t p, int32_t m) { return (void)s, (void)p, 2 * m; }
static int32_t expect_1f1b(int32_t s, int32_t p, int32_t m) { return 2 * least(p - s, m); }
static int32_t expect_interleaved(int32_t s, int32_t p, int32_t m) { return least(2 * (p - s - 1) + p + 1, 2 * m); }
static int32_t expect_h1(int32_t s, int32_t p, int32_t m) { return (void)s, 2 * least(p, m); }
static int32_t expect_h2(int32_t s, int32_t p, int32_t m) { return (void)s, 2 * least(2 * p - 1, m); }
static int32_t expect_h2_input(int32_t s, int32_t p, int32_t m) { return 2 * least(2 * (p - s) - 1, m); }

static const struct textbook {
  const char *planner;
  bool to_weight; /* all is kept on to the weight pass, else nothing */
  int32_t (*expect)(int32_t s, int32_t p, int32_t m);
} textbook[] = {
    {"gpipe", true, expect_gpipe}, {"gpipe", false, expect_gpipe},    {"1f1b", true, expect_1f1b},
    {"1f1b", false, expect_1f1b},  {"zb-h1", true, expect_h1},        {"zb-h1", false, expect_1f1b},
    {"zb-h2", true, expect_h2},    {"zb-h2", false, expect_h2_input}, {"interleaved", true, expect_interleaved},
};

static void test_textbook(void) {
  for (size_t i = 0; i < sizeof textbook / sizeof *textbook; i++)
    for (int32_t p = 2; p <= 5; p++)
      for (int32_t m = p; m <= 3 * p; m += p) {
        const struct textbook *t = &textbook[i];
        struct table table = {KEPT, t->to_weight ? KEPT : 0, PARAMETERS, 0};
        struct cost *cost;
        struct model *model = make_sized(2 * p, &table, &cost, p);
        struct micro_shape *micro = make_micros(m);
        struct plan_request request = {.model = model,
                                       .params = get_test_params(),
                                       .n_ranks = p,
                                       .n_stages = p,
                                       .n_chunks = get_test_chunks(t->planner),
                                       .partition.kind = PARAMS_CUT_EVEN,
                                       .n_micro = m,
                                       .micro = micro};
        double *list = MEM_NEW(double, 2 * p);
        for (int32_t s = 0; s < 2 * p; s++) list[s] = 1;
        if (request.n_chunks == 2) { /* an even cut of so many stages leaves the first and the last empty */
          request.partition.kind = PARAMS_CUT_LIST;
          request.partition.blocks = list;
          request.partition.n = 2 * p;
        }
        int64_t *peaks = find_peaks(t->planner, &request);
        for (int32_t s = 0; peaks && s < p; s++) {
          int64_t right = 4 * 4 * PARAMETERS + (int64_t)t->expect(s, p, m) * 4 * KEPT / 2;
          T_CHECK(peaks[s] == right, "%s, kept to the %s pass, stage %d of %d, %d micro-batches: %lld, not %lld",
                  t->planner, t->to_weight ? "weight" : "input", s, p, m, (long long)peaks[s], (long long)right);
        }
        T_CHECK(peaks, "%s declines", t->planner);
        mem_free(peaks);
        mem_free(list);
        mem_free(micro);
        cost_destroy(&cost);
        model_destroy(&model);
      }
}

/* ---- the model's own layout without workspaces ---- */

static bool is_workspace(const struct dag_buffer *b) { return b->kind == BUFFER_WORK || b->kind == BUFFER_GRAD_WEIGHT; }

/* By going through a rank's compute nodes and the rows of its buffers, slowly. */
static int64_t measure_rest(const struct dag *dag, int32_t rank) {
  const int32_t *offset = &dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  int64_t used = dag->device_static[rank], peak = used;
  for (int32_t k = offset[0]; k < offset[1]; k++) {
    for (int64_t i = dag->buffer_offset[rank]; i < dag->buffer_offset[rank + 1]; i++)
      if (!is_workspace(&dag->buffers[i]) && dag->buffers[i].alloc == dag->stream_nodes[k])
        used += dag->buffers[i].bytes;
    if (used > peak) peak = used;
    for (int64_t i = dag->buffer_offset[rank]; i < dag->buffer_offset[rank + 1]; i++)
      if (!is_workspace(&dag->buffers[i]) && dag->buffers[i].release == dag->stream_nodes[k])
        used -= dag->buffers[i].bytes;
  }
  return peak;
}

static void give_own_sizes(struct model *model) {
  for (int32_t l = 0; l < model->n_layers; l++) {
    struct footprint f;
    struct layer *layer = &model->layers[l];
    footprint_layer(model, layer, micro_shape_fill(2, LENGTH), 0, 0, &f);
    layer->sizes = (struct layer_sizes){.kept = f.bytes[REGION_KEEP_INPUT] + f.bytes[REGION_KEEP_WEIGHT],
                                        .kept_weight = f.bytes[REGION_KEEP_WEIGHT],
                                        .parameters = layer->n_floats * (int64_t)sizeof(float),
                                        .output = footprint_boundary(model, micro_shape_fill(2, LENGTH))};
  }
  for (int32_t l = 0; l < model->n_layers; l++) model->layers[l].has_sizes = true;
}

static void compare_layouts(const char *planner, int blocks, int32_t p, int32_t m) {
  struct model *model = make_tiny_model(blocks, false), *given = make_tiny_model(blocks, false);
  struct micro_shape *micro = make_micros(m);
  struct plan_request request = {.model = model,
                                 .params = get_test_params(),
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .n_chunks = get_test_chunks(planner),
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = m,
                                 .micro = micro};
  struct plan *plan;
  struct dag *own, *sized;
  give_own_sizes(given);
  T_CHECK(!planner_run(planner, &request, &plan), "%s: %s", planner, error_text());
  T_CHECK(!dag_build(plan, model, &own) && !dag_build(plan, given, &sized) && !dag_check(sized, plan), "%s",
          error_text());
  for (int32_t r = 0; r < p; r++)
    T_CHECK(dag_get_peak(sized, r, NULL) == measure_rest(own, r),
            "%s, %d stages, %d micro-batches, rank %d: %lld, not %lld", planner, p, m, r,
            (long long)dag_get_peak(sized, r, NULL), (long long)measure_rest(own, r));
  T_CHECK(sized->n_nodes == own->n_nodes, "nodes");
  dag_destroy(&own);
  dag_destroy(&sized);
  plan_destroy(&plan);
  mem_free(micro);
  model_destroy(&model);
  model_destroy(&given);
}

static void test_own_layout(void) {
  for (const struct planner *const *k = planner_get_all(); *k; k++) {
    if (!get_test_chunks(planner_get_name(*k))) continue;
    for (int32_t p = 1; p <= 4; p++) compare_layouts(planner_get_name(*k), 8, p, 2 * p + 1);
  }
}

/* ---- limits ---- */

static void test_recompute(void) {
  enum { P = 4, M = 8 };
  const struct table table = {KEPT, WEIGHT, PARAMETERS, 0};
  struct cost *cost;
  struct model *model = make_sized(P, &table, &cost, P);
  struct micro_shape *micro = make_micros(M);
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) ops[l] = recompute_get_ops(&model->layers[l], PARAMS_RECOMPUTE_FULL);
  int64_t fixed = 4 * 2 * PARAMETERS, limits[P], each = 2 * KEPT;
  struct plan_request request = {.model = model,
                                 .params = get_test_params(),
                                 .cost = cost,
                                 .n_ranks = P,
                                 .n_stages = P,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = M,
                                 .micro = micro,
                                 .device_limit = limits,
                                 .recompute_ops = ops,
                                 .n_recompute_stages = PLAN_ALL_STAGES,
                                 .recompute_as_needed = true};
  /* Room for so many activations: as many of the first stages recompute as have more in flight. */
  for (int room = 1; room <= P; room++) {
    struct plan *plan;
    for (int r = 0; r < P; r++) limits[r] = fixed + room * each;
    T_CHECK(!request_plan("1f1b", &request, &plan, NULL), "room for %d: %s", room, error_text());
    for (int32_t s = 0; s < P; s++)
      T_CHECK(plan_recomputes(plan, s, 0) == (s < P - room), "room for %d: stage %d", room, s);
    plan_destroy(&plan);
  }
  for (int r = 0; r < P; r++) limits[r] = fixed + each - 1;
  struct plan *none;
  T_CHECK(request_plan("1f1b", &request, &none, NULL) == STATUS_MISTAKE, "less than a backward needs is enough");
  error_clear();
  mem_free(ops);
  mem_free(micro);
  cost_destroy(&cost);
  model_destroy(&model);
}

/* Two stages of four layers: the first holds two micro-batches, a backward has its own whole again, so that of d layers
 * discarded d - of twice four - are saved. */
static void test_adapipe(void) {
  enum { P = 2, LAYERS = 4 };
  const struct table table = {KEPT, WEIGHT, PARAMETERS, 0};
  struct cost *cost;
  struct model *model = make_sized(P * LAYERS / 2, &table, &cost, P);
  struct micro_shape *micro = make_micros(5);
  int64_t limits[P] = {0, INT64_MAX};
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) ops[l] = recompute_get_ops(&model->layers[l], PARAMS_RECOMPUTE_FULL);
  struct plan_request request = {.model = model,
                                 .params = get_test_params(),
                                 .cost = cost,
                                 .n_ranks = P,
                                 .n_stages = P,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = 5,
                                 .micro = micro,
                                 .device_limit = limits,
                                 .recompute_ops = ops,
                                 .n_recompute_stages = PLAN_ALL_STAGES};
  for (int d = 0; d <= LAYERS; d++) {
    struct plan *plan;
    int n = 0;
    limits[0] = 4 * LAYERS * PARAMETERS + (2 * LAYERS - d) * KEPT;
    T_CHECK(!request_plan("adapipe", &request, &plan, NULL), "%d layers: %s", d, error_text());
    for (int32_t l = 0; l < plan->n_layers; l++) n += plan_get_discarded(plan, l, 0) != 0;
    T_CHECK(n == d, "%d layers are discarded, not %d", n, d);
    plan_destroy(&plan);
  }
  mem_free(ops);
  mem_free(micro);
  cost_destroy(&cost);
  model_destroy(&model);
}

int main(void) {
  if (chdir(scratch_make())) return 1;
  test_textbook();
  test_own_layout();
  test_recompute();
  test_adapipe();
  if (chdir("..")) return 1;
  scratch_remove();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
