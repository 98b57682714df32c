/* The plan of a plan.h5 up to version 4, from its tables for people. Only for plan_file.c. */
#ifndef PENSTOCK_RECORD_PLAN_FILE_TABLES_H
#define PENSTOCK_RECORD_PLAN_FILE_TABLES_H

#include "record/plan_file.h"

/* The file's tables as plan_file_read left them, and /nodes. STATUS_MISTAKE when they cannot be those of a plan. As
 * with plan_file_read_plan flags, name and hash are left to the caller, and so is plan_check. */
int plan_file_make_from_tables(const char *path, const struct plan_file *file, struct plan **plan);

#endif
