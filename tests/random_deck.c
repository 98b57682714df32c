#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "random_deck.h"

int64_t deck_draw(struct random_deck *d, int64_t below) {
  const struct rng_key key = {.seed = d->seed, .purpose = RNG_TEST, .a = 77};
  return (int64_t)(rng_bits(&key, d->drawn++) % (uint64_t)below);
}

static void deck_put(struct random_deck *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define DECK_PICK(d, ...) ((int64_t[]){__VA_ARGS__}[deck_draw(d, sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t))])
#define DECK_WORD(d, ...)                                                                                              \
  ((const char *[]){__VA_ARGS__}[deck_draw(d, sizeof(const char *[]){__VA_ARGS__} / sizeof(const char *))])

static bool deck_chance(struct random_deck *d, int percent) { return deck_draw(d, 100) < percent; }

static void deck_put(struct random_deck *d, const char *format, ...) {
  va_list list;
  va_start(list, format);
  d->n += (size_t)vsnprintf(d->text + d->n, sizeof d->text - d->n, format, list);
  va_end(list);
}

static void deck_put_model(struct random_deck *d) {
  bool gpt2 = deck_chance(d, 40);
  int64_t heads = DECK_PICK(d, 1, 2, 4, 8), width = heads * DECK_PICK(d, 2, 4, 16, 64);
  long long vocabulary = DECK_PICK(d, 1, 2, 257, 32000), inner = width * DECK_PICK(d, 1, 2, 4);
  d->n_blocks = (int32_t)DECK_PICK(d, 1, 2, 3, 4, 5, 7, 8, 9, 12, 17, 24, 40);
  if (gpt2)
    deck_put(d,
             "model: {model_type: gpt2, vocab_size: %lld, n_embd: %lld, n_head: %lld, n_layer: %d, n_positions: 4096",
             vocabulary, (long long)width, (long long)heads, (int)d->n_blocks);
  else
    deck_put(d,
             "model: {model_type: %s, vocab_size: %lld, hidden_size: %lld, intermediate_size: %lld, num_hidden_layers: "
             "%d, num_attention_heads: %lld, num_key_value_heads: %lld, max_position_embeddings: 4096",
             DECK_WORD(d, "llama", "qwen2"), vocabulary, (long long)width, inner, (int)d->n_blocks, (long long)heads,
             (long long)(deck_chance(d, 50) ? heads : 1));
  deck_put(d, "%s}\n", deck_chance(d, 30) ? ", tie_word_embeddings: true" : "");
}

/* Of 2 n_blocks halves, one at least a stage but for the first and last. */
static void deck_put_cut(struct random_deck *d) {
  int64_t left = 2 * (int64_t)d->n_blocks;
  deck_put(d, ", partition: [");
  for (int32_t s = 0; s < d->n_stages; s++) {
    int64_t later = d->n_stages - 1 - s, most = left - later;
    int64_t halves = later == 0 ? left : most < 1 ? 1 : 1 + deck_draw(d, most < 6 ? most : 6);
    if (d->n_stages * 2 <= d->n_blocks && later) halves = (halves + 1) / 2 * 2;
    deck_put(d, "%s%lld.%d", s ? ", " : "", (long long)(halves / 2), (int)(halves % 2 * 5));
    left -= halves;
  }
  deck_put(d, "]");
}

static void deck_put_stages(struct random_deck *d, const char *key) {
  int64_t kind = deck_draw(d, 4);
  if (kind < 2)
    deck_put(d, ", %s: %s", key, kind ? "all" : "auto");
  else if (kind == 2)
    deck_put(d, ", %s: %lld", key, (long long)deck_draw(d, d->n_stages + 1));
  else
    deck_put(d, ", %s: [%lld]", key, (long long)deck_draw(d, d->n_stages));
}

