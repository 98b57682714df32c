/* Group /plan of plan.h5: the plan itself, exactly, made from the lists of plan.h. The file's other tables are for
 * people and their scripts. Only for plan_file*.c.
 */
#ifndef PENSTOCK_RECORD_PLAN_FILE_ARRAYS_H
#define PENSTOCK_RECORD_PLAN_FILE_ARRAYS_H

#include <stdint.h>

struct h5_file;
struct plan;

int plan_file_write_plan(struct h5_file *file, const struct plan *plan);
/* Reads sizes and arrays of a file of this version; what it did not have yet is 0. Flags, name and hash are attributes
 * of the file and left to the caller. The plan is owned by the caller and not checked, but for its sizes and offsets.
 */
int plan_file_read_plan(struct h5_file *file, int32_t version, struct plan **plan);

#endif
