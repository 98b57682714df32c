#include "planner/stage_need.h"

#include <math.h>

#include "base/mem.h"
#include "cost/cost.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/recompute.h"

struct stage_needs {
  const struct plan_request *request;
  struct micro_shape micro;
  int32_t n_stages;
  int32_t *alike;  /* [n_ranks] the row of sums that a rank has; ranks that are alike share one */
  double *seconds; /* [rows][PASS_COUNT][n_layers+1] sums over the layers before */
  int64_t *n_body; /* [n_layers+1] layers of blocks before */
  int64_t *bytes;  /* [n_layers+1] of parameters before */
  struct footprint_stage *kept, *discarding; /* [n_layers] of one layer by itself, discarding nothing and all it can */
  int64_t *discardable;                      /* [n_layers+1] bytes that the layers before may discard, by the request */
  int64_t *outputs;                          /* [n_layers] bytes of the hidden state that leaves each */
  int64_t boundary;                          /* bytes of the gradient between two layers */
};

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t stage_need_get_peak(const struct stage_need *need, int64_t discarded) {
  int64_t forward = min64(discarded + need->work_forward, need->work_discarding);
  return need->fixed + need->copies * (need->keep - discarded) +
         max64(forward, min64(discarded, need->part) + need->work_backward);
}

double stage_need_share(double over, double copies, int64_t part) {
  if (over <= 0) return 0;
  double all = copies > 1 ? ceil(over / (copies - 1)) : INFINITY; /* where all are there again */
  return all <= (double)part || part == INT64_MAX || copies <= 0 ? all : ceil((over + (double)part) / copies);
}

int64_t stage_need_get_discarded(const struct stage_need *need, int64_t limit) {
  if (limit == INT64_MAX) return 0;
  int64_t over = need->fixed + need->copies * need->keep - limit;
  double backward = stage_need_share((double)(over + need->work_backward), need->copies, need->part);
  double forward = fmin(stage_need_share((double)(over + need->work_forward), need->copies, INT64_MAX),
                        stage_need_share((double)(over + need->work_discarding), need->copies, 0));
  double discarded = fmax(backward, forward);
  return isinf(discarded) ? -1 : (int64_t)discarded;
}

static struct micro_shape find_largest(const struct plan_request *request) {
  struct micro_shape largest = request->micro[0];
  for (int32_t i = 1; i < request->n_micro; i++)
    if ((int64_t)request->micro[i].rows * request->micro[i].length > (int64_t)largest.rows * largest.length)
      largest = request->micro[i];
  return largest;
}

static double *get_sums(const struct stage_needs *needs, int32_t rank, enum pass pass) {
  int64_t row = (int64_t)needs->alike[rank] * PASS_COUNT + pass;
  return needs->seconds + row * (needs->request->model->n_layers + 1);
}

/* Numbers the rows; firsts[row] is the first rank that has it. Returns how many: only ranks given by hand differ. */
static int32_t number_rows(const struct plan_request *r, int32_t *alike, int32_t *firsts) {
  int32_t n = 0;
  for (int32_t rank = 0; rank < r->n_ranks; rank++) {
    int32_t row = 0;
    while (row < n && r->cost && !cost_ranks_alike(r->cost, firsts[row], rank)) row++;
    if (row == n) firsts[n++] = rank;
    alike[rank] = row;
  }
  return n;
}

static int64_t count_kept(const struct footprint_stage *f) { return f->keep_input + f->keep_weight; }

/* Returns the bytes of a micro-batch that a layer discards when it discards all that the request allows. */
static int64_t count_discardable(const struct stage_needs *needs, int32_t l) {
  struct footprint_stage least;
  if (!needs->request->recompute_ops) return 0;
  footprint_stage(needs->request->model, l, 1, needs->micro, &needs->request->recompute_ops[l], NULL, &least);
  return count_kept(&needs->kept[l]) - count_kept(&least);
}

