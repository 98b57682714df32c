/* The tables of plan.h5 about moves: /moves and /moved, from which they are made again, and /swap, which sums them up
 * by stage. Only for plan_file.c.
 */
#ifndef PENSTOCK_RECORD_PLAN_FILE_MOVES_H
#define PENSTOCK_RECORD_PLAN_FILE_MOVES_H

#include "record/plan_file.h"

struct h5_file;

int plan_file_write_moves(struct h5_file *file, const struct plan *plan, const struct model *model);
/* Fills in moves and moved, owned by `read`. */
int plan_file_read_moves(struct h5_file *file, struct plan_file *read);

#endif
