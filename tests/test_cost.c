/* Costs: uniform times with uneven partitions, chunks and lists by rank; tables of layers; what ops do, by hand;
 * presets; and the price of a graph as the sum of its parts, for random plans. */
#include "deck_texts.h"

#include <unistd.h>

#include "cost/cost.h"
#include "dag/dag_price.h"
#include "model/footprint.h"
#include "model/op_work.h"
#include "plan/recompute.h"
#include "random_moves.h"

static bool is_close(double a, double b) { return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b)) + 1e-18; }

/* ---- making costs ---- */

static struct cost *make_cost(const char *yaml, const struct model *model, int32_t n_ranks) {
  struct params params = parse_good(yaml, NULL);
  struct cost *cost = NULL;
  char *notes = NULL;
  int status = cost_create(&params, model, n_ranks, &cost, &notes);
  T_CHECK(!status, "%s: %s", yaml, error_text());
  if (status) exit(1);
  mem_free(notes);
  params_fini(&params);
  return cost;
}

static void check_refused_cost(const char *yaml, const struct model *model, int32_t n_ranks, const char *wanted) {
  struct params params = parse_good(yaml, NULL);
  struct cost *cost = NULL;
  char *notes = NULL;
  error_clear();
  int status = cost_create(&params, model, n_ranks, &cost, &notes);
  T_CHECK(status == STATUS_MISTAKE && !cost && !notes, "%s gives status %d", yaml, status);
  T_CHECK(strstr(error_text(), wanted), "%s: not '%s' but %s", yaml, wanted, error_text());
  params_fini(&params);
}

struct priced {
  struct plan *plan;
  struct dag *dag;
  double *seconds;
};

static struct priced price_plan(struct plan *plan, const struct model *model, const struct cost *cost) {
  struct priced p = {.plan = plan};
  int status = dag_build(plan, model, &p.dag);
  T_CHECK(!status, "%s", error_text());
  if (status) exit(1);
  p.seconds = MEM_NEW(double, p.dag->n_nodes);
  dag_price(p.dag, plan, model, cost, p.seconds);
  return p;
}

static void free_priced(struct priced *p) {
  mem_free(p->seconds);
  dag_destroy(&p->dag);
  plan_destroy(&p->plan);
}

static struct plan *make_cut_plan(const struct model *model, const char *planner, int32_t p, int32_t chunks,
                                  const double *cut) {
  struct micro_shape micro[4] = {micro_shape_make(1, 8, 8, 8), micro_shape_make(1, 8, 8, 8),
                                 micro_shape_make(2, 8, 16, 16), micro_shape_make(2, 4, 8, 8)};
  struct plan_request request = {.model = model,
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .n_chunks = chunks,
                                 .partition.kind = cut ? PARAMS_CUT_LIST : PARAMS_CUT_EVEN,
                                 .partition.blocks = cut,
                                 .partition.n = p * chunks,
                                 .n_micro = 4,
                                 .micro = micro,
                                 .clip = true};
  struct plan *plan;
  T_CHECK(planner_run(planner, &request, &plan) == STATUS_OK, "%s", error_text());
  return plan;
}

/* The one time of all nodes of a kind on a stage (of a rank for sends), in ms; NaN when they differ. */
static double get_ms(const struct priced *p, enum node_kind kind, int32_t stage) {
  double found = -1;
  for (int32_t v = 0; v < p->dag->n_nodes; v++) {
    if (p->dag->nodes[v].kind != kind || p->dag->nodes[v].stage != stage) continue;
    if (found >= 0 && p->seconds[v] != found) return NAN;
    found = p->seconds[v];
  }
  return found * 1e3;
}

static void check_ms(const struct priced *p, enum node_kind kind, int32_t stage, double wanted) {
  double ms = get_ms(p, kind, stage);
  T_CHECK(is_close(ms, wanted), "%s of stage %d takes %g ms, not %g", node_kind_get_name(kind), (int)stage, ms, wanted);
}

/* ---- uniform ---- */

