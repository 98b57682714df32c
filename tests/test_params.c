/* The table of parameters, row by row: its own consistency, wrong types, every bound of every range, defaults, used.yml
 * there and back for random decks, and what may change in a run that goes on. */
#include "deck_texts.h"

#include <jansson.h>
#include <unistd.h>

#include "base/rng.h"
#include "input/param_value.h"
#include "input/params_print.h"

static const struct rng_key key = {.seed = 3, .purpose = RNG_TEST};
static uint64_t drawn;

static uint64_t draw(uint64_t n) { return rng_bits(&key, drawn++) % n; }

static enum param_id id_of(const struct param_row *row) { return (enum param_id)(row - param_rows); }

/* ---- the table itself ---- */

static void check_table(void) {
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    const char *name = row->key;
    size_t n = strlen(row->help);
    T_CHECK(n > 10 && row->help[n - 1] == '.' && row->help[0] >= 'A' && row->help[0] <= 'Z', "help of %s", name);
    T_CHECK(row->standard[0] && (row->standard[0] != '<' || row->standard[strlen(row->standard) - 1] == '>'), "%s",
            name);
    T_CHECK(param_find(row->section, row->key) == row, "%s is in the table twice", name);
    bool ranged = row->type == PARAM_INT || row->type == PARAM_SIZE || row->type == PARAM_DURATION;
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
    bool rule = id == PARAM_run_name || id == PARAM_run_folder || id == PARAM_optimizer_decay_steps;
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
  static const char *const wrong[PARAM_TYPE_COUNT][12] = {
      [PARAM_BOOL] = {"1", "0", "maybe", "'true'", "tRUE", "[true]", "{a: 1}", "", "null"},
      [PARAM_INT] = {"1.5", "1e3", "five", "5 min", "1 GiB", "0x10", "'5'", "[5]", "007", "99999999999999999999", ""},
      [PARAM_FLOAT] = {"nan", "inf", "0x1p3", "1 s", "x", "'0.5'", "1e999", "1e-999", "[0.5]", "1,5", ""},
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
  case PARAM_INT: return mem_format("%lld", (long long)bound + step);
  case PARAM_SIZE: return mem_format("%lld B", (long long)bound + step);
  case PARAM_RANK_SIZES: return mem_format("{0: %lld B}", (long long)bound + step);
  case PARAM_DURATION: return step ? mem_format("%.15f s", bound + step * 1e-3) : mem_format("%.0f s", bound);
  case PARAM_PAIR: return mem_format("[%.17g, 0.5]", near);
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
  struct params p = parse_good("run: {wall_time: '11:45:00', seed: 9223372036854775807}\n"
                               "data:\n  shuffle: No\n  train:\n  - a/b\n  - c\n  validation:\n    x: 1\n    y: 2.5\n"
                               "memory: {device_limit: 1.5 GiB, rank_limits: {3: 2 MB, 1: 1 KiB}}\n"
                               "optimizer: {lr: 1e-3, betas: [.5, 0]}\n"
                               "pipeline: {planner: 1f1b, partition: [0, 3.5, 0]}\n",
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
  params_fini(&p);
}

/* ---- used.yml ---- */

/* A random value of a row, in deck syntax. */
static char *draw_value(const struct param_row *row) {
  static const char *const texts[] = {
      "plain",     "'with space'", "\"it's\"",   "'# no comment'", "1e5",   "yes",  "'a: b'", "./x",
      "../y.json", "/abs/z",       "'\xc3\xa4'", "'[x]'",          "'- y'", "'&a'", ".",      "5"};
  struct param_range range = param_get_range(row);
  double u = rng_uniform(&key, drawn++), low = isfinite(range.low) ? range.low : -10;
  double high = isfinite(range.high) ? range.high : low + (draw(2) ? 3 : 1e9);
  switch (row->type) {
  case PARAM_BOOL: return mem_strdup(draw(2) ? "true" : "off");
  case PARAM_INT: return mem_format("%lld", (long long)(low + u * (high - low)));
  case PARAM_FLOAT: return mem_format("%.17g", low + u * (high - low));
  case PARAM_CHOICE: {
    uint64_t n = 0;
    while (param_choices[n].set) n++;
    const struct param_choice *choice;
    do choice = &param_choices[draw(n)];
    while (strcmp(choice->set, row->range) || choice->value < 0);
    return mem_strdup(choice->text);
  }
  case PARAM_SIZE: return mem_format("%llu KiB", 1 + (unsigned long long)draw(1 << 30));
  case PARAM_DURATION:
    return draw(2) ? mem_format("%.6f s", u * 9e5) : mem_format("%llu:05:09", (unsigned long long)draw(99));
  case PARAM_PAIR: return mem_format("[%.17g, %g]", u, u / 3);
  case PARAM_MIX:
    return draw(2) ? mem_format("[%s, q]", texts[draw(16)])
                   : mem_format("{%s: %.17g, q: 1}", texts[draw(16)], u + 1e-9);
  case PARAM_RANK_SIZES: return mem_format("{%llu: 3 MiB, 1: 700 B}", 2 + (unsigned long long)draw(9));
  case PARAM_PARTITION: return draw(2) ? mem_strdup("even") : mem_format("[%llu, 2.5, 0]", (unsigned long long)draw(9));
  default: return mem_strdup(texts[draw(16)]);
  }
}

/* Whether a random deck may set a key beside the others that it sets. */
static bool may_draw(const struct param_row *row, bool config, const char *model_type) {
  enum param_id id = id_of(row);
  if (id == PARAM_optimizer_min_lr || id == PARAM_optimizer_warmup_steps || id == PARAM_pipeline_stages) return false;
  if (id == PARAM_optimizer_decay_steps || id == PARAM_run_evaluate_every || id == PARAM_model_model_type) return false;
  if (id == PARAM_model_config) return config;
  return !row->of_model || (!config && (!row->family[0] || strstr(row->family, model_type)));
}

static char *draw_deck(void) {
  static const char *const types[] = {"gpt2", "llama"};
  const char *model_type = types[draw(2)];
  bool config = draw(2);
  char *yaml = mem_strdup("");
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    bool first = row == param_rows || strcmp(row->section, row[-1].section);
    char *value = may_draw(row, config, model_type) && draw(3) ? draw_value(row) : NULL;
    char *type = first && !strcmp(row->section, "model") && !config ? mem_format("  model_type: %s\n", model_type)
                                                                    : mem_strdup("");
    char *longer =
        mem_format("%s%s%s%s%s%s%s%s%s", yaml, first ? row->section : "", first ? ":\n" : "", type, value ? "  " : "",
                   value ? row->key : "", value ? ": " : "", value ? value : "", value ? "\n" : "");
    mem_free(type);
    mem_free(value);
    mem_free(yaml);
    yaml = longer;
  }
  return yaml;
}

/* Deep comparison of a value by its C type, without the program's own formatting. */
static bool is_same(const struct param_row *row, const void *a, const void *b) {
  switch (row->type) {
  case PARAM_BOOL: return *(const bool *)a == *(const bool *)b;
  case PARAM_INT:
  case PARAM_SIZE: return *(const int64_t *)a == *(const int64_t *)b;
  case PARAM_FLOAT:
  case PARAM_DURATION: return *(const double *)a == *(const double *)b;
  case PARAM_CHOICE: return *(const int *)a == *(const int *)b;
  case PARAM_PAIR: return !memcmp(a, b, sizeof(struct params_pair));
  case PARAM_MIX: {
    const struct params_mix *x = a, *y = b;
    bool same = x->n == y->n && !x->weights == !y->weights;
    for (int64_t i = 0; same && i < x->n; i++)
      same = !strcmp(x->prefixes[i], y->prefixes[i]) && (!x->weights || x->weights[i] == y->weights[i]);
    return same;
  }
  case PARAM_RANK_SIZES: {
    const struct params_rank_sizes *x = a, *y = b;
    return x->n == y->n &&
           (!x->n || (!memcmp(x->ranks, y->ranks, (size_t)x->n * 8) && !memcmp(x->bytes, y->bytes, (size_t)x->n * 8)));
  }
  case PARAM_PARTITION: {
    const struct params_partition *x = a, *y = b;
    return x->kind == y->kind && x->n == y->n &&
           (!x->n || !memcmp(x->blocks, y->blocks, (size_t)x->n * sizeof(double)));
  }
  default: {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return !x == !y && (!x || !strcmp(x, y));
  }
  }
}

static struct params read_back(const char *path) {
  struct params params = {0};
  char *text;
  T_CHECK(!deck_read_text(path, &text), "%s", error_text());
  T_CHECK(!params_parse(text, NULL, 0, &params), "%s", error_text());
  mem_free(text);
  return params;
}

static void check_used(void) {
  for (int i = 0; i < 150; i++) {
    char *yaml = draw_deck();
    struct params now = parse_good(yaml, NULL);
    T_CHECK(!params_write_used(&now, "RUN/used.yml"), "%s", error_text());
    struct params back = read_back("RUN/used.yml");
    for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
      T_CHECK(params_is_set(&now, id_of(row)) == params_is_set(&back, id_of(row)), "%s", row->key);
      if (row->type != PARAM_DECK_PATH)
        T_CHECK(is_same(row, param_read(&now, row), param_read(&back, row)), "%s.%s changes in\n%s", row->section,
                row->key, yaml);
    }
    T_CHECK(!params_compare_resume(&now, "RUN/used.yml"), "%s\n%s", error_text(), yaml);
    params_fini(&back);
    params_fini(&now);
    mem_free(yaml);
  }
  T_CHECK(access("RUN/used.yml.tmp", F_OK), "the temporary file stays");
}

