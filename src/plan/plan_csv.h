/* Orders as text: torch.distributed.pipelining's CSV of actions. One row a rank; cells are <stage><kind><micro-batch>,
 * like 0F0, separated by commas. Serial, and on text: files are the caller's.
 *
 * Read are F, B, I and W; (0F3;3B1)OVERLAP_F_B is its parts in order; blank cells are nothing. UNSHARD, RESHARD,
 * REDUCE_GRAD and WAIT_REDUCE_GRAD are dropped: what they stand for follows from the plan. So are SEND_F, RECV_F,
 * SEND_B, RECV_B and R, whose order the graph finds itself. Any other kind is refused.
 */
#ifndef PENSTOCK_PLAN_PLAN_CSV_H
#define PENSTOCK_PLAN_PLAN_CSV_H

#include "plan/plan.h"

struct plan_csv_action {
  struct plan_action action;
  int32_t cell; /* its column in the row, from 1 */
};

struct plan_csv {
  int32_t n_ranks, n_stages, n_micro; /* rows; the largest stage and micro-batch that are named, plus 1 */
  int64_t *offset;                    /* [n_ranks+1] into actions */
  struct plan_csv_action *actions;
  int32_t *rank_of; /* [n_stages] the row of each stage, from 0; set by plan_csv_check */
  bool descends;    /* on some stage micro-batches do not ascend; set by plan_csv_check */
  char *dropped;    /* kinds that were left out, "UNSHARD, RESHARD"; "" when there are none */
  char *replaced;   /* kinds in place of which stands an order of our own; "" when there are none */
};

/* Reads a file's text; `name` is what messages call the file. Owned by the caller. STATUS_MISTAKE with row, cell,
 * action and reason. */
int plan_csv_parse(const char *text, const char *name, struct plan_csv **csv);
void plan_csv_destroy(struct plan_csv **csv);

/* Checks the rows for n_micro micro-batches: each stage in one row; each pass of each stage and micro-batch once,
 * after those that it needs; no rows that wait for one another for ever. STATUS_MISTAKE with row, cell, action and
 * reason. */
int plan_csv_check(struct plan_csv *csv, const char *name, int32_t n_micro);

/* The orders of a plan as such a text, owned by the caller; passes that are cut into parts are whole there. */
char *plan_csv_format(const struct plan *plan);

#endif
