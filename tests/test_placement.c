/* Where stages stand: with ranks in another order, and their speeds, shares and limits with them, every planner makes
 * the same plan on the other ranks. A planner that takes a stage for a rank does not. Where stages go round, back and
 * forth or as a file says, the cut is by the ranks that they stand on. */
#include "base/mem.h"
#include "obscura_case.h"
#include "planner/planner.h"

/* Which planners make plans, refuse, let blocks leave, recompute: each kind has to come up. */
static int n_made, n_refused, n_recomputing, n_moving[PLAN_TIER_COUNT];

/* Adds "NAME: {0: 0.25, 1: 0.5, ...}": each rank's factor. */
static char *write_factors(const char *name, const double *factors, int32_t p) {
  char *text = mem_format("%s: {", name);
  for (int32_t r = 0; r < p; r++) {
    char *longer = mem_format("%s%s%d: %g", text, r ? ", " : "", (int)r, factors[r]);
    mem_free(text);
    text = longer;
  }
  char *closed = mem_format("%s}", text);
  mem_free(text);
  return closed;
}

static struct cost *make_cost(const struct obscura_case *c, const double *speeds, const char *source) {
  char *factors = write_factors("rank_speeds", speeds, c->request.n_ranks);
  char *deck = mem_format("cost: {%s}\ndevice: {%s}\n", source, factors);
  struct cost *cost = make_cost_case(deck, c->model, c->request.n_ranks);
  mem_free(deck);
  mem_free(factors);
  return cost;
}

/* One request, and the other way to number the ranks: rank r of the first is rank to[r] of the second. */
struct pair {
  struct obscura_case c;
  int32_t to[MAX_RANKS], rank_of[4 * MAX_RANKS];
  double speeds[2][MAX_RANKS];
  int64_t limits[2][MAX_RANKS], host[2][MAX_RANKS], disk[2][MAX_RANKS];
  struct cost *cost[2];
  struct plan_request request[2];
};

/* Pairs of ranks, which are nodes, stay together when `nodes` is true. */
static void shuffle(int32_t *to, int32_t p, bool nodes) {
  int32_t size = nodes ? 2 : 1, n = p / size;
  for (int32_t r = 0; r < p; r++) to[r] = r;
  for (int32_t k = n - 1; k > 0; k--) {
    int32_t other = (int32_t)obscura_case_draw(k + 1);
    for (int32_t i = 0; i < size; i++) {
      int32_t kept = to[k * size + i];
      to[k * size + i] = to[other * size + i];
      to[other * size + i] = kept;
    }
  }
  for (int32_t k = 0; k < n && nodes; k++) {
    int32_t first = (int32_t)obscura_case_draw(2), kept = to[2 * k + first];
    to[2 * k + first] = to[2 * k];
    to[2 * k] = kept;
  }
}

static void open_pair(struct pair *x, int trial) {
  static const char *const sources[] = {
      "source: preset, node_size: 2, link: {latency_us: 50, gb_per_s: 0.1, node_latency_us: 1, node_gb_per_s: 50}",
      "source: preset, node_size: 2, link: {gb_per_s: 1, node_gb_per_s: 100}, host_link: {gb_per_s: 0.1}",
      "source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1, recompute_ms: 0.5, evict_ms: 0.7}"};
  bool nodes = trial % 3 < 2, few = obscura_case_draw(2);
  int32_t p = nodes ? 4 + 2 * (int32_t)obscura_case_draw(2) : 2 + (int32_t)obscura_case_draw(5);
  int32_t m = 1 + (int32_t)obscura_case_draw(14);
  struct obscura_case *c = &x->c;
  static const enum params_swap_tier tiers[] = {PARAMS_SWAP_TIER_AUTO, PARAMS_SWAP_TIER_RANK, PARAMS_SWAP_TIER_HOST,
                                                PARAMS_SWAP_TIER_DISK};
  obscura_case_open(c, 2 * p + (int)obscura_case_draw(p + 2), p, m, 0);
  c->params.pipeline.swap = PARAMS_SWAP_AUTO;
  c->params.pipeline.swap_tier = tiers[obscura_case_draw(4)];
  for (int32_t r = 0; r < p; r++) x->speeds[0][r] = (double)(2 + obscura_case_draw(few ? 2 : 7)) / 8;
  x->cost[0] = make_cost(c, x->speeds[0], sources[trial % 3]);
  struct cost *plain = c->cost;
  c->request.cost = c->cost = x->cost[0];
  obscura_case_draw_limits(c, 1 + (int)obscura_case_draw(10));
  c->cost = plain;
  shuffle(x->to, p, nodes);
  for (int32_t r = 0; r < p; r++) {
    int32_t to = x->to[r];
    x->limits[0][r] = x->limits[1][to] = trial % 4 ? c->limits[r] : INT64_MAX;
    x->host[0][r] = x->host[1][to] = obscura_case_draw(c->limits[r] / 4);
    x->disk[0][r] = x->disk[1][to] = obscura_case_draw(2) * INT64_MAX / 2;
    x->speeds[1][to] = x->speeds[0][r];
  }
  for (int32_t s = 0; s < 4 * p; s++) x->rank_of[s] = x->to[s % p];
  x->cost[1] = make_cost(c, x->speeds[1], sources[trial % 3]);
  for (int k = 0; k < 2; k++) {
    x->request[k] = c->request;
    x->request[k].rank_of = k ? x->rank_of : NULL;
    x->request[k].cost = x->cost[k];
    x->request[k].device_limit = x->limits[k];
    x->request[k].host_limit = x->host[k];
    x->request[k].disk_limit = x->disk[k];
    x->request[k].simulate = trial % 2;
  }
}

