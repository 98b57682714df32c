#include "input/param_table.h"

#include "base/error.h"
#include "base/mem.h"
#include "input/units.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET(section, key) offsetof(struct params, section.key)

const struct param_row param_rows[PARAM_COUNT] = {
#define KEY(section, key, TYPE, standard, range, unit, BOND, help)                                                     \
  {#section, #key, PARAM_##TYPE, OFFSET(section, key), standard, range, unit, PARAM_##BOND, false, "", help},
#define MODEL_KEY(key, TYPE, family, range, help)                                                                      \
  {"model", #key,   PARAM_##TYPE, OFFSET(model, key), "<as in Hugging Face's configuration>", range, "", PARAM_FIXED,  \
   true,    family, help},
#include "input/params.def"
};

const struct param_section param_sections[] = {
#define SECTION_BEGIN(section, help) {#section, help},
#include "input/params.def"
    {NULL, NULL},
};

const struct param_choice param_choices[] = {
#define CHOICE(set, name, text, help) {#set, text, help, PARAMS_##name},
#define CHOICE_LATER(set, text) {#set, text, "", -1},
#include "input/params.def"
    {NULL, NULL, NULL, -1},
};

const struct param_later param_laters[] = {
#define LATER(section, key, value) {#section, #key, value},
#define LATER_SECTION(section) {#section, "", ""},
#include "input/params.def"
    {NULL, NULL, NULL},
};

const struct param_alias param_aliases[] = {
#define ALIAS(section, word, key) {#section, word, #key},
#include "input/params.def"
    {NULL, NULL, NULL},
};

struct param_range param_get_range(const struct param_row *row) {
  struct param_range range = {-INFINITY, INFINITY, true, true};
  if (!row->range[0] || param_has_choices(row)) return range;
  char *rest;
  range.low_open = row->range[0] == '(';
  range.low = strtod(row->range + 1, &rest);
  range.high = strtod(rest + 1, &rest);
  range.high_open = *rest == ')';
  CHECK((*rest == ')' || *rest == ']') && !rest[1], "params.def: range '%s' of %s.%s", row->range, row->section,
        row->key);
  return range;
}

bool param_range_contains(const struct param_range *range, double value) {
  bool above = range->low_open ? value > range->low : value >= range->low;
  bool below = range->high_open ? value < range->high : value <= range->high;
  return above && below;
}

const struct param_row *param_find(const char *section, const char *key) {
  for (int i = 0; i < PARAM_COUNT; i++)
    if (!strcmp(param_rows[i].section, section) && !strcmp(param_rows[i].key, key)) return &param_rows[i];
  return NULL;
}

bool param_has_choices(const struct param_row *row) {
  return row->type == PARAM_CHOICE || row->type == PARAM_RECOMPUTE;
}

bool param_has_standard(const struct param_row *row) { return row->standard[0] != '<'; }

static char *format_bound(const struct param_row *row, double bound) {
  if (row->type == PARAM_SIZE || row->type == PARAM_RANK_SIZES) return units_format_size((int64_t)bound);
  if (row->type == PARAM_DURATION) return bound == 0 ? mem_strdup("0") : units_format_duration(bound);
  if (row->type == PARAM_INT || row->type == PARAM_AUTO_INT) return mem_format("%lld", (long long)bound);
  return units_format_double(bound);
}

/* ", 1 or more", ", above 0 and up to 1"; owned by the caller. */
static char *describe_range(const struct param_row *row) {
  struct param_range range = param_get_range(row);
  bool low = isfinite(range.low), high = isfinite(range.high);
  char *from = format_bound(row, low ? range.low : 0), *to = format_bound(row, high ? range.high : 0), *text;
  if (low && high)
    text =
        mem_format(", %s %s %s %s", range.low_open ? "above" : "from", from, range.high_open ? "to below" : "to", to);
  else if (low)
    text = mem_format(range.low_open ? ", above %s" : ", %s or more", from);
  else
    text = mem_strdup("");
  mem_free(from);
  mem_free(to);
  return text;
}

static char *describe_choices(const char *set) {
  char *text = mem_strdup("");
  for (const struct param_choice *choice = param_choices; choice->set; choice++) {
    if (strcmp(choice->set, set) || choice->value < 0) continue;
    char *longer = mem_format("%s%s%s", text, text[0] ? ", " : "", choice->text);
    mem_free(text);
    text = longer;
  }
  return text;
}

char *param_describe(const struct param_row *row) {
#define X(type, c_type, text) text,
  static const char *const names[] = {PARAM_TYPES(X)};
#undef X
  if (row->type == PARAM_CHOICE) return describe_choices(row->range);
  bool choices = param_has_choices(row);
  char *more = choices ? describe_choices(row->range) : describe_range(row);
  char *text = choices ? mem_format("%s, %s", more, names[row->type]) : mem_format("%s%s", names[row->type], more);
  mem_free(more);
  return text;
}

void *param_at(struct params *params, const struct param_row *row) { return (char *)params + row->offset; }

const void *param_read(const struct params *params, const struct param_row *row) {
  return (const char *)params + row->offset;
}
