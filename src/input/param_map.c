/* Parsers of maps of numbers: factors of ranks, times by hand, links. */
#include "input/param_parse.h"

#include <string.h>

#include "base/mem.h"
#include "input/suggest.h"
#include "input/units.h"

static struct param_input part_of(const struct param_input *in, const struct deck_node *node) {
  struct param_input part = *in;
  part.node = node;
  return part;
}

static bool check_map(const struct param_input *in) {
  if (in->node->kind != DECK_MAP) return param_refuse(in, "is not a map");
  return in->node->n > 0 || param_refuse(in, "is empty");
}

/* Adds "NAME: VALUE" to an open map; frees `text` and `value`. */
static char *append_pair(char *text, const char *name, char *value) {
  char *longer = mem_format("%s%s%s: %s", text, text[1] ? ", " : "", name, value);
  mem_free(text);
  mem_free(value);
  return longer;
}

static char *close_map(char *text) {
  char *closed = mem_format("%s}", text);
  mem_free(text);
  return closed;
}

/* ---- factors of ranks ---- */

void param_clear_rank_factors(void *value) {
  struct params_rank_factors *list = value;
  mem_free(list->ranks);
  mem_free(list->factors);
}

/* Inserts, ascending by rank. */
static bool add_factor(const struct param_input *in, const struct deck_node *key, const struct deck_node *item,
                       struct params_rank_factors *list) {
  struct param_input part = part_of(in, key), part_factor = part_of(in, item);
  int64_t rank = param_parse_rank(&part), i = list->n;
  double factor;
  if (rank < 0 || !param_parse_float(&part_factor, &factor)) return false;
  list->ranks = mem_resize(list->ranks, sizeof *list->ranks * (size_t)(list->n + 1));
  list->factors = mem_resize(list->factors, sizeof *list->factors * (size_t)(list->n + 1));
  list->n++;
  for (; i > 0 && list->ranks[i - 1] > rank; i--) {
    list->ranks[i] = list->ranks[i - 1];
    list->factors[i] = list->factors[i - 1];
  }
  list->ranks[i] = rank;
  list->factors[i] = factor;
  return i == 0 || list->ranks[i - 1] != rank || param_refuse(&part, "names rank %lld twice", (long long)rank);
}

bool param_parse_rank_factors(const struct param_input *in, void *value) {
  struct params_rank_factors list = {0};
  bool good = check_map(in);
  for (int64_t i = 0; good && i < in->node->n; i++)
    good = add_factor(in, &in->node->keys[i], &in->node->items[i], &list);
  if (!good) {
    param_clear_rank_factors(&list);
    return false;
  }
  param_clear_rank_factors(value);
  *(struct params_rank_factors *)value = list;
  return true;
}

char *param_format_rank_factors(const struct param_row *row, const void *value) {
  const struct params_rank_factors *list = value;
  (void)row;
  char *text = mem_strdup("{");
  for (int64_t i = 0; i < list->n; i++) {
    char *rank = mem_format("%lld", (long long)list->ranks[i]);
    text = append_pair(text, rank, units_format_double(list->factors[i]));
    mem_free(rank);
  }
  return close_map(text);
}

/* ---- maps whose keys are known ---- */

/* Place of a key among the names (NULL-terminated), or -1 after a message. */
static int find_name(const struct param_input *in, const struct deck_node *key, const char *const *names) {
  struct param_input part = part_of(in, key);
  for (int i = 0; names[i]; i++)
    if (!strcmp(key->text, names[i])) return i;
  const char *near = suggest_find(key->text, names);
  param_refuse(&part, "has no '%s'%s%s%s", key->text, near ? " (did you mean '" : "", near ? near : "",
               near ? "'?)" : "");
  return -1;
}

#define X(key) #key,
static const char *const time_names[] = {PARAMS_TIMES(X) NULL};
static const char *const link_names[] = {PARAMS_LINK_KEYS(X) NULL};
#undef X

