/* Reports what a plan will do, as text and as JSON: stages, memory by kind, predicted times, a picture; and a table
 * of several planners. Serial.
 */
#ifndef PENSTOCK_REPORT_PLAN_REPORT_H
#define PENSTOCK_REPORT_PLAN_REPORT_H

#include "record/step_path.h"

#include <stdint.h>

struct dag;
struct model;
struct plan;
struct sim_result;

/* All borrowed. */
struct plan_report {
  const struct plan *plan;
  const struct dag *dag;
  const struct model *model;
  const struct sim_result *sim;
  const char *cost_source;
  const char *notes; /* lines, "" for none */
  /* Seconds that no order of these stages takes less than, and no cut into as many, of one step by itself; and the same
   * where activations stay on their device, within its limits. 0 or NaN: not known. */
  double least, least_any_cut, least_staying, least_any_staying;
};

/* Shares of 0 to 1. */
struct plan_shares {
  double bubble;  /* idle compute / (ranks x step) */
  double overlap; /* of the time of messages, what compute hides; NaN where messages take no time */
};
struct plan_shares plan_report_get_shares(const struct plan_report *report);

/* Bytes of a rank's device at its peak, by what they are for: X(name, title). */
#define MEMORY_PARTS(X)                                                                                                \
  X(fixed, "weights")       /* parameters, gradients, moments */                                                       \
  X(activations, "activ.")  /* kept or rebuilt for the backward, inputs of the stage included */                       \
  X(guests, "guests")       /* activations kept for other ranks */                                                     \
  X(gradients, "gradients") /* of activations, kept for weight passes */                                               \
  X(messages, "messages")   /* sent, or received to start a backward */                                                \
  X(workspace, "workspace")

struct memory_parts {
#define X(name, title) int64_t name;
  MEMORY_PARTS(X)
#undef X
};
/* They sum to the peak. */
struct memory_parts plan_report_get_memory(const struct dag *dag, int32_t rank);

/* The predicted step's node v as a row, and its critical path, whose rows are the nodes. */
struct node_row plan_report_make_row(const struct plan_report *report, int32_t v);
struct step_path plan_report_find_path(const struct plan_report *report);

/* The texts are owned by the caller. */
char *plan_report_format(const struct plan_report *report);
/* Where the time of each rank goes, and the chain of nodes that the step is as long as. */
char *plan_report_format_times(const struct plan_report *report);

/* One planner among several. */
struct plan_choice {
  const char *planner;
  char *reason; /* why there is no plan, owned by whoever fills it in; NULL: there is one */
  double step_s;
  struct plan_shares shares;
  int64_t peak_bytes;  /* of the rank that needs most */
  int32_t n_recompute; /* stages that recompute */
};
/* Sorts the choices: those with a plan first, the fastest of them first. */
void plan_report_sort(struct plan_choice *choices, int n);
char *plan_report_format_choices(const struct plan_choice *choices, int n);

/* One JSON object; report NULL: no planner has a plan. choices: those that were tried, sorted. */
char *plan_report_format_json(const struct plan_report *report, const struct plan_choice *choices, int n_choices);

#endif
