/* Compares keys between the lives of a run and between the ranks of a job, as their rows say. */
#include "input/params_compare.h"
#include "base/error.h"
#include "base/mem.h"
#include "input/deck.h"
#include "input/mistakes.h"
#include "input/param_table.h"
#include "input/param_value.h"
#include "input/units.h"

#include <string.h>

/* Token files without their names, which say nothing of what is in them: how many there are, and their weights. */
static char *format_weights(const struct params_mix *mix) {
  char *text = mem_format("%lld file%s%s", (long long)mix->n, mix->n == 1 ? "" : "s", mix->weights ? " of weight" : "");
  for (int64_t i = 0; i < mix->n && mix->weights; i++) {
    char *weight = units_format_double(mix->weights[i]);
    char *longer = mem_format("%s%s %s", text, i ? "," : "", weight);
    mem_free(weight);
    mem_free(text);
    text = longer;
  }
  return text;
}

/* A text that is the same exactly when what the key is held to is; owned by the caller. */
static char *format_bond(const struct params *params, enum param_id id) {
  const struct param_row *row = &param_rows[id];
  if (!params_is_set(params, id)) return mem_strdup("not set");
  if (row->type == PARAM_MIX) return format_weights(param_read(params, row));
  return param_value_format(row, param_read(params, row));
}

/* ---- a run that goes on ---- */

/* Paths are compared by where they lead, as the working directory and the deck's folder may be others. */
static char *format_for_life(const struct params *params, enum param_id id, bool names) {
  const struct param_row *row = &param_rows[id];
  bool is_path = row->type == PARAM_DECK_PATH || row->type == PARAM_PATH, set = params_is_set(params, id);
  if (names && set && row->type == PARAM_MIX) return param_value_format(row, param_read(params, row));
  char *real = is_path && set ? params_make_absolute(*(char *const *)param_read(params, row)) : NULL;
  return real ? real : format_bond(params, id);
}

static void compare_key(const struct params *now, const struct params *old, enum param_id id, bool names,
                        struct mistakes *mistakes) {
  const struct param_row *row = &param_rows[id];
  bool constant =
      now->optimizer.schedule == PARAMS_SCHEDULE_CONSTANT && old->optimizer.schedule == PARAMS_SCHEDULE_CONSTANT;
  /* Its default follows run.steps, which may grow, and a constant rate does not use it. */
  if (row->bond != PARAM_FIXED || (id == PARAM_optimizer_decay_steps && constant)) return;
  if (!names && row->type == PARAM_DECK_PATH) return; /* its reader compares what is in it */
  char *before = format_for_life(old, id, names), *after = format_for_life(now, id, names);
  const char *source = now->sources[id].text;
  if (strcmp(before, after))
    mistakes_add(mistakes,
                 "%s: '%s.%s' was %s when this run began and is %s now; it may not change in a run that goes on: "
                 "set it back, or take another run.folder",
                 source ? source : "default", row->section, row->key, before, after);
  mem_free(before);
  mem_free(after);
}

int params_compare_resume(const struct params *now, const char *used_path, bool names) {
  struct params old;
  struct mistakes mistakes = {0};
  char *text;
  int status = deck_read_text(used_path, &text);
  if (!status) status = params_parse(text, NULL, 0, &old);
  if (status) {
    mem_free(text);
    return error_wrap("the parameters that this run began with cannot be read (put %s right, or move it away to go on "
                      "without comparing)",
                      used_path);
  }
  for (int id = 0; id < PARAM_COUNT; id++) compare_key(now, &old, (enum param_id)id, names, &mistakes);
  params_fini(&old);
  mem_free(text);
  return mistakes_end(&mistakes);
}

/* ---- the ranks of a job ---- */

/* Returns the text of a key that must be equal on all ranks; owned by the caller. */
static char *format_for_ranks(const struct params *params, int id) {
  return param_rows[id].bond == PARAM_BY_RANK ? mem_strdup("") : format_bond(params, (enum param_id)id);
}

char *params_format_shared(const struct params *params) {
  char *text = mem_strdup("");
  for (int id = 0; id < PARAM_COUNT; id++) {
    char *value = format_for_ranks(params, id), *longer = mem_format("%s%s\n", text, value);
    mem_free(value);
    mem_free(text);
    text = longer;
  }
  return text;
}

int params_compare_shared(const struct params *mine, const char *theirs, const char *who) {
  struct mistakes mistakes = {0};
  for (int id = 0; id < PARAM_COUNT; id++) {
    const struct param_row *row = &param_rows[id];
    char *value = format_for_ranks(mine, id), *source = mine->sources[id].text;
    size_t n = strcspn(theirs, "\n");
    if (strlen(value) != n || strncmp(value, theirs, n))
      mistakes_add(&mistakes, "%s: '%s.%s' is %s here and %.*s on %s: give all ranks the same",
                   source ? source : "default", row->section, row->key, value, (int)n, theirs, who);
    theirs += n + 1;
    mem_free(value);
  }
  return mistakes_end(&mistakes);
}
