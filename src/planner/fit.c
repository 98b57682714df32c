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
  struct plan *plan;
  struct dag *dag;
  request.n_micro = planner_make_worst(rows, micro_batch, length, &micro);
  request.micro = micro;
  bool fits = fit_try(planner, &request, &plan, &dag);
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

/* Finds the largest data.micro_batch below the deck's that fits, and says so. More rows never need less, so halving
 * finds it. The text is owned by the caller. */
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
  if (low >= least) return mem_format("data.micro_batch %lld", (long long)low);
  if (least > 1) return mem_format("a data.micro_batch below %lld, with a smaller data.global_batch", (long long)least);
  return mem_strdup("more ranks, or a shorter data.sequence_length (no smaller data.micro_batch fits)");
}

static void append(char **list, char *text) {
  char *longer = mem_format("%s%s", *list, text);
  mem_free(*list);
  mem_free(text);
  *list = longer;
}

/* Appends "KEY of rank R: N B (1.50 GiB), rank ..." where more is enough than the limits are; "of all ranks" where they
 * are alike. */
static void append_limits(const struct plan_request *request, const int64_t *limit, const int64_t *enough,
                          const char *key, char **list) {
  enum { MOST = 8 };
  int32_t n = 0, n_alike = 0, first = -1;
  for (int32_t r = 0; limit && r < request->n_ranks; r++) {
    if (enough[r] <= limit[r]) continue;
    if (first < 0) first = r;
    n_alike += enough[r] == enough[first];
    n++;
  }
  bool all = n > 1 && n_alike == request->n_ranks;
  int32_t n_listed = 0;
  if (n > 0) append(list, mem_format("%s%s of", **list ? ", and " : " ", key));
  for (int32_t r = 0; n > 0 && r < request->n_ranks && n_listed < (all ? 1 : MOST); r++) {
    char human[32], *who = all ? mem_strdup("all ranks") : mem_format("rank %d", r);
    bytes_format(enough[r], human, sizeof human);
    if (enough[r] > limit[r])
      append(list, mem_format("%s %s: %lld B (%s)", n_listed++ ? "," : "", who, (long long)enough[r], human));
    mem_free(who);
  }
  if (!all && n > MOST) append(list, mem_format(", and %d ranks more", (int)(n - MOST)));
}

static char *list_limits(const struct plan_request *request, const struct fit_limits *enough) {
  char *list = mem_strdup("");
  append_limits(request, request->device_limit, enough->device, "memory.device_limit", &list);
  append_limits(request, request->host_limit, enough->host, "memory.host_limit", &list);
  append_limits(request, request->disk_limit, enough->disk, "memory.spill_limit", &list);
  return list;
}

static bool has_limit(const struct plan_request *request) {
  for (int32_t r = 0; r < request->n_ranks; r++)
    if (planner_get_limit(request, r) < INT64_MAX) return true;
  return false;
}

int fit_advise(const char *planner, const struct plan_request *request, int status, const struct plan *plan,
               const struct dag *dag) {
  struct fit_limits enough;
  if (status != STATUS_MISTAKE || (!plan && !has_limit(request))) return status;
  char *message = mem_strdup(error_text());
  bool found = fit_find_limits(planner, request, plan, dag, &enough);
  error_clear();
  if (plan || found) {
    char *limits = found ? list_limits(request, &enough) : mem_strdup(""), *rows = advise_micro_batch(planner, request);
    status = error_raise(status, "%s; what would fit:%s%s%s", message, limits, found ? ", or " : " ", rows);
    if (fit_searches(planner, request) && plan && plan->n_recompute > 0)
      error_wrap("no plan fits, not even with recomputation on all stages of pipeline.recompute");
    mem_free(limits);
    mem_free(rows);
  } else {
    error_raise(status, "%s", message);
  }
  fit_limits_fini(&enough);
  mem_free(message);
  return status;
}