static void close_pair(struct pair *x) {
  cost_destroy(&x->cost[0]);
  cost_destroy(&x->cost[1]);
  obscura_case_close(&x->c);
}

static bool are_moves_equal(const struct pair *x, const struct plan *a, const struct plan *b) {
  if (a->n_moves != b->n_moves) return false;
  for (int32_t k = 0; k < a->n_moves; k++) {
    struct plan_move m = a->moves[k], other = b->moves[k];
    if (m.peer >= 0) m.peer = x->to[m.peer];
    bool same_block = m.stage == other.stage && m.micro == other.micro && m.tier == other.tier && m.peer == other.peer;
    if (!same_block || m.out_start != other.out_start || m.out_end != other.out_end || m.in_start != other.in_start ||
        m.peer_start != other.peer_start || m.peer_end != other.peer_end || m.disk_start != other.disk_start ||
        m.disk_end != other.disk_end)
      return false;
  }
  return a->n_moves == 0 || !memcmp(a->moved, b->moved, sizeof *a->moved * (size_t)a->n_layers);
}

static bool are_orders_equal(const struct pair *x, const struct plan *a, const struct plan *b) {
  for (int32_t r = 0; r < a->n_ranks; r++) {
    int64_t at = a->order_offset[r], to = b->order_offset[x->to[r]], n = a->order_offset[r + 1] - at;
    if (b->order_offset[x->to[r] + 1] - to != n) return false;
    for (int64_t k = 0; k < n; k++) {
      const struct plan_action *here = &a->order[at + k], *there = &b->order[to + k];
      if (here->kind != there->kind || here->stage != there->stage || here->micro != there->micro) return false;
    }
  }
  return true;
}

static bool are_recomputations_equal(const struct plan *a, const struct plan *b) {
  if (a->n_recompute != b->n_recompute || a->recompute_early != b->recompute_early) return false;
  for (int32_t k = 0; k < a->n_recompute; k++) {
    const struct plan_recompute *m = &a->recompute[k], *n = &b->recompute[k];
    if (m->layer != n->layer || m->first_micro != n->first_micro || m->last_micro != n->last_micro || m->ops != n->ops)
      return false;
  }
  return true;
}

static void compare(const struct pair *x, const char *name, const struct plan *a, const struct plan *b) {
  bool placed = a->n_stages == b->n_stages, cut = placed, limited = true;
  for (int32_t s = 0; s < a->n_stages && placed; s++) {
    placed = plan_find_rank(b, s, 0) == x->to[plan_find_rank(a, s, 0)];
    cut = cut && a->stages[s].n_layers == b->stages[s].n_layers;
  }
  for (int32_t r = 0; r < a->n_ranks; r++)
    limited = limited && a->device_limit[r] == b->device_limit[x->to[r]] && a->host_limit[r] == b->host_limit[x->to[r]];
  T_CHECK(placed, "%s p %d m %d: the other ranks hold the stages", name, a->n_ranks, a->n_micro);
  T_CHECK(cut, "%s p %d m %d: the cut is another", name, a->n_ranks, a->n_micro);
  T_CHECK(limited, "%s p %d m %d: limits are of other ranks", name, a->n_ranks, a->n_micro);
  if (!placed || !cut) return;
  T_CHECK(are_orders_equal(x, a, b), "%s p %d m %d: orders differ", name, a->n_ranks, a->n_micro);
  T_CHECK(are_recomputations_equal(a, b), "%s p %d m %d: %d and %d rows of recomputation", name, a->n_ranks, a->n_micro,
          a->n_recompute, b->n_recompute);
  T_CHECK(are_moves_equal(x, a, b), "%s p %d m %d: %d and %d moves", name, a->n_ranks, a->n_micro, a->n_moves,
          b->n_moves);
  for (int32_t k = 0; k < a->n_moves; k++) n_moving[a->moves[k].tier]++;
  n_recomputing += a->n_recompute > 0;
}

