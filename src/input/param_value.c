#include "input/param_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "input/param_parse.h"

bool param_refuse(const struct param_input *in, const char *format, ...) {
  char problem[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(problem, sizeof problem, format, arguments);
  va_end(arguments);
  char *place = deck_place_format(&in->node->place, in->where), *allowed = param_describe(in->row);
  mistakes_add(in->mistakes, "%s: '%s.%s' %s; allowed: %s", place, in->row->section, in->row->key, problem, allowed);
  mem_free(place);
  mem_free(allowed);
  return false;
}

const char *param_get_scalar(const struct param_input *in, bool may_be_quoted) {
  const struct deck_node *node = in->node;
  if (node->kind != DECK_SCALAR) {
    param_refuse(in, "is a %s", node->kind == DECK_LIST ? "list" : "map");
    return NULL;
  }
  if (!node->quoted && (!node->text[0] || !strcmp(node->text, "~") || !strcmp(node->text, "null"))) {
    param_refuse(in, "has no value (leave the key out to get its default)");
    return NULL;
  }
  if (node->quoted && !may_be_quoted) {
    param_refuse(in, "is the text '%s' in quotes", node->text);
    return NULL;
  }
  return node->text;
}

static const struct {
  bool (*parse)(const struct param_input *in, void *value);
  char *(*format)(const struct param_row *row, const void *value);
  void (*clear)(void *value);
  size_t bytes;
} types[PARAM_TYPE_COUNT] = {
    [PARAM_BOOL] = {param_parse_bool, param_format_bool, NULL, sizeof(param_BOOL)},
    [PARAM_INT] = {param_parse_int, param_format_int, NULL, sizeof(param_INT)},
    [PARAM_FLOAT] = {param_parse_float, param_format_float, NULL, sizeof(param_FLOAT)},
    [PARAM_AUTO_INT] = {param_parse_auto_int, param_format_auto_int, NULL, sizeof(param_AUTO_INT)},
    [PARAM_AUTO_FLOAT] = {param_parse_auto_float, param_format_auto_float, NULL, sizeof(param_AUTO_FLOAT)},
    [PARAM_STRING] = {param_parse_string, param_format_string, param_clear_string, sizeof(param_STRING)},
    [PARAM_PATH] = {param_parse_string, param_format_string, param_clear_string, sizeof(param_PATH)},
    [PARAM_DECK_PATH] = {param_parse_deck_path, param_format_string, param_clear_string, sizeof(param_DECK_PATH)},
    [PARAM_CHOICE] = {param_parse_choice, param_format_choice, NULL, sizeof(param_CHOICE)},
    [PARAM_SIZE] = {param_parse_size, param_format_size, NULL, sizeof(param_SIZE)},
    [PARAM_DURATION] = {param_parse_duration, param_format_duration, NULL, sizeof(param_DURATION)},
    [PARAM_PAIR] = {param_parse_pair, param_format_pair, NULL, sizeof(param_PAIR)},
    [PARAM_MIX] = {param_parse_mix, param_format_mix, param_clear_mix, sizeof(param_MIX)},
    [PARAM_RANK_SIZES] = {param_parse_rank_sizes, param_format_rank_sizes, param_clear_rank_sizes,
                          sizeof(param_RANK_SIZES)},
    [PARAM_RANK_FACTORS] = {param_parse_rank_factors, param_format_rank_factors, param_clear_rank_factors,
                            sizeof(param_RANK_FACTORS)},
    [PARAM_UNIFORM] = {param_parse_uniform, param_format_uniform, param_clear_uniform, sizeof(param_UNIFORM)},
    [PARAM_LINK] = {param_parse_link, param_format_link, NULL, sizeof(param_LINK)},
    [PARAM_WAY] = {param_parse_way, param_format_way, NULL, sizeof(param_WAY)},
    [PARAM_PARTITION] = {param_parse_partition, param_format_partition, param_clear_partition, sizeof(param_PARTITION)},
    [PARAM_RECOMPUTE] = {param_parse_recompute, param_format_recompute, param_clear_recompute, sizeof(param_RECOMPUTE)},
    [PARAM_STAGES] = {param_parse_stages, param_format_stages, param_clear_stages, sizeof(param_STAGES)},
};

bool param_value_parse(const struct param_row *row, const struct deck_node *node, const char *where, void *value,
                       struct mistakes *mistakes) {
  const struct param_input in = {row, node, where, mistakes};
  return !node->broken && types[row->type].parse(&in, value);
}

char *param_value_format(const struct param_row *row, const void *value) { return types[row->type].format(row, value); }

void param_value_clear(const struct param_row *row, void *value) {
  if (types[row->type].clear) types[row->type].clear(value);
  memset(value, 0, types[row->type].bytes);
}

/* Length of the character that begins here, 0 when it is none that YAML has. */
static size_t measure_character(const unsigned char *text) {
  if (*text < 0x80) return *text >= ' ' && *text != 0x7f;
  size_t n = *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : 2;
  if (*text < 0xc2 || *text > 0xf4) return 0;
  unsigned long code = *text & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (text[i] & 0x3f);
  }
  static const unsigned long least[] = {0, 0, 0xa0, 0x800, 0x10000};
  bool surrogate = code >= 0xd800 && code < 0xe000, special = code == 0xfeff || code == 0xfffe || code == 0xffff;
  return code >= least[n] && code < 0x110000 && !surrogate && !special ? n : 0;
}

void param_value_make_printable(char *text) {
  for (size_t n; *text; text += n) {
    n = measure_character((unsigned char *)text);
    if (n) continue;
    *text = '_';
    n = 1;
  }
}
