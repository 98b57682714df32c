/* used.yml there and back for random decks, the reference deck, and what may change in a run that goes on. */
#include "deck_texts.h"

#include <unistd.h>

#include "base/rng.h"
#include "input/params_print.h"
#include "scratch.h"

static const struct rng_key key = {.seed = 3, .purpose = RNG_TEST};
static uint64_t drawn;

static uint64_t draw(uint64_t n) { return rng_bits(&key, drawn++) % n; }

static enum param_id id_of(const struct param_row *row) { return (enum param_id)(row - param_rows); }

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
  case PARAM_AUTO_INT: return draw(3) ? mem_format("%llu", (unsigned long long)draw(999)) : mem_strdup("auto");
  case PARAM_AUTO_FLOAT: return draw(3) ? mem_format("%.17g", low + u * (high - low)) : mem_strdup("auto");
  case PARAM_CHOICE: {
    uint64_t n = 0;
    while (param_choices[n].set) n++;
    const struct param_choice *choice;
    do choice = &param_choices[draw(n)];
    while (strcmp(choice->set, row->range) || choice->value < 0 || !strcmp(choice->text, "file")); /* needs a file */
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
  case PARAM_RANK_FACTORS: return mem_format("{%llu: %.17g, 1: 2}", 2 + (unsigned long long)draw(9), u + 1e-9);
  case PARAM_UNIFORM:
    return draw(2) ? mem_format("{forward_ms: %.17g, send_ms: 0}", u)
                   : mem_format("{input_ms: [%.17g, 1], recompute_ms: [3]}", u);
  case PARAM_LINK:
    return draw(2) ? mem_format("{latency_us: 0, node_gb_per_s: %.17g}", u + 1e-9) : mem_format("{gb_per_s: 1.5}");
  case PARAM_WAY: return draw(2) ? mem_format("{latency_us: %.17g}", u) : mem_format("{gb_per_s: 1.5, latency_us: 3}");
  case PARAM_RECOMPUTE: return draw(2) ? mem_strdup("cmb") : mem_format("[%s, q]", texts[draw(16)]);
  case PARAM_STAGES:
    return draw(2) ? mem_format("[%llu, 1]", 2 + (unsigned long long)draw(9)) : mem_strdup(draw(2) ? "all" : "5");
  case PARAM_PARTITION: return draw(2) ? mem_strdup("even") : mem_format("[%llu, 2.5, 0]", (unsigned long long)draw(9));
  default: return mem_strdup(texts[draw(16)]);
  }
}

