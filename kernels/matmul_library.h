/* The library of matrix products, as matmul.c sees it: one single-threaded call, and how its speed depends on the tile.
 */
#ifndef PENSTOCK_KERNELS_MATMUL_LIBRARY_H
#define PENSTOCK_KERNELS_MATMUL_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

/* C[m,n] = op(A) op(B) + beta C, row-major, on the calling thread alone, whatever thread that is. */
void matmul_library_multiply(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                             const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* The arguments of matmul_library_multiply without the addresses. */
struct matmul_call {
  bool trans_a, trans_b;
  int64_t m, n, k, lda, ldb;
};

/* Chooses the operands of a call that are copied first, because their lines collide in the caches. Only operands of
 * A^T B are, and together at most MATMUL_COPY_WIDTH floats wide (m of A, n of B). The choice follows from the call
 * alone, for one kind of CPU. */
enum { MATMUL_COPY_WIDTH = 640 };
struct matmul_copies {
  bool a, b;
};
struct matmul_copies matmul_library_get_copies(const struct matmul_call *call);

/* matmul_spread.c: C = A^T B + beta C for such a call, through copies of the operands named, at least one; on the
 * calling thread, on whose stack the copies lie. */
void matmul_spread_multiply(const struct matmul_call *call, struct matmul_copies copies, const float *a, const float *b,
                            float beta, float *c, int64_t ldc);

/* Relative seconds of a multiply-add in such a call, its copies included: 1 for a large one. A rule of thumb by which
 * matmul.c compares ways to cut; a function of the call alone, for one kind of CPU. */
double matmul_library_get_cost(const struct matmul_call *call);

/* Columns that the library works on at once: edges of tiles along N are multiples of it. */
int64_t matmul_library_get_columns(void);

/* The calling thread's (and where there is no such thing, the process's) share of the library's threads: 1. */
void matmul_library_init(void);

/* True when its products keep data in the stack pointer on this CPU: a signal handler on the same stack then damages
 * memory. */
bool matmul_library_moves_stack(void);

/* Name and version; static text. */
const char *matmul_library_get_name(void);

#endif
