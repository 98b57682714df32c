/* The ops that a stage may discard (those of request->recompute_ops, on stages where the request allows it), and the
 * cheapest way to discard enough. Serial.
 */
#ifndef PENSTOCK_PLANNER_STAGE_MENU_H
#define PENSTOCK_PLANNER_STAGE_MENU_H

#include "planner/stage_need.h"

/* What a layer discards together: ops, the bytes of a micro-batch that this frees, the seconds that bring them back. */
struct menu_unit {
  uint32_t ops;
  int64_t bytes;
  double seconds;
};
/* Lists the units of `ops` that free something, LAYER_MAX_OPS at most; their times and bytes add up. cost NULL: every
 * op counts one. Returns how many. */
int stage_menu_list_units(const struct model *model, const struct cost *cost, int32_t rank, int32_t layer,
                          struct micro_shape micro, uint32_t ops, struct menu_unit *units);

struct stage_menu; /* of one stage, on the rank where planners put it */
/* request and needs are borrowed. request->cost NULL: every op counts the same. */
struct stage_menu *stage_menu_create(const struct plan_request *request, const struct stage_needs *needs,
                                     int32_t stage);
void stage_menu_destroy(struct stage_menu **menu);

/* Chooses what layers first .. first+n-1 discard, so that the stage takes at most `limit` bytes and recomputation the
 * least time: *seconds of a micro-batch. ops[n_layers] (may be NULL) is filled in for these layers. False when it
 * cannot fit. */
bool stage_menu_choose(struct stage_menu *menu, const struct stage_need *need, int32_t first, int32_t n, int64_t limit,
                       double *seconds, uint32_t *ops);

/* Chooses what the layers discard so that at least `need` bytes of each micro-batch go, with the least recomputation:
 * *seconds of a micro-batch. *freed are the bytes that do go; ops is as above. False when the layers have not so many.
 */
bool stage_menu_cover(struct stage_menu *menu, int32_t first, int32_t n, int64_t need, double *seconds, int64_t *freed,
                      uint32_t *ops);

/* Bytes that the stage takes at least, whatever it discards. */
int64_t stage_menu_get_least(struct stage_menu *menu, const struct stage_need *need, int32_t first, int32_t n);

#endif