static void measure_layers(struct stage_needs *needs) {
  const struct model *model = needs->request->model;
  needs->kept = MEM_NEW(struct footprint_stage, model->n_layers);
  needs->discarding = MEM_NEW(struct footprint_stage, model->n_layers);
  needs->boundary = footprint_is_given(model) ? 0 : footprint_boundary(model, needs->micro);
  needs->outputs = MEM_NEW(int64_t, model->n_layers);
  needs->discardable = MEM_NEW(int64_t, model->n_layers + 1);
  for (int32_t l = 0; l < model->n_layers; l++) {
    needs->outputs[l] = footprint_output(model, l, needs->micro);
    uint32_t all = recompute_get_ops(&model->layers[l], PARAMS_RECOMPUTE_FULL);
    footprint_stage(model, l, 1, needs->micro, NULL, NULL, &needs->kept[l]);
    footprint_stage(model, l, 1, needs->micro, &all, NULL, &needs->discarding[l]);
    needs->discardable[l + 1] = needs->discardable[l] + count_discardable(needs, l);
  }
}

static void sum_seconds(struct stage_needs *needs) {
  const struct plan_request *r = needs->request;
  needs->alike = MEM_NEW(int32_t, r->n_ranks);
  int32_t *firsts = MEM_NEW(int32_t, r->n_ranks), n_rows = number_rows(r, needs->alike, firsts);
  needs->seconds = MEM_NEW(double, (int64_t)n_rows *PASS_COUNT *(r->model->n_layers + 1));
  for (int32_t row = 0; r->cost && row < n_rows; row++)
    for (enum pass pass = 0; pass < PASS_COUNT; pass++) {
      int32_t rank = firsts[row];
      double *sum = get_sums(needs, rank, pass);
      for (int32_t l = 0; l < r->model->n_layers; l++)
        sum[l + 1] = sum[l] + cost_get_layer(r->cost, rank, l, pass, needs->micro);
    }
  mem_free(firsts);
}

struct stage_needs *stage_needs_create(const struct plan_request *request) {
  const struct model *model = request->model;
  struct stage_needs *needs = MEM_NEW(struct stage_needs, 1);
  needs->request = request;
  needs->micro = find_largest(request);
  needs->n_stages = planner_count_stages(request);
  needs->n_body = MEM_NEW(int64_t, model->n_layers + 1);
  needs->bytes = MEM_NEW(int64_t, model->n_layers + 1);
  for (int32_t l = 0; l < model->n_layers; l++) {
    needs->n_body[l + 1] = needs->n_body[l] + (model->layers[l].block >= 0);
    needs->bytes[l + 1] = needs->bytes[l] + footprint_parameters(model, &model->layers[l]);
  }
  measure_layers(needs);
  sum_seconds(needs);
  return needs;
}

void stage_needs_destroy(struct stage_needs **needs) {
  if (!*needs) return;
  mem_free((*needs)->alike);
  mem_free((*needs)->seconds);
  mem_free((*needs)->n_body);
  mem_free((*needs)->bytes);
  mem_free((*needs)->kept);
  mem_free((*needs)->discarding);
  mem_free((*needs)->outputs);
  mem_free((*needs)->discardable);
  mem_free(*needs);
  *needs = NULL;
}

const struct micro_shape *stage_needs_get_micro(const struct stage_needs *needs) { return &needs->micro; }

static double get_pass(const struct stage_needs *needs, int32_t rank, int32_t first, int32_t n, enum pass pass) {
  const double *sum = get_sums(needs, rank, pass);
  int64_t n_body = needs->n_body[first + n] - needs->n_body[first];
  if (!needs->request->cost) return 0;
  return (sum[first + n] - sum[first]) * cost_get_share_factor(needs->request->cost, pass, n_body);
}

double stage_needs_get_seconds(const struct stage_needs *needs, int32_t rank, int32_t first, int32_t n) {
  double sum = 0;
  for (enum pass pass = 0; pass < PASS_COUNT; pass++) sum += get_pass(needs, rank, first, n, pass);
  return sum;
}

