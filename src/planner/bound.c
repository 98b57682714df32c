#include "planner/bound.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "dag/dag_price.h"
#include "model/model.h"

struct bounder {
  const struct plan *plan;
  const struct model *model;
  const struct cost *cost;
  bool splits;
  int32_t n_layers, n_rows;
  int32_t *row;   /* [n_ranks] ranks that are alike share a row */
  double *all;    /* [n_rows][PASS_COUNT][n_layers + 1] seconds of the layers before, of all micro-batches */
  double *one;    /* the same of the micro-batch that takes each layer least */
  double *update; /* [n_rows][n_layers + 1] */
  int64_t *n_body;
};

static double *get_row(const struct bounder *b, double *table, int32_t rank, enum pass pass) {
  return table + ((int64_t)b->row[rank] * PASS_COUNT + pass) * (b->n_layers + 1);
}

/* Layers first .. end - 1 of a rank that holds n_body layers between embedding and head. */
static double get_pass(const struct bounder *b, double *table, int32_t rank, enum pass pass, int32_t first, int32_t end,
                       int64_t n_body) {
  const double *sums = get_row(b, table, rank, pass);
  return (sums[end] - sums[first]) * cost_get_share_factor(b->cost, pass, n_body);
}

static double get_update(const struct bounder *b, int32_t rank, int32_t first, int32_t end) {
  const double *sums = b->update + (int64_t)b->row[rank] * (b->n_layers + 1);
  return sums[end] - sums[first];
}

static void fill_pass(struct bounder *b, int32_t rank, enum pass pass) {
  double *all = get_row(b, b->all, rank, pass), *one = get_row(b, b->one, rank, pass);
  for (int32_t l = 0; l < b->n_layers; l++) {
    double sum = 0, least = INFINITY, seconds = 0;
    for (int32_t i = 0; i < b->plan->n_micro; i++) {
      if (i == 0 || !micro_shape_costs_alike(b->plan->micro[i], b->plan->micro[i - 1]))
        seconds = cost_get_layer(b->cost, rank, l, pass, b->plan->micro[i]);
      sum += seconds;
      least = fmin(least, seconds);
    }
    all[l + 1] = all[l] + sum;
    one[l + 1] = one[l] + least;
  }
}

static void open_bounder(struct bounder *b, const struct plan *plan, const struct model *model,
                         const struct cost *cost) {
  *b = (struct bounder){.plan = plan, .model = model, .cost = cost, .n_layers = plan->n_layers};
  for (int64_t k = 0; k < plan->n_actions; k++) b->splits = b->splits || plan->order[k].kind == NODE_W;
  int64_t width = b->n_layers + 1;
  int32_t *firsts = MEM_NEW(int32_t, plan->n_ranks);
  b->row = MEM_NEW(int32_t, plan->n_ranks);
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    while (b->row[r] < b->n_rows && !cost_ranks_alike(cost, firsts[b->row[r]], r)) b->row[r]++;
    if (b->row[r] == b->n_rows) firsts[b->n_rows++] = r;
  }
  b->all = MEM_NEW(double, b->n_rows *PASS_COUNT *width);
  b->one = MEM_NEW(double, b->n_rows *PASS_COUNT *width);
  b->update = MEM_NEW(double, b->n_rows *width);
  b->n_body = MEM_NEW(int64_t, width);
  for (int32_t l = 0; l < b->n_layers; l++) b->n_body[l + 1] = b->n_body[l] + (model->layers[l].block >= 0);
  for (int32_t k = 0; k < b->n_rows; k++) {
    double *update = b->update + k * width;
    for (int pass = 0; pass < PASS_COUNT; pass++) fill_pass(b, firsts[k], (enum pass)pass);
    for (int32_t l = 0; l < b->n_layers; l++)
      update[l + 1] = update[l] + cost_get_update(cost, firsts[k], model->layers[l].n_floats);
  }
  mem_free(firsts);
}

static void close_bounder(struct bounder *b) {
  mem_free(b->row);
  mem_free(b->all);
  mem_free(b->one);
  mem_free(b->update);
  mem_free(b->n_body);
}

/* Work of all micro-batches on a rank. */
struct work {
  double forward, input, weight, update;
};

static struct work get_work(const struct bounder *b, double *table, int32_t rank, int32_t first, int32_t end,
                            int64_t n_body) {
  return (struct work){get_pass(b, table, rank, PASS_FORWARD, first, end, n_body),
                       get_pass(b, table, rank, PASS_INPUT, first, end, n_body),
                       get_pass(b, table, rank, PASS_WEIGHT, first, end, n_body), get_update(b, rank, first, end)};
}

/* What a stage adds to the head of those after it, and to their tail. */
static double get_head(const struct bounder *b, int32_t rank, int32_t first, int32_t end, int64_t n_body) {
  return get_pass(b, b->one, rank, PASS_FORWARD, first, end, n_body);
}
static double get_tail(const struct bounder *b, int32_t rank, int32_t first, int32_t end, int64_t n_body) {
  double input = get_pass(b, b->one, rank, PASS_INPUT, first, end, n_body);
  double weight = get_pass(b, b->one, rank, PASS_WEIGHT, first, end, n_body);
  return input + (!b->splits || first == 0 ? weight : 0) + (first == 0 ? get_update(b, rank, first, end) : 0);
}

static double join(const struct bounder *b, double head, struct work w, double tail) {
  double passes = head + w.forward + w.input;
  if (!b->splits) return passes + w.weight + fmax(w.update, tail);
  return fmax(passes + w.weight + w.update, passes + tail);
}

