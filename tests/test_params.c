/* The table of parameters, row by row: its own consistency, wrong types, every bound of every range, defaults. */
#include "deck_texts.h"

#include <jansson.h>

#include "input/param_value.h"

/* ---- the table itself ---- */

static void check_table(void) {
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    const char *name = row->key;
    size_t n = strlen(row->help);
    T_CHECK(n > 10 && row->help[n - 1] == '.' && row->help[0] >= 'A' && row->help[0] <= 'Z', "help of %s", name);
    T_CHECK(row->standard[0] && (row->standard[0] != '<' || row->standard[strlen(row->standard) - 1] == '>'), "%s",
            name);
    T_CHECK(param_find(row->section, row->key) == row, "%s is in the table twice", name);
    bool ranged =
        row->type == PARAM_INT || row->type == PARAM_AUTO_INT || row->type == PARAM_SIZE || row->type == PARAM_DURATION;
    T_CHECK(!ranged || row->range[0] == '[' || row->range[0] == '(', "%s has no range", name);
    T_CHECK(!row->of_model || !strcmp(row->section, "model"), "%s", name);
    char *allowed = param_describe(row);
    T_CHECK(allowed[0], "%s allows nothing", name);
    mem_free(allowed);
  }
  for (const struct param_later *later = param_laters; later->section; later++)
    T_CHECK(!param_find(later->section, later->key), "%s.%s is built and not built", later->section, later->key);
  for (const struct param_alias *alias = param_aliases; alias->section; alias++) {
    T_CHECK(param_find(alias->section, alias->key), "alias of %s.%s", alias->section, alias->key);
    T_CHECK(!param_find(alias->section, alias->word), "alias %s.%s is a key", alias->section, alias->word);
  }
}

static void check_defaults(void) {
  struct params params = parse_good(NULL, NULL);
  T_CHECK(params.run.seed == 1 && params.run.steps == 1000 && params.run.wall_time == 0, "run");
  T_CHECK(params.run.hang_timeout == 600 && params.run.on_save_error == PARAMS_ON_SAVE_ERROR_STOP, "run");
  T_CHECK(params.optimizer.lr == 3e-4 && params.optimizer.betas.second == 0.95, "optimizer");
  T_CHECK(params.optimizer.decay_steps == 1000 && params_is_set(&params, PARAM_optimizer_decay_steps), "decay_steps");
  T_CHECK(!strcmp(params_get_choice(&params, PARAM_pipeline_planner), "auto"), "planner");
  T_CHECK(params.data.shuffle && params.data.batching == PARAMS_BATCHING_FIXED && params.data.micro_batch == 1, "data");
  T_CHECK(!strcmp(params.run.folder, "runs/run"), "%s", params.run.folder);
  for (int id = 0; id < PARAM_COUNT; id++) {
    bool rule = id == PARAM_run_name || id == PARAM_run_folder || id == PARAM_optimizer_decay_steps ||
                id == PARAM_cost_source || id == PARAM_cost_profile;
    bool set = params_is_set(&params, (enum param_id)id);
    T_CHECK(set == (rule || param_has_standard(&param_rows[id])), "%s is %sset", param_rows[id].key, set ? "" : "not ");
    T_CHECK(!params_is_given(&params, (enum param_id)id), "%s is given", param_rows[id].key);
  }
  T_CHECK(params_require_training(&params) == STATUS_MISTAKE && strstr(error_text(), "'data.train'"), "%s",
          error_text());
  params_fini(&params);
  params = parse_good("optimizer: {schedule: wsd}\nrun: {steps: 101, name: a b}\n", NULL);
  T_CHECK(params.optimizer.decay_steps == 11 && !strcmp(params.run.folder, "runs/a b"), "rules");
  params_fini(&params);
}

/* ---- wrong values, for each type what it is not ---- */

