/* Limits that would be enough, each proved by the plan that the planner makes there. */
#include <string.h>

#include "base/mem.h"
#include "planner/fit.h"
#include "planner/partition_auto.h"

/* Copies n limits; NULL: there are none. */
static int64_t *copy_limits(const int64_t *limits, int32_t n) {
  int64_t *copy = MEM_NEW(int64_t, n);
  for (int32_t r = 0; r < n; r++) copy[r] = limits ? limits[r] : INT64_MAX;
  return copy;
}

void fit_limits_fini(struct fit_limits *limits) {
  mem_free(limits->device);
  mem_free(limits->host);
  mem_free(limits->disk);
  *limits = (struct fit_limits){0};
}

static void raise_pool(const struct dag *dag, enum pool_kind pool, int64_t *limits) {
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    int64_t peak = pool == POOL_DEVICE ? dag_get_peak(dag, r, NULL) : dag_get_pool_peak(dag, r, pool, NULL);
    if (peak > limits[r]) limits[r] = peak;
  }
}

/* The largest peak of a device over its limit; 0: there is none. */
static int64_t get_largest(const struct plan_request *request, const struct dag *dag) {
  int64_t largest = 0;
  for (int32_t r = 0; dag && r < dag->n_ranks; r++) {
    int64_t peak = dag_get_peak(dag, r, NULL);
    if (peak > planner_get_limit(request, r) && peak > largest) largest = peak;
  }
  return largest;
}

/* Plans with these limits; true when it fits. Else what lacks in host memory and on disk is added, and *peak is what
 * the devices lack, 0: nothing, or there is no plan. */
static bool try_limits(const char *planner, const struct plan_request *request, struct fit_limits *limits,
                       int64_t *peak) {
  struct plan_request raised = *request;
  struct plan *plan;
  struct dag *dag;
  raised.device_limit = limits->device;
  raised.host_limit = limits->host;
  raised.disk_limit = limits->disk;
  bool fits = fit_try(planner, &raised, &plan, &dag);
  *peak = get_largest(&raised, dag);
  if (dag && !fits) {
    raise_pool(dag, POOL_HOST, limits->host);
    raise_pool(dag, POOL_DISK, limits->disk);
  }
  dag_destroy(&dag);
  plan_destroy(&plan);
  return fits;
}

/* What the plan takes that the planner makes without limits; 0: there is none. */
static int64_t get_ample(const char *planner, const struct plan_request *request) {
  struct plan_request ample = *request;
  struct plan *plan;
  struct dag *dag;
  int64_t largest = 0;
  ample.device_limit = NULL;
  if (fit_try(planner, &ample, &plan, &dag)) largest = get_largest(request, dag);
  dag_destroy(&dag);
  plan_destroy(&plan);
  return largest;
}

/* Finds a common limit for all ranks that have less, from a guess on. */
static bool find_common(const char *planner, const struct plan_request *request, int64_t guess, int tries,
                        struct fit_limits *limits) {
  for (int t = 0; t < tries; t++) {
    int64_t peak;
    for (int32_t r = 0; r < request->n_ranks; r++) {
      int64_t own = planner_get_limit(request, r);
      limits->device[r] = own > guess ? own : guess;
    }
    if (try_limits(planner, request, limits, &peak)) return true;
    /* It was cut otherwise, or estimated a little less than it takes. A cut that may become faster with every limit
     * comes to its end without any. */
    int64_t ample = t == tries - 2 ? get_ample(planner, request) : 0;
    guess = peak > guess ? peak : guess + guess / 64;
    if (ample > guess) guess = ample;
  }
  return false;
}

bool fit_find_limits(const char *planner, const struct plan_request *request, const struct plan *plan,
                     const struct dag *dag, struct fit_limits *limits) {
  enum { TRIES = 3 };
  const struct planner *found = planner_find(planner);
  int64_t least = partition_find_limit(request), most = get_largest(request, dag), peak;
  bool by_memory = found && found->recomputes_itself, fits = false;
  bool cuts = request->partition.kind == PARAMS_CUT_AUTO;
  *limits = (struct fit_limits){.device = copy_limits(request->device_limit, request->n_ranks),
                                .host = copy_limits(request->host_limit, request->n_ranks),
                                .disk = copy_limits(request->disk_limit, request->n_ranks)};
  if (plan) {
    raise_pool(dag, POOL_DEVICE, limits->device);
    raise_pool(dag, POOL_HOST, limits->host);
    raise_pool(dag, POOL_DISK, limits->disk);
    if (!by_memory || !cuts || most == 0) fits = try_limits(planner, request, limits, &peak);
  }
  /* Another cut is worth a word where it needs clearly less. */
  if (fits && (!cuts || least >= most - most / 64)) return true;
  int64_t guess = most && most < least ? most : least;
  if (guess == INT64_MAX || guess == 0) guess = most;
  if (guess == 0) return fits;
  struct fit_limits common = {.device = copy_limits(limits->device, request->n_ranks),
                              .host = copy_limits(limits->host, request->n_ranks),
                              .disk = copy_limits(limits->disk, request->n_ranks)};
  bool found_common = find_common(planner, request, guess, fits ? 1 : TRIES, &common);
  if (found_common) {
    struct fit_limits before = *limits;
    *limits = common;
    common = before;
  }
  fit_limits_fini(&common);
  return fits || found_common;
}
