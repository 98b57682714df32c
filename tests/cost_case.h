/* Costs for tests of planners, from a deck's text. */
#ifndef PENSTOCK_TESTS_COST_CASE_H
#define PENSTOCK_TESTS_COST_CASE_H

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "deck_texts.h"
#include "t.h"

struct cost *make_cost_case(const char *yaml, const struct model *model, int32_t n_ranks);

/* Seconds of a micro-batch on a rank that holds these layers, forward and backward. */
double count_stage_seconds(const struct cost *cost, const struct model *model, int32_t rank, int32_t first, int32_t n,
                           struct micro_shape shape);

#endif
