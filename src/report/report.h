/* Where time and memory of a run went, rank by rank, from its trace.h5 and plan.h5. Serial.
 *
 * A step lasts from its start (or the first compute node, where a rank began earlier) to the end of the last rank's
 * last node. What a rank does in it is cut by record/step_parts.h, whose causes of idle time are four parts here,
 * wherever the time is: bubble is data, wait is message and send, offload and other are those.
 */
#ifndef PENSTOCK_REPORT_REPORT_H
#define PENSTOCK_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"
#include "record/comparison.h"
#include "record/step_parts.h"

struct model;

/* X(name, title, meaning): the parts of a step. Tables of text have those that came later as their last columns, where
 * any rank has some of them: scripts count columns. */
#define REPORT_FIRST_PARTS(X)                                                                                          \
  X(busy, "busy", "forward, recompute, backward and update passes")                                                    \
  X(bubble, "bubble", "idle because what the next pass needs was not made yet on another rank")                        \
  X(wait, "wait", "idle because a message with it was under way (send and receive)")                                   \
  X(other, "other", "the gradient norm, and what the program itself does between passes")
#define REPORT_LATER_PARTS(X)                                                                                          \
  X(offload, "offload", "idle until a block of activations that it needs was back, or one that had to leave was gone")
#define REPORT_PARTS(X) REPORT_FIRST_PARTS(X) REPORT_LATER_PARTS(X)

/* X(id, text): what a node waited for that was not its data. */
#define REPORT_CAUSES(X)                                                                                               \
  X(REPORT_START, "all that it needs was there: the core or the program was busy with something else")                 \
  X(REPORT_BLOCK, "waited until a block of activations was back or gone")                                              \
  X(REPORT_SEND, "waited for a send of this rank")                                                                     \
  X(REPORT_MESSAGE, "its message waited to be sent or received")

#define X(id, ...) id,
enum report_cause { REPORT_CAUSES(X) REPORT_CAUSE_COUNT };
#undef X

/* One rank, mean over the steps that were read. Seconds a step; the parts sum to the report's step_seconds. */
struct report_rank {
  int32_t rank;
#define X(name, ...) double name;
  REPORT_PARTS(X)
#undef X
  struct step_idle
      idle; /* all but busy in the words of a prediction, seconds a step; they and busy sum to the step too */
  double kinds[NODE_KIND_COUNT]; /* of busy: seconds of each kind of compute node */
  /* Blocks of activations that leave the device for a later backward, their bytes, and seconds that the rank sends and
   * copies blocks, its own and others', both ways; those of them that its compute waited for; by step. */
  double blocks, block_bytes, block_seconds, block_exposed;
  int64_t peak_bytes, limit_bytes; /* device; peak -1: not in the trace; limit INT64_MAX: none, or no plan.h5 */
  int64_t host_bytes, host_limit, disk_bytes, disk_limit; /* the same of what blocks wait in; 0: none did */
};

/* A compute node that started later than its data allowed. */
struct report_late {
  int64_t step;
  int32_t rank, stage, micro, layer; /* -1 where it does not apply */
  uint8_t kind;                      /* enum node_kind */
  enum report_cause cause;
  double seconds;
};

/* Below the heading of a picture of letters. */
#define REPORT_PICTURE_NOTE                                                                                            \
  "letters are as frequent as their times are long, where a column holds several; lower case: a rank's odd chunks\n"

enum { REPORT_WORST = 5, REPORT_DEFAULT_STEPS = 100, REPORT_PICTURE_COLUMNS = 100 };

struct report {
  char *folder, *planner; /* planner NULL: no plan.h5 */
  char *status;           /* text of STATUS, or what is known without one: rundir_describe_state */
  int32_t n_ranks, n_stages, n_micro;
  int64_t first_step, last_step, n_steps; /* that were read */
  double step_seconds;                    /* mean: the whole of every rank */
  double median_seconds;
  int64_t typical_step; /* that took the median time, or just less where the number of steps is even */
  double loss_first, loss_last, tokens_per_s;
  double predicted_seconds;               /* of a step of the largest micro-batches, by plan.h5; NaN: not predicted */
  struct comparison comparison;           /* as the run's end left it; n_steps 0: it has not ended */
  struct model *model;                    /* that ran, for the names of its ops; NULL: not ended */
  char *comparison_text;                  /* the same for people; NULL: not ended */
  struct report_rank *ranks;              /* [n_ranks] */
  struct step_stage *stages;              /* [n_stages] mean over the steps */
  int64_t n_late;                         /* nodes late by more than 1 % of their step and 0.1 ms */
  struct report_late worst[REPORT_WORST]; /* the first min(n_late, REPORT_WORST) are set, worst first */
  int64_t drawn_step;                     /* the typical one, or that of report_draw */
  int32_t drawn_ranks;
  char *picture; /* of drawn_step: for each of its ranks REPORT_PICTURE_COLUMNS letters, as columns_choose has them: of
                  * kinds of nodes, lower case for a rank's odd chunks, '.' idle; drawn_ranks strings one after the
                  * other, each NUL-terminated */
};

/* Reads a run folder, of a run that goes on, has ended or was killed. steps: how many of the last steps in the trace to
 * read; 0: the last REPORT_DEFAULT_STEPS, without the first after a start (which warms up) when there are others. Only
 * steps on as many ranks as the last one count. STATUS_MISTAKE when the folder has no trace or no step in it, naming
 * what to set; a plan.h5 that cannot be read is left out with a warning. The report is the caller's to fini, on
 * success. */
int report_read(const char *folder, int64_t steps, struct report *report);
void report_fini(struct report *report);
/* Draws another step of the trace than the typical one. STATUS_MISTAKE when the trace does not hold it. */
int report_draw(struct report *report, int64_t step);

/* Returns true when any of these ranks has a later part. */
bool report_has_later_parts(const struct report_rank *ranks, int32_t n_ranks);

/* The report as text; owned by the caller. */
char *report_format(const struct report *report);
/* The report as one JSON object; owned by the caller. */
char *report_format_json(const struct report *report);

const char *report_cause_get_text(enum report_cause cause);

/* Writes FOLDER/report.html, atomically: pictures of a plan and of the folder's trace.h5, whichever hold times. plan:
 * its path, NULL: the folder's plan.h5. report: of the folder, NULL where it is not at hand. step: of the trace, 0: the
 * typical one. STATUS_MISTAKE when there are no times or no such step. */
int report_save_html(const char *folder, const char *plan, const struct report *report, int64_t step);

/* Writes RUN/report.txt and RUN/report.html, atomically; nothing when there is no trace. run_status: what STATUS is
 * about to say, for a run that is just ending. */
int report_save(const char *folder, const char *run_status);

#endif
