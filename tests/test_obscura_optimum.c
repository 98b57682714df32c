/* Planner obscura by default against proved optima: random tiny requests with given and with free cuts, without and
 * with blocks that leave. The optimum has whole backwards in order on one stage a rank and moves nothing, so that the
 * planner may be faster.
 */
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cost_case.h"
#include "obscura_case.h"
#include "optimum.h"
#include "plan/recompute.h"
#include "planner/bound.h"
#include "scratch.h"
#include "tiny_model.h"

enum { BLOCKS = 2, LAYERS = 2 * BLOCKS + 2, UNIT = 64 };

/* A request, in milliseconds and bytes. Embedding and head have nothing. */
struct tiny {
  int32_t p, m;
  struct optimum_layer layers[LAYERS];
  int32_t weight[LAYERS]; /* of the backward */
  bool keeps_weight;      /* a weight pass needs all that is kept */
  double cut[OPTIMUM_STAGES];
  bool free_cut, swaps;
  int64_t scale; /* bytes */
  int64_t limits[OPTIMUM_STAGES];
};

static int32_t draw(int32_t low, int32_t high) {
  static const struct rng_key key = {.seed = 17, .purpose = RNG_TEST};
  static uint64_t drawn;
  return low + (int32_t)(rng_bits(&key, drawn++) % (uint64_t)(high - low + 1));
}

/* ---- requests ---- */

static void draw_layers(struct tiny *t) {
  bool real = draw(0, 3) == 0, whole = draw(0, 1);
  for (int32_t l = 1; l + 1 < LAYERS; l++) {
    int32_t f = real ? l % 2 ? 10 : 14 : draw(3, 9), input = real ? f : draw(2, 9);
    t->weight[l] = whole ? 0 : real ? f - 2 : draw(2, 9);
    t->layers[l] = (struct optimum_layer){.forward = f,
                                          .backward = input + t->weight[l],
                                          .recompute = real ? f - 1 : draw(1, f),
                                          .kept = t->scale * (real ? l % 2 ? 12 : 20 : draw(1, 8))};
  }
  t->keeps_weight = draw(0, 1);
}

static int64_t sum_kept(const struct tiny *t, int32_t first, int32_t n) {
  int64_t kept = 0;
  for (int32_t l = first; l < first + n; l++) kept += t->layers[l].kept;
  return kept;
}

/* Sets the layers at which the stages of a cut begin, and its end. */
static void list_firsts(const struct tiny *t, int32_t *first) {
  double sum = 0;
  for (int32_t s = 0; s < t->p; s++) {
    first[s] = s ? 1 + (int32_t)(2 * sum) : 0;
    sum += t->cut[s];
  }
  first[t->p] = LAYERS;
}

/* A cut of the blocks' layers, no stage without one. */
static void draw_cut(struct tiny *t) {
  int32_t left = 2 * BLOCKS;
  for (int32_t s = 0; s < t->p; s++) {
    int32_t n = s + 1 < t->p ? draw(1, left - (t->p - 1 - s)) : left;
    t->cut[s] = n / 2.0;
    left -= n;
  }
}

/* Limits between what the cut takes with all recomputed and with nothing. */
static void draw_limits(struct tiny *t) {
  int32_t first[OPTIMUM_STAGES + 1], part = draw(0, 16);
  int64_t least = 0, ample = 0;
  bool alike = draw(0, 3) > 0;
  list_firsts(t, first);
  for (int32_t s = 0; s < t->p; s++) {
    int64_t kept = sum_kept(t, first[s], first[s + 1] - first[s]);
    int32_t ahead = t->p - s < t->m ? t->p - s : t->m;
    least = kept > least ? kept : least;
    ample = ahead * kept > ample ? ahead * kept : ample;
    t->limits[s] = kept + (ahead - 1) * kept * draw(0, 16) / 16;
  }
  for (int32_t s = 0; s < t->p && alike; s++) t->limits[s] = least + (ample - least) * part / 16;
}

