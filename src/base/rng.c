#include "base/rng.h"

#include <math.h>

#include "base/error.h"

void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* Seed and purpose are 96 bits, the cipher's key 64: for each purpose a one-to-one map of the seed (SplitMix64). */
static uint64_t mix_purpose(uint64_t seed, uint32_t purpose) {
  uint64_t x = seed + purpose * UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}

/* The 128 random bits of index i as two words. */
static void draw_block(const struct rng_key *key, uint64_t i, uint64_t out[2]) {
  uint64_t mixed = mix_purpose(key->seed, key->purpose);
  uint32_t words[4];
  rng_philox((uint32_t[4]){(uint32_t)i, (uint32_t)(i >> 32), key->a, key->b},
             (uint32_t[2]){(uint32_t)mixed, (uint32_t)(mixed >> 32)}, words);
  out[0] = words[0] | (uint64_t)words[1] << 32;
  out[1] = words[2] | (uint64_t)words[3] << 32;
}

static double to_unit(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

uint64_t rng_bits(const struct rng_key *key, uint64_t i) {
  uint64_t block[2];
  draw_block(key, i, block);
  return block[0];
}

double rng_uniform(const struct rng_key *key, uint64_t i) { return to_unit(rng_bits(key, i)); }

double rng_normal(const struct rng_key *key, uint64_t i) {
  uint64_t block[2];
  draw_block(key, i, block);
  double radius = sqrt(-2.0 * log(1.0 - to_unit(block[0]))); /* 1 - u is in (0, 1] */
  return radius * cos(6.283185307179586476925 * to_unit(block[1]));
}

/* Eight rounds over `bits` bits cut in two halves that may differ by one bit; each round changes one half by a function
 * of the other, so the map is one-to-one whatever the function. */
static uint64_t permute_bits(const struct rng_key *key, int bits, uint64_t x) {
  int low_bits = bits / 2, high_bits = bits - low_bits;
  uint64_t low_mask = (UINT64_C(1) << low_bits) - 1, high_mask = (UINT64_C(1) << high_bits) - 1;
  uint64_t low = x & low_mask, high = x >> low_bits;
  for (uint64_t round = 0; round < 8; round++) {
    /* Indices of 2^63 and up are not used by callers of rng_bits. */
    uint64_t index = UINT64_C(1) << 63 | round << 32;
    if (round % 2 == 0)
      low ^= rng_bits(key, index | high) & low_mask;
    else
      high ^= rng_bits(key, index | low) & high_mask;
  }
  return high << low_bits | low;
}

int64_t rng_permute(const struct rng_key *key, int64_t n, int64_t i) {
  CHECK(n > 0 && i >= 0 && i < n, "permutation of %lld elements asked for element %lld", (long long)n, (long long)i);
  int bits = 6; /* few bits make a poor network, so small n walk in a larger cycle */
  while (UINT64_C(1) << bits < (uint64_t)n) bits++;
  uint64_t x = (uint64_t)i;
  do x = permute_bits(key, bits, x);
  while (x >= (uint64_t)n);
  return (int64_t)x;
}
