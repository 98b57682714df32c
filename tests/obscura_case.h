/* What the tests of planner obscura share: a request of a tiny model with limits, and other planners' times under it.
 */
#ifndef PENSTOCK_TESTS_OBSCURA_CASE_H
#define PENSTOCK_TESTS_OBSCURA_CASE_H

#include "cost_case.h"
#include "planner/planner.h"
#include "planner_cases.h"

enum { MAX_RANKS = 8, MAX_MICRO = 64, LENGTH = 16 };

struct obscura_case {
  struct model *model;
  struct cost *cost;
  struct micro_shape micro[MAX_MICRO];
  int64_t limits[MAX_RANKS];
  uint32_t *ops;
  struct params params;
  struct plan_request request;
};

/* A number below n, another with each call. */
int64_t obscura_case_draw(int64_t n);
/* A model of so many blocks on p ranks, m micro-batches, no limits; costs_of: 0 preset, 1 uniform, 2 preset with a slow
 * rank, 3 preset with fast links between ranks and a slow one to the host. All may be recomputed and moved. */
void obscura_case_open(struct obscura_case *c, int blocks, int32_t p, int32_t m, int costs_of);
void obscura_case_close(struct obscura_case *c);
/* Seconds of the planner's plan; INFINITY when it declines or does not fit. Its peaks, where it has a plan. */
double obscura_case_time(struct obscura_case *c, const char *planner, int64_t *peaks);
/* Limits at `part` tenths between what 1F1B takes with all recomputed and with nothing. */
void obscura_case_draw_limits(struct obscura_case *c, int part);
/* The plan of obscura passes all checks, within the limits, and what moves is not empty. `look` (may be NULL) sees it.
 */
void obscura_case_check(struct obscura_case *c, void (*look)(const struct plan *plan));

#endif
