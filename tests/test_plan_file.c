/* plan.h5 there and back: random plans with split backwards, chunks, recomputation and moves, predicted times and
 * costs, and files whose tables were changed. */
#include <unistd.h>

#include "cost_case.h"
#include "model/footprint.h"
#include "plan/recompute.h"
#include "random_moves.h"
#include "record/plan_file.h"
#include "record/trace_read.h"
#include "setup/predict.h"
#include "store/h5.h"

static const char path[] = "plan.h5";

static void put_recompute(struct plan *plan, const struct model *model) {
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  bool stages[8];
  for (int s = 0; s < 8; s++) stages[s] = draw(2);
  for (int32_t l = 0; l < model->n_layers; l++)
    ops[l] = recompute_get_ops(&model->layers[l], (enum params_recompute)draw(PARAMS_recompute_COUNT));
  recompute_put(plan, ops, stages);
  plan->recompute_early = draw(2);
  mem_free(ops);
}

static void write_plan(const struct plan *plan, const struct model *model, const struct plan_file_prediction *p) {
  struct dag *dag = NULL;
  int status = dag_build(plan, model, &dag);
  struct plan_file_content content = {plan, dag, model, "run:\n", "{\"a\": 1}", p};
  if (!status) status = plan_file_write(path, &content);
  T_CHECK(!status, "%s", error_text());
  dag_destroy(&dag);
}

static int load_plan(struct plan **plan) {
  struct plan_file file;
  *plan = NULL;
  int status = plan_file_read(path, &file);
  if (!status) status = plan_file_load(path, &file, plan);
  plan_file_fini(&file);
  return status;
}

/* Makes the file one of version 5, which had no parts, or of version 4: that had neither the group /plan nor the
 * columns that came later. */
static int age_file(int version) {
  static const char *const newer[] = {"/plan", "/microbatches/pairs", "/nodes/after"};
  struct h5_file *h5;
  int status = h5_open(path, true, &h5);
  if (status) return status;
  for (size_t i = 0; i < sizeof newer / sizeof *newer && !status && version < 5; i++) status = h5_remove(h5, newer[i]);
  if (!status) status = h5_write_int(h5, "/", "version", version);
  if (!status) return h5_close(&h5);
  h5_discard(&h5);
  return status;
}

static int load_version(int version, struct plan **plan) {
  *plan = NULL;
  int status = age_file(version);
  return status ? status : load_plan(plan);
}

/* All that is hashed, byte by byte. */
static void check_same(const struct plan *a, const struct plan *b) {
  size_t n_a, n_b;
  void *x = plan_pack(a, &n_a), *y = plan_pack(b, &n_b);
  T_CHECK(n_a == n_b && !memcmp(x, y, n_a), "%zu and %zu bytes", n_a, n_b);
  mem_free(x);
  mem_free(y);
}

static void cut(struct plan *plan, const struct model *model) {
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t s = 0; s < plan->n_stages; s++) stages[s] = draw(3) > 0;
  if (plan->n_recompute > 0) recompute_cut(plan, model, stages);
  T_CHECK(plan_check(plan) == STATUS_OK, "%s", error_text());
  mem_free(stages);
}

static void test_random_plans(const struct model *model) {
  int n_recompute = 0, n_moving = 0, n_parts = 0;
  for (int trial = 0; trial < 80; trial++) {
    struct plan *plan = make_random_plan(model), *back;
    for (int32_t s = 0; s < plan->n_stages; s++) plan->pace[s] = (struct plan_pace){draw(9), draw(9), draw(9), draw(9)};
    if (!plan->forward_only) put_recompute(plan, model);
    size_t name = strlen(plan->planner) + 1; /* a longer name was there before, which is no part of the plan */
    if (draw(2)) memset(plan->planner + name, 'x', sizeof plan->planner - name);
    if (draw(2)) plan->device_limit[0] = 1 + draw(1000000);
    if (trial % 4) put_possible_moves(plan, model, 2);
    if (trial % 3 == 0) cut(plan, model);
    n_recompute += plan->n_recompute > 0;
    n_parts += plan->n_parts > 0;
    n_moving += plan->n_moves > 0;
    plan_freeze(plan);
    write_plan(plan, model, NULL);
    T_CHECK(load_plan(&back) == STATUS_OK, "trial %d: %s", trial, error_text());
    if (back) check_same(plan, back);
    plan_destroy(&back);
    for (int version = 5; version >= 4 && plan->n_parts == 0; version--) {
      T_CHECK(load_version(version, &back) == STATUS_OK, "trial %d: %s", trial, error_text());
      if (back) check_same(plan, back);
      plan_destroy(&back);
    }
    plan_destroy(&plan);
  }
  T_CHECK(n_recompute > 5, "%d plans recomputed", n_recompute);
  T_CHECK(n_parts > 5, "%d plans had parts", n_parts);
  T_CHECK(n_moving > 5, "blocks moved in %d plans", n_moving);
}

