#include "library_threads.h"

#ifdef HAVE_DNNL

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

/* oneDNN takes its number of threads from OpenMP, when it is built on it. */
static void set_threads(int threads) {
  void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  void (*set)(int);
  *(void **)&set = symbol;
  if (set) set(threads);
}

static void multiply(bool trans_a, bool trans_b, int64_t n, const float *a, const float *b, float *c) {
  dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}

#else

#include <cblas.h>

static void set_threads(int threads) {
#ifdef HAVE_OPENBLAS
  openblas_set_num_threads(threads);
#else
  (void)threads;
#endif
}

static void multiply(bool trans_a, bool trans_b, int64_t n, const float *a, const float *b, float *c) {
  cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, (int)n, (int)n,
              (int)n, 1.0f, a, (int)n, b, (int)n, 0.0f, c, (int)n);
}

#endif

void library_threads_multiply(int threads, bool trans_a, bool trans_b, int64_t n, const float *a, const float *b,
                              float *c) {
  set_threads(threads);
  multiply(trans_a, trans_b, n, a, b, c);
  set_threads(1);
}
