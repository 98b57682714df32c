/* Counter-based random numbers: a value is a function of its key and index alone, never of rank, thread or history.
 * Philox4x32-10 (Salmon et al., SC'11).
 */
#ifndef PENSTOCK_BASE_RNG_H
#define PENSTOCK_BASE_RNG_H

#include <stdint.h>

enum rng_purpose {
  RNG_INIT = 1,
  RNG_SHUFFLE = 2,
  RNG_BLEND = 3,
  RNG_DROPOUT = 4,
  RNG_TEST = 5,
  RNG_PROFILE = 6,
  RNG_PLAN = 7
};

struct rng_key {
  uint64_t seed;
  uint32_t purpose; /* enum rng_purpose */
  uint32_t a, b;    /* what the purpose needs: layer and tensor, file and epoch, ... */
};

/* The generator itself: 128 bits from a 128-bit counter and a 64-bit key. */
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* 64 random bits for index i < 2^63. */
uint64_t rng_bits(const struct rng_key *key, uint64_t i);
/* Uniform in [0, 1), 53 bits. */
double rng_uniform(const struct rng_key *key, uint64_t i);
/* Standard normal (Box-Muller in float64). */
double rng_normal(const struct rng_key *key, uint64_t i);
/* Image of i under a pseudo-random permutation of 0..n-1 (Feistel network with cycle walking); O(1) memory;
 * about a microsecond. */
int64_t rng_permute(const struct rng_key *key, int64_t n, int64_t i);

#endif