/* Stage 0 of four keeps at most three of its blocks of 1F1B: one is away at a time, as a whole. */
static void test_swap(void) {
  struct model *model = make_tiny_model(6, true);
  struct plan *plan = make_plan(model, "bpipe", 4, 8, true), *back;
  struct h5_file *h5;
  int32_t stage, blocks, peer;
  double fraction;
  int64_t n;
  write_plan(plan, model, NULL);
  T_CHECK(!load_plan(&back) && back && back->hash == plan->hash && back->n_moves == plan->n_moves, "%s", error_text());
  plan_destroy(&back);
  T_CHECK(!h5_open(path, false, &h5), "%s", error_text());
  T_CHECK(!h5_table_get_rows(h5, "/swap", "stage", &n) && n == 1, "%lld rows of /swap", (long long)n);
  T_CHECK(!h5_table_read(h5, "/swap", "stage", H5_INT32, 0, 1, &stage) && stage == 0, "stage %d", stage);
  T_CHECK(!h5_table_read(h5, "/swap", "blocks", H5_INT32, 0, 1, &blocks) && blocks == 1, "blocks %d", blocks);
  T_CHECK(!h5_table_read(h5, "/swap", "peer", H5_INT32, 0, 1, &peer) && peer == 3, "peer %d", peer);
  int status = h5_table_read(h5, "/swap", "fraction", H5_FLOAT64, 0, 1, &fraction);
  T_CHECK(!status && fraction == 1, "fraction %g", fraction);
  T_CHECK(!h5_table_get_rows(h5, "/moves", "stage", &n) && n == plan->n_moves, "%lld rows of /moves", (long long)n);
  h5_discard(&h5);
  plan_destroy(&plan);
  model_destroy(&model);
}

/* Rows of /moves and /moved, from which version 4 is read, that are no longer those of the plan. */
static void test_changed_moves(void) {
  struct model *model = make_tiny_model(6, true);
  static const char *const wanted[] = {"/moved names no activation", "/moved names no activation", "/moved has rows",
                                       "no such tier", "there is no such rank"};
  struct plan *plan = make_plan(model, "bpipe", 4, 8, true), *back;
  write_plan(plan, model, NULL);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    struct plan_file file;
    T_CHECK(!plan_file_read(path, &file) && file.n_moves > 1 && file.n_moved > 1, "%s", error_text());
    file.version = 4;
    switch (i) {
    case 0: file.moved[1].act = LAYER_MAX_ACTS; break;
    case 1: file.moved[1].layer = model->n_layers; break;
    case 2: file.n_moves = 0; break;
    case 3: file.moves[1].tier = 100; break;
    default: file.moves[1].peer = -2; break;
    }
    T_CHECK(plan_file_load(path, &file, &back) == STATUS_MISTAKE && !back, "case %zu is loaded", i);
    T_CHECK(strstr(error_text(), wanted[i]) && strstr(error_text(), path), "case %zu: %s", i, error_text());
    plan_file_fini(&file);
  }
  plan_destroy(&plan);
  model_destroy(&model);
}

static void test_prediction(const struct model *model) {
  struct plan *plan = make_plan(model, "1f1b", 2, 3, true);
  struct dag *dag = NULL;
  T_CHECK(!dag_build(plan, model, &dag), "%s", error_text());
  double *times = MEM_NEW(double, 2 * dag->n_nodes);
  for (int32_t v = 0; v < 2 * dag->n_nodes; v++) times[v] = 0.25 * v;
  struct plan_file_cost costs[] = {{0, 0, OP_EMBED, 1, 2, 3, 64}, {1, 1, OP_MATMUL, 0.5, 0.25, 0.125, 128}};
  int32_t *after = MEM_NEW(int32_t, dag->n_nodes);
  for (int32_t v = 0; v < dag->n_nodes; v++) after[v] = v - 1;
  struct plan_file_prediction p = {times, times + dag->n_nodes, after, 7.5, 4, "preset cpu", costs, 2};
  write_plan(plan, model, &p);
  struct plan_file file;
  T_CHECK(!plan_file_read(path, &file) && file.predicted_step_s == 7.5 && file.time_scale == 4, "%s", error_text());
  T_CHECK(!strcmp(file.model_json, "{\"a\": 1}") && file.clip && !file.forward_only, "attributes");
  plan_file_fini(&file);
  struct node_row *nodes;
  int64_t n;
  T_CHECK(!trace_read_nodes(path, 0, &nodes, &n) && n == dag->n_nodes, "%s", error_text());
  for (int64_t v = 0; v < n; v++)
    T_CHECK(nodes[v].start_s == 0.25 * (double)v && nodes[v].after == v - 1 && nodes[v].end_s == 0.25 * (double)(v + n),
            "node %lld", (long long)v);
  mem_free(nodes);
  struct h5_file *h5;
  double weight[2];
  int64_t kept[2];
  T_CHECK(!h5_open(path, false, &h5), "%s", error_text());
  T_CHECK(!h5_table_read(h5, "/costs", "weight_s", H5_FLOAT64, 0, 2, weight) && weight[1] == 0.125, "weight_s");
  T_CHECK(!h5_table_read(h5, "/costs", "bytes_kept", H5_INT64, 0, 2, kept) && kept[1] == 128, "bytes_kept");
  h5_discard(&h5);
  mem_free(times);
  mem_free(after);
  dag_destroy(&dag);
  plan_destroy(&plan);
}

