#include "base/json.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

json_t *json_make_text(const char *text) {
  if (!text) return json_null();
  json_t *value = json_string(text);
  if (value) return value;
  char *repaired = mem_alloc(3 * strlen(text) + 1);
  size_t n = 0;
  for (size_t left = strlen(text), used; left > 0; text += used, left -= used) {
    size_t good = used = utf8_measure((const uint8_t *)text, left);
    if (!good) used = 1;
    memcpy(repaired + n, good ? text : UTF8_UNKNOWN, good ? good : 3);
    n += good ? good : 3;
  }
  repaired[n] = '\0';
  value = json_string(repaired);
  mem_free(repaired);
  return value;
}
