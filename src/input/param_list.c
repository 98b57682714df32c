/* Parsers of lists and maps. */
#include "input/param_parse.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "input/units.h"

static struct param_input part_of(const struct param_input *in, const struct deck_node *node) {
  struct param_input part = *in;
  part.node = node;
  return part;
}

bool param_parse_pair(const struct param_input *in, void *value) {
  double numbers[2] = {0};
  if (in->node->kind != DECK_LIST || in->node->n != 2) {
    if (in->node->kind == DECK_LIST) return param_refuse(in, "is a list of %lld", (long long)in->node->n);
    return param_refuse(in, "is not a list");
  }
  for (int i = 0; i < 2; i++) {
    struct param_input part = part_of(in, &in->node->items[i]);
    if (!param_parse_float(&part, &numbers[i])) return false;
  }
  *(struct params_pair *)value = (struct params_pair){numbers[0], numbers[1]};
  return true;
}

char *param_format_pair(const struct param_row *row, const void *value) {
  const struct params_pair *pair = value;
  (void)row;
  char *first = units_format_double(pair->first), *second = units_format_double(pair->second);
  char *text = mem_format("[%s, %s]", first, second);
  mem_free(first);
  mem_free(second);
  return text;
}

void param_clear_mix(void *value) {
  struct params_mix *mix = value;
  for (int64_t i = 0; i < mix->n; i++) mem_free(mix->prefixes[i]);
  mem_free(mix->prefixes);
  mem_free(mix->weights);
}

/* Adds one prefix; weight NULL: none. */
static bool add_prefix(const struct param_input *in, const struct deck_node *name, const struct deck_node *weight,
                       struct params_mix *mix) {
  struct param_input part = part_of(in, name);
  char *prefix = NULL;
  double number = 0;
  if (!param_parse_text(&part, &prefix)) return false;
  mix->prefixes = mem_resize(mix->prefixes, sizeof *mix->prefixes * (size_t)(mix->n + 1));
  mix->weights = mem_resize(mix->weights, sizeof *mix->weights * (size_t)(mix->n + 1));
  mix->prefixes[mix->n++] = prefix;
  for (int64_t i = 0; i < mix->n - 1; i++)
    if (!strcmp(mix->prefixes[i], prefix)) return param_refuse(&part, "names '%s' twice", prefix);
  if (weight) {
    struct param_input part_weight = part_of(in, weight);
    if (!param_parse_float(&part_weight, &number)) return false;
    if (number <= 0)
      return param_refuse(&part_weight, "gives '%s' the weight %s; weights are above 0", prefix, weight->text);
  }
  mix->weights[mix->n - 1] = number;
  return true;
}

/* An item of a list: a prefix, or a map of one prefix to its weight. */
static bool add_item(const struct param_input *in, const struct deck_node *item, struct params_mix *mix) {
  if (item->kind != DECK_MAP) return add_prefix(in, item, NULL, mix);
  for (int64_t i = 0; i < item->n; i++)
    if (!add_prefix(in, &item->keys[i], &item->items[i], mix)) return false;
  return true;
}

static bool fill_mix(const struct param_input *in, struct params_mix *mix) {
  if (in->node->kind == DECK_LIST) {
    for (int64_t i = 0; i < in->node->n; i++)
      if (!add_item(in, &in->node->items[i], mix)) return false;
  } else if (!add_item(in, in->node, mix))
    return false;
  if (!mix->n) return param_refuse(in, "is empty");
  int64_t n_weights = 0;
  for (int64_t i = 0; i < mix->n; i++) n_weights += mix->weights[i] > 0;
  if (n_weights && n_weights < mix->n) return param_refuse(in, "gives weights to some files and not to others");
  if (n_weights) return true;
  mem_free(mix->weights);
  mix->weights = NULL;
  return true;
}

bool param_parse_mix(const struct param_input *in, void *value) {
  struct params_mix mix = {0};
  if (!fill_mix(in, &mix)) {
    param_clear_mix(&mix);
    return false;
  }
  param_clear_mix(value);
  *(struct params_mix *)value = mix;
  return true;
}

/* Joins `text` (freed) and "%s%s%s%s". */
static char *append(char *text, const char *separator, const char *a, const char *b, const char *c) {
  char *longer = mem_format("%s%s%s%s%s", text, text[1] ? separator : "", a, b, c);
  mem_free(text);
  return longer;
}

char *param_format_mix(const struct param_row *row, const void *value) {
  const struct params_mix *mix = value;
  (void)row;
  char *text = mem_strdup(mix->weights ? "{" : "[");
  for (int64_t i = 0; i < mix->n; i++) {
    char *prefix = param_value_quote(mix->prefixes[i]);
    char *weight = mix->weights ? units_format_double(mix->weights[i]) : mem_strdup("");
    text = append(text, ", ", prefix, mix->weights ? ": " : "", weight);
    mem_free(prefix);
    mem_free(weight);
  }
  char *closed = mem_format("%s%s", text, mix->weights ? "}" : "]");
  mem_free(text);
  return closed;
}

void param_clear_rank_sizes(void *value) {
  struct params_rank_sizes *sizes = value;
  mem_free(sizes->ranks);
  mem_free(sizes->bytes);
}