/* NULL-terminated texts that no key of the type may take. */
static const char *const *wrong_of(enum param_type type) {
  static const char *const wrong[PARAM_TYPE_COUNT][14] = {
      [PARAM_BOOL] = {"1", "0", "maybe", "'true'", "tRUE", "[true]", "{a: 1}", "", "null"},
      [PARAM_INT] = {"1.5", "1e3", "five", "5 min", "1 GiB", "0x10", "'5'", "[5]", "007", "99999999999999999999", ""},
      [PARAM_FLOAT] = {"nan", "inf", "0x1p3", "1 s", "x", "'0.5'", "1e999", "1e-999", "[0.5]", "1,5", ""},
      [PARAM_AUTO_INT] = {"1.5", "1e3", "five", "'auto'", "[auto]", "-1", "AUTO", "007", ""},
      [PARAM_AUTO_FLOAT] = {"nan", "x", "'auto'", "'0.5'", "[0.5]", "-1", "{a: 1}", ""},
      [PARAM_STRING] = {"[a]", "{a: 1}", "''", "", "~", "\"a\\nb\""},
      [PARAM_PATH] = {"[a]", "{a: 1}", "''", "", "~", "\"a\\nb\""},
      [PARAM_DECK_PATH] = {"[a]", "{a: 1}", "''", "", "~", "\"a\\nb\""},
      [PARAM_CHOICE] = {"nonsense", "1", "[auto]", "''", ""},
      [PARAM_SIZE] = {"5", "5 G", "5 s", "0.5 B", "-1 GiB", "GiB", "[1 GiB]", "99999999 TiB", ""},
      [PARAM_DURATION] = {"5", "5 GiB", "11:45", "11:99:00", "-5 s", "s", "[5 s]", ""},
      [PARAM_PAIR] = {"0.9", "[0.9]", "[0.9, 0.9, 0.9]", "[a, 0.9]", "{a: 1}", "[[0.9], 0.9]", ""},
      [PARAM_MIX] = {"[]", "{}", "{a: b}", "{a: 0}", "{a: -1}", "[a, a]", "[a, {b: 1}]", "[[a]]", "", "['']"},
      [PARAM_RANK_SIZES] = {"1 GiB", "[1 GiB]", "{a: 1 GiB}", "{-1: 1 GiB}", "{0: 5}", "{00: 1 B}", "{}", "{1.5: 1 B}",
                            ""},
      [PARAM_RANK_FACTORS] = {"2", "[2]", "{a: 2}", "{-1: 2}", "{0: x}", "{0: 0}", "{0: 1e-300}", "{0: 1e300}",
                              "{00: 2}", "{}", "{0: 1 s}", "{0: [2]}", ""},
      [PARAM_UNIFORM] = {"1", "[1]", "{}", "{forward: 1}", "{forward_ms: -1}", "{forward_ms: 2e18}",
                         "{forward_ms: 1 ms}", "{forward_ms: []}", "{forward_ms: [a]}", "{forward_ms: {0: 1}}",
                         "{send_ms: [[1]]}", "{send_ms: }"},
      [PARAM_LINK] = {"1", "[1]", "{}", "{latency: 1}", "{gb_per_s: 0}", "{gb_per_s: -1}", "{latency_us: 5 us}",
                      "{latency_us: [1]}", "{node_gb_per_s: 0}", ""},
      [PARAM_WAY] = {"1", "[1]", "{}", "{latency: 1}", "{gb_per_s: 0}", "{node_gb_per_s: 1}", "{latency_us: [1]}", ""},
      [PARAM_RECOMPUTE] = {"odd", "norm", "[]", "{a: 1}", "1", "[norm, norm]", "[[norm]]", "[{a: 1}]", "['']", "", "~"},
      [PARAM_STAGES] = {"odd", "-1", "1.5", "[]", "[1, 1]", "[-1]", "[a]", "{0: 1}", "[[1]]", "07", ""},
      [PARAM_PARTITION] = {"odd", "[]", "[0.3, 1]", "[1, 0, 1]", "[-1, 2]", "[a]", "{a: 1}", "3", "[[1]]", "3,4", ""},
  };
  return wrong[type];
}

