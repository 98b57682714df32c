/* Every file that the commands without ranks read, with bytes that were flipped, put in, taken out or cut off at
 * random: the command ends with a code and a message, and nothing is read or written beyond what is there (which the
 * sanitizers see).
 */
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "command_case.h"
#include "deck_texts.h"
#include "scratch.h"

enum { TRIALS = 30, MOST = 4 << 20 };

/* A damaged file is read again after a pause, as another process may be about to replace it. Here none is. */
int nanosleep(const struct timespec *pause, struct timespec *rest) {
  (void)pause, (void)rest;
  return 0;
}

static int64_t draw(int64_t n) {
  static const struct rng_key key = {.seed = 9, .purpose = RNG_TEST};
  static uint64_t drawn;
  return (int64_t)(rng_bits(&key, drawn++) % (uint64_t)n);
}

static unsigned char data[MOST + 400]; /* the file, whole and then damaged */
static int64_t n_data;

static void read_input(const char *path) {
  FILE *in = fopen(path, "rb");
  n_data = in ? (int64_t)fread(data, 1, MOST, in) : 0;
  if (in) fclose(in);
  T_CHECK(n_data > 0 && n_data < MOST, "%s: %lld bytes", path, (long long)n_data);
}

static void write_input(const char *path) {
  FILE *out = fopen(path, "wb");
  T_CHECK(out && fwrite(data, 1, (size_t)n_data, out) == (size_t)n_data, "%s", path);
  if (out) fclose(out);
}

static void flip(int64_t n) {
  for (; n > 0; n--) data[draw(n_data)] ^= (unsigned char)(1 << draw(8));
}

static void put(int64_t at, int64_t n) {
  memmove(data + at + n, data + at, (size_t)(n_data - at));
  for (int64_t i = 0; i < n; i++) data[at + i] = (unsigned char)draw(256);
  n_data += n;
}

static void take(int64_t at, int64_t n) {
  if (n > n_data - at) n = n_data - at;
  memmove(data + at, data + at + n, (size_t)(n_data - at - n));
  n_data -= n;
}

/* One way of damage. */
static void damage(void) {
  int64_t at = draw(n_data), few = 1 + draw(8);
  switch (draw(7)) {
  case 0: flip(1); break;
  case 1: flip(few); break;
  case 2: data[at] = (unsigned char)draw(256); break;
  case 3: put(at, draw(2) ? few : 300); break;
  case 4: take(at, draw(2) ? few : 300); break;
  case 5: n_data = at; break;
  default: memset(data + at, draw(2) ? 0 : 255, (size_t)(few < n_data - at ? few : n_data - at)); break;
  }
}

/* What reads a file. */
struct input {
  const char *path, *command, *arguments[6];
};

#define PLAN_FOLDER "-Drun.folder=out"
static const struct input inputs[] = {
    {"deck.yml", "deck", {"deck.yml"}},
    {"deck.yml", "plan", {"deck.yml", PLAN_FOLDER}},
    {"config.json", "plan", {"deck.yml", PLAN_FOLDER}},
    {"table.csv", "plan", {"deck.yml", PLAN_FOLDER, "-Dcost.table=table.csv"}},
    {"plan.csv", "plan", {"deck.yml", PLAN_FOLDER, "-Dpipeline.planner=file", "-Dpipeline.plan_file=plan.csv"}},
    {"given.h5", "plan", {"deck.yml", PLAN_FOLDER, "-Dpipeline.planner=file", "-Dpipeline.plan_file=given.h5"}},
    {"given.h5", "simulate", {"given.h5"}},
    {"lines.jsonl", "data", {"build", "--output", "built", "lines.jsonl"}},
    {"tokens.bin", "data", {"check", "tokens"}},
    {"tokens.idx", "data", {"check", "tokens"}},
};

static int run_input(const struct input *input) {
  const char *const *a = input->arguments;
  return run_command("out.txt", input->command, a[0], a[1], a[2], a[3], a[4], a[5], NULL);
}

static void make_inputs(void) {
  write_file("config.json",
             "{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 32, \"intermediate_size\": 64, "
             "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
             "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"rope_scaling\": null}\n");
  write_file("deck.yml",
             "# a deck\nmodel: {config: config.json}\ndata: {sequence_length: 16, global_batch: 7, micro_batch: 2}\n"
             "memory: {device_limit: 64 MiB, rank_limits: {1: 32 MiB}}\n"
             "pipeline:\n  stages: 2\n  recompute: [norm, core]\n  recompute_stages: [0]\n"
             "cost:\n  link: {latency_us: 2, gb_per_s: 10}\noptimizer: {betas: [0.9, 0.95]}\n");
  char table[4000];
  size_t n = (size_t)snprintf(table, sizeof table,
                              "layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,"
                              "kept_weight_bytes,parameter_bytes,output_bytes\n");
  for (int l = 0; l < 10; l++)
    n += (size_t)snprintf(table + n, sizeof table - n, "%d,1.5,1.25e0,1,0.5,1000,500,2000,%d\n", l, 100 * l);
  write_file("table.csv", table);
  write_file("lines.jsonl",
             "{\"text\": \"a line with \\u00e9 and \\ud83d\\ude00\", \"n\": [1, {\"a\": null}]}\n{\"text\": \"\"}\n"
             "{\"other\": 1.5e3, \"text\": \"more\"}\n");
  T_CHECK(!run_command("out.txt", "data", "build", "--output", "tokens", "lines.jsonl", NULL), "%s", error_text());
  T_CHECK(!run_command("out.txt", "plan", "deck.yml", PLAN_FOLDER, "--export", "plan.csv", NULL), "%s", error_text());
  T_CHECK(!rename("out/plan.h5", "given.h5"), "plan.h5");
}

/* A rare damage is none to the command: a comment, a digit. What a file with a seal holds is never taken then. */
static void test_input(const struct input *input) {
  int n_refused = 0;
  T_CHECK(!run_input(input), "%s, undamaged: %s", input->path, error_text());
  read_input(input->path);
  int64_t n_whole = n_data;
  unsigned char *whole = mem_alloc((size_t)n_whole);
  memcpy(whole, data, (size_t)n_whole);
  for (int k = 0; k < TRIALS; k++) {
    damage();
    if (n_data > 0 && draw(4) == 0) damage();
    write_input(input->path);
    int status = run_input(input);
    n_refused += status != STATUS_OK;
    T_CHECK(!status || ((status == STATUS_MISTAKE || status == STATUS_FAILED) && *error_text()), "%s, trial %d: %d: %s",
            input->path, k, status, error_text());
    n_data = n_whole;
    memcpy(data, whole, (size_t)n_whole);
  }
  write_input(input->path);
  mem_free(whole);
  T_CHECK(n_refused > TRIALS / 10, "%s: %d of %d damaged files refused", input->path, n_refused, TRIALS);
}

int main(void) {
  if (chdir(scratch_make())) return 1;
  log_init(1); /* warnings are not shown */
  make_inputs();
  for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++) test_input(&inputs[k]);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  if (chdir("..")) return 1;
  scratch_remove();
  return t_end();
}
