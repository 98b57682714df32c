/* Hardware counters, with PAPI and without, on a machine that lets us count and on one that does not: a value is a
 * number that does not fall, or NaN each time, never 0 in its place; what is missing has a reason of one line.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "profile/counters.h"
#include "t.h"

static double work(int n) {
  volatile double sum = 0;
  for (int i = 0; i < n; i++) sum = sum + 1.0 / (1 + i);
  return sum;
}

static void check_reason(const struct counters *counters, int n_missing) {
  const char *reason = counters_get_reason(counters);
  T_CHECK((reason != NULL) == (n_missing > 0), "%d missing, reason '%s'", n_missing, reason ? reason : "none");
  T_CHECK(!reason || (strstr(reason, "PAPI") && !strchr(reason, '\n')), "'%s'", reason);
  T_CHECK(counters_any(counters) == (n_missing < COUNTERS_COUNT), "%d missing", n_missing);
}

static void test_values(void) {
  double before[COUNTERS_COUNT], after[COUNTERS_COUNT];
  int n_missing = 0;
  struct counters *counters = counters_open();
  counters_read(counters, before);
  work(1000000);
  counters_read(counters, after);
  for (int i = 0; i < COUNTERS_COUNT; i++) {
    n_missing += isnan(before[i]) != 0;
    T_CHECK(isnan(before[i]) ? isnan(after[i]) : after[i] > before[i] + 1000000, "counter %d: %g, then %g", i,
            before[i], after[i]);
  }
  check_reason(counters, n_missing);
  counters_close(&counters);
  T_CHECK(!counters, "closed");
  counters_close(&counters);
}

int main(void) {
  test_values();
  test_values(); /* they can be opened again */
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
