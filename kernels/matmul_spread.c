/* A^T B along lines that collide: an operand whose lines are a multiple of some KiB apart falls into a few sets of the
 * first cache, and a product in place walks down its columns. Such operands are copied, some lines at a time, to lines
 * that lie in all sets.
 */
#include "matmul_library.h"

#include <string.h>

/* Lines that are copied at a time are whole groups of GROUP: the depth that oneDNN's products in place go through at a
 * time. The copies lie on the stack: 264 KiB, which is at least one group of the widest operands. */
enum { CACHE_LINE = 16, GROUP = 96, FLOATS = GROUP * (MATMUL_COPY_WIDTH + 4 * CACHE_LINE) };

/* Distance of copied lines: an odd number of the cache's lines. */
static int64_t get_distance(int64_t width) { return ((width + CACHE_LINE - 1) / CACHE_LINE | 1) * CACHE_LINE; }

static void copy_lines(float *to, int64_t distance, const float *from, int64_t ld, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; i++) memcpy(to + i * distance, from + i * ld, (size_t)width * sizeof *to);
}

void matmul_spread_multiply(const struct matmul_call *p, struct matmul_copies copies, const float *a, const float *b,
                            float beta, float *c, int64_t ldc) {
  float copy[FLOATS] __attribute__((aligned(64)));
  int64_t lda = copies.a ? get_distance(p->m) : p->lda, ldb = copies.b ? get_distance(p->n) : p->ldb;
  int64_t width = (copies.a ? lda : 0) + (copies.b ? ldb : 0), depth = FLOATS / width / GROUP * GROUP;
  for (int64_t k = 0; k < p->k; k += depth) {
    int64_t n = p->k - k < depth ? p->k - k : depth;
    const float *part_a = a + k * p->lda, *part_b = b + k * p->ldb;
    float *copy_b = copies.a ? copy + n * lda : copy;
    if (copies.a) copy_lines(copy, lda, part_a, p->lda, n, p->m);
    if (copies.b) copy_lines(copy_b, ldb, part_b, p->ldb, n, p->n);
    matmul_library_multiply(true, false, p->m, p->n, n, copies.a ? copy : part_a, lda, copies.b ? copy_b : part_b, ldb,
                            k ? 1.0f : beta, c, ldc);
  }
}