/* Four ranks, six blocks of two layers: a layer costs value x 4 / 12. */
static void test_uniform_values(void) {
  static const double cut[] = {1, 0.5, 2, 2.5};
  struct model *model = make_tiny_model(6, true);
  struct cost *cost =
      make_cost("cost: {source: uniform, uniform: {forward_ms: 3, input_ms: 6, weight_ms: 1.5, send_ms: "
                "0.25}}\n",
                model, 4);
  struct priced p = price_plan(make_cut_plan(model, "1f1b", 4, 1, cut), model, cost);
  for (int32_t s = 0; s < 4; s++) {
    check_ms(&p, NODE_F, s, 2 * cut[s]);
    check_ms(&p, NODE_B, s, 4 * cut[s] + cut[s]);
    if (s < 3) check_ms(&p, NODE_SF, s, 0.25);
    if (s > 0) check_ms(&p, NODE_SB, s, 0.25);
  }
  for (int32_t v = 0; v < p.dag->n_nodes; v++) {
    int kind = p.dag->nodes[v].kind;
    if (kind == NODE_U || kind == NODE_N || kind == NODE_ST || kind == NODE_RT || kind == NODE_RF || kind == NODE_RB)
      T_CHECK(p.seconds[v] == 0, "%s takes %g s", node_kind_get_name(kind), p.seconds[v]);
  }
  free_priced(&p);
  /* Split backwards and chunks follow their layers. */
  cost_destroy(&cost);
  cost = make_cost("cost: {source: uniform, uniform: {forward_ms: 3}}\n", model, 2);
  p = price_plan(make_cut_plan(model, "interleaved", 2, 2, (const double[]){0.5, 1.5, 3, 1}), model, cost);
  for (int32_t s = 0; s < 4; s++) {
    check_ms(&p, NODE_F, s, ((const double[]){0.5, 1.5, 3, 1})[s]);
    check_ms(&p, NODE_B, s, 0);
  }
  free_priced(&p);
  p = price_plan(make_cut_plan(model, "zb-h1", 2, 1, NULL), model, cost);
  check_ms(&p, NODE_I, 0, 0);
  check_ms(&p, NODE_F, 1, 3);
  free_priced(&p);
  cost_destroy(&cost);
  model_destroy(&model);
}

/* A block that leaves, or comes back, takes its own rank's time for what of all that the stage keeps does move. */
static void test_uniform_blocks(void) {
  struct model *model = make_tiny_model(8, false);
  struct cost *cost =
      make_cost("cost: {source: uniform, uniform: {forward_ms: 3, evict_ms: [4, 9, 9, 9]}}\n", model, 4);
  struct micro_shape micro[4] = {micro_shape_make(1, 8, 8, 8), micro_shape_make(1, 8, 8, 8),
                                 micro_shape_make(2, 8, 16, 16), micro_shape_make(2, 4, 8, 8)};
  for (int half = 0; half < 2; half++) {
    struct plan *plan = make_cut_plan(model, "bpipe", 4, 1, NULL);
    T_CHECK(plan->n_moves > 0 && plan->moves[0].stage == 0, "%d moves", plan->n_moves);
    for (int32_t l = 0; l < plan->n_layers; l++)
      if (half && l % 2) plan->moved[l] = 0;
    struct priced p = price_plan(plan, model, cost);
    for (int32_t v = 0; v < p.dag->n_nodes; v++) {
      const struct dag_node *n = &p.dag->nodes[v];
      if (n->kind != NODE_ES && n->kind != NODE_LS) continue;
      double all = 0, moves = 0;
      for (int32_t l = 0; l < plan->stages[0].n_layers; l++) {
        struct footprint f;
        footprint_layer(model, &model->layers[l], micro[n->micro], 0, 0, &f);
        double bytes = (double)(f.bytes[REGION_KEEP_INPUT] + f.bytes[REGION_KEEP_WEIGHT]), hidden = 0;
        if (l) hidden = (double)footprint_boundary(model, micro[n->micro]);
        all += bytes + hidden;
        if (plan->moved[l]) moves += bytes + hidden;
      }
      T_CHECK(n->stage == 0 && is_close(p.seconds[v], 4e-3 * moves / all), "%s takes %g s, %g of %g bytes move",
              node_kind_get_name((enum node_kind)n->kind), p.seconds[v], moves, all);
      T_CHECK(!half == (moves == all), "%g of %g bytes move", moves, all);
    }
    free_priced(&p);
  }
  cost_destroy(&cost);
  model_destroy(&model);
}

