/* Where a configuration comes from, and messages that say so: each names a key, its place in the deck or its line in
 * config.json, and what is allowed. Internal to model.
 */
#ifndef PENSTOCK_MODEL_CONFIG_SOURCE_H
#define PENSTOCK_MODEL_CONFIG_SOURCE_H

#include <stdbool.h>

struct params;

struct config_source {
  const char *json; /* the text */
  const char *name; /* what messages call it: a path, or anything else */
  /* The deck that has the keys itself, or names the file whose text this is. NULL: neither is known, so that a message
   * has no more of a place than the name. */
  const struct params *deck;
  /* The program wrote this text itself, of a deck that had been checked: what it leaves out is harmless. */
  bool checked;
};

/* Records STATUS_MISTAKE "PLACE: 'KEY' MORE" and returns it. `key` may be one inside of an object, "rope_scaling.type".
 */
int config_refuse(const struct config_source *source, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
