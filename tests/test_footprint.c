/* Where activations and gradients lie, and their bytes: regions against the sums of their arrays, stages against their
 * layers, and what a rank holds for the whole run.
 */
#include "t.h"
#include "base/error.h"
#include "base/mem.h"
#include "model/footprint.h"
#include "model/model.h"
#include "tiny_model.h"

#define LLAMA_SIZES                                                                                                    \
  "\"vocab_size\": 11, \"hidden_size\": 12, \"intermediate_size\": 20, \"num_hidden_layers\": 1, "                     \
  "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 6"

static int64_t round64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Arrays of a region lie one behind the other, and the region is as large as their sum. */
static void check_regions(const struct model *model, const struct layer *layer, struct micro_shape shape) {
  struct footprint f;
  int64_t sum[REGION_COUNT] = {0};
  footprint_layer(model, layer, shape, 0, 0, &f);
  for (int a = 0; a < layer->n_acts; a++) {
    const struct place *places[] = {&f.act[a], &f.grad[a]};
    for (int k = 0; k < 2; k++) {
      if (places[k]->region == REGION_NONE) continue;
      T_CHECK(places[k]->offset == sum[places[k]->region], "%s lies at %lld of region %d, after %lld bytes",
              layer->acts[a].name, (long long)places[k]->offset, places[k]->region, (long long)sum[places[k]->region]);
      sum[places[k]->region] += round64(layer->acts[a].width * micro_shape_count_positions(shape) * 4);
    }
    bool outside = layer->acts[a].life == ACT_INPUT || layer->acts[a].life == ACT_OUTPUT;
    T_CHECK(outside == (f.act[a].region == REGION_NONE), "%s in region %d", layer->acts[a].name, f.act[a].region);
  }
  for (int pass = 0; pass < 3; pass++) {
    if (f.scratch[pass].region == REGION_NONE) continue;
    enum region region = (enum region)(REGION_FORWARD + pass);
    T_CHECK(f.scratch[pass].region == region && f.scratch[pass].offset == sum[region], "scratch of pass %d", pass);
    T_CHECK(f.bytes[region] > sum[region], "scratch of no bytes in pass %d", pass);
    sum[region] = f.bytes[region];
  }
  for (int r = REGION_KEEP_INPUT; r < REGION_COUNT; r++)
    T_CHECK(f.bytes[r] == sum[r] && f.bytes[r] % 64 == 0, "region %d has %lld bytes, its arrays %lld", r,
            (long long)f.bytes[r], (long long)sum[r]);
}

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* A stage is the sum of what its layers keep and the largest of what they work with. */
static void check_stage(const struct model *model, int32_t first, int32_t n, struct micro_shape shape) {
  struct footprint_stage s;
  int64_t keep_input = 0, keep_weight = 0, grad_weight = 0, forward = 0, input = 0, weight = 0, full = 0,
          between = n - 1;
  int64_t boundary = round64(micro_shape_count_positions(shape) * model->config.hidden * 4);
  footprint_stage(model, first, n, shape, NULL, NULL, &s);
  for (int32_t l = first; l < first + n; l++) {
    struct footprint f;
    check_regions(model, &model->layers[l], shape);
    footprint_layer(model, &model->layers[l], shape, 0, 0, &f);
    keep_input += f.bytes[REGION_KEEP_INPUT];
    keep_weight += f.bytes[REGION_KEEP_WEIGHT];
    forward = max64(forward, f.bytes[REGION_FORWARD]);
    input = max64(input, f.bytes[REGION_INPUT]);
    weight = max64(weight, f.bytes[REGION_WEIGHT]);
    grad_weight += f.bytes[REGION_GRAD_WEIGHT];
    full = max64(full, f.bytes[REGION_GRAD_WEIGHT] + max64(f.bytes[REGION_INPUT], f.bytes[REGION_WEIGHT]));
  }
  T_CHECK(footprint_boundary(model, shape) == boundary, "boundary");
  T_CHECK(s.keep_input == keep_input && s.keep_weight == keep_weight + between * boundary,
          "layers %d to %d keep %lld and %lld bytes", first, first + n - 1, (long long)s.keep_input,
          (long long)s.keep_weight);
  T_CHECK(s.work_forward == forward && s.work_input == input && s.work_weight == weight, "workspace");
  T_CHECK(s.grad_weight == grad_weight + between * boundary, "gradients for the weight pass");
  T_CHECK(s.work_backward == full + (between < 2 ? between : 2) * boundary, "a full backward works with %lld bytes",
          (long long)s.work_backward);
}

