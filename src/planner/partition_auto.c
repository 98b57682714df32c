/* Dynamic programming over (stages, layers): first the least largest stage time, then, with no stage above it, the
 * least sum of squares, so that what one heavy layer leaves open is not left to chance.
 */
#include "planner/partition_auto.h"

#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "planner/stage_need.h"

struct cutter {
  const struct plan_request *request;
  struct stage_needs *needs;
  int32_t n_stages, n_layers;
  partition_least *least; /* stages must fit by this; NULL: they need not */
  const void *context;
  int64_t floor;   /* limits below this count as this */
  double largest;  /* no stage may take longer */
  bool sums;       /* values are sums of squares, else the largest stage time */
  double *value;   /* [n_stages][n_layers+1] of the first stages over the first layers */
  int32_t *starts; /* [n_stages][n_layers+1] where the last of them begins */
};

/* 1F1B's need of memory is the measure: planners that keep more say themselves what does not fit. */
static int64_t keep_all(const void *request, int32_t stage, const struct stage_need *need) {
  (void)request, (void)stage;
  return stage_need_get_peak(need, 0);
}

static int64_t discard_all(const void *request, int32_t stage, const struct stage_need *need) {
  return stage_need_get_peak(need, planner_may_recompute(request, stage) ? need->discardable : 0);
}

/* Bytes that a stage takes at least, where its rank's limit is less than that; else 0. */
static int64_t get_excess(const struct cutter *c, int32_t stage, int32_t first, int32_t n) {
  int32_t rank = planner_get_rank(c->request, stage);
  int64_t limit = planner_get_limit(c->request, rank);
  if (limit == INT64_MAX) return 0;
  struct stage_need need = stage_needs_get(c->needs, stage, rank, first, n);
  int64_t least = c->least(c->context, stage, &need);
  return least <= limit ? 0 : least;
}

static bool fits(const struct cutter *c, int32_t stage, int32_t first, int32_t n) {
  return !c->least || get_excess(c, stage, first, n) <= c->floor;
}

/* The best last stage of those up to `stage`, which end before layer `end`. */
static void choose_start(struct cutter *c, int32_t stage, int32_t end) {
  int64_t row = (int64_t)stage * (c->n_layers + 1), before = row - (c->n_layers + 1);
  double best = INFINITY;
  int32_t lowest = stage; /* one layer for each stage before */
  for (int32_t first = stage == 0 ? 0 : end - 1; first >= (stage == 0 ? 0 : lowest); first--) {
    double seconds = stage_needs_get_seconds(c->needs, planner_get_rank(c->request, stage), first, end - first);
    double rest = stage == 0 ? 0 : c->value[before + first];
    double value = c->sums ? rest + seconds * seconds : fmax(rest, seconds);
    if (seconds > c->largest || (!c->sums && stage > 0 && seconds > best)) break; /* more layers take no less */
    if (value < best && fits(c, stage, first, end - first)) {
      best = value;
      c->starts[row + end] = first;
    }
  }
  c->value[row + end] = best;
}

/* Returns the value of the whole, INFINITY when there is no such cut. */
static double cut(struct cutter *c, bool sums, double largest) {
  c->sums = sums;
  c->largest = largest;
  for (int32_t s = 0; s < c->n_stages; s++)
    for (int32_t end = 0; end <= c->n_layers; end++) {
      c->value[(int64_t)s * (c->n_layers + 1) + end] = INFINITY;
      if (end > s && end <= c->n_layers - (c->n_stages - 1 - s)) choose_start(c, s, end);
    }
  return c->value[(int64_t)c->n_stages * (c->n_layers + 1) - 1];
}

static void fill_stages(const struct cutter *c, struct plan_stage *stages) {
  for (int32_t s = c->n_stages - 1, end = c->n_layers; s >= 0; s--) {
    int32_t first = c->starts[(int64_t)s * (c->n_layers + 1) + end];
    stages[s] = (struct plan_stage){first, end - first};
    end = first;
  }
}

static struct cutter open_cutter(const struct plan_request *request) {
  struct cutter c = {.request = request,
                     .n_stages = planner_count_stages(request),
                     .n_layers = request->model->n_layers,
                     .needs = stage_needs_create(request),
                     .context = request};
  c.value = MEM_NEW(double, (int64_t)c.n_stages *(c.n_layers + 1));
  c.starts = MEM_NEW(int32_t, (int64_t)c.n_stages * (c.n_layers + 1));
  return c;
}