/* A config.json is found again from used.yml, also after deck, config and run have been moved together. */
static void check_config_path(void) {
  if (system("mkdir -p old/RUN old/in")) return;
  write_file("old/in/config.json", "{}");
  write_file("old/deck.yml", "model: {config: in/config.json}\n");
  struct params now = read_back("old/deck.yml");
  T_CHECK(!strcmp(now.model.config, "old/in/config.json"), "%s", now.model.config);
  T_CHECK(!params_write_used(&now, "old/RUN/used.yml"), "%s", error_text());
  params_fini(&now);
  T_CHECK(!rename("old", "new"), "rename");
  now = read_back("new/deck.yml");
  struct params back = read_back("new/RUN/used.yml");
  T_CHECK(!strcmp(back.model.config, "new/RUN/../in/config.json"), "%s", back.model.config);
  T_CHECK(!access(back.model.config, R_OK), "%s is not there", back.model.config);
  T_CHECK(!params_compare_resume(&now, "new/RUN/used.yml"), "%s", error_text());
  T_CHECK(params_write_used(&now, "none/used.yml") == STATUS_FAILED, "written to nowhere");
  T_CHECK(strstr(error_text(), "none/used.yml"), "%s", error_text());
  params_fini(&now);
  write_file("new/in/other.json", "{}");
  write_file("new/deck.yml", "model: {config: in/other.json}\n");
  now = read_back("new/deck.yml");
  T_CHECK(params_compare_resume(&now, "new/RUN/used.yml") == STATUS_MISTAKE, "another config");
  params_fini(&now);
  params_fini(&back);
}