static void check_wrong_types(void) {
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    const char *const *wrong = wrong_of(row->type);
    T_CHECK(wrong[0], "no wrong value for %s", row->key);
    for (; *wrong; wrong++) {
      char *yaml = mem_format("%s:\n    %s: %s\n", row->section, row->key, *wrong);
      char *place = mem_format("t.yml:2:"), *name = mem_format("'%s.%s' ", row->section, row->key);
      check_refused(yaml, NULL, place);
      check_refused(yaml, NULL, name);
      char *allowed = param_describe(row);
      check_refused(yaml, NULL, allowed);
      mem_free(allowed);
      mem_free(place);
      mem_free(name);
      mem_free(yaml);
    }
  }
}

/* ---- ranges ---- */

/* Whether a key takes a value, judged alone: other keys may forbid what its own range allows. */
static bool takes(const struct param_row *row, const char *text) {
  struct deck_node node;
  struct mistakes mistakes = {0};
  struct params params = {0};
  deck_parse_value(text, "here", &node, &mistakes);
  bool good = param_value_parse(row, &node, "here", param_at(&params, row), &mistakes);
  T_CHECK(good == !mistakes.n, "%s: %s and %lld mistakes", row->key, text, (long long)mistakes.n);
  deck_node_fini(&node);
  param_value_clear(row, param_at(&params, row));
  mem_free(mistakes.text);
  return good;
}

/* A bound of a type as text, off by the least step in direction -1, 0 or 1. */
static char *format_near(const struct param_row *row, double bound, int step) {
  double near = step ? nextafter(bound, step * INFINITY) : bound;
  switch (row->type) {
  case PARAM_INT:
  case PARAM_AUTO_INT: return mem_format("%lld", (long long)bound + step);
  case PARAM_SIZE: return mem_format("%lld B", (long long)bound + step);
  case PARAM_RANK_SIZES: return mem_format("{0: %lld B}", (long long)bound + step);
  case PARAM_DURATION: return step ? mem_format("%.15f s", bound + step * 1e-3) : mem_format("%.0f s", bound);
  case PARAM_PAIR: return mem_format("[%.17g, 0.5]", near);
  case PARAM_RANK_FACTORS: return mem_format("{0: %.17g}", near);
  case PARAM_UNIFORM: return mem_format("{forward_ms: [1, %.17g]}", near);
  case PARAM_WAY:
  case PARAM_LINK: return mem_format("{latency_us: %.17g}", near);
  case PARAM_PARTITION: return mem_format("[%g, 1]", bound + step * 0.5);
  default: return mem_format("%.17g", near);
  }
}

static void check_bound(const struct param_row *row, double bound, int outwards, bool open) {
  for (int step = -1; step <= 1; step++) {
    char *text = format_near(row, bound, step);
    bool inside = step == -outwards || (step == 0 && !open);
    T_CHECK(takes(row, text) == inside, "%s.%s: %s, range %s", row->section, row->key, text, row->range);
    mem_free(text);
  }
}

static void check_ranges(void) {
  int n_bounds = 0;
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    /* Read from the table's text here, not by the function under test. */
    char open, low[32], high[32], close;
    if (sscanf(row->range, "%1c%31[^,], %31[^])]%1c", &open, low, high, &close) != 4) continue;
    if (strcmp(low, "-inf")) check_bound(row, atof(low), -1, open == '('), n_bounds++;
    if (strcmp(high, "inf")) check_bound(row, atof(high), 1, close == ')'), n_bounds++;
  }
  T_CHECK(n_bounds > 50, "%d bounds", n_bounds);
  const struct param_row *betas = &param_rows[PARAM_optimizer_betas];
  T_CHECK(takes(betas, "[0, 0.99]") && !takes(betas, "[0.9, 1]") && !takes(betas, "[0.9, -0.1]"), "second of a pair");
}

static void check_choices(void) {
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    if (row->type != PARAM_CHOICE) continue;
    int n = 0;
    for (const struct param_choice *choice = param_choices; choice->set; choice++) {
      if (strcmp(choice->set, row->range)) continue;
      T_CHECK(takes(row, choice->text) == (choice->value >= 0), "%s: %s", row->key, choice->text);
      T_CHECK(choice->value < 0 || choice->value == n, "%s: %s is %d", row->key, choice->text, choice->value);
      n += choice->value >= 0;
    }
    T_CHECK(n > 0, "%s has no choice", row->key);
  }
}

