/* Notes about keys of a configuration that have no effect here. Internal to model. */
#ifndef PENSTOCK_MODEL_CONFIG_NOTES_H
#define PENSTOCK_MODEL_CONFIG_NOTES_H

#include "model/config.h"

#include <jansson.h>

/* One line on dropout keys, one on keys that change nothing, with what may have been meant by those that look like a
 * slip;
 * "" for none. Owned by the caller. */
char *config_make_notes(json_t *root, const struct family *family, const char *source);

#endif
