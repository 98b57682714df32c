/* Name and version of this program. */
#ifndef PENSTOCK_BASE_VERSION_H
#define PENSTOCK_BASE_VERSION_H

/* "0.1.0" */
const char *version_get(void);
/* How it was configured, a line or more. */
const char *version_get_build(void);

#endif