/* The bytes that the ops of a layer are said to keep are those that it takes in the layout, with four-byte and two-byte
 * numbers, whatever is discarded. */
static void test_kept(struct model *model) {
  struct cost *cost = make_cost_case("cost: {source: uniform, uniform: {forward_ms: 3}}\n", model, 3);
  int64_t sums[2] = {0};
  for (int trial = 0; trial < 12; trial++) {
    model->half = trial % 2;
    struct plan *plan = make_plan(model, "1f1b", 3, 3, true);
    if (trial > 1) put_recompute(plan, model);
    int32_t largest = 0;
    for (int32_t i = 1; i < plan->n_micro; i++)
      if (micro_shape_count_positions(plan->micro[i]) > micro_shape_count_positions(plan->micro[largest])) largest = i;
    struct prediction prediction;
    T_CHECK(!predict_plan(plan, model, cost, 1, 1, &prediction), "%s", error_text());
    T_CHECK(!predict_write(&prediction, model, cost, path, "run:\n", "{}"), "%s", error_text());
    struct h5_file *h5;
    int64_t n = 0, row = 0;
    for (int32_t l = 0; l < model->n_layers; l++) n += model->layers[l].n_ops;
    int64_t *kept = MEM_NEW(int64_t, n);
    T_CHECK(!h5_open(path, false, &h5), "%s", error_text());
    T_CHECK(!h5_table_read(h5, "/costs", "bytes_kept", H5_INT64, 0, n, kept), "%s", error_text());
    for (int32_t l = 0; l < model->n_layers; l++) {
      struct footprint f;
      int64_t sum = 0;
      footprint_layer(model, &model->layers[l], plan->micro[largest], plan_get_discarded(plan, l, largest), 0, &f);
      for (int32_t o = 0; o < model->layers[l].n_ops; o++) sum += kept[row++];
      T_CHECK(sum == f.bytes[REGION_KEEP_INPUT] + f.bytes[REGION_KEEP_WEIGHT], "half %d, layer %d: %lld", model->half,
              l, (long long)sum);
      if (trial < 2) sums[trial] += sum;
    }
    h5_discard(&h5);
    mem_free(kept);
    predict_fini(&prediction);
  }
  T_CHECK(sums[1] > 0 && sums[1] < sums[0], "two-byte numbers take %lld of %lld", (long long)sums[1],
          (long long)sums[0]);
  model->half = false;
  cost_destroy(&cost);
}

/* A file with another hash, flag or version is refused by name. */
static void test_changed(const struct model *model) {
  static const struct {
    const char *object, *name;
    int64_t value;
    const char *wanted;
  } changes[] = {{"/", "hash", 5, "different plans"},
                 {"/", "clip", 0, "different plans"},
                 {"/", "version", 9, "version 9"},
                 {"/", "version", 3, "version 3"},
                 {"/plan", "n_ranks", 3, "/plan/order_offset has 3 rows, should have 4"},
                 {"/plan", "n_ranks", 0, "should have 1"},
                 {"/plan", "n_micro", -1, "n_micro is below zero"},
                 {"/plan", "n_micro", (int64_t)1 << 32, "n_micro is 4294967296"},
                 {"/plan", "n_actions", (int64_t)1 << 50, "/plan/order has 12 rows"}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    struct plan *plan = make_plan(model, "1f1b", 2, 3, true), *back;
    write_plan(plan, model, NULL);
    struct h5_file *h5;
    int status = h5_open(path, true, &h5);
    if (!status) status = h5_write_int(h5, changes[i].object, changes[i].name, changes[i].value);
    if (!status) status = h5_close(&h5);
    T_CHECK(!status, "%s", error_text());
    T_CHECK(load_plan(&back) == STATUS_MISTAKE && !back, "%s", changes[i].name);
    T_CHECK(strstr(error_text(), changes[i].wanted) && strstr(error_text(), path), "%s", error_text());
    plan_destroy(&plan);
  }
}

int main(void) {
  char folder[] = "test_plan_file-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder)) return 1;
  struct model *model = make_tiny_model(3, true);
  test_random_plans(model);
  test_prediction(model);
  test_kept(model);
  test_changed(model);
  test_swap();
  test_changed_moves();
  model_destroy(&model);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  T_CHECK(h5_balance() == 0, "%lld objects open", (long long)h5_balance());
  unlink(path);
  if (chdir("..") || rmdir(folder)) return 1;
  return t_end();
}
