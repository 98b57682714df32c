/* Does a plan fit its memory limits, and if not, what would? */
#ifndef PENSTOCK_PLANNER_FIT_H
#define PENSTOCK_PLANNER_FIT_H

#include "dag/dag.h"
#include "planner/planner.h"

/* fit_make.c: makes a plan and its graph, both owned by the caller; with recompute_as_needed the planner recomputes on
 * as few stages, from the first, as let it fit, or on all that may. Fails as planner_run does; whether the plan fits is
 * the caller's to check. */
int fit_make(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag);
/* Whether fit_make chooses the stages that recompute. */
bool fit_searches(const char *planner, const struct plan_request *request);
/* fit_make without a word; true when a plan is made and fits. Plan and graph are there wherever one was made. */
bool fit_try(const char *planner, const struct plan_request *request, struct plan **plan, struct dag **dag);

/* Limits that would be enough, [n_ranks] each and at least the request's; owned. */
struct fit_limits {
  int64_t *device, *host, *disk;
};
/* fit_limits.c: finds limits with which the planner does make a plan for the request that fits: it has been made. Those
 * that the ranks of the plan need, where the cut is given; where it is the planner's, a common one that all ranks must
 * have which have less, as small as a cut needs by the footprints. plan, dag: what did not fit; NULL: the planner
 * declined. False when a few plannings find none: then no lack of memory is what is amiss. */
bool fit_find_limits(const char *planner, const struct plan_request *request, const struct plan *plan,
                     const struct dag *dag, struct fit_limits *limits);
void fit_limits_fini(struct fit_limits *limits);

/* Returns `status`, the recorded refusal of a request, whose message is lengthened by what would fit: limits that
 * suffice, and the largest micro-batch, both tried. plan, dag: as above. A refusal that more memory does not mend stays
 * as it is. */
int fit_advise(const char *planner, const struct plan_request *request, int status, const struct plan *plan,
               const struct dag *dag);

#endif
