#include "kernel_check.h"

enum { MAX_ARRAYS = 8, GUARD = 16, N_POOLS = 3 };

static struct pool *check_pools[N_POOLS];

void check_open(void) {
  matmul_init_cpu();
  for (int i = 0; i < N_POOLS; i++) check_pools[i] = pool_create(i + 1, NULL, 0);
}

void check_close(void) {
  for (int i = 0; i < N_POOLS; i++) pool_destroy(&check_pools[i]);
}

struct pool *check_get_pool(int threads) {
  return check_pools[threads - 1];
}

double check_random(void) {
  static uint64_t state = 0x9e3779b97f4a7c15u;
  state = state * 6364136223846793005u + 1442695040888963407u;
  uint64_t z = (state ^ state >> 33) * 0xff51afd7ed558ccdu;
  return (double)(int64_t)(z ^ z >> 33) / 9223372036854775808.0;
}

struct array check_array(int64_t n, double scale) {
  struct array a = {.n = n, .value = MEM_NEW(double, n)};
  for (int64_t i = 0; i < n; i++) a.value[i] = (double)(float)(scale * check_random());
  return a;
}

struct array check_output(int64_t n) {
  struct array a = {.n = n, .value = MEM_NEW(double, n), .want = MEM_NEW(double, n)};
  for (int64_t i = 0; i < n; i++) a.value[i] = (double)NAN;
  return a;
}

struct array check_sum(int64_t n) {
  struct array a = check_array(n, 1.0);
  a.want = MEM_NEW(double, n);
  memcpy(a.want, a.value, (size_t)n * sizeof *a.want);
  return a;
}

void check_free(struct array *arrays, int n_arrays) {
  for (int i = 0; i < n_arrays; i++) {
    mem_free(arrays[i].value);
    mem_free(arrays[i].want);
  }
}

struct check_copy {
  float *memory[MAX_ARRAYS], *x[MAX_ARRAYS];
};

static void make_copies(struct check_copy *copy, const struct array *arrays, int n_arrays, int offset) {
  for (int a = 0; a < n_arrays; a++) {
    copy->memory[a] = MEM_NEW(float, arrays[a].n + 2 * GUARD + 4);
    copy->x[a] = copy->memory[a] + GUARD + (offset ? (offset + a) % 4 : 0);
    for (int64_t i = 0; i < arrays[a].n; i++) copy->x[a][i] = (float)arrays[a].value[i];
    for (int i = 1; i <= GUARD; i++) copy->x[a][-i] = copy->x[a][arrays[a].n + i - 1] = 7e30f;
  }
}

static int count_guard_faults(const struct check_copy *copy, const struct array *arrays, int n_arrays) {
  int faults = 0;
  for (int a = 0; a < n_arrays; a++)
    for (int i = 1; i <= GUARD; i++) faults += copy->x[a][-i] != 7e30f || copy->x[a][arrays[a].n + i - 1] != 7e30f;
  return faults;
}

/* The worst error of an array in units of its tolerance, tolerance * (|value| + root mean square of all values). */
static double check_error(const float *got, const double *want, int64_t n, double tolerance) {
  double squares = 0, worst = 0;
  for (int64_t i = 0; i < n; i++) squares += want[i] * want[i];
  double scale = sqrt(squares / (double)n) + 1e-30;
  for (int64_t i = 0; i < n; i++) {
    double error = fabs((double)got[i] - want[i]) / (tolerance * (fabs(want[i]) + scale));
    if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
  }
  return worst;
}

static void compare_values(const char *label, const struct check_copy *copy, const struct array *arrays, int n_arrays,
                           double tolerance) {
  for (int a = 0; a < n_arrays; a++) {
    if (arrays[a].want) {
      double error = check_error(copy->x[a], arrays[a].want, arrays[a].n, tolerance);
      T_CHECK(error <= 1, "%s: array %d: error is %.3g of what is allowed", label, a, error);
    } else {
      int changed = 0;
      for (int64_t i = 0; i < arrays[a].n; i++) changed += copy->x[a][i] != (float)arrays[a].value[i];
      T_CHECK(!changed, "%s: array %d: %d inputs changed", label, a, changed);
    }
  }
}

void check_kernel(const char *label, check_call *call, const void *context, struct array *arrays, int n_arrays,
                  double tolerance) {
  struct check_copy first = {0}, copy;
  for (int run = 0; run < N_POOLS * 2; run++) {
    make_copies(&copy, arrays, n_arrays, run < N_POOLS ? 0 : run);
    call(check_pools[run % N_POOLS], copy.x, context);
    int faults = count_guard_faults(&copy, arrays, n_arrays);
    T_CHECK(!faults, "%s: run %d: %d writes outside an array", label, run, faults);
    if (run == 0) {
      first = copy;
      compare_values(label, &first, arrays, n_arrays, tolerance);
      continue;
    }
    for (int a = 0; a < n_arrays; a++) {
      bool same = !memcmp(copy.x[a], first.x[a], (size_t)arrays[a].n * sizeof(float));
      T_CHECK(same, "%s: array %d: bits differ at %d threads, alignment %d", label, a, run % N_POOLS + 1,
              run / N_POOLS);
      mem_free(copy.memory[a]);
    }
  }
  for (int a = 0; a < n_arrays; a++) mem_free(first.memory[a]);
  check_free(arrays, n_arrays);
}

void check_difference(const char *label, double (*loss)(const double *x, const void *context), const void *context,
                      double *x, const double *gradient, int64_t n) {
  double norm = 0, error = 0;
  for (int64_t i = 0; i < n; i++) {
    double keep = x[i], step = 1e-5;
    x[i] = keep + step;
    double above = loss(x, context);
    x[i] = keep - step;
    double below = loss(x, context);
    x[i] = keep;
    double d = (above - below) / (2 * step) - gradient[i];
    error += d * d;
    norm += gradient[i] * gradient[i];
  }
  T_CHECK(norm > 0 && sqrt(error) <= 1e-7 * sqrt(norm), "%s: differs from finite differences by %.3g of %.3g", label,
          sqrt(error), sqrt(norm));
}