/* What attention of a tiny model keeps, counted by hand. */
static void test_attention_bytes(const struct model *model) {
  struct footprint f;
  footprint_layer(model, &model->layers[1], micro_shape_fill(2, 5), 0, 0,
                  &f); /* 10 tokens, hidden 12, 4 heads of 6, 2 keys */
  T_CHECK(f.bytes[REGION_KEEP_INPUT] == 10 * 48 * 4 + round64(10 * 4 * 4), "queries, keys, values; log-sum-exp: %lld",
          (long long)f.bytes[REGION_KEEP_INPUT]);
  T_CHECK(f.bytes[REGION_KEEP_WEIGHT] == round64(10 * 12 * 4) + round64(10 * 4) + 10 * 24 * 4,
          "norm, its statistics, core: %lld", (long long)f.bytes[REGION_KEEP_WEIGHT]);
}

/* Static bytes: 16 a parameter, each array rounded; a tied table one array more with the embedding, five with the head
 * alone. */
static void test_static(const struct model *model, bool tied) {
  int64_t table = 4 * ((11 * 12 + 15) / 16 * 16), all = 0;
  bool *holds = MEM_NEW(bool, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) {
    holds[l] = true;
    all += 16 * model->layers[l].n_floats;
  }
  int32_t last = model->n_layers - 1;
  T_CHECK(footprint_static(model, holds) == all + (tied ? table : 0), "all layers");
  holds[last] = false;
  T_CHECK(footprint_static(model, holds) == all - 16 * model->layers[last].n_floats + (tied ? table : 0),
          "all but the head");
  holds[last] = true;
  holds[0] = false;
  T_CHECK(footprint_static(model, holds) == all - 16 * model->layers[0].n_floats + (tied ? 5 * table : 0),
          "all but the embedding");
  holds[last] = false;
  T_CHECK(footprint_static(model, holds) == all - 16 * (model->layers[0].n_floats + model->layers[last].n_floats),
          "neither");
  T_CHECK(model->n_ties == tied && (!tied || footprint_tie(model, model_find_tie(model, last)) == table), "the tie");
  mem_free(holds);
}

/* Numbers of two bytes: what is kept takes half, but for rounding; a parameter takes 18 bytes. */
static void test_half(void) {
  struct model *model = make_tiny_model(3, false);
  const struct micro_shape shape = micro_shape_fill(4, 16);
  int64_t parameters = 0;
  struct footprint_stage whole, half;
  footprint_stage(model, 0, model->n_layers, shape, NULL, NULL, &whole);
  int64_t boundary = footprint_boundary(model, shape);
  model->half = true;
  footprint_stage(model, 0, model->n_layers, shape, NULL, NULL, &half);
  T_CHECK(whole.keep_input + whole.keep_weight == 2 * (half.keep_input + half.keep_weight), "%lld, %lld",
          (long long)(whole.keep_input + whole.keep_weight), (long long)(half.keep_input + half.keep_weight));
  T_CHECK(boundary == 2 * footprint_boundary(model, shape), "a hidden state");
  bool *holds = MEM_NEW(bool, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) {
    holds[l] = true;
    parameters += model->layers[l].n_floats;
  }
  int64_t bytes = footprint_static(model, holds);
  T_CHECK(bytes >= 18 * parameters && bytes < 18 * parameters + 4 * FOOTPRINT_ALIGN * model->n_layers, "%lld for %lld",
          (long long)bytes, (long long)parameters);
  mem_free(holds);
  model_destroy(&model);
}

int main(void) {
  test_half();
  static const char *const jsons[] = {
      "{\"model_type\": \"llama\", " LLAMA_SIZES "}",
      "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " LLAMA_SIZES "}",
      "{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_positions\": 40, \"n_embd\": 12, \"n_head\": 3, "
      "\"n_layer\": 3}",
  };
  for (int i = 0; i < 3; i++) {
    struct model *model = NULL;
    T_CHECK(model_create(jsons[i], "c.json", -1, &model, NULL) == STATUS_OK, "%s", error_text());
    for (int32_t first = 0; first < model->n_layers; first++)
      for (int32_t n = 1; first + n <= model->n_layers; n++) {
        check_stage(model, first, n, micro_shape_fill(1, 1));
        check_stage(model, first, n, micro_shape_fill(3, 37));
      }
    if (i == 0) test_attention_bytes(model);
    test_static(model, i > 0);
    model_destroy(&model);
  }
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