/* Whether a random deck may set a key beside the others that it sets. */
static bool may_draw(const struct param_row *row, bool config, const char *model_type) {
  enum param_id id = id_of(row);
  if (id == PARAM_optimizer_min_lr || id == PARAM_optimizer_warmup_steps || id == PARAM_pipeline_stages) return false;
  if (id == PARAM_cost_source || id == PARAM_pipeline_plan_file || id == PARAM_pipeline_swap_tier) return false;
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

static bool is_same_uniform(const struct params_uniform *x, const struct params_uniform *y) {
  for (int t = 0; t < PARAMS_TIME_COUNT; t++) {
    const struct params_uniform_time *a = &x->times[t], *b = &y->times[t];
    if (a->n != b->n || a->by_rank != b->by_rank || (a->n && memcmp(a->ms, b->ms, (size_t)a->n * sizeof(double))))
      return false;
  }
  return true;
}

/* Deep comparison of a value by its C type, without the program's own formatting. */
static bool is_same(const struct param_row *row, const void *a, const void *b) {
  switch (row->type) {
  case PARAM_BOOL: return *(const bool *)a == *(const bool *)b;
  case PARAM_INT:
  case PARAM_AUTO_INT:
  case PARAM_SIZE: return *(const int64_t *)a == *(const int64_t *)b;
  case PARAM_FLOAT:
  case PARAM_AUTO_FLOAT:
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
  case PARAM_RANK_FACTORS: {
    const struct params_rank_factors *x = a, *y = b;
    return x->n == y->n && (!x->n || (!memcmp(x->ranks, y->ranks, (size_t)x->n * 8) &&
                                      !memcmp(x->factors, y->factors, (size_t)x->n * sizeof(double))));
  }
  case PARAM_UNIFORM: return is_same_uniform(a, b);
  case PARAM_RECOMPUTE: {
    const struct params_ops *x = a, *y = b;
    bool same = x->n == y->n && (x->n > 0 || x->set == y->set);
    for (int64_t i = 0; same && i < x->n; i++) same = !strcmp(x->names[i], y->names[i]);
    return same;
  }
  case PARAM_STAGES: {
    const struct params_stages *x = a, *y = b;
    return x->kind == y->kind && x->n == y->n && (!x->stages || !memcmp(x->stages, y->stages, (size_t)x->n * 8));
  }
  case PARAM_WAY:
  case PARAM_LINK: return !memcmp(a, b, sizeof(struct params_link));
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
    T_CHECK(!params_compare_resume(&now, "RUN/used.yml", true), "%s\n%s", error_text(), yaml);
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
  T_CHECK(!params_compare_resume(&now, "new/RUN/used.yml", true), "%s", error_text());
  T_CHECK(params_write_used(&now, "none/used.yml") == STATUS_FAILED, "written to nowhere");
  T_CHECK(strstr(error_text(), "none/used.yml"), "%s", error_text());
  params_fini(&now);
  write_file("new/in/other.json", "{}");
  write_file("new/deck.yml", "model: {config: in/other.json}\n");
  now = read_back("new/deck.yml");
  T_CHECK(params_compare_resume(&now, "new/RUN/used.yml", true) == STATUS_MISTAKE, "another config");
  params_fini(&now);
  params_fini(&back);
}

/* A deck's file may have any name. */
static void check_odd_names(void) {
  static const char *const names[][2] = {{"a\tb.yml", "a_b"},     {"\xff\xc3\xa4.yml", "_\xc3\xa4"},
                                         {".yml", ".yml"},        {"x/a.b.yaml", "a.b"},
                                         {"#: {.yml", "#: {"},    {"5", "5"},
                                         {"\xed\xa0\x80", "___"}, {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *text = deck_wrap_text(names[i][0], "run: {seed: 4}");
    struct params now;
    T_CHECK(!params_parse(text, NULL, 0, &now), "%s", error_text());
    T_CHECK(!strcmp(now.run.name, names[i][1]), "'%s' gives '%s'", names[i][0], now.run.name);
    T_CHECK(!params_write_used(&now, "RUN/used.yml"), "%s", error_text());
    struct params back = read_back("RUN/used.yml");
    T_CHECK(back.run.name && !strcmp(back.run.name, now.run.name), "'%s'", now.run.name);
    params_fini(&now);
    params_fini(&back);
    mem_free(text);
  }
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
    if (id == PARAM_model_model_type || id == PARAM_optimizer_min_lr || id == PARAM_optimizer_warmup_steps ||
        id == PARAM_cost_source || id == PARAM_pipeline_plan_file)
      continue;
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
    int status = params_compare_resume(&now, "RUN/used.yml", true);
    bool refused = (row->bond == PARAM_FIXED && !same && id != PARAM_optimizer_schedule) || !follows;
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

/* With contents to compare, files may lie elsewhere; their weights and number are held to all the same. */
static void check_resume_names(void) {
  const struct {
    const char *before, *after;
    bool names, good;
  } cases[] = {
      {"data: {train: a}", "data: {train: b}", false, true},
      {"data: {train: a}", "data: {train: b}", true, false},
      {"data: {train: [a, b]}", "data: {train: [c, d]}", false, true},
      {"data: {train: [a, b]}", "data: {train: a}", false, false},
      {"data: {train: {a: 1, b: 2}}", "data: {train: {c: 1, d: 2}}", false, true},
      {"data: {train: {a: 1, b: 2}}", "data: {train: {a: 1, b: 3}}", false, false},
      {"data: {train: {a: 1, b: 1}}", "data: {train: [a, b]}", false, false},
      {"model: {config: a.json}", "model: {config: b.json}", false, true},
      {"model: {config: a.json}", "model: {config: b.json}", true, false},
      {"model: {config: a.json}", "model: {model_type: llama}", false, false},
      {"model: {model_type: llama, init_from: a}", "model: {model_type: llama, init_from: ./a}", false, true},
      {"model: {model_type: llama, init_from: a}", "model: {model_type: llama, init_from: b}", false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct params old = parse_good(cases[i].before, NULL), now = parse_good(cases[i].after, NULL);
    T_CHECK(!params_write_used(&old, "RUN/used.yml"), "%s", error_text());
    int status = params_compare_resume(&now, "RUN/used.yml", cases[i].names);
    T_CHECK(status == (cases[i].good ? STATUS_OK : STATUS_MISTAKE), "%s, then %s: %d %s", cases[i].before,
            cases[i].after, status, error_text());
    params_fini(&old);
    params_fini(&now);
  }
}

/* Two ranks whose keys have any two values: refused, with both, exactly when they differ in what all must share. */
static void check_ranks(void) {
  for (const struct param_row *row = param_rows; row < param_rows + PARAM_COUNT; row++) {
    enum param_id id = id_of(row);
    if (id == PARAM_model_model_type || id == PARAM_optimizer_min_lr || id == PARAM_optimizer_warmup_steps ||
        id == PARAM_cost_source || id == PARAM_pipeline_plan_file)
      continue;
    bool llama = row->family[0] && !strstr(row->family, "gpt2");
    const char *rest = id == PARAM_run_evaluate_every   ? "data: {validation: v}\n"
                       : id == PARAM_pipeline_swap_tier ? "memory: {spill_folder: s}\n"
                                                        : "";
    const char *model = !row->of_model ? "" : llama ? "model_type: llama, " : "model_type: gpt2, ";
    struct params ranks[2];
    for (int i = 0; i < 2; i++) {
      char *value = draw_value(row);
      char *deck = mem_format("%s%s: {%s%s: %s}\n", rest, row->section, model, row->key, value);
      ranks[i] = parse_good(deck, NULL);
      mem_free(value);
      mem_free(deck);
    }
    bool same = is_same(row, param_read(&ranks[0], row), param_read(&ranks[1], row));
    char *shared = params_format_shared(&ranks[0]), *name = mem_format("'%s.%s' is ", row->section, row->key);
    int status = params_compare_shared(&ranks[1], shared, "rank 0 (here)");
    if (same || row->bond == PARAM_BY_RANK)
      T_CHECK(status == STATUS_OK, "%s", error_text());
    else if (row->type != PARAM_MIX)
      T_CHECK(status == STATUS_MISTAKE && strstr(error_text(), name) && strstr(error_text(), "on rank 0 (here)"),
              "%s: %s", name, error_text());
    mem_free(shared);
    mem_free(name);
    for (int i = 0; i < 2; i++) params_fini(&ranks[i]);
  }
}

static void check_resume_rules(void) {
  struct params old = parse_good("run: {steps: 10}\n", NULL), now = parse_good("run: {steps: 20}\n", NULL);
  T_CHECK(!params_write_used(&old, "RUN/used.yml"), "%s", error_text());
  T_CHECK(!params_compare_resume(&now, "RUN/used.yml", true), "a constant rate may go on longer: %s", error_text());
  params_fini(&old);
  params_fini(&now);
  old = parse_good("run: {steps: 10}\noptimizer: {schedule: cosine}\n", NULL);
  now = parse_good("run: {steps: 20}\noptimizer: {schedule: cosine}\n", NULL);
  T_CHECK(!params_write_used(&old, "RUN/used.yml"), "%s", error_text());
  T_CHECK(params_compare_resume(&now, "RUN/used.yml", true) == STATUS_MISTAKE,
          "a cosine that is longer is another one");
  T_CHECK(strstr(error_text(), "'optimizer.decay_steps' was 10 when this run began and is 20 now"), "%s", error_text());
  params_fini(&now);
  now = parse_good("run: {steps: 20}\noptimizer: {schedule: cosine, decay_steps: 10}\n", NULL);
  T_CHECK(!params_compare_resume(&now, "RUN/used.yml", true), "the repair that is told: %s", error_text());
  params_fini(&old);
  params_fini(&now);
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
      "run.name run.folder run.steps run.log_every run.checkpoint_every run.keep_checkpoints run.keep_every "
      "run.keep_best run.on_save_error "
      "run.evaluate_every run.evaluate_steps run.trace_every run.trace_limit run.wall_time run.hang_timeout "
      "data.validation "
      "device.backend "
      "device.sync_messages device.peak_tflops device.threads device.preset device.rank_speeds device.time_scale "
      "cost.source "
      "cost.profile cost.uniform "
      "cost.table cost.link cost.host_link cost.shared_link "
      "cost.node_size "
      "memory.device_limit memory.rank_limits pipeline.planner pipeline.stages pipeline.partition "
      "pipeline.chunks pipeline.recompute pipeline.recompute_stages pipeline.recompute_early pipeline.recompute_by "
      "pipeline.plan_file "
      "memory.host_limit memory.spill_folder memory.spill_limit pipeline.swap pipeline.swap_stages pipeline.swap_tier "
      "obscura.steps obscura.adjusted_stages "
      "obscura.faithful obscura.lambda obscura.beta obscura.epsilon "
      "obscura.eviction ";
  static const char by_rank[] = "device.threads memory.device_limit memory.host_limit memory.spill_folder ";
  for (int id = 0; id < PARAM_COUNT; id++) {
    char *name = mem_format("%s.%s ", param_rows[id].section, param_rows[id].key);
    T_CHECK(!strstr(may_change, name) == (param_rows[id].bond == PARAM_FIXED), "%s", name);
    T_CHECK(!strstr(by_rank, name) == (param_rows[id].bond != PARAM_BY_RANK), "%s", name);
    mem_free(name);
  }
}

static void check_all(void) {
  check_flags();
  check_used();
  check_config_path();
  check_odd_names();
  check_sources();
  check_resume();
  check_resume_rules();
  check_resume_names();
  check_ranks();
  check_reference();
}

int main(void) {
  if (chdir(scratch_make()) || system("mkdir RUN")) return 1;
  check_all();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  if (chdir("..")) return 1;
  scratch_remove();
  return t_end();
}
