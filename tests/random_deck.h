/* Decks drawn at random for the planning commands: models of all families, depths, cuts, limits from ample to none,
 * recomputation, tiers, costs of every kind. Most of them can be planned; the rest are refused with a reason.
 */
#ifndef PENSTOCK_TESTS_RANDOM_DECK_H
#define PENSTOCK_TESTS_RANDOM_DECK_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

struct random_deck {
  uint64_t seed, drawn;
  char text[6000];
  size_t n;
  int32_t n_blocks, n_ranks, n_stages, n_micro;
  char table[6000]; /* what cost.table names; empty: none */
};

/* A number from 0 to below - 1, the next of the deck. */
int64_t deck_draw(struct random_deck *d, int64_t below);

/* All but memory.device_limit. `table`: the name under which the caller writes d->table. */
void deck_make_random(struct random_deck *d, uint64_t seed, const char *planner, const char *table);

#endif