/* A list gives each rank's share itself: of the layers it holds each takes an equal part. */
static void test_uniform_lists(void) {
  struct model *model = make_tiny_model(6, false);
  struct cost *cost = make_cost(
      "cost: {source: uniform, uniform: {forward_ms: [3, 8], input_ms: 1, weight_ms: [0, 4], send_ms: [1, 2]}}\n"
      "device: {rank_speeds: {1: 0.5}}\n",
      model, 2);
  struct priced p =
      price_plan(make_cut_plan(model, "interleaved", 2, 2, (const double[]){0.5, 1, 2.5, 2}), model, cost);
  /* Stages 0 and 2 on rank 0 have 3 blocks, 1 and 3 on rank 1, at half speed, have 3 too. */
  static const double forward[] = {0.5, 2 * 8.0 / 3, 2.5, 2 * 16.0 / 3};
  static const double backward[] = {0.5 / 3, 2 * (1 + 4) / 3.0, 2.5 / 3, 2 * 2 * (1 + 4) / 3.0};
  for (int32_t s = 0; s < 4; s++) {
    check_ms(&p, NODE_F, s, forward[s]);
    check_ms(&p, NODE_B, s, backward[s]);
    if (s < 3) check_ms(&p, NODE_SF, s, s % 2 ? 2 : 1);
  }
  free_priced(&p);
  p = price_plan(make_cut_plan(model, "1f1b", 2, 1, (const double[]){1, 5}), model, cost);
  check_ms(&p, NODE_F, 0, 3);
  check_ms(&p, NODE_F, 1, 16);
  free_priced(&p);
  cost_destroy(&cost);
  check_refused_cost("cost: {source: uniform, uniform: {input_ms: [1, 2, 3]}}\n", model, 2,
                     "input_ms lists 3 ranks, the plan has 2");
  check_refused_cost("cost: {source: uniform, uniform: {input_ms: 1}}\ndevice: {rank_speeds: {2: 3}}\n", model, 2,
                     "device.rank_speeds names rank 2; the plan has ranks 0 to 1");
  model_destroy(&model);
}

/* The whole R of a share that recomputes anything. */
static void test_uniform_recompute(void) {
  struct model *model = make_tiny_model(4, false);
  struct cost *cost = make_cost("cost: {source: uniform, uniform: {forward_ms: 1, recompute_ms: 2}}\n", model, 2);
  struct plan *plan = make_cut_plan(model, "1f1b", 2, 1, (const double[]){3, 1});
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  ops[2] = recompute_get_ops(&model->layers[2], PARAMS_RECOMPUTE_CMB);
  T_CHECK(ops[2] != 0, "nothing to discard");
  recompute_put(plan, ops, (const bool[]){true, true});
  plan_freeze(plan);
  struct priced p = price_plan(plan, model, cost);
  check_ms(&p, NODE_R, 0, 3);
  T_CHECK(get_ms(&p, NODE_R, 1) < 0, "stage 1 recomputes nothing");
  free_priced(&p);
  mem_free(ops);
  cost_destroy(&cost);
  model_destroy(&model);
}

/* ---- table ---- */

static const char header[] = "layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,"
                             "parameter_bytes,output_bytes\n";

/* Layer l takes l + 1, 10 (l + 1), 100 (l + 1) ms; 0.5 to rebuild; leaves 1000 (l + 1) bytes. */
static void write_table(const char *path, int n_layers) {
  FILE *out = fopen(path, "w");
  if (!out) exit(1);
  fprintf(out,
          "layer, forward_ms,input_ms ,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,parameter_bytes,output_bytes"
          "\r\n");
  for (int l = 0; l < n_layers; l++)
    fprintf(out, "%d,%d, %d,%d,0.5,0,0,0,%d\r\n%s", l, l + 1, 10 * (l + 1), 100 * (l + 1), 1000 * (l + 1),
            l ? "" : "\n");
  fclose(out);
}

