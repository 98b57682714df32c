/* Decks as texts: what of YAML is refused and where, includes, overrides, contradictions, many mistakes at once, and
 * damaged decks without end. */
#include "deck_texts.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "input/params_print.h"
#include "scratch.h"

static const struct rng_key key = {.seed = 5, .purpose = RNG_TEST};
static uint64_t drawn;

static uint64_t draw(void) { return rng_bits(&key, drawn++); }

static void check_yaml(void) {
  static const char *const cases[][2] = {
      {"run: &a {steps: 1}\n", "t.yml:1:6: anchors"},
      {"run:\n  steps: &a 1\n", "t.yml:2:10: anchors"},
      {"run:\n  steps: *a\n", "t.yml:2:10: aliases"},
      {"run:\n  name: !!str a\n", "t.yml:2:9: tags"},
      {"run:\n  steps: 1\n---\nrun:\n  seed: 2\n", "t.yml:3:1: a second document"},
      {"run:\n  steps: 1\n  seed: 1\n  steps: 2\n", "t.yml:4:3: 'steps' is given twice, first in line 2"},
      {"run:\n  steps: 1\ndata:\n  shuffle: true\nrun:\n  seed: 2\n",
       "t.yml:5:1: 'run' is given twice, first in line 1"},
      {"data:\n  train: [[a]]\n", "t.yml:2:11: 'data.train' is a list"},
      {"data:\n  train: {a: {b: {c: {d: 1}}}}\n", "nested too deep"},
      {"run:\n  steps: {a: 1}\n", "t.yml:2:10: 'run.steps' is a map"},
      {"run:\n\tsteps: 1\n", "t.yml:2:1: not YAML"},
      {"run:\n\tsteps: 1\n", "indent with spaces"},
      {"run:\n  steps: [1\n", "not YAML"},
      {"run:\n  bad: 1\n  steps: [1\n", "unknown key 'bad'"},
      {"", "t.yml: the deck is empty"},
      {"# nothing\n", "t.yml: the deck is empty"},
      {"- run\n", "t.yml:1:1: a deck begins with sections"},
      {"steps\n", "a deck begins with sections"},
      {"run: 5\n", "t.yml:1:1: 'run' is a section"},
      {"run: [a]\n", "'run' is a section"},
      {"lr: 5\n", "did you mean 'optimizer:' and below it, indented, 'lr:'?"},
      {"run.steps: 5\n", "did you mean 'run:' and below it, indented, 'steps:'?"},
      {"optimiser:\n  lr: 1\n",
       "t.yml:1:1: unknown section 'optimiser' (did you mean 'optimizer'?); allowed: include, run"},
      {"[a, b]: 5\n", "a key must be a single word"},
      {"include: [a, b]\n", "t.yml:1:1: 'include' takes the path of one deck"},
      {"optimizer:\n    learnig_rate: 1\n",
       "t.yml:2:5: unknown key 'learnig_rate' in 'optimizer' (did you mean 'lr'?); allowed: lr, min_lr"},
      {"run:\n  stpes: 1\n", "(did you mean 'steps'?)"},
      {"optimizer:\n  lr: 1.1e38\n", "t.yml:2:7: 'optimizer.lr' is 1.1e38, out of range"},
      {"optimizer:\n  eps: 1e-40\n", "'optimizer.eps' is 1e-40, out of range"},
      {"run:\n  lr: 1\n", "(did you mean 'optimizer.lr'?)"},
      {"run:\n  zzzzzzz: 1\n", "unknown key 'zzzzzzz' in 'run'; allowed: name"},
      {"pipeline:\n  replicas: 2\n", "t.yml:2:3: 'pipeline.replicas' is not available in this version"},
      {"pipeline:\n  planner: octopipe\n", "'pipeline.planner' is 'octopipe', which is not available in this version"},
      {"octopipe:\n  a: true\n", "t.yml:1:1: section 'octopipe' is not available in this version"},
      {"obscura:\n  adjusted_stages: some\n", "t.yml:2:20: 'obscura.adjusted_stages' is 'some', not written in digits; "
                                              "allowed: auto, or a whole number, from 0"},
      {"obscura:\n  beta: 2\n",
       "t.yml:2:9: 'obscura.beta' is 2, out of range; allowed: auto, or a number, from 0 to 1"},
      {"obscura:\n  steps: all\n",
       "'obscura.steps' is 'all'; allowed: strawman, relaxed, refined, swap, partition, cmb"},
      {"pipeline: {swap_tier: nvme}\n", "'pipeline.swap_tier' is 'nvme'; allowed: auto, host, disk, rank"},
      {"cost:\n  source: uniform\n", "t.yml:2:3: 'cost.source' is uniform, but 'cost.uniform' gives no times"},
      {"cost:\n  source: table\n", "t.yml:2:3: 'cost.source' is table, but 'cost.table' names no file"},
      {"cost:\n  source: guess\n", "t.yml:2:11: 'cost.source' is 'guess'; allowed: preset, uniform, table, profile"},
      {"cost:\n  uniform: {forwrd_ms: 1}\n",
       "t.yml:2:13: 'cost.uniform' has no 'forwrd_ms' (did you mean 'forward_ms'?); allowed: a map of forward_ms"},
      {"cost:\n  uniform: {forward_ms: -1}\n", "t.yml:2:25: 'cost.uniform' is -1, out of range"},
      {"cost:\n  uniform: {forward_ms: [1, x]}\n", "t.yml:2:29: 'cost.uniform' is 'x'"},
      {"cost:\n  uniform: {forward_ms: []}\n", "'cost.uniform' has an empty list"},
      {"cost:\n  uniform: 1\n", "'cost.uniform' is not a map"},
      {"cost:\n  link: {gb_per_s: 0}\n", "'cost.link' has gb_per_s 0"},
      {"cost:\n  link: {bandwidth: 1}\n", "'cost.link' has no 'bandwidth'"},
      {"device:\n  preset: a100\n", "'device.preset' is 'a100'"},
      {"device:\n  preset: v100\n", "allowed: cpu, a100-40g, a100-80g, a800-80g, h100, h200, h800"},
      {"device:\n  rank_speeds: {1: 0}\n", "'device.rank_speeds' is 0, out of range"},
      {"device:\n  rank_speeds: {1: 2, 1: 3}\n", "'1' is given twice"},
      {"device:\n  rank_speeds: {a: 2}\n", "'device.rank_speeds' has 'a' where a rank should be"},
      {"model:\n  attn_pdrop: 0.1\n", "'model.attn_pdrop' is not available in this version; allowed: 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], NULL, cases[i][1]);
  struct params params =
      parse_good("%YAML 1.1\n---\nrun:\nmodel: {attn_pdrop: 0}\ndata:\n  # all of it is a comment\n", NULL);
  params_fini(&params);
}

static void check_overrides(void) {
  static const char *const cases[][2] = {
      {"run.stpes=1", "-D run.stpes: unknown key 'stpes' in 'run' (did you mean 'steps'?)"},
      {"run.steps=", "-D run.steps: 'run.steps' has no value"},
      {"run.steps=five", "-D run.steps: 'run.steps' is 'five'"},
      {"run.steps=5 # no", "-D run.steps: '# no' follows the value"},
      {"run.name=\xc3\xa4 # no", "-D run.name: '# no' follows the value"},
      {"run.name=@x", "-D run.name: not YAML"},
      {"runn.steps=5", "unknown section 'runn' (did you mean 'run'?)"},
      {"steps=5", "-D steps=5: write -D section.key=value"},
      {"run.=5", "write -D section.key=value"},
      {"run.steps", "write -D section.key=value"},
      {"pipeline.stages=0", "-D pipeline.stages: 'pipeline.stages' is 0, out of range"},
      {"pipeline.replicas=2", "-D pipeline.replicas: 'pipeline.replicas' is not available in this version"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(NULL, cases[i][0], cases[i][1]);
  struct params params = parse_good("run:\n  steps: 5\n", "run.steps=7");
  T_CHECK(params.run.steps == 7 && params.sources[PARAM_run_steps].origin == PARAM_OVERRIDE, "-D does not win");
  T_CHECK(!strcmp(params.sources[PARAM_run_steps].text, "-D run.steps"), "%s", params.sources[PARAM_run_steps].text);
  params_fini(&params);
  params = parse_good(NULL, "data.train={'a b': 0.5, c: 1e-1}");
  T_CHECK(params.data.train.n == 2 && !strcmp(params.data.train.prefixes[0], "a b"), "map of prefixes");
  T_CHECK(params.data.train.weights && params.data.train.weights[1] == 0.1, "weights");
  params_fini(&params);
  params = parse_good(NULL, "run.name=\xc3\xa4\xc3\xb6 b");
  T_CHECK(!strcmp(params.run.name, "\xc3\xa4\xc3\xb6 b"), "'%s'", params.run.name);
  params_fini(&params);
  /* Of the same key given twice the later counts. */
  static const char *const both[] = {"run.steps=3", "run.steps=4"};
  T_CHECK(!params_parse(NULL, both, 2, &params) && params.run.steps == 4, "later override");
  params_fini(&params);
}

static void check_contradictions(void) {
  static const char *const cases[][2] = {
      {"model:\n  config: a.json\n  n_embd: 5\n",
       "t.yml:3:3: 'model.n_embd' cannot be given beside 'model.config' (t.yml:2:3)"},
      {"model:\n  config: a.json\n  model_type: gpt2\n", "t.yml:3:3: 'model.model_type' cannot be given beside"},
      {"model:\n  n_embd: 5\n", "t.yml:2:3: 'model.n_embd' needs 'model.model_type'"},
      {"model:\n  model_type: llama\n  n_embd: 5\n", "'model.n_embd' is a key of gpt2; the model_type is llama"},
      {"model:\n  model_type: qwen2\n  mlp_bias: true\n",
       "'model.mlp_bias' is a key of llama; the model_type is qwen2"},
      {"optimizer:\n  lr: 1e-4\n  min_lr: 1e-3\n", "t.yml:3:3: 'optimizer.min_lr' is 0.001, above 'optimizer.lr'"},
      {"optimizer:\n  warmup_steps: 11\nrun:\n  steps: 10\n", "'optimizer.warmup_steps' is 11, beyond 'run.steps'"},
      {"optimizer:\n  warmup_steps: 11\n  schedule: cosine\n  decay_steps: 10\n", "beyond 'optimizer.decay_steps'"},
      {"optimizer:\n  warmup_steps: 11\n  schedule: linear\nrun:\n  steps: 10\n", "beyond 'optimizer.decay_steps'"},
      {"optimizer:\n  warmup_steps: 5\n  schedule: wsd\n  decay_steps: 6\nrun:\n  steps: 10\n",
       "longer than 'run.steps'"},
      {"run:\n  evaluate_every: 5\n", "t.yml:2:3: 'run.evaluate_every' is 5, but 'data.validation' names no file"},
      {"pipeline:\n  stages: 3\n  partition: [1, 2]\n", "t.yml:3:3: 'pipeline.partition' lists 2 stages"},
      {"pipeline:\n  stages: 3\nmemory:\n  rank_limits: {3: 1 GiB, 0: 1 GiB}\n",
       "names rank 3; with 3 stages the ranks"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], NULL, cases[i][1]);
  static const char *const good[] = {
      "model:\n  config: a.json\n  init_std: 0.1\n",
      "model:\n  model_type: mistral\n  hidden_size: 64\n  vocab_size: 5\n",
      "optimizer:\n  warmup_steps: 10\nrun:\n  steps: 10\n",
      "optimizer:\n  warmup_steps: 11\n  schedule: cosine\n  decay_steps: 11\nrun:\n  steps: 3\n",
      "run:\n  evaluate_every: 5\ndata:\n  validation: a\n",
      "pipeline:\n  stages: 2\n  partition: [1, 2]\nmemory:\n  rank_limits: {1: 1 GiB}\n",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct params params = parse_good(good[i], NULL);
    params_fini(&params);
  }
  /* A key with a mistake of its own is in no contradiction. */
  struct params params;
  parse_text("optimizer:\n  lr: x\n  min_lr: 0.1\n", NULL, &params);
  T_CHECK(!strstr(error_text(), "min_lr"), "%s", error_text());
}

/* n mistakes: all are told up to 20, then the number of the others. */
static void check_many(void) {
  for (int n = 1; n <= 40; n++) {
    char yaml[4096] = "run:\n";
    for (int i = 0; i < n; i++) snprintf(yaml + strlen(yaml), sizeof yaml - strlen(yaml), "  qqqqqq%d: 1\n", i);
    check_refused(yaml, NULL, "t.yml:2:3: unknown key 'qqqqqq0'");
    int lines = 1, more = 0;
    for (const char *c = error_text(); *c; c++) lines += *c == '\n';
    const char *rest = strstr(error_text(), "\nand ");
    if (rest) sscanf(rest, "\nand %d more", &more);
    T_CHECK(lines - (rest != NULL) + more == n, "%d mistakes, %d lines, %d more", n, lines, more);
    T_CHECK(lines - (rest != NULL) == (n > 20 ? 20 : n), "%d mistakes, %d lines", n, lines);
  }
}

static void check_include(void) {
  mkdir("sub", 0777);
  mkdir("sub/deep", 0777);
  write_file("sub/deep/base.yml", "run:\n  steps: 1\n  seed: 1\n  log_every: 9\nmodel:\n  config: c.json\n");
  write_file("sub/middle.yml", "include: deep/base.yml\nrun:\n  steps: 2\n  seed: 2\n");
  write_file("top.yml", "run:\n  steps: 3\ninclude: sub/middle.yml\n");
  struct params params;
  char *text;
  T_CHECK(!deck_read_text("top.yml", &text), "%s", error_text());
  T_CHECK(!params_parse(text, NULL, 0, &params), "%s", error_text());
  T_CHECK(params.run.steps == 3 && params.run.seed == 2 && params.run.log_every == 9, "merged in the wrong order");
  T_CHECK(!strcmp(params.sources[PARAM_run_log_every].text, "sub/deep/base.yml:4:3"), "place of an included key");
  T_CHECK(!strcmp(params.model.config, "sub/deep/c.json"), "'%s' is not beside its deck", params.model.config);
  T_CHECK(!strcmp(params.run.name, "top") && !strcmp(params.run.folder, "runs/top"), "'%s'", params.run.folder);
  params_fini(&params);
  mem_free(text);

  static const char *const cases[][2] = {
      {"include: none.yml\n", "c.yml:1:10: include: deck none.yml: cannot be read: No such file"},
      {"run:\n  steps: 1\ninclude: c.yml\n", "c.yml:3:10: include: 'include' goes in a circle"},
      {"include: ./sub/../c.yml\n", "goes in a circle"},
      {"include: sub\n", "is a folder"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_file("c.yml", cases[i][0]);
    T_CHECK(deck_read_text("c.yml", &text) == STATUS_MISTAKE && !text, "include of case %zu is taken", i);
    T_CHECK(strstr(error_text(), cases[i][1]), "%s", error_text());
  }
  for (int depth = 2; depth <= DECK_DEPTH + 1; depth++) {
    for (int i = 0; i < depth; i++) {
      char name[32], body[64] = "run:\n  seed: 7\n";
      snprintf(name, sizeof name, "d%d.yml", i);
      if (i < depth - 1) snprintf(body, sizeof body, "include: d%d.yml\n", i + 1);
      write_file(name, body);
    }
    int status = deck_read_text("d0.yml", &text);
    T_CHECK(status == (depth > DECK_DEPTH ? STATUS_MISTAKE : STATUS_OK), "depth %d: %s", depth, error_text());
    mem_free(text);
  }
  /* What a deck may not be at all. */
  write_file("long.yml", "");
  T_CHECK(!truncate("long.yml", 2 << 20) && deck_read_text("long.yml", &text) == STATUS_MISTAKE, "2 MiB of zeros");
}

/* Decks that were damaged at random end in a message or in params, never otherwise. */
static void check_damaged(void) {
  char *reference;
  size_t bytes;
  FILE *out = open_memstream(&reference, &bytes);
  params_print_reference(out);
  fclose(out);
  static const char marks[] = "{}[]:,&*!|>'\"%@`#-?\n\t 0aZ\xc3\xff~.";
  for (int i = 0; i < 1500; i++) {
    size_t from = draw() % bytes, n = 1 + draw() % 600;
    if (from + n > bytes) n = bytes - from;
    char *damaged = mem_alloc(n + 1);
    memcpy(damaged, reference + from, n);
    for (uint64_t edits = draw() % 8; edits > 0; edits--) damaged[draw() % n] = marks[draw() % (sizeof marks - 1)];
    struct params params;
    int status = parse_text(damaged, NULL, &params);
    T_CHECK(status == STATUS_OK || (status == STATUS_MISTAKE && error_text()[0]), "status %d", status);
    if (!status) params_fini(&params);
    mem_free(damaged);
  }
  free(reference);
  /* Brackets without end must not exhaust the stack. */
  char *nest = mem_alloc(20001);
  memset(nest, '[', 20000);
  check_refused(nest, NULL, "t.yml:1");
  mem_free(nest);
}

int main(void) {
  if (chdir(scratch_make())) return 1;
  check_yaml();
  check_overrides();
  check_contradictions();
  check_many();
  check_include();
  check_damaged();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  if (chdir("..")) return 1;
  scratch_remove();
  return t_end();
}
