/* Divides the time of each rank of a step into busy and idle time, for simulated and measured steps. Serial.
 *
 * A rank's compute nodes are busy; all other time of its compute stream is idle. Each idle instant has a place, when
 * it is, and a cause, why it is; the parts of a rank sum to the step. Before a compute node the cause is found from
 * the node whose end let it start (view->after):
 *   a receive   is data until the pass that made what it brings has ended, then message until it was there;
 *   a send      of the own rank is send until it has ended;
 *   a block     of activations that came back or left: what else the node needs comes first, the rest is offload;
 *   the norm    is data until the last pass of any rank has ended, then message until tied weights are exchanged. Its
 *               place is the drain, as all of it comes after the rank's last pass.
 * What is left until the node starts is other: the norm itself, and what the program does between nodes. After its
 * last compute node a rank waits for data until the last one of any rank has ended, the rest of the step is other.
 */
#ifndef PENSTOCK_RECORD_STEP_PARTS_H
#define PENSTOCK_RECORD_STEP_PARTS_H

#include "record/step_view.h"

enum idle_place {
  IDLE_FILL,    /* before the rank's first compute node */
  IDLE_BETWEEN, /* between its passes */
  IDLE_DRAIN,   /* after its last pass: until the norm is there, and after the last compute node */
  IDLE_PLACE_COUNT
};
enum idle_cause {
  IDLE_DATA,    /* what comes next was not made yet on another rank */
  IDLE_MESSAGE, /* it was made: its message was under way, or behind another */
  IDLE_SEND,    /* a send of the own rank had to end */
  IDLE_OFFLOAD, /* a block of activations had to leave or to come back */
  IDLE_OTHER,   /* all was there, or the norm was computed */
  IDLE_CAUSE_COUNT
};

/* Seconds; blocks: of activations that leave the device for a later backward, their bytes, seconds that the rank sends
 * and copies blocks, its own and others', both ways (the end that receives from another rank counts nothing), and what
 * of that compute waited for. */
struct step_rank {
  double busy;
  double kinds[NODE_KIND_COUNT]; /* of busy: of each kind of compute node */
  double idle[IDLE_PLACE_COUNT][IDLE_CAUSE_COUNT];
  double blocks, block_bytes, block_seconds, block_exposed;
};

/* The blocks of one stage, on any rank. Exposed: of their time, when compute was idle and a block's coming back or
 * leaving is what ended that; the rest is hidden. */
struct step_stage {
  int32_t rank;            /* that the blocks leave; -1: none does */
  double blocks, bytes;    /* that leave the device */
  double seconds, exposed; /* of all steps of their ways */
};

/* The idle time before one compute node. Instants lie within from and the node's start. */
struct step_gap {
  int32_t node, after; /* in the view; after -1: not known */
  double from;
  double made, moving, there; /* its data: made, its message free to move at both ends, there. All `from`: no message */
};

typedef void step_gap_see(void *context, const struct step_gap *gap);

/* Adds the parts of each rank of a step to ranks [n_ranks], as many as the view's or more (those without a node are
 * idle all the time), and stages [view->n_stages]. see (may be NULL) is called with each idle time before a compute
 * node. */
void step_parts_add(const struct step_view *view, struct step_rank *ranks, int32_t n_ranks, struct step_stage *stages,
                    step_gap_see *see, void *context);

/* The words for idle time in texts and files: X(name, meaning). Fill and drain are places, whatever the cause; the
 * others are causes of the time between. They and busy sum to the step. */
#define STEP_IDLE_WORDS(X)                                                                                             \
  X(fill, "before its first pass")                                                                                     \
  X(drain, "after its last pass: until the norm is there, and after its last node")                                    \
  X(data, "between passes: what comes next was not made yet on another rank")                                          \
  X(message, "between passes: it was under way, or behind another message")                                            \
  X(other, "between passes: a send of its own or memory had to come first, or the program itself")                     \
  X(offload, "between passes: a block of activations had to leave or to come back first")

struct step_idle {
#define X(name, ...) double name;
  STEP_IDLE_WORDS(X)
#undef X
};
struct step_idle step_parts_get_idle(const struct step_rank *rank);
/* The seconds of one cause in all places. */
double step_parts_get_cause(const struct step_rank *rank, enum idle_cause cause);

#endif