static struct tiny draw_tiny(bool swaps) {
  struct tiny t = {.p = draw(2, 3), .swaps = swaps, .scale = swaps ? UNIT * INT64_C(1000000) : UNIT};
  t.m = t.p == 2 ? draw(2, 4) : draw(2, 3);
  t.free_cut = draw(0, 1);
  draw_layers(&t);
  draw_cut(&t);
  draw_limits(&t);
  return t;
}

/* ---- the optimum ---- */

/* The fastest with these stages, or `most` where none is faster. */
static int32_t find_with_cut(const struct tiny *t, const int32_t *first, int32_t most) {
  struct optimum_pipeline pipeline = {.n_stages = t->p, .n_micro = t->m};
  for (int32_t s = 0; s < t->p; s++) {
    struct optimum_stage *stage = &pipeline.stages[s];
    stage->limit = t->limits[s];
    for (int32_t l = first[s]; l < first[s + 1]; l++)
      if (t->layers[l].kept) stage->layers[stage->n_layers++] = t->layers[l];
  }
  return optimum_find(&pipeline, most);
}

static int32_t find_optimum(const struct tiny *t, int32_t most) {
  int32_t first[OPTIMUM_STAGES + 1];
  list_firsts(t, first);
  if (!t->free_cut) return find_with_cut(t, first, most);
  first[t->p] = LAYERS;
  for (first[1] = 1; first[1] < LAYERS - (t->p - 2); first[1]++)
    if (t->p == 2)
      most = find_with_cut(t, first, most);
    else
      for (first[2] = first[1] + 1; first[2] < LAYERS; first[2]++) most = find_with_cut(t, first, most);
  return most;
}

/* ---- the planner ---- */

static void write_table(const struct tiny *t) {
  FILE *out = fopen("tiny.csv", "w");
  if (!out) exit(1);
  fprintf(out, "layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,parameter_bytes,"
               "output_bytes\n");
  for (int32_t l = 0; l < LAYERS; l++) {
    const struct optimum_layer *layer = &t->layers[l];
    fprintf(out, "%d,%d,%d,%d,%d,%lld,%lld,0,0\n", (int)l, (int)layer->forward, (int)(layer->backward - t->weight[l]),
            (int)t->weight[l], (int)layer->recompute, (long long)layer->kept,
            (long long)(t->keeps_weight ? layer->kept : 0));
  }
  fclose(out);
}

static void open_case(const struct tiny *t, struct obscura_case *c) {
  static const char *const costs[] = {
      "cost: {source: table, table: tiny.csv}\n",
      "cost: {source: table, table: tiny.csv, host_link: {latency_us: 0, gb_per_s: 64}}\n"};
  write_table(t);
  obscura_case_open(c, BLOCKS, t->p, t->m, 0);
  cost_destroy(&c->cost);
  c->cost = make_cost_case(costs[t->swaps], c->model, t->p);
  cost_put_sizes(c->cost, c->model);
  c->request.cost = c->cost;
  c->params.pipeline.swap = t->swaps ? PARAMS_SWAP_AUTO : PARAMS_SWAP_OFF;
  c->request.partition.kind = t->free_cut ? PARAMS_CUT_AUTO : PARAMS_CUT_LIST;
  c->request.partition.blocks = (double *)t->cut;
  c->request.partition.n = t->p;
  for (int32_t r = 0; r < t->p; r++) c->limits[r] = t->limits[r];
}

/* True for plans of the kind that the optimum is found among. */
static bool is_plain(const struct plan *plan) {
  bool plain = plan->n_stages == plan->n_ranks && !plan->n_moves && !plan->n_parts;
  for (int64_t k = 0; k < plan->n_actions && plain; k++) plain = plan->order[k].kind != NODE_I;
  return plain;
}

