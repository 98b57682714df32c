/* Planner obscura: blocks of activations that leave, to another rank, to host memory and to disk. */
#include "base/mem.h"
#include "dag/dag.h"
#include "model/footprint.h"
#include "obscura_case.h"
#include "plan/recompute.h"
#include "planner/obscura/obscura.h"

/* ---- blocks that leave ---- */

/* Most blocks of a stage that have memory at a time. */
static int32_t count_held(const struct plan *plan, int32_t s) {
  int32_t rank = plan_get_holder(plan, s), held = 0, most = 0;
  int64_t first = plan->order_offset[rank], n = plan->order_offset[rank + 1] - first;
  int32_t *change = MEM_NEW(int32_t, n + 1);
  for (int64_t k = 0; k < n; k++) {
    change[k] += plan->order[first + k].kind == NODE_F;
    change[k + 1] -= plan->order[first + k].kind == NODE_B;
  }
  for (int32_t k = 0; k < plan->n_moves; k++) {
    if (plan->moves[k].stage != s) continue;
    change[plan->moves[k].out_end + 1]--;
    change[plan->moves[k].in_start]++;
  }
  for (int64_t k = 0; k < n; k++) {
    held += change[k];
    if (held > most) most = held;
  }
  mem_free(change);
  return most;
}

