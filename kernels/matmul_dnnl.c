/* Matrix products from oneDNN. */
#include "matmul_library.h"

#ifdef HAVE_DNNL

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

/* oneDNN takes its number of threads from OpenMP, where each thread has its own setting. The function is looked up at
 * run time, because oneDNN may have been built without OpenMP (then there is nothing to set). */
void matmul_library_init(void) {
  static _Thread_local bool done;
  if (done) return;
  done = true;
  void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  void (*set_threads)(int);
  *(void **)&set_threads = symbol;
  if (set_threads) set_threads(1);
}

const char *matmul_library_get_name(void) {
  static char name[40];
  const dnnl_version_t *version = dnnl_version();
  snprintf(name, sizeof name, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
  return name;
}

/* Seen in 2.6 with AVX-512. Later versions are not believed to be free of it. */
bool matmul_library_moves_stack(void) {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

void matmul_library_multiply(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                             const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  matmul_library_init();
  dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
}

/* oneDNN copies the operands of a product into blocks first where that pays (edges < 0.0038), and else works on them in
 * place: along long rows if B is as it is, in narrow columns if it is transposed; and there, lines whose addresses differ
 * by whole pages push one another out of the caches. The numbers are fits to times of oneDNN 2.6 with AVX2. */
double matmul_library_get_cost(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t lda, int64_t ldb) {
  double rows = (double)m, columns = (double)n, edges = 1 / rows + 1 / columns;
  bool pages_a = lda % 1024 == 0, pages_b = ldb % 1024 == 0;
  if (edges < 0.0038) return 0.95 + 30 * edges;
  if (trans_b) return 1.03 + 4 / rows + 1 / columns + 2e-5 * columns + (m > 224 ? 0.05 : 0);
  if (trans_a) return 1.06 + 3 * edges + (pages_a ? 0.35 : 0) + (pages_b ? 0.08 : 0);
  return 1.03 + 2 / rows + 16 / columns + (pages_b ? 0.06 : 0);
}

#endif