static void check_sources(void) {
  struct params now = parse_good("run:\n  seed: 5\n", "run.log_every=7");
  params_set_used(&now, PARAM_device_threads, "2", "the cores of this rank");
  params_set_used(&now, PARAM_memory_device_limit, "3 GiB", "the share of rank 0");
  T_CHECK(now.device.threads == 2 && params_is_set(&now, PARAM_device_threads), "threads");
  T_CHECK(!params_is_given(&now, PARAM_device_threads), "found out, not given");
  T_CHECK(!params_write_used(&now, "RUN/used.yml"), "%s", error_text());
  static const char *const lines[] = {
      "\n  seed: 5  # t.yml:2:3\n",
      "\n  log_every: 7  # -D run.log_every\n",
      "\n  threads: 2  # the cores of this rank\n",
      "\n  steps: 1000  # default\n",
      "\n  device_limit: 3 GiB  # the share of rank 0\n",
      "\n  # config:  # not set: ",
  };
  char text[20000] = "";
  FILE *in = fopen("RUN/used.yml", "r");
  size_t n = in ? fread(text, 1, sizeof text - 1, in) : 0;
  if (in) fclose(in);
  T_CHECK(n > 0 && n < sizeof text - 1, "%zu bytes", n);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    T_CHECK(strstr(text, lines[i]), "no line %s in\n%s", lines[i], text);
  for (int id = 0; id < PARAM_COUNT; id++)
    T_CHECK(strstr(text, param_rows[id].key), "%s is not there", param_rows[id].key);
  params_fini(&now);
}

/* ---- a run that goes on ---- */