static void check_values(void) {
  struct params p = parse_good(
      "run: {wall_time: '11:45:00', seed: 9223372036854775807}\n"
      "data:\n  shuffle: No\n  train:\n  - a/b\n  - c\n  validation:\n    x: 1\n    y: 2.5\n"
      "memory: {device_limit: 1.5 GiB, rank_limits: {3: 2 MB, 1: 1 KiB}}\n"
      "optimizer: {lr: 1e-3, betas: [.5, 0]}\n"
      "pipeline: {planner: 1f1b, partition: [0, 3.5, 0], recompute: [norm, qkv], recompute_stages: [2, 0]}\n",
      NULL);
  T_CHECK(p.run.wall_time == 42300 && p.run.seed == INT64_MAX && !p.data.shuffle, "scalars");
  T_CHECK(p.data.train.n == 2 && !p.data.train.weights && !strcmp(p.data.train.prefixes[1], "c"), "list");
  T_CHECK(p.data.validation.n == 2 && p.data.validation.weights[1] == 2.5, "map");
  T_CHECK(p.memory.device_limit == 3 << 29 && p.memory.rank_limits.n == 2, "sizes");
  T_CHECK(p.memory.rank_limits.ranks[0] == 1 && p.memory.rank_limits.bytes[0] == 1024, "ranks ascend");
  T_CHECK(p.memory.rank_limits.ranks[1] == 3 && p.memory.rank_limits.bytes[1] == 2000000, "ranks ascend");
  T_CHECK(p.optimizer.lr == 1e-3 && p.optimizer.betas.first == 0.5 && p.optimizer.betas.second == 0, "floats");
  T_CHECK(p.pipeline.planner == PARAMS_PLANNER_1F1B && !strcmp(params_get_choice(&p, PARAM_pipeline_planner), "1f1b"),
          "planner");
  T_CHECK(p.pipeline.partition.kind == PARAMS_CUT_LIST && p.pipeline.partition.n == 3 &&
              p.pipeline.partition.blocks[1] == 3.5,
          "partition");
  const struct params_ops *ops = &p.pipeline.recompute;
  T_CHECK(ops->n == 2 && !strcmp(ops->names[1], "qkv"), "ops");
  const struct params_stages *stages = &p.pipeline.recompute_stages;
  T_CHECK(stages->kind == PARAMS_STAGES_LIST && stages->n == 2 && stages->stages[0] == 0 && stages->stages[1] == 2,
          "stages ascend");
  T_CHECK(!params_is_set(&p, PARAM_pipeline_recompute_early) && !params_is_set(&p, PARAM_pipeline_chunks),
          "recompute_early, chunks");
  params_fini(&p);
  p = parse_good("pipeline: {recompute: mlp, recompute_stages: 3, recompute_early: off, chunks: 2}\n", NULL);
  T_CHECK(p.pipeline.recompute.n == 0 && p.pipeline.recompute.set == PARAMS_RECOMPUTE_MLP, "a set");
  T_CHECK(p.pipeline.recompute_stages.kind == PARAMS_STAGES_FIRST && p.pipeline.recompute_stages.n == 3, "a number");
  T_CHECK(!p.pipeline.recompute_early && p.pipeline.chunks == 2, "off");
  T_CHECK(p.pipeline.swap_stages.kind == PARAMS_STAGES_AUTO && p.pipeline.swap_tier == PARAMS_SWAP_TIER_AUTO, "swap");
  params_fini(&p);
  p = parse_good("pipeline: {swap_stages: [3, 1], swap_tier: host}\n", NULL);
  stages = &p.pipeline.swap_stages;
  T_CHECK(stages->kind == PARAMS_STAGES_LIST && stages->n == 2 && stages->stages[1] == 3, "swap_stages");
  T_CHECK(p.pipeline.swap_tier == PARAMS_SWAP_TIER_HOST, "swap_tier");
  params_fini(&p);
}

