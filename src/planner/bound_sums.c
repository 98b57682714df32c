#include "planner/bound_sums.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/recompute.h"
#include "planner/stage_menu.h"

/* Micro-batches of a shape. */
struct group {
  struct micro_shape shape;
  int64_t n;
};

static int32_t group_micro(const struct plan *plan, struct group *groups) {
  int32_t n = 0;
  for (int32_t i = 0; i < plan->n_micro; i++) {
    int32_t k = 0;
    while (k < n && !micro_shape_costs_alike(groups[k].shape, plan->micro[i])) k++;
    if (k == n) groups[n++] = (struct group){plan->micro[i], 0};
    groups[k].n++;
  }
  return n;
}

static void sum_times(struct bound_sums *sums, struct bound_row *row, int32_t rank, const struct group *groups,
                      int32_t n) {
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    row->all[pass] = MEM_NEW(double, sums->n_layers + 1);
    row->one[pass] = MEM_NEW(double, sums->n_layers + 1);
    for (int32_t l = 0; l < sums->n_layers; l++) {
      double all = 0, one = INFINITY;
      for (int32_t k = 0; k < n; k++) {
        double seconds = cost_get_layer(sums->cost, rank, l, (enum pass)pass, groups[k].shape);
        all += (double)groups[k].n * seconds;
        one = fmin(one, seconds);
      }
      row->all[pass][l + 1] = row->all[pass][l] + all;
      row->one[pass][l + 1] = row->one[pass][l] + one;
    }
  }
  row->update = MEM_NEW(double, sums->n_layers + 1);
  for (int32_t l = 0; l < sums->n_layers; l++)
    row->update[l + 1] = row->update[l] + cost_get_update(sums->cost, rank, sums->model->layers[l].n_floats);
}

/* Counts n units of a layer; count[l + 1] is that of layer l alone until all are there. */
static void count_unit(const struct bound_sums *sums, struct bound_row *row, int32_t l, const struct menu_unit *unit,
                       int64_t n) {
  int32_t k = 0;
  while (k < row->n_units && (row->units[k].bytes != unit->bytes || row->units[k].seconds != unit->seconds)) k++;
  if (k == row->n_units) {
    row->units = mem_resize(row->units, sizeof *row->units * (size_t)(k + 1));
    row->units[row->n_units++] = (struct bound_unit){unit->bytes, unit->seconds, MEM_NEW(int64_t, sums->n_layers + 1)};
  }
  row->units[k].count[l + 1] += n;
}

static int compare_units(const void *left, const void *right) {
  const struct bound_unit *a = left, *b = right;
  double x = (double)a->bytes * b->seconds, y = (double)b->bytes * a->seconds;
  return (x < y) - (x > y);
}

/* All that can be discarded at all may be. */
static void list_units(const struct bound_sums *sums, struct bound_row *row, int32_t rank, const struct group *groups,
                       int32_t n) {
  struct menu_unit units[LAYER_MAX_OPS];
  for (int32_t l = 0; l < sums->n_layers; l++) {
    uint32_t ops = recompute_get_ops(&sums->model->layers[l], PARAMS_RECOMPUTE_FULL);
    for (int32_t k = 0; k < n; k++) {
      int n_units = stage_menu_list_units(sums->model, sums->cost, rank, l, groups[k].shape, ops, units);
      for (int u = 0; u < n_units; u++) count_unit(sums, row, l, &units[u], groups[k].n);
    }
  }
  for (int32_t k = 0; k < row->n_units; k++)
    for (int32_t l = 0; l < sums->n_layers; l++) row->units[k].count[l + 1] += row->units[k].count[l];
  if (row->n_units) qsort(row->units, (size_t)row->n_units, sizeof *row->units, compare_units);
}

static void make_rows(struct bound_sums *sums, const struct group *groups, int32_t n) {
  int32_t n_ranks = sums->plan->n_ranks, *firsts = MEM_NEW(int32_t, n_ranks);
  sums->alike = MEM_NEW(int32_t, n_ranks);
  for (int32_t r = 0; r < n_ranks; r++) {
    int32_t k = 0;
    while (k < sums->n_rows && !cost_ranks_alike(sums->cost, firsts[k], r)) k++;
    if (k == sums->n_rows) firsts[sums->n_rows++] = r;
    sums->alike[r] = k;
  }
  sums->rows = MEM_NEW(struct bound_row, sums->n_rows);
  for (int32_t k = 0; k < sums->n_rows; k++) {
    sum_times(sums, &sums->rows[k], firsts[k], groups, n);
    list_units(sums, &sums->rows[k], firsts[k], groups, n);
  }
  mem_free(firsts);
}

