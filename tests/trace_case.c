#include "trace_case.h"

struct trace_case make_trace_case(int n_ranks) {
  struct trace_case c = {.model = make_tiny_model(8, false)};
  const struct micro_shape micro[3] = {micro_shape_make(2, 8, 16, 16), micro_shape_make(2, 8, 16, 16),
                                       micro_shape_make(1, 6, 6, 5)};
  struct plan_request request = {.model = c.model,
                                 .n_ranks = n_ranks,
                                 .n_stages = n_ranks,
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = 3,
                                 .micro = micro};
  if (planner_run("1f1b", &request, &c.plan) || dag_build(c.plan, c.model, &c.dag)) {
    fprintf(stderr, "%s\n", error_text());
    exit(1);
  }
  return c;
}

void free_trace_case(struct trace_case *c) {
  dag_destroy(&c->dag);
  plan_destroy(&c->plan);
  model_destroy(&c->model);
}

double start_of(int64_t step, int32_t node) { return (double)step * 0.001 + node * 0.5; }

double end_of(int64_t step, int32_t node) { return start_of(step, node) + 0.25; }

int64_t peak_of(int64_t step, int rank) { return step * 1000 + rank; }

void add_step(struct trace *trace, struct comm *comm, const struct trace_case *c, int64_t step) {
  int rank = comm_get_rank(comm);
  int32_t first = c->dag->rank_offset[rank], n = c->dag->rank_offset[rank + 1] - first;
  const double begin = 1024 + (double)step; /* rank 0's clock */
  struct trace_span *spans = MEM_NEW(struct trace_span, n + 1);
  for (int32_t i = 0; i < n; i++) {
    double mine = begin - comm_get_clock_offset(comm);
    spans[i] = (struct trace_span){mine + start_of(step, first + i), mine + end_of(step, first + i)};
  }
  struct trace_step info = {.step = step,
                            .loss = 3.0 / (double)step,
                            .tokens = step * 100,
                            .predicted_seconds = (double)step * 0.25,
                            .seconds = (double)step * 0.125,
                            .plan_hash = c->plan->hash,
                            .start = begin,
                            .host_peak = 2 * peak_of(step, rank),
                            .disk_peak = 3 * peak_of(step, rank)};
  T_CHECK(!trace_add(trace, c->dag, spans, &info, peak_of(step, rank), 77), "%s", error_text());
  mem_free(spans);
}
