#include "make_plan.h"

int32_t draw(int32_t n) {
  static const struct rng_key key = {.seed = 3, .purpose = RNG_TEST};
  static uint64_t drawn;
  return (int32_t)(rng_bits(&key, drawn++) % (uint64_t)n);
}

void draw_ties(struct model *model) {
  int32_t *layers = MEM_NEW(int32_t, model->n_layers);
  for (int32_t l = 0; l < model->n_layers; l++) {
    int32_t other = draw(l + 1);
    layers[l] = layers[other];
    layers[other] = l;
  }
  model->n_ties = draw(4);
  model->ties = mem_resize(model->ties, sizeof *model->ties * 3);
  for (int32_t i = 0; i < model->n_ties; i++)
    model->ties[i] = (struct tie){.layer = layers[2 * i], .user = layers[2 * i + 1], .floats = 16 * (1 + draw(9))};
  mem_free(layers);
}

struct plan *make_plan(const struct model *model, const char *planner, int32_t p, int32_t m, bool clip) {
  struct micro_shape micro[MAX_MICRO];
  for (int32_t i = 0; i < m; i++) micro[i] = micro_shape_make(1 + i % 2, 8 + i % 5, 7, 6);
  struct plan_request request = {.model = model,
                                 .params = get_test_params(),
                                 .n_ranks = p,
                                 .n_stages = p,
                                 .n_micro = m,
                                 .micro = micro,
                                 .clip = clip};
  request.n_chunks = get_test_chunks(planner);
  struct plan *plan;
  T_CHECK(planner_run(planner, &request, &plan) == STATUS_OK, "%s", error_text());
  return plan;
}

/* ---- random plans ---- */

struct execution {
  const struct plan *plan;
  bool split[8][MAX_MICRO];
  int32_t forward[8], input[8], weight[8]; /* next of each stage */
};

/* The next action of a kind on a stage, if what it needs has run. */
static bool is_possible(const struct execution *x, enum node_kind kind, int32_t s) {
  int32_t m = x->plan->n_micro, last = x->plan->n_stages - 1;
  if (kind == NODE_F) return x->forward[s] < m && (s == 0 || x->forward[s - 1] > x->forward[s]);
  if (x->plan->forward_only) return false;
  if (kind == NODE_W) return x->weight[s] < x->input[s];
  int32_t i = x->input[s];
  if (i >= m || i >= x->forward[s] || (s < last && x->input[s + 1] <= i)) return false;
  return kind == NODE_B ? !x->split[s][i] && x->weight[s] == i : x->split[s][i];
}

static void advance(struct execution *x, enum node_kind kind, int32_t s, struct plan_action *action) {
  *action = (struct plan_action){kind, s, kind == NODE_F ? x->forward[s] : kind == NODE_W ? x->weight[s] : x->input[s]};
  x->forward[s] += kind == NODE_F;
  x->input[s] += kind == NODE_B || kind == NODE_I;
  x->weight[s] += kind == NODE_B || kind == NODE_W;
}

/* Actions of the whole pipeline in the order in which they ran; returns how many. A stage drawn as lazy seldom goes, so
 * that orders get far from the regular ones. */
static int64_t execute(struct execution *x, struct plan_action *run) {
  static const enum node_kind kinds[] = {NODE_F, NODE_B, NODE_I, NODE_W};
  int64_t n = 0;
  int32_t lazy = draw(x->plan->n_stages), lazy_kind = draw(4);
  for (;;) {
    bool any = false;
    for (int32_t s = 0; s < x->plan->n_stages && !any; s++)
      for (int k = 0; k < 4 && !any; k++) any = is_possible(x, kinds[k], s);
    if (!any) return n;
    int32_t s = draw(x->plan->n_stages), k = draw(4);
    if ((s == lazy || k == lazy_kind) && draw(6)) continue;
    if (is_possible(x, kinds[k], s)) advance(x, kinds[k], s, &run[n++]);
  }
}

struct plan *make_random_plan(const struct model *model) {
  int32_t n_stages = 1 + draw(6), p = 1 + draw(4), m = 1 + draw(6), next = 0;
  struct plan *plan = plan_create(model->n_layers, n_stages, p, m, 3 * (int64_t)n_stages * m);
  struct execution x = {.plan = plan};
  plan->forward_only = draw(5) == 0;
  plan->clip = !plan->forward_only && draw(2);
  int splitting = draw(3);
  for (int32_t s = 0; s < n_stages; s++) {
    int32_t left = model->n_layers - next - (n_stages - 1 - s);
    plan->stages[s] = (struct plan_stage){next, s == n_stages - 1 ? left : 1 + draw(left)};
    next += plan->stages[s].n_layers;
    plan->replica_rank[s] = draw(p);
    for (int32_t i = 0; i < m; i++) x.split[s][i] = splitting == 2 || (splitting && draw(2));
  }
  for (int32_t i = 0; i < m; i++) plan->micro[i] = micro_shape_make(1 + draw(3), 1 + draw(16), 1, 1);
  struct plan_action run[3 * 8 * MAX_MICRO];
  int64_t n = 0, total = execute(&x, run);
  for (int32_t r = 0; r < p; r++) {
    plan->order_offset[r] = n;
    for (int64_t k = 0; k < total; k++)
      if (plan->replica_rank[run[k].stage] == r) plan->order[n++] = run[k];
  }
  plan->order_offset[p] = plan->n_actions = n;
  T_CHECK(n == total && plan_check(plan) == STATUS_OK, "%s", error_text());
  return plan;
}

double *draw_lengths(const struct dag *dag) {
  double *length = MEM_NEW(double, dag->n_nodes);
  double slow = draw(2) ? 20 : 1;
  for (int32_t v = 0; v < dag->n_nodes; v++)
    length[v] = (0.1 + draw(1000) / 1000.0) * (dag->nodes[v].stream == STREAM_COMPUTE ? 1 : slow);
  return length;
}