/* Keys of the pipeline that go together, or do not. */
static void check_pipeline(void) {
  check_refused("pipeline: {planner: file}\n", NULL, "'pipeline.planner' is file, but 'pipeline.plan_file' names none");
  check_refused("pipeline: {plan_file: x.csv}\n", NULL,
                "'pipeline.plan_file' is given, but 'pipeline.planner' is auto");
  check_refused("pipeline: {plan_file: x.csv, planner: zb-v}\n", NULL, "'pipeline.planner' is zb-v");
  check_refused("pipeline: {partition: [1, 2], stages: 2, chunks: 2, planner: interleaved}\n", NULL,
                "'pipeline.stages' 2 times 'pipeline.chunks' 2 are 4");
  check_refused("pipeline: {partition: [1, 2, 1], stages: 2, planner: zb-h1}\n", NULL,
                "lists 3 stages, 'pipeline.stages' is 2");
  check_refused("pipeline: {swap_tier: disk}\n", NULL,
                "'pipeline.swap_tier' is disk, but 'memory.spill_folder' names no folder");
  struct params p = parse_good("pipeline: {swap_tier: disk}\nmemory: {spill_folder: x}\n", NULL);
  params_fini(&p);
  p = parse_good("pipeline: {partition: [1, 2, 1, 1], stages: 2, planner: zb-v}\n", NULL);
  params_fini(&p);
  p = parse_good("pipeline: {planner: file, plan_file: a/b.csv, partition: [1, 2, 1], stages: 2}\n", NULL);
  T_CHECK(!strcmp(p.pipeline.plan_file, "a/b.csv"), "%s", p.pipeline.plan_file);
  params_fini(&p);
}

/* ---- the rest ---- */

static void check_model_json(void) {
  struct params params = parse_good("model:\n  model_type: llama\n  hidden_size: 64\n  rms_norm_eps: 1e-6\n"
                                    "  tie_word_embeddings: true\n  hidden_act: \"a\\\"b\"\n  init_std: 0.5\n",
                                    NULL);
  char *text = params_format_model_json(&params);
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  T_CHECK(json_object_size(root) == 5, "%s", text);
  T_CHECK(!strcmp(json_string_value(json_object_get(root, "model_type")), "llama"), "%s", text);
  T_CHECK(json_integer_value(json_object_get(root, "hidden_size")) == 64, "%s", text);
  T_CHECK(json_real_value(json_object_get(root, "rms_norm_eps")) == 1e-6, "%s", text);
  T_CHECK(json_is_true(json_object_get(root, "tie_word_embeddings")), "%s", text);
  T_CHECK(!strcmp(json_string_value(json_object_get(root, "hidden_act")), "a\"b"), "%s", text);
  json_decref(root);
  mem_free(text);
  params_fini(&params);
  params = parse_good("model: {config: x}\n", NULL);
  T_CHECK(!params_format_model_json(&params), "a config has its own JSON");
  params_fini(&params);
}

static void check_require(void) {
  static const enum param_id ids[] = {PARAM_data_sequence_length, PARAM_run_seed, PARAM_data_global_batch};
  struct params params = parse_good("data: {global_batch: 5}\n", NULL);
  T_CHECK(params_require(&params, "planning", ids, 3) == STATUS_MISTAKE, "sequence_length is missing");
  T_CHECK(strstr(error_text(), "t.yml: 'data.sequence_length'") && strstr(error_text(), "planning"), "%s",
          error_text());
  T_CHECK(!strstr(error_text(), "global_batch"), "%s", error_text());
  params_fini(&params);
  params = parse_good("data: {global_batch: 5, train: a, sequence_length: 4}\nmodel: {model_type: gpt2}\n", NULL);
  T_CHECK(!params_require_training(&params), "%s", error_text());
  params_fini(&params);
}

int main(void) {
  check_table();
  check_defaults();
  check_wrong_types();
  check_ranges();
  check_choices();
  check_values();
  check_pipeline();
  check_model_json();
  check_require();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
