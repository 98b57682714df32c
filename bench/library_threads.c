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

static void multiply(const struct matmul_call *p, const float *a, const float *b, float beta, float *c) {
  dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k, 1.0f, a, p->lda, b, p->ldb, beta, c,
             p->n);
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

static void multiply(const struct matmul_call *p, const float *a, const float *b, float beta, float *c) {
  cblas_sgemm(CblasRowMajor, p->trans_a ? CblasTrans : CblasNoTrans, p->trans_b ? CblasTrans : CblasNoTrans, (int)p->m,
              (int)p->n, (int)p->k, 1.0f, a, (int)p->lda, b, (int)p->ldb, beta, c, (int)p->n);
}

#endif

void library_threads_multiply(int threads, const struct matmul_call *call, const float *a, const float *b, float beta,
                              float *c) {
  set_threads(threads);
  multiply(call, a, b, beta, c);
  set_threads(1);
}
