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

/* Returns true when oneDNN copies the operands into blocks. It is the library's own choice, repeated here: it does so
 * for large tiles, and with AVX-512 for leading dimensions that collide in the caches. */
static bool packs(const struct matmul_call *c) {
  double edges = 1 / (double)c->m + 1 / (double)c->n;
  if (!has_avx512()) return edges < 0.0038;
  if (edges < 0.00196) return true;
  if (c->trans_b) return c->n > 100 && c->lda % 256 == 0 && c->ldb % 256 == 0;
  return c->ldb % 1024 == 0 && (c->trans_a || (c->m > 100 && c->k > 500));
}

/* Lines of A^T B in place that collide: its inner product goes down 96 of each operand at a time, and lines that are a
 * multiple of 1 KiB apart fall into four sets of the first cache or fewer. AVX-512 feels it at 4 KiB alone. */
static bool collides(int64_t ld) { return ld % (has_avx512() ? 1024 : 256) == 0; }

struct matmul_copies matmul_library_get_copies(const struct matmul_call *c) {
  struct matmul_copies none = {false, false}, copies = {collides(c->lda), collides(c->ldb)};
  if (!c->trans_a || c->trans_b || packs(c)) return none;
  return (copies.a ? c->m : 0) + (copies.b ? c->n : 0) <= MATMUL_COPY_WIDTH ? copies : none;
}

/* Returns the cost of operands of A^T B that collide when they stay in place: a copy, paid for by the other edge of the
 * tile, or without one. */
static double get_cost_of_collisions(const struct matmul_call *c, double without) {
  struct matmul_copies copies = matmul_library_get_copies(c);
  if (copies.a || copies.b) return (copies.a ? 8 / (double)c->n : 0) + (copies.b ? 8 / (double)c->m : 0);
  return (collides(c->lda) ? without : 0) + (collides(c->ldb) ? without : 0);
}

/* AVX-512: blocks of 48 columns. A copy of B into blocks is paid for by the rows of the tile, one of A by its columns.
 * Lines that are whole pages apart make each way dearer. Fits to times of oneDNN 2.6. */
static double get_cost_avx512(const struct matmul_call *c) {
  double rows = (double)c->m, columns = (double)c->n;
  bool pages_b = c->ldb % 1024 == 0;
  int64_t rest = c->n % 48;
  double cost = rest ? 0.1 * (double)(48 - rest) / columns : 0;
  if (c->trans_b) {
    double turning = pages_b ? 33 : 11;
    return cost + (packs(c) ? 1.01 + turning / rows + 9 / columns : 1.03 + 3 * turning / rows + 4 / columns);
  }
  if (c->trans_a) {
    if (packs(c)) return cost + 1 + 12 / rows + 27 / columns;
    return cost + 1.03 + 1 / rows + 2 / columns + get_cost_of_collisions(c, 0.17);
  }
  if (packs(c)) return cost + 1.03 + 16 / rows + 11 / columns;
  return cost + (pages_b ? 1.19 : 1) + 1 / rows + 1 / columns;
}

/* AVX2: in place along long rows if B is as it is, in narrow columns if it is transposed. Fits to times of oneDNN 2.6.
 */
static double get_cost_avx2(const struct matmul_call *c) {
  double rows = (double)c->m, columns = (double)c->n, edges = 1 / rows + 1 / columns;
  if (packs(c)) return 0.95 + 30 * edges;
  if (c->trans_b) return 1.03 + 4 / rows + 1 / columns + 2e-5 * columns + (c->m > 224 ? 0.05 : 0);
  if (c->trans_a) return 1.03 + 3 * edges + get_cost_of_collisions(c, 0.3);
  return 1.03 + 2 / rows + 16 / columns + (c->ldb % 1024 == 0 ? 0.06 : 0);
}

double matmul_library_get_cost(const struct matmul_call *call) {
  return has_avx512() ? get_cost_avx512(call) : get_cost_avx2(call);
}

int64_t matmul_library_get_columns(void) { return has_avx512() ? 48 : 16; }

#endif
