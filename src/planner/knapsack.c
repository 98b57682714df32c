/* Branch and bound: kinds by time for a byte, the cheapest first, many of a kind before few; what a branch costs at
 * least is the rest of the need filled up with fractions of items.
 */
#include "planner/knapsack.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

struct search {
  const struct knapsack_item *items;
  const int32_t *sorted; /* [n] */
  int32_t n;
  int32_t *counts, *best_counts; /* [n] */
  double best;
};

static double get_rate(const struct knapsack_item *item) { return item->seconds / (double)item->bytes; }

static void sort_items(const struct knapsack_item *items, int32_t n, int32_t *sorted) {
  for (int32_t i = 0; i < n; i++) {
    int32_t at = i;
    for (; at > 0 && get_rate(&items[sorted[at - 1]]) > get_rate(&items[i]); at--) sorted[at] = sorted[at - 1];
    sorted[at] = i;
  }
}

/* Seconds that `need` bytes take at least from the k-th kind on. */
static double bound_rest(const struct search *s, int32_t k, int64_t need) {
  double seconds = 0;
  for (; k < s->n && need > 0; k++) {
    const struct knapsack_item *item = &s->items[s->sorted[k]];
    int64_t all = item->bytes * item->count;
    if (all >= need) return seconds + get_rate(item) * (double)need;
    seconds += item->seconds * item->count;
    need -= all;
  }
  return need > 0 ? INFINITY : seconds;
}

static void visit(struct search *s, int32_t k, int64_t need, double seconds) {
  if (need <= 0) {
    if (seconds >= s->best) return;
    s->best = seconds;
    memcpy(s->best_counts, s->counts, sizeof *s->counts * (size_t)s->n);
    return;
  }
  if (k == s->n) return;
  int32_t at = s->sorted[k];
  const struct knapsack_item *item = &s->items[at];
  int64_t enough = (need - 1) / item->bytes + 1; /* need may be INT64_MAX: all there is */
  for (int32_t c = enough < item->count ? (int32_t)enough : item->count; c >= 0; c--) {
    int64_t rest = need - c * item->bytes;
    double spent = seconds + c * item->seconds;
    bool worse = spent + bound_rest(s, k + 1, rest) >= s->best;
    if (worse && rest > 0) break; /* fewer of the cheapest kind cost no less */
    s->counts[at] = c;
    if (!worse) visit(s, k + 1, rest, spent);
  }
  s->counts[at] = 0;
}

bool knapsack_cover(const struct knapsack_item *items, int32_t n, int64_t need, int32_t *counts, double *seconds) {
  memset(counts, 0, sizeof *counts * (size_t)n);
  *seconds = 0;
  if (need <= 0) return true;
  int32_t *sorted = MEM_NEW(int32_t, n), *current = MEM_NEW(int32_t, n);
  sort_items(items, n, sorted);
  struct search s = {
      .items = items, .sorted = sorted, .n = n, .counts = current, .best_counts = counts, .best = INFINITY};
  visit(&s, 0, need, 0);
  mem_free(sorted);
  mem_free(current);
  *seconds = s.best;
  return s.best < INFINITY;
}
