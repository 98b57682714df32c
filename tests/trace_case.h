/* For tests of traces: a plan and graph for so many ranks, and times that follow from step and node. */
#ifndef PENSTOCK_TESTS_TRACE_CASE_H
#define PENSTOCK_TESTS_TRACE_CASE_H

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "dag/dag.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "record/trace.h"
#include "t.h"
#include "tiny_model.h"

struct trace_case {
  struct model *model;
  struct plan *plan;
  struct dag *dag;
};

struct trace_case make_trace_case(int n_ranks);
void free_trace_case(struct trace_case *c);

/* Seconds after the start of the step. */
double start_of(int64_t step, int32_t node);
double end_of(int64_t step, int32_t node);
int64_t peak_of(int64_t step, int rank);
void add_step(struct trace *trace, struct comm *comm, const struct trace_case *c, int64_t step);

#endif
