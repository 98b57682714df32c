/* Parsers of single values. */
#include "input/param_parse.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "input/suggest.h"
#include "input/units.h"

static bool check_range(const struct param_input *in, double value) {
  struct param_range range = param_get_range(in->row);
  return param_range_contains(&range, value) || param_refuse(in, "is %s, out of range", in->node->text);
}

bool param_parse_bool(const struct param_input *in, void *value) {
  static const char *const words[2][4] = {{"false", "no", "off", NULL}, {"true", "yes", "on", NULL}};
  const char *text = param_get_scalar(in, false);
  if (!text) return false;
  for (int truth = 0; truth < 2; truth++)
    for (int i = 0; words[truth][i]; i++) {
      /* YAML has these words in lower case, upper case, and with one capital. */
      const char *word = words[truth][i];
      char upper[8], capital[8];
      snprintf(upper, sizeof upper, "%s", word);
      for (char *c = upper; *c; c++) *c = (char)(*c - 'a' + 'A');
      snprintf(capital, sizeof capital, "%c%s", upper[0], word + 1);
      if (strcmp(text, word) && strcmp(text, upper) && strcmp(text, capital)) continue;
      *(bool *)value = truth == 1;
      return true;
    }
  return param_refuse(in, "is '%s'", text);
}

char *param_format_bool(const struct param_row *row, const void *value) {
  (void)row;
  return mem_strdup(*(const bool *)value ? "true" : "false");
}

static bool begins_with_number(const char *text) {
  char *rest;
  strtod(text, &rest);
  return rest != text && *rest;
}

bool param_parse_int(const struct param_input *in, void *value) {
  const char *text = param_get_scalar(in, false);
  if (!text) return false;
  const char *digits = text + (*text == '-' || *text == '+');
  if (!*digits || digits[strspn(digits, "0123456789")])
    return param_refuse(in,
                        begins_with_number(text) && strspn(digits, "0123456789.eE+-") != strlen(digits)
                            ? "is '%s', not a number alone: it takes no unit"
                            : "is '%s', not written in digits",
                        text);
  if (digits[0] == '0' && digits[1]) return param_refuse(in, "is '%s', which begins with a zero", text);
  errno = 0;
  long long number = strtoll(text, NULL, 10);
  if (errno) return param_refuse(in, "is %s, which does not fit 64 bits", text);
  if (!check_range(in, (double)number)) return false;
  *(int64_t *)value = number;
  return true;
}

char *param_format_int(const struct param_row *row, const void *value) {
  (void)row;
  return mem_format("%lld", (long long)*(const int64_t *)value);
}

bool param_parse_float(const struct param_input *in, void *value) {
  const char *text = param_get_scalar(in, false);
  if (!text) return false;
  char *rest;
  double number = strtod(text, &rest);
  bool plain = strspn(text, "0123456789.eE+-") == strlen(text);
  if (!plain || rest == text || *rest)
    return param_refuse(
        in, begins_with_number(text) && !plain ? "is '%s', not a number alone: it takes no unit" : "is '%s'", text);
  if (!isfinite(number)) return param_refuse(in, "is %s, which is too large", text);
  if (number == 0 && strpbrk(text, "123456789") && strcspn(text, "123456789") < strcspn(text, "eE"))
    return param_refuse(in, "is %s, which is too small to be told from 0", text);
  if (!check_range(in, number)) return false;
  *(double *)value = number;
  return true;
}

char *param_format_float(const struct param_row *row, const void *value) {
  (void)row;
  return units_format_double(*(const double *)value);
}

static bool is_auto(const struct param_input *in) {
  const struct deck_node *node = in->node;
  return node->kind == DECK_SCALAR && !node->quoted && !strcmp(node->text, "auto");
}

bool param_parse_auto_int(const struct param_input *in, void *value) {
  if (!is_auto(in)) return param_parse_int(in, value);
  *(int64_t *)value = PARAMS_AUTO;
  return true;
}

char *param_format_auto_int(const struct param_row *row, const void *value) {
  return *(const int64_t *)value < 0 ? mem_strdup("auto") : param_format_int(row, value);
}

bool param_parse_auto_float(const struct param_input *in, void *value) {
  if (!is_auto(in)) return param_parse_float(in, value);
  *(double *)value = PARAMS_AUTO;
  return true;
}

char *param_format_auto_float(const struct param_row *row, const void *value) {
  return *(const double *)value < 0 ? mem_strdup("auto") : param_format_float(row, value);
}