static void close_cutter(struct cutter *c) {
  stage_needs_destroy(&c->needs);
  mem_free(c->value);
  mem_free(c->starts);
}

/* The evenest of the best cuts, if there is one; `largest`: of its stages. */
static void take_cut(struct cutter *c, double largest, struct plan_stage *stages) {
  cut(c, true, largest * (1 + 1e-12)); /* sums of the same layers may differ by their rounding */
  fill_stages(c, stages);
}

int partition_make_auto(const struct plan_request *request, struct plan_stage *stages) {
  static partition_least *const measures[] = {keep_all, discard_all, NULL};
  bool limited = request->device_limit && planner_count_chunks(request) == 1 && request->n_stages == request->n_ranks;
  if (planner_count_stages(request) > request->model->n_layers)
    return error_raise(
        STATUS_MISTAKE,
        "pipeline.stages %d x %d a rank: a model of %d blocks can be cut into at most %d stages (embedding, "
        "head, and each block's mixer and feed-forward): give fewer",
        (int)request->n_stages, (int)planner_count_chunks(request), (int)request->model->config.n_blocks,
        (int)request->model->n_layers);
  struct cutter c = open_cutter(request);
  double largest = INFINITY;
  for (int i = limited ? 0 : 2; i < 3 && largest == INFINITY; i++) {
    c.least = measures[i]; /* what does not fit is said of the fastest cut */
    largest = cut(&c, false, INFINITY);
  }
  take_cut(&c, largest, stages);
  close_cutter(&c);
  return STATUS_OK;
}

bool partition_make_within(const struct plan_request *request, partition_least *least, const void *context,
                           struct plan_stage *stages) {
  if (planner_count_stages(request) > request->model->n_layers) return false;
  struct cutter c = open_cutter(request);
  c.least = least;
  c.context = context;
  double largest = cut(&c, false, INFINITY);
  if (largest < INFINITY) take_cut(&c, largest, stages);
  close_cutter(&c);
  return largest < INFINITY;
}

/* The least limit that all ranks whose own is less must have, so that the stages up to `stage`, which end before layer
 * `end`, fit. */
static void choose_nearest(struct cutter *c, int32_t stage, int32_t end) {
  int64_t row = (int64_t)stage * (c->n_layers + 1), before = row - (c->n_layers + 1);
  double best = INFINITY;
  for (int32_t first = stage == 0 ? 0 : end - 1; first >= stage; first--) {
    double excess = (double)get_excess(c, stage, first, end - first);
    double value = fmax(stage == 0 ? 0 : c->value[before + first], excess);
    if (value < best) best = value;
    if (stage == 0 || excess >= best) break; /* more layers take no less */
  }
  c->value[row + end] = best;
}

int64_t partition_make_nearest(const struct plan_request *request, partition_least *least, const void *context,
                               struct plan_stage *stages) {
  if (planner_count_stages(request) > request->model->n_layers) return INT64_MAX;
  struct cutter c = open_cutter(request);
  c.least = least;
  c.context = context;
  for (int32_t s = 0; s < c.n_stages; s++)
    for (int32_t end = s + 1; end <= c.n_layers - (c.n_stages - 1 - s); end++) choose_nearest(&c, s, end);
  c.floor = (int64_t)c.value[(int64_t)c.n_stages * (c.n_layers + 1) - 1];
  take_cut(&c, cut(&c, false, INFINITY), stages);
  close_cutter(&c);
  return c.floor;
}

/* The largest need of the stages over their limits; 0: they fit. */
static int64_t get_largest_excess(const struct plan_request *request, const struct plan_stage *stages) {
  struct cutter c = open_cutter(request);
  int64_t largest = 0;
  c.least = discard_all;
  for (int32_t s = 0; s < c.n_stages; s++) {
    int64_t excess = get_excess(&c, s, stages[s].first_layer, stages[s].n_layers);
    if (excess > largest) largest = excess;
  }
  close_cutter(&c);
  return largest;
}

int64_t partition_find_limit(const struct plan_request *request) {
  int64_t limit = INT64_MAX;
  if (planner_count_chunks(request) > 1 || request->n_stages != request->n_ranks) return limit;
  struct plan_stage *stages = MEM_NEW(struct plan_stage, planner_count_stages(request));
  if (request->partition.kind == PARAMS_CUT_AUTO)
    limit = partition_make_nearest(request, discard_all, request, stages);
  else if (partition_make(request, stages))
    error_clear();
  else
    limit = get_largest_excess(request, stages);
  mem_free(stages);
  return limit;
}
