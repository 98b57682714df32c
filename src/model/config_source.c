#include "model/config_source.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "input/param_table.h"

/* The end of the string that begins at `text`, its closing quote. The text is valid JSON. */
static const char *find_quote(const char *text) {
  const char *at = text + 1;
  while (*at && *at != '"') at += at[0] == '\\' && at[1] ? 2 : 1;
  return at;
}

static bool is_name(const char *text, const char *quote, const char *name, size_t length) {
  const char *after = quote + (*quote != '\0');
  after += strspn(after, " \t\r\n");
  return *after == ':' && (size_t)(quote - text - 1) == length && !strncmp(text + 1, name, length);
}

/* The line of a key, from 1; 0 when it is not there. "a.b" is key b of the object of key a. */
static int find_line(const char *json, const char *key) {
  int line = 1, depth = 0, wanted = 1;
  size_t length = strcspn(key, ".");
  for (const char *at = json; *at; at++) {
    if (*at == '\n') line++;
    depth += (*at == '{') - (*at == '}');
    if (*at != '"') continue;
    const char *quote = find_quote(at);
    if (depth == wanted && is_name(at, quote, key, length)) {
      if (!key[length]) return line;
      key += length + 1;
      length = strcspn(key, ".");
      wanted++;
    }
    if (!*quote) return 0;
    at = quote;
  }
  return 0;
}

static bool has_keys(const struct params *deck) { return deck && !deck->model.config; }

/* Where the deck gives a key; model_type, which brings all others, stands for one that it does not give. */
static const char *find_in_deck(const struct params *deck, const char *key) {
  const struct param_row *row = param_find("model", key);
  const char *place = row ? deck->sources[row - param_rows].text : NULL;
  return place ? place : deck->sources[PARAM_model_model_type].text;
}

/* "deck.yml:3:5: 'model.", "config.json:7: '" or "plan.h5: '"; owned by the caller. */
static char *describe_place(const struct config_source *source, const char *key) {
  if (has_keys(source->deck)) {
    const char *place = find_in_deck(source->deck, key);
    return mem_format("%s: '%s", place ? place : source->name, param_find("model", key) ? "model." : "");
  }
  int line = source->deck ? find_line(source->json, key) : 0;
  return line ? mem_format("%s:%d: '", source->name, line) : mem_format("%s: '", source->name);
}

int config_refuse(const struct config_source *source, const char *key, const char *format, ...) {
  char more[512], *place = describe_place(source, key);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(more, sizeof more, format, arguments);
  va_end(arguments);
  bool outside = has_keys(source->deck) && !param_find("model", key);
  int status = error_raise(STATUS_MISTAKE, "%s%s' %s%s", place, key, more,
                           outside ? " (it is a key of config.json alone: see model.config)" : "");
  mem_free(place);
  return status;
}
