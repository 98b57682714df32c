/* Vectors of float for the kernels, on the compiler's own vector types; only what those cannot say has an x86 form.
 * Loads and stores take any address. A tail is loaded into a vector filled up with zeros and goes through the same code
 * as whole vectors, so that an element's bits do not depend on where it stands.
 */
#ifndef PENSTOCK_KERNELS_VEC_H
#define PENSTOCK_KERNELS_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

/* 8 on all machines but those of AVX-512: 128-bit machines then run two registers a vector. */
#ifdef __AVX512F__
#define VEC 16
#else
#define VEC 8
#endif

typedef float vec __attribute__((vector_size(4 * VEC)));
typedef int32_t vec_int __attribute__((vector_size(4 * VEC)));
typedef float vec_loose __attribute__((vector_size(4 * VEC), aligned(4), may_alias));

static inline vec vec_set(float x) { return x - (vec){0}; }
static inline vec vec_load(const float *p) { return *(const vec_loose *)p; }
static inline void vec_store(float *p, vec x) { *(vec_loose *)p = x; }

/* The first n elements (n may be VEC or more), zeros behind them. */
static inline vec vec_load_part(const float *p, int64_t n) {
  if (n >= VEC) return vec_load(p);
  vec x = {0};
  memcpy(&x, p, (size_t)n * sizeof *p);
  return x;
}

static inline void vec_store_part(float *p, vec x, int64_t n) {
  if (n >= VEC)
    vec_store(p, x);
  else
    memcpy(p, &x, (size_t)n * sizeof *p);
}

/* Asks for n floats that will be read soon; any address. Walks down the columns of a matrix need it: no hardware
 * foresees them. */
static inline void vec_prefetch(const float *p, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)i * sizeof *p));
}

/* Element by element: mask (all ones or zeros, of a comparison) ? a : b. */
static inline vec vec_select(vec_int mask, vec a, vec b) { return (vec)((mask & (vec_int)a) | (~mask & (vec_int)b)); }

/* The larger one; b where either is NaN. */
static inline vec vec_max(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
  return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return vec_select(a > b, a, b);
#endif
}

/* The smaller one; b where either is NaN. */
static inline vec vec_min(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
  return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return vec_select(a < b, a, b);
#endif
}

/* Zeros from element n on (n may be anything). */
static inline vec vec_cut(vec x, int64_t n) {
  if (n >= VEC) return x;
  vec_int place;
  for (int i = 0; i < VEC; i++) place[i] = i;
  return (vec)((vec_int)x & (place < (int32_t)(n < 0 ? 0 : n)));
}

static inline vec vec_sqrt(vec x) {
#if defined(__AVX512F__)
  return (vec)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
  return (vec)_mm256_sqrt_ps((__m256)x);
#else
  for (int i = 0; i < VEC; i++) x[i] = sqrtf(x[i]);
  return x;
#endif
}

/* a0 b0 a1 b1 ..., of the first halves (part 0) or the second ones (part 1). */
static inline vec vec_zip(vec a, vec b, int part) {
#if defined(__clang__)
  vec y;
  for (int i = 0; i < VEC / 2; i++) y[2 * i] = a[part * VEC / 2 + i], y[2 * i + 1] = b[part * VEC / 2 + i];
  return y;
#else
  vec_int order;
  for (int i = 0; i < VEC; i++) order[i] = part * VEC / 2 + i / 2 + (i % 2 ? VEC : 0);
  return __builtin_shuffle(a, b, order);
#endif
}

/* Transposes VEC vectors in place: each round zips the two halves of the rows together. */
static inline void vec_transpose(vec x[VEC]) {
#pragma GCC unroll 4
  for (int round = 1; round < VEC; round *= 2) {
    vec y[VEC];
#pragma GCC unroll 8
    for (int i = 0; i < VEC / 2; i++) {
      y[2 * i] = vec_zip(x[i], x[i + VEC / 2], 0);
      y[2 * i + 1] = vec_zip(x[i], x[i + VEC / 2], 1);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VEC; i++) x[i] = y[i];
  }
}

/* Sum and maximum of the elements, always in the same order. */
static inline float vec_sum(vec x) {
  float part[VEC];
  vec_store(part, x);
  for (int half = VEC / 2; half; half /= 2)
    for (int i = 0; i < half; i++) part[i] += part[i + half];
  return part[0];
}

static inline float vec_top(vec x) {
  float top = x[0];
  for (int i = 1; i < VEC; i++) top = x[i] > top ? x[i] : top;
  return top;
}

/* exp(x) to within 1.5 units in the last place; 1.2e-38 below -87.3 (where floats are denormal), 1.7e38 above 88; NaN
 * stays. x is cut into n ln 2 + r, and exp(r) = 1 + r + r^2 q(r) with q fitted on |r| <= ln 2 / 2. */
static inline vec vec_exp(vec x) {
  const vec shift = vec_set(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
  vec clipped = vec_min(vec_set(88.0f), vec_max(vec_set(-87.3f), x));
  vec moved = clipped * 1.44269504f + shift;
  vec n = moved - shift;
  vec r = clipped - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vec q = vec_set(1.39263256e-3f);
  q = q * r + 8.36329275e-3f;
  q = q * r + 4.16665538e-2f;
  q = q * r + 1.66665763e-1f;
  q = q * r + 0.5f;
  vec y = (q * r) * r + r + 1.0f;
  vec_int power = ((vec_int)moved - (vec_int)shift + 127) << 23;
  return y * (vec)power;
}

/* Phi(x), the normal distribution function, to within 1e-6 of itself where it is above 1e-6. With z = |x| / sqrt 2 and
 * t = 1 / (1 + z/2): erfc(z) = t exp(-z^2) P(t), P fitted on z <= 12. */
static inline vec vec_normal_cdf(vec x) {
  static const float fit[] = {-0.130729680f, 0.442419176f, -0.682401106f, 0.426850653f, -0.0988152671f,
                              0.224893933f,  0.238942451f, 0.282805154f,  0.282067792f};
  vec z = vec_max(x, -x) * 0.707106781f;
  vec t = vec_set(1.0f) / (z * 0.5f + 1.0f);
  vec p = vec_set(0.0139668846f);
  for (unsigned i = 0; i < sizeof fit / sizeof *fit; i++) p = p * t + fit[i];
  vec half = p * t * vec_exp(-(x * x) * 0.5f) * 0.5f;
  return vec_select(x < vec_set(0.0f), half, 1.0f - half);
}

#endif
