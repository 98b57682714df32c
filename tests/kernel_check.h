/* Runs a kernel many ways and holds it against a float64 reference: at 1, 2 and 3 threads and with arrays at every
 * alignment the outputs must have the same bits, inputs and the bytes around all arrays must stay as they were, and the
 * values must be within the kernel's tolerance.
 */
#ifndef PENSTOCK_TESTS_KERNEL_CHECK_H
#define PENSTOCK_TESTS_KERNEL_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/pool.h"
#include "kernels.h"
#include "t.h"

/* Before the first check and after the last one. */
void check_open(void);
void check_close(void);
/* The pool of 1, 2 or 3 threads. */
struct pool *check_get_pool(int threads);

/* Numbers in [-1, 1), the same in every run of the test. */
double check_random(void);

/* One array of a kernel. `value` is what it holds before (float numbers kept as doubles, so that the reference starts
 * from the same), `want` what the reference says it holds after (NULL: it must not change). */
struct array {
  int64_t n;
  double *value, *want;
};

/* An input: random numbers in [-scale, scale). */
struct array check_array(int64_t n, double scale);

/* An array that the kernel overwrites: NaN before. */
struct array check_output(int64_t n);

/* An array that the kernel adds to: `want` starts as its value. */
struct array check_sum(int64_t n);

/* Of arrays that no kernel was checked with. */
void check_free(struct array *arrays, int n_arrays);

/* A kernel call on the arrays, in the order of the case; what else it needs is in the context. */
typedef void check_call(struct pool *pool, float *const *x, const void *context);

/* Runs all ways and checks; frees the arrays' values. */
void check_kernel(const char *label, check_call *call, const void *context, struct array *arrays, int n_arrays,
                  double tolerance);

/* Holds a reference gradient of loss(x) against central differences of the float64 loss. */
void check_difference(const char *label, double (*loss)(const double *x, const void *context), const void *context,
                      double *x, const double *gradient, int64_t n);

#endif
