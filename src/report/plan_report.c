#include "report/plan_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/dag.h"
#include "sim/sim.h"

struct plan_shares plan_report_get_shares(const struct plan_report *r) {
  const struct sim_result *sim = r->sim;
  double busy = 0;
  for (int32_t k = 0; k < r->plan->n_ranks; k++) busy += sim->ranks[k].busy;
  double all = r->plan->n_ranks * sim->step;
  return (struct plan_shares){all > 0 ? 1 - busy / all : 0,
                              sim->message_seconds > 0 ? 1 - sim->exposed_seconds / sim->message_seconds : NAN};
}

/* The part that a buffer counts to; kinds of later systems are activations until they say better. */
static int64_t *find_part(struct memory_parts *parts, enum buffer_kind kind) {
  switch (kind) {
  case BUFFER_OUTPUT:
  case BUFFER_D_OUTPUT:
  case BUFFER_D_INPUT: return &parts->messages;
  case BUFFER_GUEST: return &parts->guests;
  case BUFFER_GRAD_WEIGHT: return &parts->gradients;
  case BUFFER_WORK: return &parts->workspace;
  default: return &parts->activations;
  }
}

struct memory_parts plan_report_get_memory(const struct dag *dag, int32_t rank) {
  struct memory_parts parts = {.fixed = dag->device_static[rank]};
  int32_t peak;
  dag_get_peak(dag, rank, &peak);
  /* Compute nodes of a rank are numbered in their order. */
  for (int64_t i = dag->buffer_offset[rank]; i < dag->buffer_offset[rank + 1] && peak >= 0; i++) {
    const struct dag_buffer *b = &dag->buffers[i];
    if (buffer_kind_get_pool((enum buffer_kind)b->kind) != POOL_DEVICE) continue;
    if (b->alloc <= peak && peak <= b->release) *find_part(&parts, (enum buffer_kind)b->kind) += b->bytes;
  }
  return parts;
}

static int compare_choices(const void *left, const void *right) {
  const struct plan_choice *a = left, *b = right;
  if (!a->reason != !b->reason) return a->reason ? 1 : -1;
  if (!a->reason && a->step_s != b->step_s) return a->step_s < b->step_s ? -1 : 1;
  if (!a->reason && a->peak_bytes != b->peak_bytes) return a->peak_bytes < b->peak_bytes ? -1 : 1;
  return strcmp(a->planner, b->planner);
}

void plan_report_sort(struct plan_choice *choices, int n) {
  if (n > 0) qsort(choices, (size_t)n, sizeof *choices, compare_choices);
}

struct node_row plan_report_make_row(const struct plan_report *r, int32_t v) {
  return trace_rows_make_node(r->dag, v, 0, r->sim->start[v], r->sim->end[v], r->sim->binder[v]);
}

struct step_path plan_report_find_path(const struct plan_report *r) {
  struct step_view view;
  step_view_init_graph(&view, r->dag, r->plan->n_stages, r->sim->start, r->sim->end, r->sim->binder);
  return step_path_find(&view, NULL);
}