bool param_parse_text(const struct param_input *in, char **text) {
  const char *given = param_get_scalar(in, true);
  if (!given) return false;
  if (!given[0]) return param_refuse(in, "is empty");
  for (const char *c = given; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127)
      return param_refuse(in, "holds a line break or another control character");
  *text = mem_strdup(given);
  return true;
}

bool param_parse_string(const struct param_input *in, void *value) {
  char *text = NULL;
  if (!param_parse_text(in, &text)) return false;
  mem_free(*(char **)value);
  *(char **)value = text;
  return true;
}

bool param_parse_deck_path(const struct param_input *in, void *value) {
  char *text = NULL;
  if (!param_parse_text(in, &text)) return false;
  const char *file = in->node->place.file, *slash = file ? strrchr(file, '/') : NULL;
  mem_free(*(char **)value);
  *(char **)value =
      text[0] == '/' || !slash ? mem_strdup(text) : mem_format("%.*s/%s", (int)(slash - file), file, text);
  mem_free(text);
  return true;
}

char *param_value_quote(const char *text) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./";
  static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "null", "y", "n", NULL};
  bool plain = text[0] && !strchr("-+0123456789", text[0]) && text[strspn(text, safe)] == '\0';
  for (int i = 0; words[i]; i++) plain = plain && strcasecmp(text, words[i]);
  if (plain && text[0] == '.') plain = text[1] == '/' || text[1] == '.';
  if (plain) return mem_strdup(text);
  size_t n = 0;
  char *quoted = mem_alloc(2 * strlen(text) + 3);
  quoted[n++] = '\'';
  for (; *text; text++) {
    if (*text == '\'') quoted[n++] = '\'';
    quoted[n++] = *text;
  }
  quoted[n] = '\'';
  return quoted;
}

char *param_format_string(const struct param_row *row, const void *value) {
  (void)row;
  return param_value_quote(*(char *const *)value);
}

void param_clear_string(void *value) { mem_free(*(char **)value); }

bool param_parse_choice(const struct param_input *in, void *value) {
  const char *text = param_get_scalar(in, true);
  if (!text) return false;
  struct suggestion best = {0};
  for (const struct param_choice *choice = param_choices; choice->set; choice++) {
    if (strcmp(choice->set, in->row->range)) continue;
    if (!strcmp(choice->text, text)) {
      if (choice->value < 0) return param_refuse(in, "is '%s', which is not available in this version", text);
      *(int *)value = choice->value;
      return true;
    }
    suggest_offer(&best, text, choice->text, choice->text);
  }
  if (best.word) return param_refuse(in, "is '%s' (did you mean '%s'?)", text, best.word);
  return param_refuse(in, "is '%s'", text);
}

char *param_format_choice(const struct param_row *row, const void *value) {
  for (const struct param_choice *choice = param_choices; choice->set; choice++)
    if (!strcmp(choice->set, row->range) && choice->value == *(const int *)value)
      return param_value_quote(choice->text);
  return mem_strdup("");
}

bool param_parse_size(const struct param_input *in, void *value) {
  const char *text = param_get_scalar(in, true);
  int64_t bytes;
  if (!text) return false;
  enum units_fault fault = units_parse_size(text, &bytes);
  if (fault) {
    char *problem = units_explain_size(fault, text);
    param_refuse(in, "is '%s', which %s", text, problem);
    mem_free(problem);
    return false;
  }
  if (!check_range(in, (double)bytes)) return false;
  *(int64_t *)value = bytes;
  return true;
}

char *param_format_size(const struct param_row *row, const void *value) {
  (void)row;
  return units_format_size(*(const int64_t *)value);
}

bool param_parse_duration(const struct param_input *in, void *value) {
  const char *text = param_get_scalar(in, true);
  double seconds;
  if (!text) return false;
  enum units_fault fault = units_parse_duration(text, &seconds);
  if (fault) {
    char *problem = units_explain_duration(fault, text);
    param_refuse(in, "is '%s', which %s", text, problem);
    mem_free(problem);
    return false;
  }
  if (!check_range(in, seconds)) return false;
  *(double *)value = seconds;
  return true;
}

char *param_format_duration(const struct param_row *row, const void *value) {
  (void)row;
  return *(const double *)value == 0 ? mem_strdup("0") : units_format_duration(*(const double *)value);
}
