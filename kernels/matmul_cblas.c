/* Matrix products from a CBLAS, where there is no oneDNN. */
#include "matmul_library.h"

#ifdef HAVE_CBLAS

#include <cblas.h>
#include <stdio.h>

#ifdef HAVE_OPENBLAS
void matmul_library_init(void) { openblas_set_num_threads(1); }
const char *matmul_library_get_name(void) { return openblas_get_config(); }
#else
/* Another CBLAS has no common way to set its threads: the user's environment has to. */
void matmul_library_init(void) {}
const char *matmul_library_get_name(void) { return "CBLAS"; }
#endif

bool matmul_library_moves_stack(void) { return false; }

void matmul_library_multiply(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                             const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, (int)m, (int)n,
              (int)k, 1.0f, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

struct matmul_copies matmul_library_get_copies(const struct matmul_call *call) {
  (void)call;
  return (struct matmul_copies){false, false};
}

/* A CBLAS copies its operands into blocks always: the smaller the tile, the dearer. */
double matmul_library_get_cost(const struct matmul_call *call) {
  return 1.0 + 10.0 * (1.0 / (double)call->m + 1.0 / (double)call->n);
}

int64_t matmul_library_get_columns(void) { return 16; }

#endif
