/* The matrix library called with its own threads, which Penstock itself never does. */
#ifndef PENSTOCK_BENCH_LIBRARY_THREADS_H
#define PENSTOCK_BENCH_LIBRARY_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* C[n,n] = op(A) op(B), row-major, on `threads` threads of the library, which is set back to one thread after it. */
void library_threads_multiply(int threads, bool trans_a, bool trans_b, int64_t n, const float *a, const float *b,
                              float *c);

#endif