/* Parameters, gradients and moments, as footprint_static counts them. */
static int64_t get_static(const struct stage_needs *needs, int32_t first, int32_t n) {
  const struct model *model = needs->request->model;
  int64_t bytes = 4 * (needs->bytes[first + n] - needs->bytes[first]);
  for (int32_t i = 0; i < model->n_ties; i++) {
    const struct tie *tie = &model->ties[i];
    bool owns = tie->layer >= first && tie->layer < first + n, uses = tie->user >= first && tie->user < first + n;
    bytes += footprint_tie(model, tie) * (owns ? 1 : uses ? 5 : 0);
  }
  return bytes;
}

/* Hidden states and gradients beside those of the copies: received and sent ahead, and sent ones that have not been
 * taken yet. */
static int64_t sum_under_way(int32_t stage, int32_t n_stages, int64_t enters, int64_t leaves) {
  if (n_stages == 1) return 0;
  return stage == 0 ? 2 * leaves : stage == n_stages - 1 ? 3 * enters : 2 * (enters + leaves);
}

static int64_t get_output(const struct stage_needs *needs, int32_t layer) { return needs->outputs[layer]; }

/* Bytes of a stage's layers, equal to those of footprint_stage. */
struct sums {
  int64_t keep, work_forward, work_backward, work_discarding;
};

static struct sums sum_layers(const struct stage_needs *needs, int32_t first, int32_t n) {
  struct sums sums = {0};
  for (int32_t l = first; l < first + n; l++) {
    const struct footprint_stage *kept = &needs->kept[l], *discarding = &needs->discarding[l];
    sums.keep += kept->keep_input + kept->keep_weight + (l > first ? get_output(needs, l - 1) : 0);
    sums.work_forward = max64(sums.work_forward, kept->work_forward);
    sums.work_discarding = max64(sums.work_discarding, discarding->work_forward);
    sums.work_backward = max64(sums.work_backward, kept->work_backward + min64(n - 1, 2) * needs->boundary);
    sums.work_backward = max64(sums.work_backward, discarding->work_rebuild);
  }
  return sums;
}

/* Cuts a recomputation as recompute_cut does. A backward in parts holds two gradients of hidden states between them,
 * beside those within the part. */
static void cut_parts(const struct stage_needs *needs, int32_t first, int32_t n, struct stage_need *need) {
  int32_t longest = 0;
  need->part = INT64_MAX;
  if (needs->request->recompute_by != PARAMS_RECOMPUTE_BY_BLOCK) return;
  need->part = 0;
  for (int32_t end = first + n, begin; end > first; end = begin) {
    begin = recompute_find_part(needs->request->model, first, end);
    need->part = max64(need->part, needs->discardable[end] - needs->discardable[begin]);
    longest = end - begin > longest ? end - begin : longest;
  }
  if (longest < n) need->work_backward += (2 + min64(longest - 1, 2) - min64(n - 1, 2)) * needs->boundary;
}

struct stage_need stage_needs_get(const struct stage_needs *needs, int32_t stage, int32_t rank, int32_t first,
                                  int32_t n) {
  struct sums sums = sum_layers(needs, first, n);
  int32_t depth = needs->n_stages - stage, copies = depth < needs->request->n_micro ? depth : needs->request->n_micro;
  int64_t enters = stage > 0 ? get_output(needs, first - 1) : 0;
  int64_t leaves = stage + 1 < needs->n_stages ? get_output(needs, first + n - 1) : 0;
  struct stage_need need = {
      .forward = get_pass(needs, rank, first, n, PASS_FORWARD),
      .backward = get_pass(needs, rank, first, n, PASS_INPUT) + get_pass(needs, rank, first, n, PASS_WEIGHT),
      .fixed = get_static(needs, first, n) + sum_under_way(stage, needs->n_stages, enters, leaves),
      .keep = sums.keep + enters + leaves,
      .leaves = leaves,
      .discardable = needs->discardable[first + n] - needs->discardable[first],
      .work_forward = sums.work_forward,
      .work_backward = sums.work_backward,
      .work_discarding = sums.work_discarding,
      .copies = copies};
  cut_parts(needs, first, n, &need);
  return need;
}