void param_clear_uniform(void *value) {
  struct params_uniform *uniform = value;
  for (int t = 0; t < PARAMS_TIME_COUNT; t++) mem_free(uniform->times[t].ms);
}

static bool read_time(const struct param_input *in, const struct deck_node *item, struct params_uniform_time *time) {
  struct param_input part = part_of(in, item);
  time->by_rank = item->kind == DECK_LIST;
  time->n = time->by_rank ? item->n : 1;
  if (time->n == 0) return param_refuse(&part, "has an empty list");
  time->ms = MEM_NEW(double, time->n);
  for (int64_t i = 0; i < time->n; i++) {
    if (time->by_rank) part.node = &item->items[i];
    if (!param_parse_float(&part, &time->ms[i])) return false;
  }
  return true;
}

bool param_parse_uniform(const struct param_input *in, void *value) {
  struct params_uniform uniform = {0};
  bool good = check_map(in);
  for (int64_t i = 0; good && i < in->node->n; i++) {
    struct param_input part = part_of(in, &in->node->keys[i]);
    int t = find_name(in, part.node, time_names);
    good = t >= 0 && read_time(in, &in->node->items[i], &uniform.times[t]);
  }
  if (!good) {
    param_clear_uniform(&uniform);
    return false;
  }
  param_clear_uniform(value);
  *(struct params_uniform *)value = uniform;
  return true;
}

static char *format_time(const struct params_uniform_time *time) {
  char *text = mem_strdup("");
  for (int64_t i = 0; i < time->n; i++) {
    char *number = units_format_double(time->ms[i]);
    char *longer = mem_format("%s%s%s", text, i ? ", " : "", number);
    mem_free(number);
    mem_free(text);
    text = longer;
  }
  if (!time->by_rank) return text;
  char *list = mem_format("[%s]", text);
  mem_free(text);
  return list;
}

char *param_format_uniform(const struct param_row *row, const void *value) {
  const struct params_uniform *uniform = value;
  (void)row;
  char *text = mem_strdup("{");
  for (int t = 0; t < PARAMS_TIME_COUNT; t++)
    if (uniform->times[t].n) text = append_pair(text, time_names[t], format_time(&uniform->times[t]));
  return close_map(text);
}

static bool parse_link(const struct param_input *in, const char *const *names, void *value) {
  struct params_link link = {0};
  if (!check_map(in)) return false;
  for (int64_t i = 0; i < in->node->n; i++) {
    struct param_input part = part_of(in, &in->node->items[i]);
    int k = find_name(in, &in->node->keys[i], names);
    if (k < 0 || !param_parse_float(&part, &link.values[k])) return false;
    bool rate = k == PARAMS_LINK_gb_per_s || k == PARAMS_LINK_node_gb_per_s;
    if (rate && link.values[k] == 0) return param_refuse(&part, "has %s 0: nothing would ever arrive", names[k]);
    link.given[k] = true;
  }
  *(struct params_link *)value = link;
  return true;
}

bool param_parse_link(const struct param_input *in, void *value) { return parse_link(in, link_names, value); }

/* Parses the keys of one way of a link, without those of nodes. */
bool param_parse_way(const struct param_input *in, void *value) {
  static const char *const names[] = {
      [PARAMS_LINK_latency_us] = "latency_us", [PARAMS_LINK_gb_per_s] = "gb_per_s", NULL};
  return parse_link(in, names, value);
}

char *param_format_link(const struct param_row *row, const void *value) {
  const struct params_link *link = value;
  (void)row;
  char *text = mem_strdup("{");
  for (int k = 0; k < PARAMS_LINK_COUNT; k++)
    if (link->given[k]) text = append_pair(text, link_names[k], units_format_double(link->values[k]));
  return close_map(text);
}

char *param_format_way(const struct param_row *row, const void *value) { return param_format_link(row, value); }
