/* Sets of ops that a forward may discard, and putting recomputation into a plan. Serial. */
#ifndef PENSTOCK_PLAN_RECOMPUTE_H
#define PENSTOCK_PLAN_RECOMPUTE_H

#include "input/params.h"
#include "model/model.h"
#include "plan/plan.h"

/* Returns the ops of one layer that a set of the deck discards, a bit for each op. auto is full: all that can be
 * discarded. */
uint32_t recompute_get_ops(const struct layer *layer, enum params_recompute set);
/* The ops of a layer with this name. */
uint32_t recompute_get_named_ops(const struct layer *layer, const char *name);

/* Names of the ops that can be discarded, "norm, qkv, ...", each once; owned by the caller. */
char *recompute_list_ops(const struct model *model);
/* Describes what the first micro-batch discards on a stage: the name of a set, or of ops, "norm, activation"; "" for
 * nothing. Owned by the caller. */
char *recompute_describe(const struct plan *plan, const struct model *model, int32_t stage);

/* Adds to the plan: ops[n_layers] are discarded by all micro-batches of the layers of those stages for which
 * stages[stage] is true, and an R is put before the B or I of each that discards something. Once, before plan_freeze.
 */
void recompute_put(struct plan *plan, const uint32_t *ops, const bool *stages);
/* Like recompute_put, but only the first n_micro[stage] micro-batches of each stage discard. */
void recompute_put_first(struct plan *plan, const uint32_t *ops, const int32_t *n_micro);

/* Cuts the recomputations of those stages for which stages[stage] is true, and their whole backwards, into parts of a
 * block of the model each; embedding and head belong to the block beside them. Each recomputation then begins where its
 * backward did. Moves keep their actions. Once, after recomputation and moves are in the plan and before plan_freeze.
 */
void recompute_cut(struct plan *plan, const struct model *model, const bool *stages);
/* Returns the first layer of the part that ends before layer `end`, of a stage that begins with layer `first`. */
int32_t recompute_find_part(const struct model *model, int32_t first, int32_t end);

#endif
