/* Plans: partition, orders, planners, the check, packing. */
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"
#include "plan/plan.h"
#include "plan/recompute.h"
#include "planner/planner.h"
#include "planner_cases.h"
#include "tiny_model.h"

enum { MAX_MICRO = 32 };

static struct micro_shape micros[MAX_MICRO];

static struct plan_request make_request(const struct model *model, int32_t n_stages, int32_t n_micro) {
  for (int32_t i = 0; i < n_micro; i++) micros[i] = micro_shape_make(1 + i % 3, 8 + i, 7, 6);
  return (struct plan_request){.model = model,
                               .params = get_test_params(),
                               .n_ranks = n_stages,
                               .n_stages = n_stages,
                               .n_micro = n_micro,
                               .micro = micros};
}

static bool says(const char *part) { return strstr(error_text(), part) != NULL; }

/* ---- partition ---- */

static int32_t count_blocks(const struct model *model, const struct plan_stage *stage) {
  int32_t mixers = 0;
  for (int32_t k = 0; k < stage->n_layers; k++) mixers += model->layers[stage->first_layer + k].kind == LAYER_ATTENTION;
  return mixers;
}

/* No layer is lost or doubled, blocks are whole, sizes differ by at most one, the larger ones later. */
static void check_even(const struct model *model, const struct plan *plan, int n_blocks) {
  int32_t next = 0, p = plan->n_stages, sum = 0, smallest = n_blocks, largest = 0, before = 0;
  int64_t parameters = 0;
  bool ascending = true;
  for (int32_t s = 0; s < p; s++) {
    const struct plan_stage *stage = &plan->stages[s];
    T_CHECK(stage->first_layer == next && stage->n_layers > 0, "L %d p %d stage %d", n_blocks, p, s);
    for (int32_t k = 0; k < stage->n_layers; k++) parameters += model->layers[next + k].n_parameters;
    next += stage->n_layers;
    int32_t blocks = count_blocks(model, stage);
    T_CHECK(stage->n_layers == 2 * blocks + (s == 0) + (s == p - 1), "whole blocks: L %d p %d stage %d", n_blocks, p,
            s);
    sum += blocks;
    ascending = ascending && blocks >= before;
    before = blocks;
    if (blocks < smallest) smallest = blocks;
    if (blocks > largest) largest = blocks;
  }
  T_CHECK(next == model->n_layers && next == 2 * n_blocks + 2 && sum == n_blocks, "L %d p %d: %d layers", n_blocks, p,
          next);
  T_CHECK(parameters == model->n_parameters, "L %d p %d: %lld parameters", n_blocks, p, (long long)parameters);
  T_CHECK(largest - smallest <= 1 && (ascending || p == n_blocks + 2), "L %d p %d", n_blocks, p);
}

static void test_even_partitions(void) {
  for (int n_blocks = 1; n_blocks <= 16; n_blocks++) {
    struct model *model = make_tiny_model(n_blocks, n_blocks % 2);
    for (int32_t p = 1; p <= 6; p++)
      for (const struct planner *const *planner = planner_get_all(); *planner; planner++) {
        struct plan_request request = make_request(model, p, 3);
        struct plan *plan;
        request.n_chunks = get_test_chunks(planner_get_name(*planner));
        if (request.n_chunks == 0) continue;
        int status = planner_run(planner_get_name(*planner), &request, &plan);
        if (p * request.n_chunks > n_blocks + 2) {
          char text[64];
          snprintf(text, sizeof text, "at most %d stages", n_blocks + 2);
          T_CHECK(status == STATUS_MISTAKE && says(text) && !plan, "L %d p %d: %s", n_blocks, p, error_text());
          continue;
        }
        T_CHECK(status == STATUS_OK, "L %d p %d: %s", n_blocks, p, error_text());
        check_even(model, plan, n_blocks);
        T_CHECK(!strcmp(plan->planner, planner_get_name(*planner)) && plan->hash, "named and frozen");
        plan_destroy(&plan);
      }
    model_destroy(&model);
  }
}

