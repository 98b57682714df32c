/* Plans for tests of graphs: those of the planners, and random ones that no planner would make. */
#ifndef PENSTOCK_TESTS_MAKE_PLAN_H
#define PENSTOCK_TESTS_MAKE_PLAN_H

#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "planner/planner.h"
#include "planner_cases.h"
#include "tiny_model.h"

enum { MAX_MICRO = 64 };

/* A number from 0 to n - 1; the same sequence every time. */
int32_t draw(int32_t n);

/* Ties of any layers, no layer in two of them: the tensors themselves are no concern of a graph. */
void draw_ties(struct model *model);

/* Of a planner: p ranks, m micro-batches of several shapes. The caller frees it. */
struct plan *make_plan(const struct model *model, const char *planner, int32_t p, int32_t m, bool clip);

/* Stages anywhere, full and split backwards, in the order of a random execution. */
struct plan *make_random_plan(const struct model *model);

/* Seconds for each node; messages much longer than compute, or about as long. */
double *draw_lengths(const struct dag *dag);

#endif