/* What adapipe says: "..., stage S still takes N bytes more than rank R has (memory.device_limit L): ...". */
static void compare_refusals(const struct pair *x, char *const texts[2]) {
  int stages[2], ranks[2];
  long long bytes[2], limits[2];
  for (int k = 0; k < 2; k++) {
    const char *at = strstr(texts[k], "stage ");
    int n = at ? sscanf(at, "stage %d still takes %lld bytes more than rank %d has (memory.device_limit %lld)",
                        &stages[k], &bytes[k], &ranks[k], &limits[k])
               : 0;
    T_CHECK(n == 4, "%s", texts[k]);
    if (n != 4) return;
  }
  T_CHECK(stages[0] == stages[1] && bytes[0] == bytes[1] && ranks[1] == x->to[ranks[0]] && limits[0] == limits[1] &&
              limits[1] == x->limits[1][ranks[1]],
          "%s; with other ranks %s", texts[0], texts[1]);
}

static void run_pair(const struct pair *x, const struct planner *planner) {
  const char *name = planner_get_name(planner);
  struct plan *plans[2];
  char *texts[2];
  int status[2];
  for (int k = 0; k < 2; k++) {
    struct plan_request request = x->request[k];
    request.n_chunks = get_test_chunks(name);
    status[k] = planner_run(name, &request, &plans[k]);
    texts[k] = mem_strdup(error_text());
    error_clear();
  }
  T_CHECK(status[0] == status[1], "%s: status %d, with other ranks %d", name, status[0], status[1]);
  if (!status[0] && !status[1]) compare(x, name, plans[0], plans[1]);
  if (status[0] && status[1] && planner->id == PARAMS_PLANNER_ADAPIPE) compare_refusals(x, texts);
  mem_free(texts[0]);
  mem_free(texts[1]);
  n_made += !status[0];
  n_refused += status[0] != STATUS_OK;
  plan_destroy(&plans[0]);
  plan_destroy(&plans[1]);
}

static void test_other_ranks(void) {
  enum { SEARCHING = 3 }; /* a planner that asks all others is run every so many trials */
  for (int trial = 0; trial < 300; trial++) {
    struct pair x;
    open_pair(&x, trial);
    for (const struct planner *const *planner = planner_get_all(); *planner; planner++)
      if (!(*planner)->takes_file && ((*planner)->id != PARAMS_PLANNER_OBSCURA || trial % SEARCHING == 0))
        run_pair(&x, *planner);
    close_pair(&x);
  }
  T_CHECK(n_made > 0 && n_refused > 0 && n_recomputing > 0, "%d plans, %d recompute; %d refusals", n_made,
          n_recomputing, n_refused);
  for (int tier = 0; tier < PLAN_TIER_COUNT; tier++)
    T_CHECK(n_moving[tier] > 0, "no block goes to tier %s", plan_tier_get_name(tier));
}

static int32_t count_layers(const struct plan *plan, int32_t rank) {
  int32_t n = 0;
  for (int32_t s = 0; s < plan->n_stages; s++) n += plan_holds(plan, s, rank) ? plan->stages[s].n_layers : 0;
  return n;
}

/* A slow rank is given few layers wherever its stages stand: both ends of zb-v's way there and back, or those that a
 * file says. */
static void test_slow_rank(void) {
  static const struct {
    const char *planner, *csv;
  } cases[] = {{"zb-v", NULL}, {"file", "1F0,1F1,1B0,1B1\n0F0,0F1,0B0,0B1\n"}};
  struct obscura_case c;
  obscura_case_open(&c, 12, 2, 2, 0);
  cost_destroy(&c.cost);
  c.request.cost = c.cost = make_cost(&c, (const double[]){0.25, 1}, "source: preset");
  for (int k = 0; k < 2; k++) {
    struct plan *plan = NULL;
    struct plan_request request = c.request;
    request.plan_csv = cases[k].csv;
    request.n_chunks = cases[k].csv ? 0 : 2;
    T_CHECK(!planner_run(cases[k].planner, &request, &plan), "%s: %s", cases[k].planner, error_text());
    T_CHECK(plan && 2 * count_layers(plan, 0) < count_layers(plan, 1), "%s: rank 0 has %d layers, rank 1 %d",
            cases[k].planner, plan ? count_layers(plan, 0) : 0, plan ? count_layers(plan, 1) : 0);
    plan_destroy(&plan);
  }
  obscura_case_close(&c);
}

int main(void) {
  test_other_ranks();
  test_slow_rank();
  return t_end();
}