static void test_table(void) {
  struct model *model = make_tiny_model(2, false); /* 6 layers */
  write_table("costs.csv", 6);
  struct cost *cost =
      make_cost("cost: {source: table, table: costs.csv, link: {latency_us: 5, gb_per_s: 0.001}}\n", model, 2);
  T_CHECK(!strcmp(cost_get_source(cost), "table costs.csv"), "%s", cost_get_source(cost));
  struct priced p = price_plan(make_cut_plan(model, "1f1b", 2, 1, NULL), model, cost);
  check_ms(&p, NODE_F, 0, 1 + 2 + 3);
  check_ms(&p, NODE_F, 1, 4 + 5 + 6);
  check_ms(&p, NODE_B, 1, 110 * 15);
  check_ms(&p, NODE_SF, 0, 0.005 + 3);
  check_ms(&p, NODE_SB, 1, 0.005 + 3);
  T_CHECK(is_close(cost_get_recompute(cost, 0, 2, 1, micro_shape_fill(1, 8)), 0.5e-3), "rebuilding a layer");
  free_priced(&p);
  cost_destroy(&cost);
  cost = make_cost("cost: {source: table, table: costs.csv, uniform: {send_ms: 2}}\n", model, 2);
  p = price_plan(make_cut_plan(model, "zb-h1", 2, 1, NULL), model, cost);
  check_ms(&p, NODE_I, 0, 10 * 6);
  check_ms(&p, NODE_W, 0, 100 * 6);
  check_ms(&p, NODE_SF, 0, 2);
  free_priced(&p);
  cost_destroy(&cost);
  model_destroy(&model);
}

static void test_table_refusals(void) {
  static const char *const cases[][2] = {
      {"", "bad.csv has 0 layers, the model 4"},
      {"layer,forward_ms\n", "bad.csv:1: column 3 is '', not 'input_ms'"},
      {"H0,1,1,1,1,0,0,0,0\n", "bad.csv has 1 layers, the model 4"},
      {"H0,1,1,1\n", "bad.csv:2: no recompute_ms"},
      {"H0,1,1,1,1,0,0,0,0,7\n", "bad.csv:2: more than the columns"},
      {"H0,1,-1,1,1,0,0,0,0\n", "bad.csv:2: input_ms is '-1'; allowed: a number from 0 to 1e+18"},
      {"H0,1,1,1,1,64,65,0,0\n", "bad.csv:2: kept_weight_bytes is 65, more than the kept_bytes 64 it is part of"},
      {"H0,1,1,1,1,64,0,2e12,0\n", "bad.csv:2: parameter_bytes is '2e12'; allowed: a number from 0 to 1e+12"},
      {"H0,1,,1,1,0,0,0,0\n", "bad.csv:2: input_ms is ''"},
      {"H0,1,1,nan,1,0,0,0,0\n", "bad.csv:2: weight_ms is 'nan'"},
      {"H1,1,1,1,1,0,0,0,0\n", "bad.csv:2: layer is 1, not 0"},
      {"H0,1,1,1,1,0,0,0,0\n1,1,1,1,1,0,0,0,0\n2,1,1,1,1,0,0,0,0\n3,1,1,1,1,0,0,0,0\n4,1,1,1,1,0,0,0,0\n",
       "bad.csv:6: a row too many: the model has 4 layers"},
  };
  struct model *model = make_tiny_model(1, false);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool with_header = cases[i][0][0] == 'H';
    char *text = mem_format("%s%s", with_header ? header : "", cases[i][0] + with_header);
    write_file("bad.csv", text);
    check_refused_cost("cost: {source: table, table: bad.csv}\n", model, 2, cases[i][1]);
    mem_free(text);
  }
  check_refused_cost("cost: {source: table, table: none.csv}\n", model, 2, "cost.table: none.csv: cannot be read");
  model_destroy(&model);
}

