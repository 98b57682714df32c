/* Planner obscura by default: more memory on the devices makes no plan slower, for limits from what 1F1B takes with all
 * recomputed to what it takes with nothing.
 */
#include "base/mem.h"
#include "obscura_case.h"

enum { LEVELS = 12 };
/* The part of a step that may be lost. */
static const double SLACK = 1e-4;

/* The longest steps so far of one request, and how often more made one longer. */
struct rising {
  const char *what;
  int32_t p, m;
  double least; /* seconds with less */
  int n, n_slower;
};

static void check_level(struct rising *r, double level, double seconds) {
  T_CHECK(seconds <= r->least * (1 + SLACK), "p %d m %d, %s %g: %g s, with less %g", (int)r->p, (int)r->m, r->what,
          level, seconds, r->least);
  r->n++;
  r->n_slower += seconds > r->least * (1 + SLACK);
  r->least = fmin(r->least, seconds);
}

static void begin(struct rising *r, const char *what, const struct obscura_case *c) {
  r->what = what;
  r->p = c->request.n_ranks;
  r->m = c->request.n_micro;
  r->least = INFINITY;
}

static int64_t find_largest(const struct obscura_case *c) {
  int64_t largest = 0;
  for (int32_t r = 0; r < c->request.n_ranks; r++) largest = c->limits[r] > largest ? c->limits[r] : largest;
  return largest;
}

/* Limits from what 1F1B takes with all recomputed to what it takes with nothing, the same for all ranks. */
static void test_limits(struct rising *r, int32_t least_p, int32_t most_p, int32_t most_m, bool swaps, int n) {
  for (int trial = 0; trial < n; trial++) {
    struct obscura_case c;
    int32_t p = least_p + (int32_t)obscura_case_draw(most_p - least_p + 1);
    int32_t m = p + (int32_t)obscura_case_draw(most_m - p + 1);
    obscura_case_open(&c, p + (int)obscura_case_draw(p + 1), p, m, trial % 4);
    c.params.pipeline.swap = swaps && trial % 2 ? PARAMS_SWAP_AUTO : PARAMS_SWAP_OFF;
    if (trial % 3 == 0) c.request.partition.kind = PARAMS_CUT_EVEN;
    obscura_case_draw_limits(&c, 0);
    int64_t low = find_largest(&c);
    obscura_case_draw_limits(&c, 10);
    int64_t high = find_largest(&c);
    if (low > high) low = high / 2; /* a recomputation's workspace may be more than it saves */
    begin(r, "level of the limit", &c);
    for (int k = 0; k < LEVELS; k++) {
      for (int32_t i = 0; i < p; i++) c.limits[i] = low + (high - low) * k / (LEVELS - 1);
      check_level(r, k, obscura_case_time(&c, "obscura", NULL));
    }
    obscura_case_close(&c);
  }
}

int main(void) {
  struct rising r = {.n = 0};
  test_limits(&r, 4, 8, 12, true, 24);
  test_limits(&r, 2, 3, 6, true, 16);
  printf("%d of %d plans slower\n", r.n_slower, r.n);
  return t_end();
}