/* For every key two values; a changed one is refused exactly when the key is fixed. */
static void check_resume(void) {
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    enum param_id id = id_of(row);
    if (id == PARAM_model_model_type || id == PARAM_optimizer_min_lr || id == PARAM_optimizer_warmup_steps) continue;
    bool llama = row->family[0] && !strstr(row->family, "gpt2");
    const char *rest = id == PARAM_run_evaluate_every ? "data: {validation: v}\n" : "";
    const char *model = !row->of_model ? "" : llama ? "model_type: llama, " : "model_type: gpt2, ";
    char *values[2] = {draw_value(row), draw_value(row)};
    char *decks[2];
    for (int i = 0; i < 2; i++)
      decks[i] = mem_format("%s%s: {%s%s: %s}\n", rest, row->section, model, row->key, values[i]);
    struct params old = parse_good(decks[0], "optimizer.schedule=cosine"),
                  now = parse_good(decks[1], "optimizer.schedule=cosine");
    bool same = is_same(row, param_read(&old, row), param_read(&now, row));
    bool follows = old.optimizer.decay_steps == now.optimizer.decay_steps; /* run.steps drives the end of the decay */
    T_CHECK(!params_write_used(&old, "RUN/used.yml"), "%s", error_text());
    int status = params_compare_resume(&now, "RUN/used.yml");
    bool refused = (row->fixed && !same && id != PARAM_optimizer_schedule) || !follows;
    T_CHECK(status == (refused ? STATUS_MISTAKE : STATUS_OK), "%s from %s to %s: %s", row->key, values[0], values[1],
            error_text());
    if (refused && follows) {
      char *name = mem_format("'%s.%s' was ", row->section, row->key);
      T_CHECK(strstr(error_text(), name), "%s", error_text());
      mem_free(name);
    }
    params_fini(&old);
    params_fini(&now);
    for (int i = 0; i < 2; i++) mem_free(values[i]), mem_free(decks[i]);
  }
}

static void check_resume_rules(void) {
  struct params old = parse_good("run: {steps: 10}\n", NULL), now = parse_good("run: {steps: 20}\n", NULL);
  T_CHECK(!params_write_used(&old, "RUN/used.yml"), "%s", error_text());
  T_CHECK(!params_compare_resume(&now, "RUN/used.yml"), "a constant rate may go on longer: %s", error_text());
  params_fini(&old);
  params_fini(&now);
  old = parse_good("run: {steps: 10}\noptimizer: {schedule: cosine}\n", NULL);
  now = parse_good("run: {steps: 20}\noptimizer: {schedule: cosine}\n", NULL);
  T_CHECK(!params_write_used(&old, "RUN/used.yml"), "%s", error_text());
  T_CHECK(params_compare_resume(&now, "RUN/used.yml") == STATUS_MISTAKE, "a cosine that is longer is another one");
  T_CHECK(strstr(error_text(), "'optimizer.decay_steps' was 10 when this run began and is 20 now"), "%s", error_text());
  params_fini(&now);
  now = parse_good("run: {steps: 20}\noptimizer: {schedule: cosine, decay_steps: 10}\n", NULL);
  T_CHECK(!params_compare_resume(&now, "RUN/used.yml"), "the repair that is told: %s", error_text());
  params_fini(&old);
  params_fini(&now);
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

/* The reference deck is a deck, and setting every key to its default changes nothing. */
static void check_reference(void) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  params_print_reference(out);
  fclose(out);
  struct params reference = parse_good(text, NULL), nothing = parse_good(NULL, "run.name=t");
  for (int id = 0; id < PARAM_COUNT; id++) {
    const struct param_row *row = &param_rows[id];
    T_CHECK(is_same(row, param_read(&reference, row), param_read(&nothing, row)), "%s", row->key);
    T_CHECK(params_is_given(&reference, (enum param_id)id) == (param_has_standard(row) != 0), "%s", row->key);
  }
  params_fini(&reference);
  params_fini(&nothing);
  free(text);
}

/* Which keys may change, said a second time: a slip here would let a resumed run go on with other numbers. */
static void check_flags(void) {
  static const char may_change[] =
      "run.name run.folder run.steps run.log_every run.checkpoint_every run.keep_checkpoints run.on_save_error "
      "run.evaluate_every run.evaluate_steps run.trace_every run.wall_time run.hang_timeout data.validation "
      "device.backend "
      "device.threads memory.device_limit memory.rank_limits pipeline.planner pipeline.stages pipeline.partition ";
  for (int id = 0; id < PARAM_COUNT; id++) {
    char *name = mem_format("%s.%s ", param_rows[id].section, param_rows[id].key);
    T_CHECK(!strstr(may_change, name) == param_rows[id].fixed, "%s", name);
    mem_free(name);
  }
}

static void check_all(void) {
  check_table();
  check_flags();
  check_defaults();
  check_wrong_types();
  check_ranges();
  check_choices();
  check_values();
  check_used();
  check_config_path();
  check_sources();
  check_resume();
  check_resume_rules();
  check_model_json();
  check_require();
  check_reference();
}

int main(void) {
  char folder[] = "test_params-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder) || system("mkdir RUN")) return 1;
  check_all();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  if (chdir("..")) return 1;
  char *command = mem_format("rm -rf %s", folder);
  if (system(command)) return 1;
  mem_free(command);
  return t_end();
}