/* ---- the plan's cut ---- */

/* Adds a stage's work to its rank's. Where its micro-batches are on several ranks, each has its own ones, which take no
 * less than so many of those that take least. */
static void add_work(const struct bounder *b, int32_t stage, int32_t rank, int64_t n_body, struct work *sum) {
  int32_t first = b->plan->stages[stage].first_layer, end = first + b->plan->stages[stage].n_layers, n = 0;
  for (int32_t i = 0; i < b->plan->n_micro; i++) n += plan_find_rank(b->plan, stage, i) == rank;
  bool alone = n == b->plan->n_micro;
  struct work w = get_work(b, alone ? b->all : b->one, rank, first, end, n_body);
  double times = alone ? 1 : n;
  sum->forward += times * w.forward;
  sum->input += times * w.input;
  sum->weight += times * w.weight;
  sum->update += w.update;
}

static double bound_cut(const struct bounder *b) {
  const struct plan *plan = b->plan;
  double *head = MEM_NEW(double, plan->n_ranks), *tail = MEM_NEW(double, plan->n_ranks), best = 0;
  struct work *work = MEM_NEW(struct work, plan->n_ranks);
  bool *begun = MEM_NEW(bool, plan->n_ranks);
  double before = 0, after = 0;
  for (int32_t s = 0; s < plan->n_stages; s++) {
    int32_t first = plan->stages[s].first_layer, end = first + plan->stages[s].n_layers;
    double passes = INFINITY, backs = INFINITY;
    for (int32_t r = 0; r < plan->n_ranks; r++) {
      if (!plan_holds(plan, s, r)) continue;
      int64_t n_body = dag_price_count_body(plan, b->model, r);
      if (!begun[r]) head[r] = before, tail[r] = after, begun[r] = true;
      add_work(b, s, r, n_body, &work[r]);
      passes = fmin(passes, get_head(b, r, first, end, n_body));
      backs = fmin(backs, get_tail(b, r, first, end, n_body));
    }
    before += passes;
    after += backs;
  }
  for (int32_t r = 0; r < plan->n_ranks; r++) best = fmax(best, join(b, head[r], work[r], tail[r]));
  mem_free(head);
  mem_free(tail);
  mem_free(work);
  mem_free(begun);
  return best;
}

/* ---- all cuts ---- */

/* Of stages 0 .. s - 1 over the layers before `end`: the least head and tail that they make, and the least value of the
 * largest of them. */
struct ends {
  double head, tail, value;
};

static void extend(const struct bounder *b, int32_t s, int32_t end, const struct ends *before, struct ends *out) {
  int32_t rank = plan_get_holder(b->plan, s);
  *out = (struct ends){INFINITY, INFINITY, INFINITY};
  for (int32_t first = s == 0 ? 0 : end - 1; first >= s; first--) {
    int64_t n_body = b->n_body[end] - b->n_body[first];
    const struct ends *e = &before[first];
    if (e->value < INFINITY) {
      double value = join(b, e->head, get_work(b, b->all, rank, first, end, n_body), e->tail);
      out->head = fmin(out->head, e->head + get_head(b, rank, first, end, n_body));
      out->tail = fmin(out->tail, e->tail + get_tail(b, rank, first, end, n_body));
      out->value = fmin(out->value, fmax(e->value, value));
    }
    if (s == 0) break;
  }
}

static double bound_any_cut(const struct bounder *b) {
  int32_t n = b->plan->n_stages, width = b->n_layers + 1;
  struct ends *rows = MEM_NEW(struct ends, 2 * (int64_t)width), *before = rows, *now = rows + width;
  for (int32_t s = 0; s < n; s++) {
    for (int32_t end = 0; end <= b->n_layers; end++)
      if (end > s && end <= b->n_layers - (n - 1 - s))
        extend(b, s, end, before, &now[end]);
      else
        now[end] = (struct ends){INFINITY, INFINITY, INFINITY};
    struct ends *swap = before;
    before = now;
    now = swap;
  }
  double best = before[b->n_layers].value;
  mem_free(rows);
  return best;
}

/* All the work on whichever rank does it fastest, divided by the ranks. A list of shares says nothing of layers. */
static double bound_shared(const struct bounder *b) {
  double sum = 0;
  for (int64_t n_body = 0; n_body <= b->n_body[b->n_layers]; n_body++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      if (cost_get_share_factor(b->cost, (enum pass)pass, n_body) != 1) return NAN;
  for (int32_t l = 0; l < b->n_layers; l++) {
    double least = INFINITY;
    for (int32_t r = 0; r < b->plan->n_ranks; r++) {
      struct work w = get_work(b, b->all, r, l, l + 1, 0);
      least = fmin(least, w.forward + w.input + w.weight + w.update);
    }
    sum += least;
  }
  return sum / b->plan->n_ranks;
}

struct bound bound_make(const struct plan *plan, const struct model *model, const struct cost *cost) {
  struct bounder b;
  bool linear = plan->n_stages == plan->n_ranks && plan->replica_offset[plan->n_stages] == plan->n_stages;
  open_bounder(&b, plan, model, cost);
  for (int32_t s = 0; s < plan->n_stages && linear; s++)
    for (int32_t t = 0; t < s && linear; t++) linear = plan_get_holder(plan, s) != plan_get_holder(plan, t);
  double any = linear ? bound_any_cut(&b) : bound_shared(&b);
  struct bound bound = {.cut = bound_cut(&b), .any = any};
  close_bounder(&b);
  return bound;
}
