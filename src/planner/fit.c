#include "planner/fit.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* True when the plan for micro-batches of `micro_batch` rows fits. */
static bool would_fit(const char *planner, struct plan_request request, int64_t rows, int64_t micro_batch,
                      int64_t length) {
  struct micro_shape *micro;
  struct plan *plan = NULL;
  struct dag *dag = NULL;
  request.n_micro = planner_make_worst(rows, micro_batch, length, &micro);
  request.micro = micro;
  bool fits =
      !planner_run(planner, &request, &plan) && !dag_build(plan, request.model, &dag) && !dag_check_memory(dag, plan);
  dag_destroy(&dag);
  plan_destroy(&plan);
  mem_free(micro);
  return fits;
}

/* Fewest rows that are looked at: the graphs of more micro-batches than this makes would take minutes. */
static int64_t get_least(const struct plan_request *request, int64_t rows) {
  enum { MOST_PASSES = 200000 };
  int64_t most = request->n_stages < MOST_PASSES ? MOST_PASSES / request->n_stages : 1;
  return (rows + most - 1) / most;
}

/* Finds the largest data.micro_batch below the deck's that fits, and says so. */
static char *advise_micro_batch(const char *planner, const struct plan_request *request) {
  int64_t rows = 0, high = request->micro[0].rows;
  for (int32_t i = 0; i < request->n_micro; i++) rows += request->micro[i].rows;
  int64_t least = get_least(request, rows), low = least - 1;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (would_fit(planner, *request, rows, middle, request->micro[0].length))
      low = middle;
    else
      high = middle;
  }
  if (low >= least) return mem_format(", or data.micro_batch %lld", (long long)low);
  if (least > 1)
    return mem_format(", or a data.micro_batch below %lld, with a smaller data.global_batch", (long long)least);
  return mem_strdup(", or more ranks, or a shorter data.sequence_length (no smaller data.micro_batch fits)");
}

static void append(char **list, char *text) {
  char *longer = mem_format("%s%s", *list, text);
  mem_free(*list);
  mem_free(text);
  *list = longer;
}

/* Appends "KEY of rank R: N B (1.50 GiB), rank ..." when the limits of ranks are too small. */
static void append_limits(const struct dag *dag, enum pool_kind pool, const int64_t *limit, const char *key,
                          char **list) {
  int n = 0;
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    int64_t peak = pool == POOL_DEVICE ? dag_get_peak(dag, r, NULL) : dag_get_pool_peak(dag, r, pool, NULL);
    if (peak <= limit[r] || ++n > 8) continue;
    char human[32];
    bytes_format(peak, human, sizeof human);
    if (n == 1) append(list, mem_format("%s%s of", **list ? ", and " : " ", key));
    append(list, mem_format("%s rank %d: %lld B (%s)", n > 1 ? "," : "", r, (long long)peak, human));
  }
  if (n > 8) append(list, mem_format(", and %d ranks more", n - 8));
}

static char *list_limits(const struct plan *plan, const struct dag *dag) {
  char *list = mem_strdup("");
  append_limits(dag, POOL_DEVICE, plan->device_limit, "memory.device_limit", &list);
  append_limits(dag, POOL_HOST, plan->host_limit, "memory.host_limit", &list);
  append_limits(dag, POOL_DISK, plan->disk_limit, "memory.spill_limit", &list);
  return list;
}

int fit_check(const char *planner, const struct plan_request *request, const struct plan *plan, const struct dag *dag) {
  int status = dag_check_memory(dag, plan);
  if (!status) return STATUS_OK;
  char *message = mem_strdup(error_text());
  char *limits = list_limits(plan, dag), *rows = advise_micro_batch(planner, request);
  status = error_raise(status, "%s; what would fit:%s%s", message, limits, rows);
  mem_free(message);
  mem_free(limits);
  mem_free(rows);
  return status;
}
