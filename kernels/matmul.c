/* A product is cut into a grid of tiles along M and N, by its shape alone, and each tile is one single-threaded call of
 * the library. The grid is a compromise: large tiles run faster, many tiles keep more threads busy. No number of
 * threads may decide (the bits would depend on it), so that the grid is taken that does well for all of a few numbers.
 */
#include "kernels.h"

#include "base/pool.h"
#include "matmul_library.h"

static const int counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

/* Numbers of threads that a grid is judged by, and how much each counts. */
static const struct {
  int threads;
  double weight;
} judges[] = {{1, 3}, {2, 3}, {3, 1}, {4, 1}, {6, 0.5}, {8, 0.5}};

enum { N_COUNTS = sizeof counts / sizeof *counts, N_JUDGES = sizeof judges / sizeof *judges };

/* Edges of tiles along M are multiples of this, but for the last. */
enum { TILE_ROWS = 16 };

/* Floats of an operand that no cache is sure to hold. */
enum { LARGE = 1 << 22 };

struct product {
  bool trans_a, trans_b;
  int64_t m, n, k;
  const float *a, *b;
  float *c;
  int64_t lda, ldb, ldc;
  float beta;
  int64_t tile_m, tile_n, tiles_m;
};

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* A tile in multiply-adds at full speed. A large operand is read from memory for each tile anew: A by every column of
 * tiles, B by every row of them. */
static double judge_tile(const struct product *p, int64_t tile_m, int64_t tile_n) {
  struct matmul_call call = {p->trans_a, p->trans_b, tile_m, tile_n, p->k, p->lda, p->ldb};
  double cost = matmul_library_get_cost(&call);
  if (p->m * p->k > LARGE) cost += 20 / (double)tile_n;
  if (p->n * p->k > LARGE) cost += 8 / (double)tile_m;
  return (double)tile_m * (double)tile_n * (double)p->k * cost + 1e5; /* 1e5: what a call costs besides */
}

/* Returns the cost of a grid: the time of all threads, idle ones included, averaged over the judges. */
static double judge_grid(const struct product *p, int64_t tile_m, int64_t tile_n) {
  double tile = judge_tile(p, tile_m, tile_n);
  int64_t tiles = divide_up(p->m, tile_m) * divide_up(p->n, tile_n);
  double sum = 0;
  for (int i = 0; i < N_JUDGES; i++)
    sum += judges[i].weight * judges[i].threads * (double)divide_up(tiles, judges[i].threads) * tile;
  return sum;
}

static int64_t cut_edge(int64_t size, int parts, int64_t unit) {
  int64_t edge = divide_up(divide_up(size, parts), unit) * unit;
  return edge < size ? edge : size;
}

static void choose_grid(struct product *p) {
  double best = 0;
  int64_t unit = matmul_library_get_columns();
  for (int i = 0; i < N_COUNTS; i++) {
    int64_t tile_m = cut_edge(p->m, counts[i], TILE_ROWS);
    for (int j = 0; j < N_COUNTS; j++) {
      int64_t tile_n = cut_edge(p->n, counts[j], unit);
      double value = judge_grid(p, tile_m, tile_n);
      if (best == 0 || value < best) {
        best = value;
        p->tile_m = tile_m;
        p->tile_n = tile_n;
      }
      if (tile_n <= unit) break;
    }
    if (tile_m <= TILE_ROWS) break;
  }
  p->tiles_m = divide_up(p->m, p->tile_m);
}

/* Down the columns first: B is the weights, as a rule, and each of its panels is then read from memory once. */
static void multiply_tile(void *context, int64_t i) {
  const struct product *p = context;
  int64_t row = i % p->tiles_m * p->tile_m, column = i / p->tiles_m * p->tile_n;
  int64_t m = p->m - row < p->tile_m ? p->m - row : p->tile_m;
  int64_t n = p->n - column < p->tile_n ? p->n - column : p->tile_n;
  const float *a = p->a + (p->trans_a ? row : row * p->lda), *b = p->b + (p->trans_b ? column * p->ldb : column);
  float *c = p->c + row * p->ldc + column;
  struct matmul_call call = {p->trans_a, p->trans_b, m, n, p->k, p->lda, p->ldb};
  struct matmul_copies copies = matmul_library_get_copies(&call);
  if (copies.a || copies.b)
    matmul_spread_multiply(&call, copies, a, b, p->beta, c, p->ldc);
  else
    matmul_library_multiply(p->trans_a, p->trans_b, m, n, p->k, a, p->lda, b, p->ldb, p->beta, c, p->ldc);
}

void matmul_init_cpu(void) { matmul_library_init(); }

bool matmul_moves_stack(void) { return matmul_library_moves_stack(); }
const char *matmul_get_library(void) { return matmul_library_get_name(); }

void matmul_cpu(struct pool *pool, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  struct product p = {.trans_a = trans_a,
                      .trans_b = trans_b,
                      .m = m,
                      .n = n,
                      .k = k,
                      .a = a,
                      .b = b,
                      .c = c,
                      .lda = lda,
                      .ldb = ldb,
                      .ldc = ldc,
                      .beta = beta};
  choose_grid(&p);
  pool_run(pool, p.tiles_m * divide_up(n, p.tile_n), multiply_tile, &p);
}
