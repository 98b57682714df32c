/* Moves of blocks that no planner would make, for any plan: places as plan_check allows them, what moves of a layer
 * anyhow. Most wait for one another as little as planners' do, some anywhere, so that graphs with a cycle are met too.
 */
#ifndef PENSTOCK_TESTS_RANDOM_MOVES_H
#define PENSTOCK_TESTS_RANDOM_MOVES_H

#include "base/error.h"
#include "make_plan.h"
#include "model/footprint.h"
#include "plan/plan_move.h"
#include "planner/order_time.h"

/* Which tiers moves may have, a bit each. */
enum { MOVES_TO_RANKS = 1 << PLAN_TIER_RANK, MOVES_TO_HOST = 1 << PLAN_TIER_HOST, MOVES_TO_DISK = 1 << PLAN_TIER_DISK };

/* Lets about one block in `rarity` move. Nothing does in plans for evaluation, and where there is no rank to move it
 * to. Not frozen. */
void put_random_tiers(struct plan *plan, const struct model *model, int32_t rarity, unsigned tiers);

/* Draws moves again until the plan's nodes can be ordered; leaves the plan without moves when that does not happen
 * soon. */
void put_possible_tiers(struct plan *plan, const struct model *model, int32_t rarity, unsigned tiers);
void put_possible_moves(struct plan *plan, const struct model *model, int32_t rarity);

#endif
