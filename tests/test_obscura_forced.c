/* Planner obscura: what decks can force, and Algorithm 1, which cuts the layers. */
#include "base/mem.h"
#include "model/footprint.h"
#include "obscura_case.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"

/* ---- what is forced ---- */

static int32_t count_ahead(const struct plan *plan, int32_t rank) {
  int32_t n = 0;
  while (plan->order[plan->order_offset[rank] + n].kind == NODE_F) n++;
  return n;
}

/* So many stages, with or without a limit, recompute what is named and run ahead; the others do neither. */
static void check_forced(int32_t p, int32_t m, int32_t n, bool faithful) {
  struct obscura_case c;
  struct plan *plan = NULL;
  obscura_case_open(&c, p, p, m, 0);
  c.params.obscura.adjusted_stages = n;
  c.params.obscura.faithful = faithful;
  c.params.obscura.steps = PARAMS_OBSCURA_STEPS_REFINED;
  c.request.partition.kind = PARAMS_CUT_EVEN;
  if (n % 2) obscura_case_draw_limits(&c, 2);
  struct obscura_model model = {.n_stages = p, .n_micro = m, .n_adjusted = n};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "p %d m %d n %d: %s", p, m, n, error_text());
  for (int32_t s = 0; plan && s < p; s++) {
    T_CHECK(count_ahead(plan, s) == obscura_model_get_refined(&model, s), "p %d m %d n %d stage %d: %d", p, m, n,
            (int)s, (int)count_ahead(plan, s));
    char *set = recompute_describe(plan, c.model, s);
    T_CHECK(!strcmp(set, s < n ? "full" : ""), "p %d n %d stage %d: '%s'", p, n, (int)s, set);
    mem_free(set);
  }
  plan_destroy(&plan);
  obscura_case_close(&c);
}

static void test_forced(void) {
  for (int32_t p = 2; p <= 6; p++)
    for (int32_t n = 0; n <= p; n++) check_forced(p, 3 * p, n, n % 3 == 0);
  struct obscura_case c;
  struct plan *plan = NULL;
  obscura_case_open(&c, 4, 4, 8, 0);
  c.params.obscura.adjusted_stages = 5;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_MISTAKE && strstr(error_text(), "there are 4 stages"),
          "%s", error_text());
  error_clear();
  c.params.obscura.adjusted_stages = PARAMS_AUTO;
  c.request.n_recompute_stages = 2;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_MISTAKE && strstr(error_text(), "recompute_stages"), "%s",
          error_text());
  error_clear();
  obscura_case_close(&c);
}

