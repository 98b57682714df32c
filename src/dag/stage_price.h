/* Times of the passes of a plan's stages: sums over their layers. Micro-batches of a step are nearly always of one
 * shape, or come in runs of one, so each stage keeps its last answer. Serial.
 */
#ifndef PENSTOCK_DAG_STAGE_PRICE_H
#define PENSTOCK_DAG_STAGE_PRICE_H

#include "plan/plan.h"

struct cost;
struct model;

/* Seconds of the passes of a stage for a micro-batch; no recomputation: 0. */
struct stage_price {
  double forward, recompute, input, weight;
};

struct stage_prices; /* of a plan as it is now: its stages, ranks, micro-batches and recomputation */
/* All are borrowed. The plan need not be checked or frozen. */
struct stage_prices *stage_prices_create(const struct plan *plan, const struct model *model, const struct cost *cost);
void stage_prices_destroy(struct stage_prices **prices);

struct stage_price stage_prices_get(struct stage_prices *prices, int32_t stage, int32_t micro);
/* Returns the seconds of these layers of the stage alone. */
struct stage_price stage_prices_get_part(struct stage_prices *prices, int32_t stage, int32_t micro,
                                         struct plan_part part);
/* Bytes that a stage keeps of a micro-batch, as plan_measure_kept. */
int64_t stage_prices_get_kept(struct stage_prices *prices, int32_t stage, int32_t micro);

#endif