static void test_known_partitions(void) {
  static const struct {
    int n_blocks, p, blocks[4];
  } known[] = {{7, 2, {3, 4}}, {30, 4, {7, 7, 8, 8}}, {2, 4, {0, 1, 1, 0}}, {2, 3, {0, 1, 1}}, {1, 3, {0, 1, 0}}};
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    struct model *model = make_tiny_model(known[k].n_blocks, false);
    struct plan_request request = make_request(model, known[k].p, 1);
    struct plan_stage stages[4];
    T_CHECK(partition_make(&request, stages) == STATUS_OK, "%s", error_text());
    for (int s = 0; s < known[k].p; s++)
      T_CHECK(count_blocks(model, &stages[s]) == known[k].blocks[s], "L %d p %d stage %d: %d", known[k].n_blocks,
              known[k].p, s, count_blocks(model, &stages[s]));
    model_destroy(&model);
  }
}

static void test_listed_partitions(void) {
  static const struct {
    int32_t p, n;
    double list[4];
    const char *refusal; /* NULL: made */
    int32_t layers[4];
  } cases[] = {
      {2, 2, {3, 4}, NULL, {7, 9}},
      {2, 2, {3, 5}, "sum 8, model has 7", {0}},
      {2, 2, {3, 3.5}, "sum 6.5, model has 7", {0}},
      {2, 2, {2.5, 4.5}, NULL, {6, 10}},
      {3, 3, {0, 7, 0}, NULL, {1, 14, 1}},
      {3, 3, {0.5, 6, 0.5}, NULL, {2, 12, 2}},
      {3, 3, {3, 0, 4}, "entry 2 is 0", {0}},
      {2, 2, {2.25, 4.75}, "entry 1 is 2.25", {0}},
      {2, 2, {8, -1}, "entry 2 is -1", {0}},
      {2, 2, {NAN, 7}, "entry 1 is", {0}},
      {2, 2, {INFINITY, 7}, "entry 1 is inf", {0}},
      {3, 2, {3, 4}, "2 entries, pipeline.stages is 3", {0}},
      {1, 1, {7}, NULL, {16}},
  };
  struct model *model = make_tiny_model(7, true);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    struct plan_request request = make_request(model, cases[k].p, 2);
    request.partition.kind = PARAMS_CUT_LIST;
    request.partition.blocks = cases[k].list;
    request.partition.n = cases[k].n;
    struct plan *plan;
    int status = planner_run("1f1b", &request, &plan);
    if (cases[k].refusal) {
      T_CHECK(status == STATUS_MISTAKE && says(cases[k].refusal) && !plan, "case %zu: %s", k, error_text());
      continue;
    }
    T_CHECK(status == STATUS_OK, "case %zu: %s", k, error_text());
    for (int32_t s = 0; s < cases[k].p && plan; s++)
      T_CHECK(plan->stages[s].n_layers == cases[k].layers[s], "case %zu stage %d: %d layers", k, s,
              plan->stages[s].n_layers);
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

/* ---- orders and planners ---- */

static void write_order(const struct plan *plan, int32_t rank, char *text, size_t size) {
  size_t n = 0;
  text[0] = 0;
  for (int64_t k = plan->order_offset[rank]; k < plan->order_offset[rank + 1] && n < size; k++)
    n += (size_t)snprintf(text + n, size - n, "%s%s%d", k > plan->order_offset[rank] ? " " : "",
                          node_kind_get_name(plan->order[k].kind), plan->order[k].micro);
}

static void test_orders(void) {
  static const struct {
    const char *planner;
    int32_t p, m, rank;
    const char *order;
  } known[] = {
      {"1f1b", 4, 8, 0, "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7"},
      {"1f1b", 4, 8, 1, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7"},
      {"1f1b", 4, 8, 3, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"},
      {"auto", 4, 2, 0, "F0 F1 B0 B1"},
      {"1f1b", 4, 1, 0, "F0 B0"},
      {"gpipe", 3, 4, 0, "F0 F1 F2 F3 B0 B1 B2 B3"},
      {"gpipe", 3, 4, 2, "F0 F1 F2 F3 B0 B1 B2 B3"},
  };
  struct model *model = make_tiny_model(8, false);
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    struct plan_request request = make_request(model, known[k].p, known[k].m);
    struct plan *plan;
    T_CHECK(planner_run(known[k].planner, &request, &plan) == STATUS_OK, "%s", error_text());
    char text[256];
    write_order(plan, known[k].rank, text, sizeof text);
    T_CHECK(!strcmp(text, known[k].order), "%s: %s", known[k].planner, text);
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

static void test_declining(void) {
  struct model *model = make_tiny_model(4, false);
  struct plan_request request = make_request(model, 2, 2);
  struct plan *plan;
  T_CHECK(planner_run("zigzag", &request, &plan) == STATUS_MISTAKE && says("'zigzag'") && says("auto, gpipe, 1f1b") &&
              !plan,
          "%s", error_text());
  request.n_ranks = 3;
  T_CHECK(planner_run("gpipe", &request, &plan) == STATUS_MISTAKE && says("ranks are 3") && !plan, "%s", error_text());
  request = make_request(model, 2, 0);
  T_CHECK(planner_run("1f1b", &request, &plan) == STATUS_MISTAKE && says("global_batch") && !plan, "%s", error_text());
  request = make_request(model, 0, 1);
  T_CHECK(planner_run("1f1b", &request, &plan) == STATUS_MISTAKE && !plan, "%s", error_text());
  for (int id = 0; id < PARAMS_planner_COUNT; id++) {
    const char *name = params_name_choice(PARAM_pipeline_planner, id);
    const struct planner *found = planner_find(name);
    T_CHECK(found && (id == PARAMS_PLANNER_AUTO || (int)found->id == id), "there is no planner %s", name);
  }
  T_CHECK(planner_find("auto") == planner_find("1f1b") && !planner_find(""), "auto is 1f1b");
  model_destroy(&model);
}

/* ---- the check ---- */

static struct plan *make_plan(const struct model *model, const char *planner, int32_t p, int32_t m) {
  struct plan_request request = make_request(model, p, m);
  int64_t limits[8];
  for (int r = 0; r < 8; r++) limits[r] = 1000000 + r;
  request.device_limit = limits;
  request.clip = true;
  struct plan *plan;
  T_CHECK(planner_run(planner, &request, &plan) == STATUS_OK, "%s", error_text());
  return plan;
}

/* The order of rank 1 of 3 with 4 micro-batches is F0 F1 B0 F2 B1 F3 B2 B3. */
static struct plan_action *get_action(struct plan *plan, int k) { return &plan->order[plan->order_offset[1] + k]; }

static void swap_actions(struct plan *plan, int j, int k) {
  struct plan_action kept = *get_action(plan, j);
  *get_action(plan, j) = *get_action(plan, k);
  *get_action(plan, k) = kept;
}

static void shift_stage(struct plan *p) { p->stages[1].first_layer++; }
static void lose_layer(struct plan *p) { p->stages[2].n_layers--; }
static void add_layer(struct plan *p) { p->stages[2].n_layers++; }
static void empty_stage(struct plan *p) { p->stages[1].n_layers = 0; }
static void move_stage(struct plan *p) { p->replica_rank[1] = 3; }
static void swap_stages(struct plan *p) { p->replica_rank[1] = 2, p->replica_rank[2] = 1; }
static void no_micro(struct plan *p) { p->n_micro = 0; }
static void no_rows(struct plan *p) { p->micro[1].rows = 0; }
static void no_pairs(struct plan *p) { p->micro[0].pairs = 0; }
static void too_many_pairs(struct plan *p) { p->micro[1].pairs = 2 * 9 * 9 + 1; }
static void too_many_tokens(struct plan *p) { p->micro[0].tokens = 9; }
static void limit_below_zero(struct plan *p) { p->device_limit[2] = -1; }
static void two_replicas(struct plan *p) { p->replica_offset[1] = 2; }
static void unknown_kind(struct plan *p) { get_action(p, 0)->kind = NODE_U; }
static void unknown_stage(struct plan *p) { get_action(p, 0)->stage = 3; }
static void unknown_micro(struct plan *p) { get_action(p, 7)->micro = 4; }
static void negative_micro(struct plan *p) { get_action(p, 0)->micro = -1; }
static void other_stage(struct plan *p) { get_action(p, 0)->stage = 0; }
static void swap_forwards(struct plan *p) { swap_actions(p, 0, 1); }
static void swap_backwards(struct plan *p) { swap_actions(p, 2, 4); }
static void early_backward(struct plan *p) { swap_actions(p, 0, 2); }
static void twice(struct plan *p) { *get_action(p, 1) = *get_action(p, 0); }
static void no_weight_pass(struct plan *p) { get_action(p, 7)->kind = NODE_I; }
static void no_input_pass(struct plan *p) { get_action(p, 7)->kind = NODE_W; }
static void weight_out_of_order(struct plan *p) { get_action(p, 2)->kind = NODE_I; }
static void one_less(struct plan *p) { p->order_offset[3]--; }
static void evaluates(struct plan *p) { p->forward_only = true; }
static void endless_name(struct plan *p) { memset(p->planner, 'x', sizeof p->planner); }

/* Stage 1 of 3, cut: F0 R0 B0 ... become F0, R0 and B0 of the last part, R0 and B0 of the first part, and so on. */
static struct plan_part *get_part(struct plan *p, int k) { return &p->parts[p->order_offset[1] + k]; }

static int find_part(struct plan *p, enum node_kind kind) {
  int k = 0;
  while (get_action(p, k)->kind != (int32_t)kind || get_part(p, k)->n_layers == 0) k++;
  return k;
}

static void swap_parts(struct plan *p, int j, int k) {
  struct plan_part kept = *get_part(p, j);
  *get_part(p, j) = *get_part(p, k);
  *get_part(p, k) = kept;
}

static void part_before_rebuilt(struct plan *p) { get_action(p, find_part(p, NODE_R))->kind = NODE_B; }
static void part_out_of_order(struct plan *p) {
  int k = find_part(p, NODE_R);
  swap_parts(p, k, k + 2);
}
static void part_elsewhere(struct plan *p) { get_part(p, find_part(p, NODE_R))->first_layer = 0; }
static void part_of_forward(struct plan *p) { *get_part(p, 0) = *get_part(p, find_part(p, NODE_R)); }
static void part_rebuilt_twice(struct plan *p) { get_action(p, find_part(p, NODE_B))->kind = NODE_R; }
static void whole_between(struct plan *p) { get_part(p, find_part(p, NODE_B) + 1)->n_layers = 0; }
static void other_micro(struct plan *p) { get_action(p, find_part(p, NODE_B))->micro = 2; }
static void too_few_parts(struct plan *p) { p->n_parts--; }

/* A backward that is cut into parts. */
static void test_parts(void) {
  static const struct {
    void (*mutate)(struct plan *plan);
    const char *reason;
  } mutations[] = {{part_before_rebuilt, "before its recomputation"},
                   {part_out_of_order, "from the last layers to the first"},
                   {part_elsewhere, "its layers are not its stage's"},
                   {part_of_forward, "only recomputations"},
                   {part_rebuilt_twice, "rebuilt twice"},
                   {whole_between, "between the parts"},
                   {other_micro, "between the parts"},
                   {too_few_parts, "n_parts"}};
  struct model *model = make_tiny_model(9, false);
  struct plan *plan = make_plan(model, "1f1b", 3, 4);
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  bool stages[3] = {true, true, true};
  for (int32_t l = 0; l < model->n_layers; l++) ops[l] = recompute_get_ops(&model->layers[l], PARAMS_RECOMPUTE_FULL);
  recompute_put(plan, ops, stages);
  recompute_cut(plan, model, stages);
  T_CHECK(plan_check(plan) == STATUS_OK && plan->n_parts == plan->n_actions, "%s", error_text());
  for (size_t k = 0; k < sizeof mutations / sizeof mutations[0]; k++) {
    struct plan *copy = plan_dup(plan);
    mutations[k].mutate(copy);
    T_CHECK(plan_check(copy) == STATUS_FAILED && says(mutations[k].reason), "mutation %zu (%s): %s", k,
            mutations[k].reason, error_text());
    plan_destroy(&copy);
  }
  mem_free(ops);
  plan_destroy(&plan);
  model_destroy(&model);
}

static void test_mutations(void) {
  static const struct {
    void (*mutate)(struct plan *plan);
    const char *reason;
  } mutations[] = {
      {shift_stage, "stage 1 starts at layer"},
      {lose_layer, "model has"},
      {add_layer, "stage 2 has"},
      {empty_stage, "stage 1 has 0 layers"},
      {move_stage, "stage 1 is on rank 3"},
      {swap_stages, "does not hold the stage"},
      {no_micro, "0 micro-batches"},
      {no_rows, "micro-batch 1 has 0 rows"},
      {too_many_tokens, "9 tokens"},
      {no_pairs, "0 pairs"},
      {too_many_pairs, "pairs"},
      {limit_below_zero, "rank 2 has a device limit of -1"},
      {two_replicas, "replicas"},
      {unknown_kind, "its kind must be"},
      {unknown_stage, "no such stage"},
      {unknown_micro, "no such micro-batch"},
      {negative_micro, "no such micro-batch"},
      {other_stage, "does not hold the stage"},
      {swap_forwards, "ascending order"},
      {swap_backwards, "ascending order"},
      {early_backward, "before its forward"},
      {twice, "each once"},
      {no_weight_pass, "3 weight passes"},
      {no_input_pass, "before its input pass"},
      {weight_out_of_order, "weight passes must go in ascending order"},
      {one_less, "of 4 micro-batches"},
      {evaluates, "forwards only"},
      {endless_name, "name"},
  };
  struct model *model = make_tiny_model(5, false);
  struct plan *plan = make_plan(model, "1f1b", 3, 4);
  T_CHECK(plan_check(plan) == STATUS_OK, "%s", error_text());
  for (size_t k = 0; k < sizeof mutations / sizeof mutations[0]; k++) {
    struct plan *copy = plan_dup(plan);
    mutations[k].mutate(copy);
    T_CHECK(plan_check(copy) == STATUS_FAILED && says(mutations[k].reason), "mutation %zu (%s): %s", k,
            mutations[k].reason, error_text());
    plan_destroy(&copy);
  }
  plan_destroy(&plan);
  model_destroy(&model);
}

/* Any rows and lengths that a deck or a file can name have pairs and a bound of them, however large. */
static void test_large_shapes(void) {
  static const int64_t sizes[][2] = {{1, INT32_MAX}, {32768, 1 << 24}, {1000000000, 1 << 24}, {INT32_MAX, INT32_MAX}};
  struct model *model = make_tiny_model(4, false);
  struct plan *plan = make_plan(model, "1f1b", 4, 5);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    plan->micro[1] = micro_shape_fill(sizes[i][0], sizes[i][1]);
    T_CHECK(plan->micro[1].pairs >= micro_shape_count_positions(plan->micro[1]), "case %zu: %lld pairs", i,
            (long long)plan->micro[1].pairs);
    T_CHECK(!plan_check(plan), "case %zu: %s", i, error_text());
  }
  plan_destroy(&plan);
  model_destroy(&model);
}

/* Where in the order of its rank an action is; -1 unless it is there exactly once and nowhere else. */
static int64_t find_once(const struct plan *plan, enum node_kind kind, int32_t stage, int32_t micro) {
  int64_t found = -1, times = 0;
  for (int32_t r = 0; r < plan->n_ranks; r++)
    for (int64_t k = plan->order_offset[r]; k < plan->order_offset[r + 1]; k++)
      if (plan->order[k].kind == (int32_t)kind && plan->order[k].stage == stage && plan->order[k].micro == micro) {
        times++;
        if (plan_get_holder(plan, stage) == r) found = k;
      }
  return times == 1 ? found : -1;
}

/* The rules of orders, said differently from plan_check: by searching for each action. */
static bool is_valid(const struct plan *plan) {
  int64_t n_expected = 0;
  for (int32_t s = 0; s < plan->n_stages; s++) {
    int64_t before[3] = {-1, -1, -1};
    for (int32_t i = 0; i < plan->n_micro; i++) {
      int64_t f = find_once(plan, NODE_F, s, i), b = find_once(plan, NODE_B, s, i);
      int64_t in = find_once(plan, NODE_I, s, i), w = find_once(plan, NODE_W, s, i);
      bool full = b >= 0 && in < 0 && w < 0, split = b < 0 && in >= 0 && w > in;
      if (f < 0 || !(full || split)) return false;
      int64_t now[3] = {f, full ? b : in, full ? b : w};
      if (now[1] < f) return false;
      for (int k = 0; k < 3; k++) {
        if (now[k] < before[k]) return false;
        before[k] = now[k];
      }
      n_expected += full ? 2 : 3;
    }
  }
  return n_expected == plan->order_offset[plan->n_ranks]; /* and nothing else */
}

static void test_random_mutations(void) {
  struct model *model = make_tiny_model(5, false);
  struct plan *plan = make_plan(model, "gpipe", 2, 3);
  struct rng_key key = {.seed = 11, .purpose = RNG_TEST};
  int64_t n = plan->order_offset[plan->n_ranks], n_valid = 0;
  uint64_t at = 0;
  for (int trial = 0; trial < 3000; trial++) {
    struct plan *copy = plan_dup(plan);
    for (int changes = 1 + (int)(rng_bits(&key, at++) % 3); changes > 0; changes--) {
      struct plan_action *a = &copy->order[rng_bits(&key, at++) % (uint64_t)n];
      struct plan_action *b = &copy->order[rng_bits(&key, at++) % (uint64_t)n];
      switch (rng_bits(&key, at++) % 4) {
      case 0: a->micro = (int32_t)(rng_bits(&key, at++) % 3); break;
      case 1: a->kind = (uint8_t)(rng_bits(&key, at++) % 4); break;
      default: {
        struct plan_action kept = *a;
        *a = *b;
        *b = kept;
      }
      }
    }
    bool valid = is_valid(copy);
    n_valid += valid;
    T_CHECK((plan_check(copy) == STATUS_OK) == valid, "trial %d: should be %s: %s", trial, valid ? "valid" : "refused",
            error_text());
    plan_destroy(&copy);
  }
  T_CHECK(n_valid > 50 && n_valid < 2500, "both outcomes were met: %lld valid", (long long)n_valid);
  plan_destroy(&plan);
  model_destroy(&model);
}

/* I and W apart, and a mixture with B: the orders that later planners make. */
static void test_split_orders(void) {
  static const struct plan_action good[] = {{NODE_F, 0, 0}, {NODE_F, 0, 1}, {NODE_I, 0, 0}, {NODE_F, 0, 2},
                                            {NODE_I, 0, 1}, {NODE_W, 0, 0}, {NODE_W, 0, 1}, {NODE_B, 0, 2}};
  struct plan *plan = plan_create(4, 1, 1, 3, 8);
  plan->stages[0].n_layers = 4;
  for (int i = 0; i < 3; i++) plan->micro[i] = micro_shape_make(1, 4, 4, 4);
  memcpy(plan->order, good, sizeof good);
  T_CHECK(plan_check(plan) == STATUS_OK && is_valid(plan), "%s", error_text());
  plan->order[6] = good[7], plan->order[7] = good[6]; /* B2 before W1 */
  T_CHECK(plan_check(plan) == STATUS_FAILED && !is_valid(plan), "B2 adds its weight gradient before W1");
  plan_destroy(&plan);
}

/* ---- copies, bytes, hash ---- */

static bool is_same(const struct plan *a, const struct plan *b) {
  size_t n_a, n_b;
  void *bytes_a = plan_pack(a, &n_a), *bytes_b = plan_pack(b, &n_b);
  bool same = n_a == n_b && !memcmp(bytes_a, bytes_b, n_a);
  mem_free(bytes_a);
  mem_free(bytes_b);
  return same;
}

static bool is_same_by_field(const struct plan *a, const struct plan *b) {
  size_t p = (size_t)a->n_stages, r = (size_t)a->n_ranks, m = (size_t)a->n_micro;
  bool same = !strcmp(a->planner, b->planner) && a->n_layers == b->n_layers && a->n_stages == b->n_stages &&
              a->n_ranks == b->n_ranks && a->n_micro == b->n_micro && a->forward_only == b->forward_only &&
              a->clip == b->clip && a->hash == b->hash && !memcmp(a->stages, b->stages, p * sizeof *a->stages) &&
              !memcmp(a->replica_offset, b->replica_offset, (p + 1) * sizeof *a->replica_offset) &&
              !memcmp(a->replica_rank, b->replica_rank, p * sizeof *a->replica_rank) &&
              !memcmp(a->micro, b->micro, m * sizeof *a->micro) &&
              !memcmp(a->order_offset, b->order_offset, (r + 1) * sizeof *a->order_offset) &&
              !memcmp(a->device_limit, b->device_limit, r * sizeof *a->device_limit);
  for (int64_t k = 0; k < a->order_offset[r] && same; k++)
    same = a->order[k].kind == b->order[k].kind && a->order[k].stage == b->order[k].stage &&
           a->order[k].micro == b->order[k].micro;
  return same;
}

static void test_packing(void) {
  struct model *model = make_tiny_model(5, false);
  struct plan *plan = make_plan(model, "1f1b", 3, 4), *read = NULL;
  size_t size;
  uint8_t *bytes = plan_pack(plan, &size);
  T_CHECK(plan_unpack(bytes, size, &read) == STATUS_OK, "%s", error_text());
  T_CHECK(read && is_same_by_field(plan, read) && is_same(plan, read) && plan_check(read) == STATUS_OK, "round trip");
  plan_destroy(&read);
  for (size_t n = 0; n < size; n++) {
    uint8_t *cut = mem_alloc(n); /* its own block, so that a sanitizer sees a read beyond it */
    if (n) memcpy(cut, bytes, n);
    T_CHECK(plan_unpack(cut, n, &read) == STATUS_FAILED && !read, "cut at %zu of %zu", n, size);
    mem_free(cut);
  }
  for (size_t n = 0; n < size; n++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[n] ^= (uint8_t)(1 << bit);
      T_CHECK(plan_unpack(bytes, size, &read) == STATUS_FAILED && !read, "bit %d of byte %zu", bit, n);
      bytes[n] ^= (uint8_t)(1 << bit);
    }
  uint8_t *longer = mem_alloc(size + 1);
  memcpy(longer, bytes, size);
  T_CHECK(plan_unpack(longer, size + 1, &read) == STATUS_FAILED && !read, "one byte more");
  mem_free(longer);
  mem_free(bytes);
  plan_destroy(&plan);
  model_destroy(&model);
}

static void rename_it(struct plan *p) { p->planner[0] = 'x'; }
static void toggle_clip(struct plan *p) { p->clip = !p->clip; }
static void change_limit(struct plan *p) { p->device_limit[1]--; }
static void change_labels(struct plan *p) { p->micro[3].labels--; }
static void change_length(struct plan *p) { p->micro[3].length++; }

static void test_hash(void) {
  static void (*const changes[])(struct plan *) = {rename_it,     toggle_clip,   change_limit, change_labels,
                                                   change_length, shift_stage,   lose_layer,   move_stage,
                                                   evaluates,     swap_forwards, unknown_kind, other_stage};
  struct model *model = make_tiny_model(5, false);
  struct plan *plan = make_plan(model, "1f1b", 3, 4), *again = make_plan(model, "1f1b", 3, 4);
  T_CHECK(plan->hash && plan->hash == again->hash, "the same request, the same hash");
  for (size_t k = 0; k < sizeof changes / sizeof changes[0]; k++) {
    struct plan *copy = plan_dup(plan);
    T_CHECK(is_same_by_field(plan, copy), "a copy is the same");
    plan_freeze(copy);
    T_CHECK(copy->hash == plan->hash, "freezing again changes nothing");
    changes[k](copy);
    plan_freeze(copy);
    T_CHECK(copy->hash != plan->hash, "change %zu", k);
    plan_destroy(&copy);
  }
  struct micro_shape micro[4];
  memcpy(micro, plan->micro, sizeof micro);
  struct plan *copy = plan_dup_with_micro(plan, micro);
  T_CHECK(is_same_by_field(plan, copy), "the same micro-batches");
  plan_destroy(&copy);
  micro[2].length += 5;
  copy = plan_dup_with_micro(plan, micro);
  T_CHECK(copy->micro[2].length == micro[2].length && copy->hash && copy->hash != plan->hash, "other micro-batches");
  plan_destroy(&copy);
  plan_destroy(&again);
  plan_destroy(&plan);
  model_destroy(&model);
}

/* ---- evaluation, questions ---- */

static void test_forward_plans(void) {
  static const int32_t placements[][6] = {
      {0, 1, 2, 0, 1, 2}, {0, 1, 2, 2, 1, 0}, {0, 0, 0, 0, 0, 0}, {2, 0, 0, 1, 2, 1}};
  for (size_t k = 0; k < sizeof placements / sizeof placements[0]; k++)
    for (int32_t m = 1; m <= 7; m++) {
      struct plan *plan = plan_create(12, 6, 3, 1, 0);
      for (int32_t s = 0; s < 6; s++) {
        plan->stages[s] = (struct plan_stage){2 * s, 2};
        plan->replica_rank[s] = placements[k][s];
      }
      plan->device_limit[2] = 77;
      struct micro_shape micro[7];
      for (int i = 0; i < 7; i++) micro[i] = micro_shape_make(1, 4 + i, 3, 3);
      struct plan *forward = plan_make_forward(plan, m, micro);
      T_CHECK(plan_check(forward) == STATUS_OK && forward->forward_only && forward->hash, "%s", error_text());
      T_CHECK(forward->order_offset[3] == 6 * m && forward->device_limit[2] == 77 &&
                  forward->micro[m - 1].length == 3 + m,
              "placement %zu m %d", k, m);
      plan_destroy(&forward);
      plan_destroy(&plan);
    }
}

static void test_questions(void) {
  struct model *model = make_tiny_model(9, false);
  struct plan *plan = make_plan(model, "gpipe", 5, 1);
  for (int32_t s = 0; s < plan->n_stages; s++) {
    T_CHECK(plan_get_holder(plan, s) == s, "stage %d", s);
    for (int32_t k = 0; k < plan->stages[s].n_layers; k++)
      T_CHECK(plan_get_stage(plan, plan->stages[s].first_layer + k) == s, "stage %d layer %d", s, k);
  }
  T_CHECK(!strcmp(node_kind_get_name(NODE_SB), "SB") && node_kind_get_stream(NODE_SB) == STREAM_SEND &&
              node_kind_get_stream(NODE_RT) == STREAM_RECEIVE && !strcmp(stream_get_name(STREAM_COPY_IN), "copy_in"),
          "names");
  plan_destroy(&plan);
  model_destroy(&model);
}

/* Who holds a stage and who does a micro-batch, where several ranks hold one. */
static void test_replicas(void) {
  static const int32_t offset[] = {0, 1, 4, 6}, ranks[] = {5, 3, 0, 4, 1, 2};
  struct plan *plan = plan_create(3, 3, 6, 7, 0);
  plan->n_replicas = 6;
  plan->replica_rank = mem_resize(plan->replica_rank, sizeof ranks);
  memcpy(plan->replica_rank, ranks, sizeof ranks);
  memcpy(plan->replica_offset, offset, sizeof offset);
  for (int32_t s = 0; s < 3; s++) {
    int32_t done[6] = {0}, holders = 0, n = offset[s + 1] - offset[s];
    for (int32_t i = 0; i < plan->n_micro; i++) done[plan_find_rank(plan, s, i)]++;
    for (int32_t r = 0; r < 6; r++) {
      bool holds = plan_holds(plan, s, r);
      holders += holds;
      T_CHECK(holds ? done[r] == 7 / n || done[r] == (7 + n - 1) / n : done[r] == 0, "stage %d rank %d does %d", s, r,
              done[r]);
    }
    T_CHECK(holders == n && plan_holds(plan, s, plan_get_holder(plan, s)), "stage %d: %d ranks", s, holders);
    T_CHECK(plan_find_rank(plan, s, 4) == ranks[offset[s] + 4 % n], "stage %d: replicas take turns", s);
  }
  plan_destroy(&plan);
}

int main(void) {
  test_even_partitions();
  test_known_partitions();
  test_listed_partitions();
  test_orders();
  test_declining();
  test_mutations();
  test_parts();
  test_large_shapes();
  test_random_mutations();
  test_split_orders();
  test_packing();
  test_hash();
  test_forward_plans();
  test_questions();
  test_replicas();
  T_CHECK(mem_balance() == 0, "%lld blocks left", (long long)mem_balance());
  return t_end();
}