static void deck_put_pipeline(struct random_deck *d, const char *planner) {
  int32_t chunks = !strcmp(planner, "zb-v") ? 2 : !strcmp(planner, "interleaved") ? 2 + (int32_t)deck_draw(d, 2) : 1;
  int32_t most = (deck_chance(d, 70) ? d->n_blocks : 2 * d->n_blocks) / chunks;
  d->n_ranks = 1 + (int32_t)deck_draw(d, most < 1 ? 1 : most > 16 ? 16 : most);
  d->n_stages = d->n_ranks * chunks;
  deck_put(d, "pipeline: {planner: %s, stages: %d, chunks: %d", planner, (int)d->n_ranks, (int)chunks);
  if (deck_chance(d, 25)) deck_put_cut(d);
  if (deck_chance(d, 10)) deck_put(d, ", partition: even");
  bool itself = !strcmp(planner, "obscura");
  if (deck_chance(d, 50)) {
    deck_put(d, ", recompute: %s",
             DECK_WORD(d, "auto", "none", "cmb", "attention", "mlp", "full", "[norm]", "[core, up]"));
    if (!itself && deck_chance(d, 50)) deck_put_stages(d, "recompute_stages");
  }
  if (deck_chance(d, 30)) deck_put(d, ", recompute_by: %s", DECK_WORD(d, "auto", "stage", "block"));
  if (deck_chance(d, 20)) deck_put(d, ", recompute_early: %s", DECK_WORD(d, "true", "false"));
  if (deck_chance(d, 30)) deck_put(d, ", swap_tier: %s", DECK_WORD(d, "auto", "host", "rank"));
  if (deck_chance(d, 20)) deck_put_stages(d, "swap_stages");
  deck_put(d, "}\n");
  if (!itself) return;
  deck_put(d, "obscura: {steps: %s, faithful: %s, epsilon: 0.%lld",
           DECK_WORD(d, "strawman", "relaxed", "refined", "swap", "partition", "cmb", "cmb", "cmb"),
           DECK_WORD(d, "true", "false"), (long long)deck_draw(d, 3));
  if (deck_chance(d, 30)) deck_put(d, ", lambda: %lld", (long long)deck_draw(d, 6));
  if (deck_chance(d, 30)) deck_put(d, ", beta: 0.%lld", (long long)deck_draw(d, 100));
  if (deck_chance(d, 30)) deck_put(d, ", adjusted_stages: %lld", (long long)deck_draw(d, d->n_ranks + 1));
  deck_put(d, ", eviction: %s}\n", DECK_WORD(d, "lazy", "eager"));
}

static void deck_make_table(struct random_deck *d) {
  size_t n = (size_t)snprintf(d->table, sizeof d->table,
                              "layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,"
                              "parameter_bytes,output_bytes\n");
  int64_t time = DECK_PICK(d, 1, 3, 50, 50, 50);
  for (int32_t l = 0; l < 2 * d->n_blocks + 2; l++) {
    int64_t kept = deck_draw(d, DECK_PICK(d, 1, 1000, 100000));
    n += (size_t)snprintf(d->table + n, sizeof d->table - n, "%d,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld\n", (int)l,
                          (long long)deck_draw(d, time), (long long)deck_draw(d, time), (long long)deck_draw(d, time),
                          (long long)deck_draw(d, time), (long long)kept, (long long)(kept / 2),
                          (long long)deck_draw(d, 3000), (long long)deck_draw(d, 2000));
  }
}

static void deck_put_costs(struct random_deck *d, const char *table) {
  int64_t kind = deck_draw(d, 4);
  *d->table = 0;
  if (kind == 1) deck_make_table(d);
  deck_put(d, "cost: {shared_link: %s", DECK_WORD(d, "false", "false", "true"));
  if (kind == 1) deck_put(d, ", table: %s", table);
  if (kind == 2)
    deck_put(d, ", uniform: {forward_ms: %lld, input_ms: %lld, weight_ms: %lld, send_ms: 0.%lld, evict_ms: 0.%lld}",
             (long long)deck_draw(d, 3), (long long)deck_draw(d, 3), (long long)deck_draw(d, 3),
             (long long)deck_draw(d, 9), (long long)deck_draw(d, 99));
  if (deck_chance(d, 25))
    deck_put(d, ", link: {latency_us: %lld, gb_per_s: %lld}", (long long)DECK_PICK(d, 0, 5, 1000),
             (long long)DECK_PICK(d, 1, 100));
  if (deck_chance(d, 25))
    deck_put(d, ", host_link: {latency_us: %lld, gb_per_s: 0.%lld}", (long long)DECK_PICK(d, 0, 5, 1000),
             (long long)DECK_PICK(d, 1, 9));
  deck_put(d, "}\n");
}

void deck_make_random(struct random_deck *d, uint64_t seed, const char *planner, const char *table) {
  *d = (struct random_deck){.seed = seed};
  deck_put_model(d);
  deck_put_pipeline(d, planner);
  d->n_micro = 1 + (int32_t)deck_draw(d, deck_chance(d, 50) ? 6 : 4 * d->n_ranks + 3);
  int64_t rows = 1 + deck_draw(d, 3), spare = deck_chance(d, 30) ? deck_draw(d, rows) : 0;
  deck_put(d, "data: {sequence_length: %lld, global_batch: %lld, micro_batch: %lld}\n",
           (long long)DECK_PICK(d, 1, 7, 16, 128, 1024), (long long)(d->n_micro * rows - spare), (long long)rows);
  deck_put_costs(d, table);
  deck_put(d, "device: {precision: %s, preset: %s, sync_messages: %s", DECK_WORD(d, "fp32", "bf16"),
           DECK_WORD(d, "cpu", "a100-40g", "h800"), DECK_WORD(d, "false", "false", "true"));
  if (deck_chance(d, 15)) deck_put(d, ", rank_speeds: {0: %s}", DECK_WORD(d, "1e-6", "0.5", "3"));
  deck_put(d, "}\n");
}
