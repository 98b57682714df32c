#include "planner/guest.h"

#include <math.h>

double guest_place(const struct plan *plan, const struct order_time *times, double transfer, struct plan_move *m) {
  int64_t own = plan->order_offset[plan_find_rank(plan, m->stage, m->micro)];
  int32_t last = (int32_t)(plan->order_offset[m->peer + 1] - plan->order_offset[m->peer]) - 1;
  const double *end = times->end + own;
  /* The transfer takes at least a part of the action that ends when the block has to be gone. */
  transfer = fmax(transfer, (end[m->out_end] - times->start[own + m->out_end]) / 4);
  double leaves = fmax(end[m->out_start], end[m->out_end] - transfer);
  int32_t start = order_time_count_ended(plan, times, m->peer, leaves);
  int32_t stop = order_time_count_ended(plan, times, m->peer, end[m->in_start - 1] + transfer);
  m->peer_start = start < last ? start : last;
  m->peer_end = stop < last ? stop : last;
  return transfer;
}
