#include "base/json.h"

#include <string.h>

#include "base/mem.h"

/* Bytes of the character that begins here, 0 when it is none: jansson itself says what is one. */
static size_t measure(const char *text, size_t left) {
  for (size_t n = 1; n <= 4 && n <= left; n++) {
    json_t *value = json_stringn(text, n);
    if (!value) continue;
    json_decref(value);
    return n;
  }
  return 0;
}

json_t *json_make_text(const char *text) {
  static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD */
  if (!text) return json_null();
  json_t *value = json_string(text);
  if (value) return value;
  char *repaired = mem_alloc(3 * strlen(text) + 1);
  size_t n = 0;
  for (size_t left = strlen(text), used; left > 0; text += used, left -= used) {
    size_t good = used = measure(text, left);
    if (!good) used = 1;
    memcpy(repaired + n, good ? text : unknown, good ? good : 3);
    n += good ? good : 3;
  }
  repaired[n] = '\0';
  value = json_string(repaired);
  mem_free(repaired);
  return value;
}
