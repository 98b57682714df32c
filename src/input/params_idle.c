#include "input/params_idle.h"

#include <string.h>

#include "base/mem.h"
#include "input/param_table.h"
#include "input/param_value.h"

static const char *const conditions[PARAM_COUNT] = {
#define ACTS(section, key, condition, when) [PARAM_##section##_##key] = when,
#include "input/params.def"
};

const char *params_get_condition(enum param_id id) { return conditions[id]; }

#define ACTS(section, key, condition, when)                                                                            \
  static bool acts_##section##_##key(const struct params *p) { return condition; }
#include "input/params.def"

static bool (*const acts[PARAM_COUNT])(const struct params *p) = {
#define ACTS(section, key, condition, when) [PARAM_##section##_##key] = acts_##section##_##key,
#include "input/params.def"
};

/* Returns true when a value is the key's default: nobody expects an effect of that. */
static bool is_default(const struct params *params, const struct params *standard, enum param_id id) {
  const struct param_row *row = &param_rows[id];
  if (!params_is_set(standard, id)) return false;
  char *value = param_value_format(row, param_read(params, row)),
       *other = param_value_format(row, param_read(standard, row));
  bool same = !strcmp(value, other);
  mem_free(value);
  mem_free(other);
  return same;
}

/* Checkpoints that are kept for good are among those that are written. */
static char *add_kept(const struct params *params, char *text) {
  int64_t keep = params->run.keep_every, every = params->run.checkpoint_every, both = every;
  if (!params_is_given(params, PARAM_run_keep_every) || keep <= 0 || every <= 0 || keep % every == 0) return text;
  while (both % keep) both += every;
  char *longer =
      mem_format("%s%s: 'run.keep_every' is no multiple of run.checkpoint_every, which is %lld: of the steps "
                 "that have a checkpoint only the multiples of %lld are kept for good\n",
                 text, params->sources[PARAM_run_keep_every].text, (long long)every, (long long)both);
  mem_free(text);
  return longer;
}

char *params_list_idle(const struct params *params) {
  char *text = mem_strdup("");
  struct params standard;
  if (params_parse(NULL, NULL, 0, &standard)) return text;
  for (int id = 0; id < PARAM_COUNT; id++) {
    enum param_id key = (enum param_id)id;
    if (!params_is_given(params, key) || !acts[key] || acts[key](params) || is_default(params, &standard, key))
      continue;
    char *longer = mem_format("%s%s: '%s.%s' has no effect here: it acts only %s\n", text, params->sources[id].text,
                              param_rows[id].section, param_rows[id].key, conditions[id]);
    mem_free(text);
    text = longer;
  }
  params_fini(&standard);
  return add_kept(params, text);
}
