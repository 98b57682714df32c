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

/* oneDNN has one set of products for AVX-512 and one for less; which it takes follows the CPU and DNNL_MAX_CPU_ISA. */
static bool has_avx512(void) {
  static _Atomic int known; /* 0: not asked yet; 1: no; 2: yes */
  if (!known) known = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core ? 2 : 1;
  return known == 2;
}

/* AVX-512: blocks of 48 columns. Whether oneDNN copies the operands first is its own choice, which `copies` repeats: for
 * large tiles, and for leading dimensions that collide in the caches. A copy of B is paid for by the rows of the tile, a
 * copy of A by its columns. Lines that are whole pages apart make each way dearer. Fits to times of oneDNN 2.6. */
static double get_cost_avx512(const struct matmul_call *c) {
  double rows = (double)c->m, columns = (double)c->n;
  bool pages_a = c->lda % 1024 == 0, pages_b = c->ldb % 1024 == 0, copies = 1 / rows + 1 / columns < 0.00196;
  int64_t rest = c->n % 48;
  double cost = rest ? 0.1 * (double)(48 - rest) / columns : 0;
  if (c->trans_b) {
    copies = copies || (c->n > 100 && c->lda % 256 == 0 && c->ldb % 256 == 0);
    double turning = pages_b ? 33 : 11;
    return cost + (copies ? 1.01 + turning / rows + 9 / columns : 1.03 + 3 * turning / rows + 4 / columns);
  }
  if (c->trans_a) {
    if (copies || pages_b) return cost + 1 + 12 / rows + 27 / columns;
    return cost + (pages_a ? 1.2 + 2 * cost : 1.03) + 1 / rows + 2 / columns;
  }
  if (copies || (pages_b && c->m > 100 && c->k > 500)) return cost + 1.03 + 16 / rows + 11 / columns;
  return cost + (pages_b ? 1.19 : 1) + 1 / rows + 1 / columns;
}

/* AVX2: operands are copied where that pays (edges < 0.0038), else used in place: along long rows if B is as it is, in
 * narrow columns if it is transposed. Fits to times of oneDNN 2.6. */
static double get_cost_avx2(const struct matmul_call *c) {
  double rows = (double)c->m, columns = (double)c->n, edges = 1 / rows + 1 / columns;
  bool pages_a = c->lda % 1024 == 0, pages_b = c->ldb % 1024 == 0;
  if (edges < 0.0038) return 0.95 + 30 * edges;
  if (c->trans_b) return 1.03 + 4 / rows + 1 / columns + 2e-5 * columns + (c->m > 224 ? 0.05 : 0);
  if (c->trans_a) return 1.06 + 3 * edges + (pages_a ? 0.35 : 0) + (pages_b ? 0.08 : 0);
  return 1.03 + 2 / rows + 16 / columns + (pages_b ? 0.06 : 0);
}

double matmul_library_get_cost(const struct matmul_call *call) {
  return has_avx512() ? get_cost_avx512(call) : get_cost_avx2(call);
}

int64_t matmul_library_get_columns(void) { return has_avx512() ? 48 : 16; }

#endif
