/* The matrix library called with its own threads, which Penstock itself never does. */
#ifndef PENSTOCK_BENCH_LIBRARY_THREADS_H
#define PENSTOCK_BENCH_LIBRARY_THREADS_H

#include "matmul_library.h"

/* C[m,n] = op(A) op(B) + beta C, row-major, C dense, on `threads` threads of the library, which is set back to one
 * thread after it. The library makes its threads in the calling thread's image: that must not be bound to one core. */
void library_threads_multiply(int threads, const struct matmul_call *call, const float *a, const float *b, float beta,
                              float *c);

#endif