static void sum_bytes(struct bound_sums *sums, const struct group *groups, int32_t n) {
  sums->kept = MEM_NEW(int64_t, sums->n_layers + 1);
  sums->outputs = MEM_NEW(int64_t, sums->n_layers + 1);
  sums->parameters = MEM_NEW(int64_t, sums->n_layers + 1);
  sums->n_body = MEM_NEW(int64_t, sums->n_layers + 1);
  sums->sent = MEM_NEW(int64_t, sums->n_layers);
  for (int32_t l = 0; l < sums->n_layers; l++) {
    int64_t kept = 0, outputs = 0, least = INT64_MAX;
    for (int32_t k = 0; k < n; k++) {
      struct footprint_stage f;
      footprint_stage(sums->model, l, 1, groups[k].shape, NULL, NULL, &f);
      int64_t output = footprint_output(sums->model, l, groups[k].shape);
      int64_t sent = cost_get_output_bytes(sums->cost, l, output);
      kept += groups[k].n * (f.keep_input + f.keep_weight);
      outputs += groups[k].n * output;
      least = sent < least ? sent : least;
    }
    sums->kept[l + 1] = sums->kept[l] + kept;
    sums->outputs[l + 1] = sums->outputs[l] + outputs;
    sums->sent[l] = least;
    sums->parameters[l + 1] = sums->parameters[l] + footprint_parameters(sums->model, &sums->model->layers[l]);
    sums->n_body[l + 1] = sums->n_body[l] + (sums->model->layers[l].block >= 0);
  }
}

struct bound_sums *bound_sums_create(const struct plan *plan, const struct model *model, const struct cost *cost) {
  struct bound_sums *sums = MEM_NEW(struct bound_sums, 1);
  struct group *groups = MEM_NEW(struct group, plan->n_micro);
  int32_t n = group_micro(plan, groups);
  *sums = (struct bound_sums){
      .plan = plan, .model = model, .cost = cost, .splits = plan_splits(plan), .n_layers = model->n_layers};
  make_rows(sums, groups, n);
  sum_bytes(sums, groups, n);
  mem_free(groups);
  return sums;
}

void bound_sums_destroy(struct bound_sums **sums) {
  struct bound_sums *s = *sums;
  if (!s) return;
  for (int32_t k = 0; k < s->n_rows; k++) {
    for (int pass = 0; pass < PASS_COUNT; pass++) {
      mem_free(s->rows[k].all[pass]);
      mem_free(s->rows[k].one[pass]);
    }
    mem_free(s->rows[k].update);
    for (int32_t u = 0; u < s->rows[k].n_units; u++) mem_free(s->rows[k].units[u].count);
    mem_free(s->rows[k].units);
  }
  mem_free(s->rows);
  mem_free(s->alike);
  mem_free(s->kept);
  mem_free(s->outputs);
  mem_free(s->parameters);
  mem_free(s->n_body);
  mem_free(s->sent);
  mem_free(s);
  *sums = NULL;
}

double bound_sums_get_all(const struct bound_sums *sums, int32_t rank, enum pass pass, int32_t first, int32_t end,
                          int64_t n_body) {
  const double *sum = sums->rows[sums->alike[rank]].all[pass];
  return (sum[end] - sum[first]) * cost_get_share_factor(sums->cost, pass, n_body);
}

double bound_sums_get_one(const struct bound_sums *sums, int32_t rank, enum pass pass, int32_t first, int32_t end,
                          int64_t n_body) {
  const double *sum = sums->rows[sums->alike[rank]].one[pass];
  return (sum[end] - sum[first]) * cost_get_share_factor(sums->cost, pass, n_body);
}

double bound_sums_get_update(const struct bound_sums *sums, int32_t rank, int32_t first, int32_t end) {
  const double *sum = sums->rows[sums->alike[rank]].update;
  return sum[end] - sum[first];
}

double bound_sums_get_back(const struct bound_sums *sums, int32_t rank, int32_t first, int32_t end, int64_t n_body) {
  double seconds = bound_sums_get_one(sums, rank, PASS_INPUT, first, end, n_body);
  if (!sums->splits || first == 0) seconds += bound_sums_get_one(sums, rank, PASS_WEIGHT, first, end, n_body);
  if (first == 0 && !sums->plan->clip) seconds += bound_sums_get_update(sums, rank, first, end);
  return seconds;
}
