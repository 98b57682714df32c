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

/* A copy of a time in milliseconds, or of an object of such, in seconds. */
static json_t *make_seconds(const json_t *ms) {
  const char *key;
  json_t *member, *seconds;
  if (json_is_number(ms)) return json_real(json_number_value(ms) / 1e3);
  if (!json_is_object(ms)) return json_null();
  seconds = json_object();
  json_object_foreach((json_t *)(uintptr_t)ms, key, member) json_object_set_new(seconds, key, make_seconds(member));
  return seconds;
}

/* "NAME_s" of "NAME_ms", "seconds" of "ms", NULL of other keys; owned by the caller. */
static char *name_seconds(const char *key) {
  size_t n = strlen(key);
  if (!strcmp(key, "ms")) return mem_strdup("seconds");
  return n > 3 && !strcmp(key + n - 3, "_ms") ? mem_format("%.*ss", (int)n - 2, key) : NULL;
}

void json_add_seconds(json_t *value) {
  const char *key;
  json_t *member;
  size_t i;
  json_array_foreach(value, i, member) json_add_seconds(member);
  if (!json_is_object(value)) return;
  json_t *whole = json_object();
  json_object_foreach(value, key, member) {
    char *name = name_seconds(key);
    if (name)
      json_object_set_new(whole, name, make_seconds(member));
    else
      json_add_seconds(member);
    json_object_set(whole, key, member);
    mem_free(name);
  }
  json_object_clear(value);
  json_object_update(value, whole);
  json_decref(whole);
}