/* 8 stages, 3 adjusted: 18, 17, 16 run ahead, 6, 5, 4 leave; 12 stay on each, and two are on their way. */
static void check_blocks(bool eager, double beta) {
  struct obscura_case c;
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  obscura_case_open(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura.adjusted_stages = 3;
  c.params.obscura.steps = PARAMS_OBSCURA_STEPS_SWAP;
  c.params.obscura.lambda = 4;
  c.params.obscura.beta = beta;
  c.params.obscura.eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY;
  int status = planner_run("obscura", &c.request, &plan);
  if (!status) status = dag_build(plan, c.model, &dag);
  if (!status) status = dag_check(dag, plan);
  T_CHECK(!status && plan->n_moves > 0, "eager %d beta %g: %s", eager, beta, error_text());
  for (int32_t s = 0; s < 3 && !status; s++)
    T_CHECK(count_held(plan, s) == 14, "eager %d stage %d: %d", eager, (int)s, (int)count_held(plan, s));
  for (int32_t k = 0; k < plan->n_moves && !status; k++) {
    int64_t parts[DAG_BLOCK_PARTS], moved = dag_measure_block(plan, c.model, plan->moves[k].stage, 0, parts);
    int64_t kept = plan_measure_kept(plan, c.model, plan->moves[k].stage, 0);
    T_CHECK(plan->moves[k].stage < 3 && plan->moves[k].tier == PLAN_TIER_HOST, "move %d", (int)k);
    T_CHECK((double)moved <= beta * (double)kept && (double)moved > 0.5 * beta * (double)kept, "beta %g: %lld of %lld",
            beta, (long long)moved, (long long)kept);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
  obscura_case_close(&c);
}

static int32_t count_moves(bool eager) {
  struct obscura_case c;
  struct plan *plan = NULL;
  obscura_case_open(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                             .adjusted_stages = 3,
                                             .lambda = 4,
                                             .beta = 1,
                                             .eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  int32_t n = plan ? plan->n_moves : 0;
  plan_destroy(&plan);
  obscura_case_close(&c);
  return n;
}

static void test_blocks(void) {
  for (int eager = 0; eager < 2; eager++) {
    check_blocks(eager, 1);
    check_blocks(eager, 0.5);
  }
  T_CHECK(count_moves(true) > count_moves(false), "%d, %d", (int)count_moves(true), (int)count_moves(false));
}

/* Where host memory has room for few blocks of a stage, the others go on to disk; without a disk the plan does not fit.
 */
static void check_spill(bool eager, int32_t room) {
  struct obscura_case c;
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  int64_t host[MAX_RANKS], disk[MAX_RANKS], parts[DAG_BLOCK_PARTS], most = 0;
  obscura_case_open(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                             .adjusted_stages = 3,
                                             .lambda = 8,
                                             .beta = 1,
                                             .eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++) {
    int64_t bytes = dag_measure_block(plan, c.model, plan->moves[k].stage, 0, parts);
    most = bytes > most ? bytes : most;
    T_CHECK(plan->moves[k].tier == PLAN_TIER_HOST, "move %d", (int)k);
  }
  plan_destroy(&plan);
  for (int32_t r = 0; r < 8; r++) host[r] = room * most;
  for (int32_t r = 0; r < 8; r++) disk[r] = INT64_MAX;
  c.request.host_limit = host;
  T_CHECK(isinf(obscura_case_time(&c, "obscura", NULL)), "host memory is enough");
  c.request.disk_limit = disk;
  int status = planner_run("obscura", &c.request, &plan), n_disk = 0;
  if (!status) status = dag_build(plan, c.model, &dag);
  if (!status) status = dag_check(dag, plan);
  T_CHECK(!status, "eager %d: %s", eager, error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++) n_disk += plan->moves[k].tier == PLAN_TIER_DISK;
  T_CHECK(n_disk > 3, "eager %d: %d on disk", eager, n_disk);
  dag_destroy(&dag);
  plan_destroy(&plan);
  obscura_case_close(&c);
}

/* Host memory that is asked for where there is next to none is enough where there is a disk: nothing more is asked for
 * then. */
static void check_least_host(int32_t lambda, bool eager) {
  struct obscura_case c;
  int64_t host[MAX_RANKS], disk[MAX_RANKS];
  obscura_case_open(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                             .adjusted_stages = 2,
                                             .lambda = lambda,
                                             .beta = 1,
                                             .eviction = eager ? PARAMS_EVICTION_EAGER : PARAMS_EVICTION_LAZY};
  for (int32_t r = 0; r < 8; r++) host[r] = 1;
  for (int32_t r = 0; r < 8; r++) disk[r] = INT64_MAX;
  c.request.host_limit = host;
  c.request.disk_limit = disk;
  for (int t = 0; t < 2; t++) {
    struct plan *plan = NULL;
    struct dag *dag = NULL;
    int status = planner_run("obscura", &c.request, &plan);
    if (!status) status = dag_build(plan, c.model, &dag);
    T_CHECK(!status, "lambda %d: %s", (int)lambda, error_text());
    for (int32_t r = 0; dag && r < 8; r++) {
      int64_t peak = dag_get_pool_peak(dag, POOL_HOST, r, NULL);
      T_CHECK(t == 0 || peak <= host[r], "lambda %d eager %d rank %d: %lld of %lld bytes", (int)lambda, eager, (int)r,
              (long long)peak, (long long)host[r]);
      if (t == 0 && peak > 0) host[r] = peak;
    }
    dag_destroy(&dag);
    plan_destroy(&plan);
  }
  obscura_case_close(&c);
}

static void test_spill(void) {
  for (int32_t lambda = 4; lambda <= 12; lambda++) check_least_host(lambda, lambda % 3 == 0);
  check_spill(false, 5);
  check_spill(true, 14); /* what comes back early keeps its place until it is used */
}

/* The tier and the one stage (-1: any) that the deck names: nothing on disk with host; with disk all that have the
 * time; no block of a stage that is not named, forced or found out. */
static void check_where(enum params_swap_tier tier, int64_t only, bool forced) {
  struct obscura_case c;
  struct plan *plan = NULL;
  int64_t host[MAX_RANKS], disk[MAX_RANKS];
  int32_t count[PLAN_TIER_COUNT] = {0};
  obscura_case_open(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  if (forced)
    c.params.obscura = (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP,
                                               .adjusted_stages = 3,
                                               .lambda = 8,
                                               .beta = 1,
                                               .eviction = PARAMS_EVICTION_LAZY};
  else
    obscura_case_draw_limits(&c, 4);
  for (int32_t r = 0; r < 8; r++) host[r] = tier == PARAMS_SWAP_TIER_HOST ? 1 : INT64_MAX;
  for (int32_t r = 0; r < 8; r++) disk[r] = INT64_MAX;
  c.request.host_limit = host;
  c.request.disk_limit = disk;
  c.params.pipeline.swap_tier = tier;
  if (only >= 0) c.params.pipeline.swap_stages = (struct params_stages){PARAMS_STAGES_LIST, &only, 1};
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK, "%s", error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++) {
    count[plan->moves[k].tier]++;
    T_CHECK(only < 0 || only == plan->moves[k].stage, "tier %d: a block of stage %d leaves", (int)tier,
            (int)plan->moves[k].stage);
  }
  if (forced) {
    T_CHECK(plan && plan->n_moves > 0, "tier %d: none leaves", (int)tier);
    T_CHECK(tier == PARAMS_SWAP_TIER_DISK ? count[PLAN_TIER_DISK] > count[PLAN_TIER_HOST] : count[PLAN_TIER_DISK] == 0,
            "tier %d: %d in host memory, %d on disk", (int)tier, (int)count[PLAN_TIER_HOST],
            (int)count[PLAN_TIER_DISK]);
  }
  plan_destroy(&plan);
  obscura_case_close(&c);
}

/* Blocks of forced stages go to other ranks, each stage's to one; the first's to the rank that takes least. */
static void test_peers(void) {
  struct obscura_case c;
  struct plan *plan = NULL;
  obscura_case_open(&c, 8, 8, 40, 0);
  c.request.partition.kind = PARAMS_CUT_EVEN;
  c.params.obscura =
      (struct params_obscura){.steps = PARAMS_OBSCURA_STEPS_SWAP, .adjusted_stages = 3, .lambda = 4, .beta = 1};
  int64_t peaks[MAX_RANKS];
  int32_t least = 1;
  obscura_case_time(&c, "obscura", peaks);
  for (int32_t r = 2; r < 8; r++) least = peaks[r] < peaks[least] ? r : least;
  c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_RANK;
  T_CHECK(planner_run("obscura", &c.request, &plan) == STATUS_OK && plan->n_moves > 0, "%s", error_text());
  for (int32_t k = 0; plan && k < plan->n_moves; k++)
    T_CHECK(plan->moves[k].tier == PLAN_TIER_RANK && plan->moves[k].peer >= 3 &&
                plan->moves[k].peer == plan_find_move(plan, plan->moves[k].stage, plan->moves[k].micro)->peer,
            "stage %d: tier %d peer %d", (int)plan->moves[k].stage, (int)plan->moves[k].tier, (int)plan->moves[k].peer);
  T_CHECK(plan && plan->moves[0].peer == least, "not on rank %d", (int)least);
  if (plan) obscura_case_check(&c, NULL);
  T_CHECK(obscura_case_time(&c, "obscura", NULL) < INFINITY, "it does not run");
  plan_destroy(&plan);
  obscura_case_close(&c);
}

/* With other ranks to go to no plan is slower than with host memory alone, and some are faster; no rank takes more than
 * its limit (planner_evaluate says so); with tier rank none goes elsewhere. */
static void test_ranks_help(void) {
  int n_rank = 0, n_faster = 0;
  for (int trial = 0; trial < 30; trial++) {
    struct obscura_case c;
    struct plan *plan = NULL;
    int32_t p = 3 + (int32_t)obscura_case_draw(5), m = p + (int32_t)obscura_case_draw(30);
    obscura_case_open(&c, p + (int)obscura_case_draw(p + 3), p, m, trial % 2 ? 3 : trial % 3);
    obscura_case_draw_limits(&c, 1 + (int)obscura_case_draw(9));
    if (obscura_case_draw(2)) c.limits[p - 1] = c.limits[p - 2] = INT64_MAX;
    c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_AUTO;
    double with = obscura_case_time(&c, "obscura", NULL);
    c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_HOST;
    double without = obscura_case_time(&c, "obscura", NULL);
    c.params.pipeline.swap_tier = PARAMS_SWAP_TIER_RANK;
    double only = obscura_case_time(&c, "obscura", NULL);
    c.params.pipeline.swap = PARAMS_SWAP_OFF;
    double none = obscura_case_time(&c, "obscura", NULL);
    c.params.pipeline.swap = PARAMS_SWAP_AUTO;
    T_CHECK(with <= without * (1 + 1e-9) && only <= none * (1 + 1e-9), "trial %d: %g, host %g, rank %g, none %g", trial,
            with, without, only, none);
    n_faster += with < without * (1 - 1e-9);
    if (only < INFINITY) obscura_case_check(&c, NULL);
    if (!planner_run("obscura", &c.request, &plan))
      for (int32_t k = 0; k < plan->n_moves; k++) {
        n_rank += plan->moves[k].tier == PLAN_TIER_RANK;
        T_CHECK(plan->moves[k].tier == PLAN_TIER_RANK, "trial %d: tier %d", trial, (int)plan->moves[k].tier);
      }
    error_clear();
    plan_destroy(&plan);
    obscura_case_close(&c);
  }
  T_CHECK(n_rank > 0 && n_faster > 0, "%d blocks on other ranks, %d plans faster", n_rank, n_faster);
}

static void test_where(void) {
  for (int forced = 0; forced < 2; forced++) {
    check_where(PARAMS_SWAP_TIER_HOST, -1, forced);
    check_where(PARAMS_SWAP_TIER_DISK, -1, forced);
    check_where(PARAMS_SWAP_TIER_AUTO, 1, forced);
  }
}

int main(void) {
  test_blocks();
  test_spill();
  test_where();
  test_peers();
  test_ranks_help();
  return t_end();
}
