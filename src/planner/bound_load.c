#include "planner/bound_load.h"

#include <math.h>
#include <stdlib.h>

#include "cost/cost.h"

static int compare_freed(const void *left, const void *right) {
  const struct bound_freed *a = left, *b = right;
  double x = a->byte_seconds * b->seconds, y = b->byte_seconds * a->seconds;
  return (x < y) - (x > y);
}

static void add_freed(struct bound_load *load, const struct bound_sums *sums, const struct bound_stage *s,
                      double stay) {
  const struct bound_row *row = &sums->rows[sums->alike[s->rank]];
  double factor = cost_get_recompute_share_factor(sums->cost, s->n_body);
  int32_t before = load->n_freed;
  for (int32_t u = 0; u < row->n_units; u++) {
    double count = (double)(row->units[u].count[s->end] - row->units[u].count[s->first]);
    if (count > 0)
      load->freed[load->n_freed++] =
          (struct bound_freed){count * (double)row->units[u].bytes * stay, count * row->units[u].seconds * factor};
  }
  if (before > 0) qsort(load->freed, (size_t)load->n_freed, sizeof *load->freed, compare_freed);
}

/* Adds what the stage keeps. Of micro-batches that several ranks share nothing is known. */
static void add_kept(struct bound_load *load, const struct bound_sums *sums, const struct bound_stage *s, double stay) {
  int32_t enters = s->first > 0 ? s->first - 1 : 0; /* the hidden states that enter and those between the layers */
  int64_t bytes = sums->kept[s->end] - sums->kept[s->first] + sums->outputs[s->end - 1] - sums->outputs[enters];
  if (s->n_micro < sums->plan->n_micro) return;
  load->kept += (double)bytes * stay;
  add_freed(load, sums, s, stay);
}

void bound_load_add(struct bound_load *load, const struct bound_sums *sums, const struct bound_stage *s) {
  double stay = s->turn;
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    double one = bound_sums_get_one(sums, s->rank, (enum pass)pass, s->first, s->end, s->n_body);
    double all = s->n_micro == sums->plan->n_micro
                     ? bound_sums_get_all(sums, s->rank, (enum pass)pass, s->first, s->end, s->n_body)
                     : s->n_micro * one;
    load->passes += all;
    if (pass != PASS_WEIGHT) load->inputs += all;
    stay += one;
  }
  load->update += bound_sums_get_update(sums, s->rank, s->first, s->end);
  add_kept(load, sums, s, stay);
}

void bound_load_close(struct bound_load *load, const struct bound_sums *sums, double head, double tail, double update,
                      double norm) {
  bool clip = sums->plan->clip;
  double end = clip ? norm + fmax(update, load->update) : 0; /* after all gradients */
  double own = clip ? 0 : load->update;                      /* after its own */
  if (sums->splits) {
    load->least = head + fmax(load->passes + own, load->inputs + tail) + end;
    load->idle = head + end;
  } else {
    load->least = head + load->passes + fmax(tail, own) + end;
    load->idle = head + tail + end;
  }
}

double bound_load_get_room(const struct bound_sums *sums, int32_t rank, int64_t fixed) {
  int64_t limit = sums->plan->device_limit[rank];
  return limit == INT64_MAX ? INFINITY : (double)(limit - fixed);
}

bool bound_load_fits(const struct bound_load *load, double step) {
  double spare = step - load->least;
  if (spare < 0) return false;
  if (isinf(load->room)) return true;
  double over = load->kept - load->room * (step - load->idle);
  for (int32_t k = 0; k < load->n_freed && over > 0 && spare >= 0; k++) {
    const struct bound_freed *f = &load->freed[k];
    bool all = f->seconds <= spare;
    over -= all ? f->byte_seconds : f->byte_seconds * (spare / f->seconds);
    spare = all ? spare - f->seconds : -1;
  }
  return over <= 0;
}

double bound_find_least(bound_possible *possible, void *context, double low) {
  enum { MOST_DOUBLINGS = 20 };
  double high = low;
  for (int k = 0; !possible(context, high); k++) {
    if (k == MOST_DOUBLINGS || high <= 0) return high;
    low = high;
    high *= 2;
  }
  while (high - low > 1e-8 * high) {
    double middle = low + (high - low) / 2;
    if (possible(context, middle))
      high = middle;
    else
      low = middle;
  }
  return low;
}
