/* What this machine can do: the yardsticks that training is held against. */
#ifndef PENSTOCK_BENCH_RATE_H
#define PENSTOCK_BENCH_RATE_H

#include <stdint.h>

struct pool;
struct rate;

enum { RATE_SIZE = 2048 }; /* of the square fp32 product */

/* Tries the library's own threaded product and our tiles of it on `pool`, in all layouts, and keeps the fastest for
 * rate_measure. Call it before anything binds the calling thread to cores. Owned by the caller; `pool` is borrowed (a
 * later one with as many threads may take its place). */
struct rate *rate_create(struct pool *pool);
void rate_destroy(struct rate **rate);
void rate_set_pool(struct rate *rate, struct pool *pool);
/* "oneDNN 2.6.3, its own threads, A B^T": static to the rate. */
const char *rate_describe(const struct rate *rate);
/* Seconds of one product. *cpu (may be NULL): CPU seconds of the process meanwhile. */
double rate_measure(struct rate *rate, double *cpu);
/* Floating point operations of it. */
double rate_get_flops(void);

/* Bytes a second of a triad (x = y + 3 z: two arrays read, one written) on arrays that are not in the caches, `bytes`
 * moved a call: the median of a few. */
double rate_measure_triad(struct pool *pool, int64_t bytes);

/* n floats in pages of their own, huge ones where the system has them, as in a device's arena; small numbers. */
float *rate_map_floats(int64_t n);
void rate_unmap_floats(float *x, int64_t n);

/* CPU seconds of this process so far, all threads. */
double rate_get_cpu(void);

/* Median of n values; sorts them. */
double rate_get_median(double *values, int n);

#endif
