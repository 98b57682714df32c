/* Reports the measurements of a device, for people and programs. Serial. */
#ifndef PENSTOCK_REPORT_PROFILE_REPORT_H
#define PENSTOCK_REPORT_PROFILE_REPORT_H

#include "cost/profile.h"

struct profile_report {
  const struct profile *profile;
  const struct model *model; /* of which it is */
  struct micro_shape shape;  /* whose ops the text lists one by one */
  const char *path;          /* of the file */
  const char *notes;         /* what could not be measured, a line each; NULL: nothing to say */
  bool measured;             /* anew; false: the file had all */
};

/* Texts are owned by the caller. */
char *profile_report_format(const struct profile_report *report);
char *profile_report_format_json(const struct profile_report *report);

#endif
