/* JSON as some programs write it, made into JSON as the standard has it, for a library that takes no other: NaN and
 * Infinity, numbers beyond a double, halves of surrogate pairs, control characters and bytes of no character in
 * strings, nesting without bound. Every number becomes 0: this is for readers of strings.
 */
#ifndef PENSTOCK_DATA_JSON_REPAIR_H
#define PENSTOCK_DATA_JSON_REPAIR_H

#include <stddef.h>
#include <stdint.h>

struct json_repair {
  char *text; /* [bytes] */
  size_t bytes, capacity;
  int64_t n_changed;  /* places that differ */
  int64_t n_replaced; /* of them: what was read as U+FFFD */
};

/* Fills in *repair, whatever `text` is; what is wrong in any other way stays wrong. Free it with json_repair_fini. */
void json_repair(const uint8_t *text, size_t bytes, struct json_repair *repair);
void json_repair_fini(struct json_repair *repair);

#endif
