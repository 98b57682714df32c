/* One step of a trace or a plan in a report. Only for the files of this folder. */
#ifndef PENSTOCK_REPORT_REPORT_STEP_H
#define PENSTOCK_REPORT_REPORT_STEP_H

#include "record/step_view.h"
#include "report/report.h"

/* Adds the parts of each rank's step to report->ranks (which has as many ranks as the view, or more), and its late
 * nodes. */
void report_step_add(const struct step_view *view, struct report *report);

/* Draws the step; owned by the caller, as in struct report. */
char *report_step_draw(const struct step_view *view);

#endif