/* Stages over their limit are adjusted, and all before them; with cmb those that cheap recomputation helps are not. */
static void test_identify(void) {
  struct obscura_case c;
  obscura_case_open(&c, 8, 4, 16, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura.faithful = true;
  c.request.recompute_early = false;
  c.params.pipeline.swap = PARAMS_SWAP_OFF;
  int64_t plain[MAX_RANKS];
  c.request.n_recompute_stages = 0;
  obscura_case_time(&c, "1f1b", plain);
  c.request.n_recompute_stages = PLAN_ALL_STAGES;
  for (int32_t k = 0; k < 3; k++) {
    struct plan *plan = NULL;
    for (int32_t r = 0; r < 4; r++) c.limits[r] = r == k ? plain[r] - plain[r] / 20 : INT64_MAX;
    for (int cmb = 0; cmb < 2; cmb++) {
      c.params.obscura.steps = cmb ? PARAMS_OBSCURA_STEPS_CMB : PARAMS_OBSCURA_STEPS_REFINED;
      T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
      int32_t ahead = plan ? count_ahead(plan, 0) : 0;
      T_CHECK(cmb ? ahead == 4 : ahead > 4, "stage %d over its limit, cmb %d: %d ahead", (int)k, cmb, (int)ahead);
      char *set = plan ? recompute_describe(plan, c.model, k) : mem_strdup("");
      T_CHECK(!strcmp(set, cmb ? "cmb" : "full"), "stage %d: '%s'", (int)k, set);
      mem_free(set);
      plan_destroy(&plan);
    }
  }
  obscura_case_close(&c);
}

/* ---- Algorithm 1 ---- */

static void test_partition(void) {
  int n_moved = 0;
  for (int trial = 0; trial < 20; trial++) {
    struct obscura_case c;
    int32_t p = 3 + (int32_t)obscura_case_draw(4), n = 1 + (int32_t)obscura_case_draw(p - 1);
    struct plan *plan[2] = {NULL, NULL};
    double seconds[2];
    obscura_case_open(&c, 10 * p, p, 6 * p, 1);
    c.params.obscura.adjusted_stages = n;
    c.params.obscura.faithful = true;
    c.request.recompute_early = false;
    c.params.pipeline.swap = PARAMS_SWAP_OFF;
    for (int k = 0; k < 2; k++) {
      c.params.obscura.steps = k ? PARAMS_OBSCURA_STEPS_PARTITION : PARAMS_OBSCURA_STEPS_SWAP;
      T_CHECK(planner_run("obscura", &c.request, &plan[k]) == STATUS_OK, "%s", error_text());
      seconds[k] = planner_evaluate(&c.request, plan[k], NULL);
    }
    T_CHECK(seconds[1] <= seconds[0] + 1e-12, "p %d n %d: %g, %g", p, n, seconds[0], seconds[1]);
    for (int32_t s = 0; s < p; s++) {
      T_CHECK(s < n ? plan[1]->stages[s].n_layers <= plan[0]->stages[s].n_layers
                    : plan[1]->stages[s].n_layers >= plan[0]->stages[s].n_layers,
              "p %d n %d stage %d: %d layers, were %d", p, n, (int)s, (int)plan[1]->stages[s].n_layers,
              (int)plan[0]->stages[s].n_layers);
      n_moved += plan[1]->stages[s].n_layers > plan[0]->stages[s].n_layers;
    }
    for (int k = 0; k < 2; k++) plan_destroy(&plan[k]);
    obscura_case_close(&c);
  }
  T_CHECK(n_moved > 5, "%d stages grew", n_moved);
}

static void test_move_layer(void) {
  for (int trial = 0; trial < 500; trial++) {
    struct plan_stage stages[MAX_RANKS], before[MAX_RANKS];
    int32_t p = 2 + (int32_t)obscura_case_draw(MAX_RANKS - 1), from = (int32_t)obscura_case_draw(p),
            to = (int32_t)obscura_case_draw(p), at = 0;
    for (int32_t s = 0; s < p; s++) {
      stages[s] = before[s] = (struct plan_stage){at, 1 + (int32_t)obscura_case_draw(3)};
      at += stages[s].n_layers;
    }
    bool moved = obscura_move_layer(stages, from, to);
    T_CHECK(moved == (from != to && before[from].n_layers > 1), "trial %d", trial);
    at = 0;
    for (int32_t s = 0; s < p; s++) {
      T_CHECK(stages[s].first_layer == at, "trial %d stage %d", trial, (int)s);
      T_CHECK(stages[s].n_layers == before[s].n_layers + (moved ? (s == to) - (s == from) : 0), "trial %d stage %d",
              trial, (int)s);
      at += stages[s].n_layers;
    }
  }
}

/* Blocks by hand are kept to under a limit that their plan just fits, and one byte less is no reason for another plan.
 */
static void test_at_the_limit(void) {
  int n_away = 0;
  for (int trial = 0; trial < 16; trial++) {
    struct obscura_case c;
    struct plan *plan = NULL;
    int64_t peaks[MAX_RANKS], again[MAX_RANKS];
    obscura_case_open(&c, 8, 4, 16, trial % 4 < 2 ? 0 : 1);
    c.request.partition.kind = PARAMS_CUT_EVEN;
    c.params.obscura =
        (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                .adjusted_stages = 1 + trial % 2,
                                .lambda = 2 + trial / 4,
                                .beta = 1,
                                .eviction = trial % 3 == 0 ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
    double free = obscura_case_time(&c, "obscura", peaks);
    memcpy(c.limits, peaks, sizeof c.limits);
    double held = obscura_case_time(&c, "obscura", again);
    T_CHECK(isfinite(free) && held <= free * (1 + 1e-12), "trial %d: %g s within its own peak, %g without a limit",
            trial, held, free);
    for (int32_t r = 0; r < 4; r++) T_CHECK(again[r] == peaks[r], "trial %d rank %d: another plan", trial, (int)r);
    c.limits[0]--;
    T_CHECK(isinf(obscura_case_time(&c, "obscura", again)) && again[0] == peaks[0], "trial %d: %lld bytes", trial,
            (long long)again[0]);
    if (!planner_run("obscura", &c.request, &plan)) n_away += plan->n_moves > 0;
    error_clear();
    plan_destroy(&plan);
    obscura_case_close(&c);
  }
  T_CHECK(n_away > 8, "%d of 16 plans move blocks", n_away);
}

int main(void) {
  test_move_layer();
  test_forced();
  test_identify();
  test_partition();
  test_at_the_limit();
  return t_end();
}
