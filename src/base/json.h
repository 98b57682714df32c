/* Texts from outside in JSON output. */
#ifndef PENSTOCK_BASE_JSON_H
#define PENSTOCK_BASE_JSON_H

#include <jansson.h>

/* A JSON string of any bytes, names of files for one; a byte that is no UTF-8 becomes U+FFFD. null of NULL. */
json_t *json_make_text(const char *text);

/* Puts the same in seconds before whatever is in milliseconds, in all objects within: "step_s" before "step_ms",
 * "seconds" before "ms", of numbers, null, and objects of them. */
void json_add_seconds(json_t *value);

#endif
