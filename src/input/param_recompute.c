/* Parsers of what is recomputed, and where. */
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

/* Adds an item to an open list; frees both texts. */
static char *append_item(char *text, char *item) {
  char *longer = mem_format("%s%s%s", text, text[1] ? ", " : "", item);
  mem_free(text);
  mem_free(item);
  return longer;
}

static char *close_list(char *text) {
  char *closed = mem_format("%s]", text);
  mem_free(text);
  return closed;
}

/* ---- ops ---- */

void param_clear_recompute(void *value) {
  struct params_ops *ops = value;
  for (int64_t i = 0; i < ops->n; i++) mem_free(ops->names[i]);
  mem_free(ops->names);
}

static bool fill_ops(const struct param_input *in, struct params_ops *ops) {
  if (!in->node->n) return param_refuse(in, "is empty (none discards nothing)");
  ops->names = MEM_NEW(char *, in->node->n);
  for (int64_t i = 0; i < in->node->n; i++) {
    struct param_input part = part_of(in, &in->node->items[i]);
    if (!param_parse_text(&part, &ops->names[i])) return false;
    ops->n++;
    for (int64_t k = 0; k < i; k++)
      if (!strcmp(ops->names[k], ops->names[i])) return param_refuse(&part, "names '%s' twice", ops->names[i]);
  }
  return true;
}

bool param_parse_recompute(const struct param_input *in, void *value) {
  struct params_ops ops = {0};
  bool list = in->node->kind == DECK_LIST;
  if (list ? !fill_ops(in, &ops) : !param_parse_choice(in, &ops.set)) {
    param_clear_recompute(&ops);
    return false;
  }
  param_clear_recompute(value);
  *(struct params_ops *)value = ops;
  return true;
}

char *param_format_recompute(const struct param_row *row, const void *value) {
  const struct params_ops *ops = value;
  if (ops->n == 0) return param_format_choice(row, &ops->set);
  char *text = mem_strdup("[");
  for (int64_t i = 0; i < ops->n; i++) text = append_item(text, param_value_quote(ops->names[i]));
  return close_list(text);
}

/* ---- stages ---- */

void param_clear_stages(void *value) { mem_free(((struct params_stages *)value)->stages); }

/* A whole number that can be that of a stage. */
static bool read_number(const struct param_input *in, int64_t *number) {
  if (!param_parse_int(in, number)) return false;
  return (*number >= 0 && *number <= 1000000) || param_refuse(in, "is %s, out of range", in->node->text);
}

/* Inserts, ascending. */
static bool add_stage(const struct param_input *in, struct params_stages *list) {
  int64_t stage, i = list->n;
  if (!read_number(in, &stage)) return false;
  for (; i > 0 && list->stages[i - 1] > stage; i--) list->stages[i] = list->stages[i - 1];
  list->stages[i] = stage;
  list->n++;
  return i == 0 || list->stages[i - 1] != stage || param_refuse(in, "names stage %lld twice", (long long)stage);
}

static bool fill_stages(const struct param_input *in, struct params_stages *list) {
  if (!in->node->n) return param_refuse(in, "is empty");
  list->stages = MEM_NEW(int64_t, in->node->n);
  for (int64_t i = 0; i < in->node->n; i++) {
    struct param_input part = part_of(in, &in->node->items[i]);
    if (!add_stage(&part, list)) return false;
  }
  return true;
}

/* A word, or a number of stages. */
static bool read_scalar(const struct param_input *in, struct params_stages *stages) {
  const char *text = param_get_scalar(in, true);
  if (!text) return false;
  stages->kind = PARAMS_STAGES_AUTO;
  if (!strcmp(text, "auto")) return true;
  stages->kind = PARAMS_STAGES_ALL;
  if (!strcmp(text, "all")) return true;
  stages->kind = PARAMS_STAGES_FIRST;
  if (text[strspn(text, "0123456789")]) return param_refuse(in, "is '%s'", text);
  return read_number(in, &stages->n);
}

bool param_parse_stages(const struct param_input *in, void *value) {
  struct params_stages stages = {.kind = PARAMS_STAGES_LIST};
  bool list = in->node->kind == DECK_LIST;
  if (list ? !fill_stages(in, &stages) : !read_scalar(in, &stages)) {
    param_clear_stages(&stages);
    return false;
  }
  param_clear_stages(value);
  *(struct params_stages *)value = stages;
  return true;
}

char *param_format_stages(const struct param_row *row, const void *value) {
  const struct params_stages *stages = value;
  (void)row;
  if (stages->kind == PARAMS_STAGES_AUTO) return mem_strdup("auto");
  if (stages->kind == PARAMS_STAGES_ALL) return mem_strdup("all");
  if (stages->kind == PARAMS_STAGES_FIRST) return mem_format("%lld", (long long)stages->n);
  char *text = mem_strdup("[");
  for (int64_t i = 0; i < stages->n; i++) text = append_item(text, mem_format("%lld", (long long)stages->stages[i]));
  return close_list(text);
}