/* The time of the default plan, in milliseconds. *bound (may be NULL) is what no plain plan takes less than. */
static double find_time(const struct tiny *t, bool *plain, double *bound) {
  struct obscura_case c;
  struct plan *plan = NULL;
  double seconds = INFINITY;
  open_case(t, &c);
  T_CHECK(!planner_run("obscura", &c.request, &plan), "%s", error_text());
  *plain = plan && is_plain(plan);
  if (plan) seconds = planner_evaluate(&c.request, plan, NULL);
  if (plan && *plain && bound) {
    struct bound found = bound_make(plan, c.model, c.cost);
    *bound = 1e3 * (t->free_cut ? found.any_staying : found.cut_staying);
  }
  plan_destroy(&plan);
  obscura_case_close(&c);
  return 1e3 * seconds;
}

/* ---- the whole ---- */

struct tally {
  int n, n_plain, n_optimal;
  double sum, worst;
};

static void describe(const struct tiny *t, char *text, size_t size) {
  int n = snprintf(text, size, "p %d m %d %s%s cut", (int)t->p, (int)t->m, t->free_cut ? "auto" : "given",
                   t->swaps ? " swap" : "");
  for (int32_t s = 0; s < t->p; s++) n += snprintf(text + n, size - (size_t)n, " %g", t->cut[s]);
  n += snprintf(text + n, size - (size_t)n, " limits");
  for (int32_t s = 0; s < t->p; s++) n += snprintf(text + n, size - (size_t)n, " %lld", (long long)t->limits[s]);
  n += snprintf(text + n, size - (size_t)n, " layers");
  for (int32_t l = 1; l + 1 < LAYERS; l++)
    n += snprintf(text + n, size - (size_t)n, " %d+%d+%d+%d/%lld", (int)t->layers[l].forward,
                  (int)(t->layers[l].backward - t->weight[l]), (int)t->weight[l], (int)t->layers[l].recompute,
                  (long long)t->layers[l].kept);
}

/* Leave to move blocks must not make it slower. */
static void check_still(const struct tiny *t, double own, const char *text) {
  struct tiny still = *t;
  bool plain;
  still.swaps = false;
  double without = find_time(&still, &plain, NULL);
  T_CHECK(own <= without * (1 + 1e-9), "%g ms, without blocks that leave %g: %s", own, without, text);
}

static void compare(const struct tiny *t, struct tally *tally) {
  char text[512];
  bool plain;
  double bound = 0, own = find_time(t, &plain, &bound);
  int32_t most = (int32_t)lround(own) + 1, optimum = find_optimum(t, most);
  describe(t, text, sizeof text);
  T_CHECK(fabs(own - lround(own)) < 1e-6, "%g ms is no whole number: %s", own, text);
  T_CHECK(bound <= optimum + 1e-6, "the bound is %g ms, the optimum %d ms: %s", bound, (int)optimum, text);
  T_CHECK(!plain || optimum < most, "the search finds nothing as fast as the plan's %g ms: %s", own, text);
  if (t->swaps) check_still(t, own, text);
  double ratio = own / optimum;
  T_CHECK(ratio <= 1.05, "%g ms, the optimum is %d: %s", own, (int)optimum, text);
  tally->n++;
  tally->n_plain += plain;
  tally->n_optimal += ratio <= 1 + 1e-9;
  tally->sum += fmax(ratio, 1);
  tally->worst = fmax(tally->worst, ratio);
}

static void test_part(const char *name, bool swaps, int n) {
  struct tally tally = {.n = 0};
  for (int i = 0; i < n; i++) {
    struct tiny t = draw_tiny(swaps);
    compare(&t, &tally);
  }
  printf("%s: %d requests, mean %.5f of the optimum, worst %.5f, %d as fast as it, %d of its kind\n", name, tally.n,
         tally.sum / tally.n, tally.worst, tally.n_optimal, tally.n_plain);
  T_CHECK(tally.sum / tally.n <= 1.005, "%s: mean %.5f of the optimum", name, tally.sum / tally.n);
}

int main(void) {
  if (chdir(scratch_make())) return 1;
  test_part("without blocks that leave", false, 340);
  test_part("with blocks that leave", true, 70);
  if (chdir("..")) return 1;
  scratch_remove();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