/* ---- what ops do ---- */

static struct op_work sum_work(const struct model *model, int32_t layer, enum pass pass, struct micro_shape shape) {
  struct op_work sum = {0, 0}, work[PASS_COUNT];
  const struct layer *l = &model->layers[layer];
  for (int o = 0; o < l->n_ops; o++) {
    if (l->ops[o].cheap || l->ops[o].kind == OP_ROPE) continue; /* products and attention alone */
    op_work_count(model, l, &l->ops[o], shape, work);
    sum.flops += work[pass].flops;
    sum.bytes += work[pass].bytes;
  }
  return sum;
}

static void check_flops(const struct model *model, int32_t layer, enum pass pass, double wanted) {
  double flops = sum_work(model, layer, pass, micro_shape_fill(2, 1024)).flops;
  T_CHECK(flops == wanted, "layer %d pass %d: %g operations, not %g", (int)layer, pass, flops, wanted);
}

/* Two rows of 1024 tokens. GPT-2: width 768, feed-forward 3072, vocabulary 50257. A Llama with 32 query heads and 8 key
 * and value heads of 128, width 4096, feed-forward 14336. */
static void test_work(void) {
  struct model *gpt2, *llama;
  const double t = 2048, h = 768;
  int status = model_create("{\"model_type\": \"gpt2\"}", "test", -1, &gpt2, NULL);
  if (!status)
    status = model_create("{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
                          "\"num_hidden_layers\": 2, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
                          "\"vocab_size\": 1000}",
                          "test", -1, &llama, NULL);
  T_CHECK(!status, "%s", error_text());
  if (status) exit(1);
  check_flops(gpt2, 1, PASS_FORWARD, t * (8 * h * h + 2 * 1024 * h));
  check_flops(gpt2, 1, PASS_INPUT, t * (8 * h * h + 5 * 1024 * h));
  check_flops(gpt2, 1, PASS_WEIGHT, t * 8 * h * h);
  for (int pass = 0; pass < PASS_COUNT; pass++) check_flops(gpt2, 2, (enum pass)pass, t * 4 * h * 3072);
  check_flops(gpt2, 25, PASS_FORWARD, t * 6 * h * 50257);
  check_flops(gpt2, 25, PASS_INPUT, 0);
  check_flops(gpt2, 25, PASS_WEIGHT, 0);
  check_flops(llama, 1, PASS_FORWARD, t * (2 * 4096.0 * (2 * 4096 + 2 * 1024) + 2 * 1024 * 4096.0));
  check_flops(llama, 2, PASS_FORWARD, t * 6 * 4096.0 * 14336);
  /* All products of a step are the model's FLOPs, but for attention: 7 in place of 6 a pair, and half a token less. */
  double sum = 0, attention = 12 * 3.5 * 2 * t * 1024 * h;
  for (int32_t l = 1; l < gpt2->n_layers; l++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      sum += sum_work(gpt2, l, (enum pass)pass, micro_shape_fill(2, 1024)).flops;
  double model_flops = model_get_flops(gpt2, 2, (const int32_t[]){1024, 1024});
  double pairs = 12 * 12 * h * 2 * (1024.0 * 1025 / 2);
  T_CHECK(is_close(sum - attention, model_flops - pairs), "%g and %g", sum - attention, model_flops - pairs);
  /* Bytes by hand: the product of the feed-forward reads its input and weights and writes its output. */
  struct op_work work[PASS_COUNT];
  op_work_count(gpt2, &gpt2->layers[2], &gpt2->layers[2].ops[1], micro_shape_fill(2, 1024), work);
  T_CHECK(work[PASS_FORWARD].bytes == 4 * (t * h + h * 3072 + t * 3072), "%g", work[PASS_FORWARD].bytes);
  T_CHECK(work[PASS_WEIGHT].bytes == 4 * (t * h + 2 * h * 3072 + t * 3072), "%g", work[PASS_WEIGHT].bytes);
  model_destroy(&gpt2);
  model_destroy(&llama);
}

/* ---- presets ---- */

/* A large product on an A100 takes its operations at four fifths of 19.5 TFLOP/s, with the start and the half. */
static void test_presets(void) {
  struct model *model;
  int status = model_create("{\"model_type\": \"gpt2\", \"n_layer\": 1}", "test", -1, &model, NULL);
  T_CHECK(!status, "%s", error_text());
  struct cost *cost = make_cost("device: {preset: a100-80g}\n", model, 16);
  T_CHECK(!strcmp(cost_get_source(cost), "preset a100-80g, not measured"), "%s", cost_get_source(cost));
  double flops = 2.0 * 8192 * 768 * 3072, seconds = cost_get_op(cost, 0, 2, 1, PASS_FORWARD, micro_shape_fill(8, 1024));
  T_CHECK(is_close(seconds, 5e-6 + (flops + 4e8) / (0.8 * 19.5e12)), "%g s", seconds);
  /* A norm is bound by the memory. */
  seconds = cost_get_op(cost, 0, 2, 0, PASS_FORWARD, micro_shape_fill(8, 1024));
  T_CHECK(is_close(seconds, 5e-6 + 4.0 * 2 * 8192 * 768 / (0.85 * 2039e9)), "%g s", seconds);
  /* Ranks 0 to 7 are a node. */
  T_CHECK(is_close(cost_get_message(cost, 0, 7, 1000000), 8e-6 + 1e6 / 300e9), "inside a node");
  T_CHECK(is_close(cost_get_message(cost, 7, 8, 1000000), 15e-6 + 1e6 / 25e9), "between nodes");
  T_CHECK(cost_get_message(cost, 3, 3, 1000000) == 0, "to itself");
  cost_destroy(&cost);
  cost = make_cost("device: {preset: a800-80g, rank_speeds: {1: 2}}\n"
                   "cost: {node_size: 2, link: {latency_us: 100, gb_per_s: 1, node_gb_per_s: 10}}\n",
                   model, 4);
  T_CHECK(is_close(cost_get_message(cost, 0, 1, 1000000), 1e-4 + 1e-4), "inside a node");
  T_CHECK(is_close(cost_get_message(cost, 1, 2, 1000000), 1e-4 + 1e-3), "between nodes");
  T_CHECK(is_close(cost_get_op(cost, 1, 2, 1, PASS_INPUT, micro_shape_fill(8, 1024)) * 2,
                   cost_get_op(cost, 0, 2, 1, PASS_INPUT, micro_shape_fill(8, 1024))),
          "speeds");
  cost_destroy(&cost);
  /* A block and its copy to the host: a link of its own, either value by itself; by hand with evict_ms, and no link
   * then. */
  cost = make_cost("device: {preset: a100-80g}\ncost: {host_link: {gb_per_s: 2}}\n", model, 2);
  T_CHECK(is_close(cost_get_copy(cost, 1, 1000000, 0.5), 10e-6 + 1e6 / 2e9), "the host at 2 GB/s");
  T_CHECK(is_close(cost_get_message(cost, 0, 1, 1000000), 8e-6 + 1e6 / 300e9), "the host's link is not that of ranks");
  cost_destroy(&cost);
  cost = make_cost("device: {preset: a100-80g}\ncost: {host_link: {latency_us: 50}}\n", model, 2);
  T_CHECK(is_close(cost_get_copy(cost, 1, 1000000, 0.5), 50e-6 + 1e6 / 25e9), "the host after 50 us");
  cost_destroy(&cost);
  cost = make_cost("cost: {source: uniform, uniform: {evict_ms: 3}, host_link: {gb_per_s: 2}}\n", model, 2);
  T_CHECK(is_close(cost_get_copy(cost, 1, 1000000, 0.5), 1.5e-3), "half a block of 3 ms");
  cost_destroy(&cost);
  double last = INFINITY;
  static const char *const slower_first[] = {"cpu, threads: 4", "a100-40g", "h100"};
  for (int i = 0; i < 3; i++) {
    char *yaml = mem_format("device: {preset: %s}\n", slower_first[i]);
    cost = make_cost(yaml, model, 1);
    double now = cost_get_layer(cost, 0, 1, PASS_FORWARD, micro_shape_fill(8, 1024));
    T_CHECK(now > 0 && now < last, "%s: %g s after %g", yaml, now, last);
    last = now;
    cost_destroy(&cost);
    mem_free(yaml);
  }
  model_destroy(&model);
}

/* ---- graphs ---- */

static double sum_stage(const struct cost *cost, const struct plan *plan, const struct dag_node *n, enum pass pass) {
  const struct plan_stage *stage = &plan->stages[n->stage];
  const struct micro_shape *micro = &plan->micro[n->micro];
  double sum = 0;
  for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
    sum += cost_get_layer(cost, n->rank, l, pass, *micro);
  return sum;
}

static double sum_rebuilt(const struct cost *cost, const struct model *model, const struct plan *plan,
                          const struct dag_node *n) {
  const struct plan_stage *stage = &plan->stages[n->stage];
  const struct micro_shape *micro = &plan->micro[n->micro];
  double sum = 0;
  for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
    for (int o = 0; o < model->layers[l].n_ops; o++)
      if (footprint_is_rebuilt(&model->layers[l], o, plan_get_discarded(plan, l, n->micro)))
        sum += cost_get_op(cost, n->rank, l, o, PASS_FORWARD, *micro);
  return sum;
}

static int64_t get_tied_floats(const struct model *model) { return model->n_ties ? model->ties[0].floats : 0; }

/* Sums of a layer's gradient, of a tied table first those of its other use: where there is one, or on both ranks. */
static double sum_gradient(const struct cost *cost, const struct model *model, const struct plan *plan, int32_t rank,
                           int32_t layer) {
  bool apart = plan_get_holder(plan, 0) != plan_get_holder(plan, plan->n_stages - 1);
  bool tied = layer == 0 || (layer == model->n_layers - 1 && apart);
  double seconds = cost_get_sum(cost, rank, model->layers[layer].n_floats);
  return seconds + (tied ? cost_get_tied_sum(cost, rank, get_tied_floats(model)) : 0);
}

/* The norm with clip: the sums of all layers of the rank in one go, which each start but once, and the meeting. */
static double sum_norm(const struct cost *cost, const struct model *model, const struct plan *plan, int32_t rank) {
  double meeting = cost_get_norm(cost, rank, 0), tied = 0;
  int64_t floats = 0;
  for (int32_t l = 0; plan->clip && l < model->n_layers; l++) {
    if (plan_get_holder(plan, plan_get_stage(plan, l)) != rank) continue;
    floats += model->layers[l].n_floats;
    tied += sum_gradient(cost, model, plan, rank, l) - cost_get_sum(cost, rank, model->layers[l].n_floats);
  }
  return meeting + tied + cost_get_sum(cost, rank, floats);
}

static double sum_node(const struct cost *cost, const struct model *model, const struct plan *plan,
                       const struct dag_node *n) {
  switch ((enum node_kind)n->kind) {
  case NODE_F: return sum_stage(cost, plan, n, PASS_FORWARD);
  case NODE_R: return sum_rebuilt(cost, model, plan, n);
  case NODE_B: return sum_stage(cost, plan, n, PASS_INPUT) + sum_stage(cost, plan, n, PASS_WEIGHT);
  case NODE_I: return sum_stage(cost, plan, n, PASS_INPUT);
  case NODE_W: return sum_stage(cost, plan, n, PASS_WEIGHT);
  case NODE_SF:
  case NODE_SB:
  case NODE_ES:
  case NODE_LS: return cost_get_message(cost, n->rank, n->peer, n->bytes);
  case NODE_ST: return cost_get_tie(cost, n->rank, n->peer, n->bytes);
  case NODE_U: {
    bool copy = n->layer == model->n_layers - 1 && plan_get_holder(plan, 0) != n->rank;
    double seconds =
        cost_get_update(cost, n->rank, model->layers[n->layer].n_floats + (copy ? get_tied_floats(model) : 0));
    return plan->clip ? seconds : seconds + sum_gradient(cost, model, plan, n->rank, n->layer);
  }
  default: return 0;
  }
}

/* The last micro-batch discards one op of each layer alone. */
static void vary_recompute(struct plan *plan) {
  int32_t n = plan->n_recompute;
  if (plan->n_micro < 2 || n == 0) return;
  struct plan_recompute *rows = MEM_NEW(struct plan_recompute, n);
  memcpy(rows, plan->recompute, sizeof *rows * (size_t)n);
  plan_reserve_recompute(plan, 2 * n);
  for (int32_t k = 0; k < n; k++) {
    plan->recompute[k] = rows[k];
    plan->recompute[k].last_micro = plan->n_micro - 2;
    rows[k].first_micro = plan->n_micro - 1;
    rows[k].ops &= -rows[k].ops;
    plan->recompute[n + k] = rows[k];
  }
  mem_free(rows);
}

static void put_random_recompute(struct plan *plan, const struct model *model) {
  for (int32_t i = 1, same = draw(2); i < plan->n_micro && same; i++) plan->micro[i] = plan->micro[0];
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  bool stages[8];
  for (int s = 0; s < 8; s++) stages[s] = draw(2);
  for (int32_t l = 0; l < model->n_layers; l++)
    ops[l] = recompute_get_ops(&model->layers[l], (enum params_recompute)draw(PARAMS_recompute_COUNT));
  recompute_put(plan, ops, stages);
  vary_recompute(plan);
  T_CHECK(plan_check(plan) == STATUS_OK, "%s", error_text());
  plan_freeze(plan);
  mem_free(ops);
}

/* Every other micro-batch attends to half as much: prices go by pairs too, not by rows and length alone. */
static void vary_pairs(struct plan *plan) {
  for (int32_t i = 1; i < plan->n_micro; i += 2) plan->micro[i].pairs -= plan->micro[i].pairs / 2;
}

static void test_graphs(void) {
  int64_t found[NODE_KIND_COUNT] = {0};
  for (int trial = 0; trial < 80; trial++) {
    struct model *model = make_tiny_model(3, trial % 2);
    struct plan *plan = make_random_plan(model);
    if (!plan->forward_only && trial % 3) put_random_recompute(plan, model);
    if (trial % 4) put_possible_moves(plan, model, 2);
    if (trial % 5) vary_pairs(plan);
    struct cost *cost = make_cost("device: {rank_speeds: {0: 0.7}}\ncost: {node_size: 2}\n", model, plan->n_ranks);
    struct priced p = price_plan(plan, model, cost);
    for (int32_t v = 0; v < p.dag->n_nodes; v++) {
      const struct dag_node *n = &p.dag->nodes[v];
      found[n->kind]++;
      if (n->kind == NODE_N) {
        T_CHECK(
            is_close(p.seconds[v], sum_norm(cost, model, plan, n->rank)) && (p.seconds[v] > 0 || p.dag->n_ranks == 1),
            "the norm of rank %d takes %g s, not %g", (int)n->rank, p.seconds[v], sum_norm(cost, model, plan, n->rank));
        continue;
      }
      double wanted = sum_node(cost, model, plan, n);
      T_CHECK(is_close(p.seconds[v], wanted), "trial %d %s: %g s, not %g", trial,
              node_kind_get_name((enum node_kind)n->kind), p.seconds[v], wanted);
    }
    free_priced(&p);
    cost_destroy(&cost);
    model_destroy(&model);
  }
  for (int k = 0; k <= NODE_LR; k++) T_CHECK(found[k] > 0, "no %s was priced", node_kind_get_name((enum node_kind)k));
}

int main(void) {
  char folder[] = "test_cost-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder)) return 1;
  test_uniform_values();
  test_uniform_lists();
  test_uniform_blocks();
  test_uniform_recompute();
  test_table();
  test_table_refusals();
  test_work();
  test_presets();
  test_graphs();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  unlink("costs.csv");
  unlink("bad.csv");
  if (chdir("..") || rmdir(folder)) return 1;
  return t_end();
}