int64_t param_parse_rank(const struct param_input *in) {
  const struct deck_node *key = in->node;
  int64_t rank = -1;
  errno = 0;
  bool digits = key->kind == DECK_SCALAR && key->text[0] && !key->text[strspn(key->text, "0123456789")];
  if (digits && (key->text[0] != '0' || !key->text[1])) rank = strtoll(key->text, NULL, 10);
  if (rank >= 0 && !errno) return rank;
  param_refuse(in, "has '%s' where a rank should be", key->kind == DECK_SCALAR ? key->text : "a list");
  return -1;
}

/* Inserts, ascending by rank. */
static bool add_rank(const struct param_input *in, const struct deck_node *key, const struct deck_node *item,
                     struct params_rank_sizes *sizes) {
  struct param_input part = part_of(in, key), part_size = part_of(in, item);
  int64_t rank = param_parse_rank(&part), bytes;
  if (rank < 0) return false;
  if (!param_parse_size(&part_size, &bytes)) return false;
  sizes->ranks = mem_resize(sizes->ranks, sizeof *sizes->ranks * (size_t)(sizes->n + 1));
  sizes->bytes = mem_resize(sizes->bytes, sizeof *sizes->bytes * (size_t)(sizes->n + 1));
  int64_t i = sizes->n++;
  for (; i > 0 && sizes->ranks[i - 1] > rank; i--) {
    sizes->ranks[i] = sizes->ranks[i - 1];
    sizes->bytes[i] = sizes->bytes[i - 1];
  }
  sizes->ranks[i] = rank;
  sizes->bytes[i] = bytes;
  return i == 0 || sizes->ranks[i - 1] != rank || param_refuse(&part, "names rank %lld twice", (long long)rank);
}

bool param_parse_rank_sizes(const struct param_input *in, void *value) {
  struct params_rank_sizes sizes = {0};
  bool good = in->node->kind == DECK_MAP || param_refuse(in, "is not a map");
  if (good && !in->node->n) good = param_refuse(in, "is empty");
  for (int64_t i = 0; good && i < in->node->n; i++)
    good = add_rank(in, &in->node->keys[i], &in->node->items[i], &sizes);
  if (!good) {
    param_clear_rank_sizes(&sizes);
    return false;
  }
  param_clear_rank_sizes(value);
  *(struct params_rank_sizes *)value = sizes;
  return true;
}

char *param_format_rank_sizes(const struct param_row *row, const void *value) {
  const struct params_rank_sizes *sizes = value;
  (void)row;
  char *text = mem_strdup("{");
  for (int64_t i = 0; i < sizes->n; i++) {
    char *rank = mem_format("%lld", (long long)sizes->ranks[i]), *size = units_format_size(sizes->bytes[i]);
    text = append(text, ", ", rank, ": ", size);
    mem_free(rank);
    mem_free(size);
  }
  char *closed = mem_format("%s}", text);
  mem_free(text);
  return closed;
}

void param_clear_partition(void *value) { mem_free((double *)((struct params_partition *)value)->blocks); }

static bool fill_blocks(const struct param_input *in, double *blocks) {
  int64_t n = in->node->n;
  for (int64_t i = 0; i < n; i++) {
    struct param_input part = part_of(in, &in->node->items[i]);
    if (!param_parse_float(&part, &blocks[i])) return false;
    if (blocks[i] * 2 != floor(blocks[i] * 2) || blocks[i] > 1e6)
      return param_refuse(&part, "has %s: a stage has whole blocks or halves", part.node->text);
    if (blocks[i] == 0 && i > 0 && i < n - 1) return param_refuse(&part, "has 0 for stage %lld", (long long)i);
  }
  return true;
}

bool param_parse_partition(const struct param_input *in, void *value) {
  struct params_partition cut = {0};
  if (in->node->kind == DECK_LIST) {
    if (!in->node->n) return param_refuse(in, "is empty");
    double *blocks = MEM_NEW(double, in->node->n);
    cut = (struct params_partition){PARAMS_CUT_LIST, blocks, in->node->n};
    if (!fill_blocks(in, blocks)) {
      mem_free(blocks);
      return false;
    }
  } else {
    const char *text = param_get_scalar(in, true);
    if (!text) return false;
    if (strcmp(text, "auto") && strcmp(text, "even")) return param_refuse(in, "is '%s'", text);
    cut.kind = !strcmp(text, "even") ? PARAMS_CUT_EVEN : PARAMS_CUT_AUTO;
  }
  param_clear_partition(value);
  *(struct params_partition *)value = cut;
  return true;
}

char *param_format_partition(const struct param_row *row, const void *value) {
  const struct params_partition *cut = value;
  (void)row;
  if (cut->kind != PARAMS_CUT_LIST) return mem_strdup(cut->kind == PARAMS_CUT_EVEN ? "even" : "auto");
  char *text = mem_strdup("[");
  for (int64_t i = 0; i < cut->n; i++) {
    char *blocks = units_format_double(cut->blocks[i]);
    text = append(text, ", ", blocks, "", "");
    mem_free(blocks);
  }
  char *closed = mem_format("%s]", text);
  mem_free(text);
  return closed;
}
