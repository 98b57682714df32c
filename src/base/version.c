#include "base/version.h"

#include "config.h"

const char *version_get(void) { return PACKAGE_VERSION; }

const char *version_get_build(void) { return PENSTOCK_BUILD; }
