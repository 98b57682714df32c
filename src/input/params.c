#include "input/params.h"

#include "base/error.h"
#include "base/mem.h"
#include "input/deck.h"
#include "input/param_table.h"
#include "input/param_value.h"
#include "input/params_check.h"
#include "input/suggest.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The state of params_parse. */
struct parse {
  struct params *params;
  struct mistakes mistakes;
  bool broken[PARAM_COUNT];
};

/* Takes over `text`. */
static void set_source(struct params *params, enum param_id id, enum param_origin origin, char *text) {
  mem_free(params->sources[id].text);
  params->sources[id].origin = origin;
  params->sources[id].text = text;
}

/* ---- unknown names ---- */

/* ", a, b, c" of a section's keys, or of all sections for NULL; owned by the caller. */
static char *list_names(const char *section) {
  char *text = mem_strdup("");
  for (int i = 0; section ? i < PARAM_COUNT : param_sections[i].name != NULL; i++) {
    if (section && strcmp(param_rows[i].section, section)) continue;
    char *longer =
        mem_format("%s%s%s", text, text[0] ? ", " : "", section ? param_rows[i].key : param_sections[i].name);
    mem_free(text);
    text = longer;
  }
  return text;
}

/* The key that was meant by a word of a section, as "key" or, in another section, "section.key"; NULL when nothing is
 * near. Owned by the caller. */
static char *guess_key(const char *section, const char *word) {
  struct suggestion best = {0};
  for (int i = 0; i < PARAM_COUNT; i++)
    if (!strcmp(param_rows[i].section, section)) suggest_offer(&best, word, param_rows[i].key, param_rows[i].key);
  for (const struct param_alias *alias = param_aliases; alias->section; alias++)
    if (!strcmp(alias->section, section)) suggest_offer(&best, word, alias->word, alias->key);
  for (int i = 0; i < PARAM_COUNT && (!best.word || best.distance > 0); i++)
    if (!strcmp(param_rows[i].key, word)) return mem_format("%s.%s", param_rows[i].section, word);
  return best.word ? mem_strdup(best.word) : NULL;
}

static const struct param_later *find_later(const char *section, const char *key) {
  for (const struct param_later *later = param_laters; later->section; later++)
    if (!strcmp(later->section, section) && !strcmp(later->key, key)) return later;
  return NULL;
}

static void refuse_key(struct parse *parse, const char *place, const char *section, const char *key,
                       const struct deck_node *value) {
  const struct param_later *later = find_later(section, key);
  if (later && later->accepted[0] && value->kind == DECK_SCALAR && !strcmp(value->text, later->accepted)) return;
  if (later) {
    mistakes_add(&parse->mistakes, "%s: '%s.%s' is not available in this version%s%s", place, section, key,
                 later->accepted[0] ? "; allowed: " : "", later->accepted);
    return;
  }
  char *guess = guess_key(section, key), *names = list_names(section);
  mistakes_add(&parse->mistakes, "%s: unknown key '%s' in '%s'%s%s%s; allowed: %s", place, key, section,
               guess ? " (did you mean '" : "", guess ? guess : "", guess ? "'?)" : "", names);
  mem_free(guess);
  mem_free(names);
}

static bool is_section(const char *name) {
  for (const struct param_section *section = param_sections; section->name; section++)
    if (!strcmp(section->name, name)) return true;
  return false;
}

static void refuse_section(struct parse *parse, const char *place, const char *name) {
  if (find_later(name, "")) {
    mistakes_add(&parse->mistakes, "%s: section '%s' is not available in this version", place, name);
    return;
  }
  struct suggestion best = {0};
  char *guess = NULL;
  for (const struct param_section *section = param_sections; section->name; section++)
    suggest_offer(&best, name, section->name, section->name);
  if (best.word) guess = mem_strdup(best.word);
  /* A key at the margin: its section was forgotten, or written before a point as on the command line. */
  const char *point = strchr(name, '.');
  for (int i = 0; i < PARAM_COUNT && !guess; i++)
    if (!strcmp(param_rows[i].key, point ? point + 1 : name))
      guess = mem_format("%s:' and below it, indented, '%s:", param_rows[i].section, param_rows[i].key);
  char *names = list_names(NULL);
  mistakes_add(&parse->mistakes, "%s: unknown section '%s'%s%s%s; allowed: include, %s", place, name,
               guess ? " (did you mean '" : "", guess ? guess : "", guess ? "'?)" : "", names);
  mem_free(guess);
  mem_free(names);
}

/* ---- deck and overrides ---- */

static void apply(struct parse *parse, const char *section, const char *key, const struct deck_node *value,
                  enum param_origin origin, const char *place) {
  const struct param_row *row = param_find(section, key);
  if (!row) {
    refuse_key(parse, place, section, key, value);
    return;
  }
  enum param_id id = (enum param_id)(row - param_rows);
  if (param_value_parse(row, value, place, param_at(parse->params, row), &parse->mistakes))
    set_source(parse->params, id, origin, mem_strdup(place));
  else
    parse->broken[id] = true;
}

static void apply_entry(struct parse *parse, const struct deck_entry *entry) {
  char *place = deck_place_format(&entry->place, "");
  if (entry->key) {
    if (is_section(entry->section)) apply(parse, entry->section, entry->key, entry->value, PARAM_DECK, place);
  } else if (!strcmp(entry->section, "include")) {
    if (!entry->value || entry->value->kind != DECK_SCALAR || !entry->value->text[0])
      mistakes_add(&parse->mistakes, "%s: 'include' takes the path of one deck", place);
  } else if (!is_section(entry->section)) {
    refuse_section(parse, place, entry->section);
  } else if (entry->value) {
    char *names = list_names(entry->section);
    mistakes_add(&parse->mistakes, "%s: '%s' is a section: its keys go below it, indented; allowed: %s", place,
                 entry->section, names);
    mem_free(names);
  }
  mem_free(place);
}

static void apply_override(struct parse *parse, const char *text) {
  const char *equals = strchr(text, '='), *point = strchr(text, '.');
  if (!equals || !point || point > equals || point == text || equals == point + 1) {
    mistakes_add(&parse->mistakes, "-D %s: write -D section.key=value", text);
    return;
  }
  char *section = mem_format("%.*s", (int)(point - text), text);
  char *key = mem_format("%.*s", (int)(equals - point - 1), point + 1);
  char *place = mem_format("-D %s.%s", section, key);
  struct deck_node node;
  deck_parse_value(equals + 1, place, &node, &parse->mistakes);
  if (!is_section(section))
    refuse_section(parse, place, section);
  else if (!node.broken)
    apply(parse, section, key, &node, PARAM_OVERRIDE, place);
  deck_node_fini(&node);
  mem_free(section);
  mem_free(key);
  mem_free(place);
}

/* ---- defaults ---- */

/* Puts a value in its place; what the table does not allow is a bug of the program. */
static void put_node(struct params *params, enum param_id id, const struct deck_node *node, enum param_origin origin,
                     const char *reason) {
  const struct param_row *row = &param_rows[id];
  struct mistakes mistakes = {0};
  bool good = param_value_parse(row, node, row->key, param_at(params, row), &mistakes);
  CHECK(good, "%s.%s: %s", row->section, row->key, mistakes.text ? mistakes.text : "a value that is not YAML");
  set_source(params, id, origin, reason ? mem_strdup(reason) : NULL);
}

/* Sets a parameter from a text in deck syntax. */
static void put(struct params *params, enum param_id id, const char *text, enum param_origin origin,
                const char *reason) {
  struct mistakes mistakes = {0};
  struct deck_node node;
  deck_parse_value(text, param_rows[id].key, &node, &mistakes);
  mem_free(mistakes.text);
  put_node(params, id, &node, origin, reason);
  deck_node_fini(&node);
}

static void put_defaults(struct params *params) {
  for (int id = 0; id < PARAM_COUNT; id++)
    if (param_has_standard(&param_rows[id]))
      put(params, (enum param_id)id, param_rows[id].standard, PARAM_DEFAULT, NULL);
}

/* Fills in a default that follows from other keys, unless there is a value or a mistake in it. Takes over `text`. */
static void put_rule(struct parse *parse, enum param_id id, char *text) {
  /* A text is one whatever it looks like: a deck may be called null.yml. */
  bool is_text = param_rows[id].type == PARAM_STRING || param_rows[id].type == PARAM_PATH;
  const struct deck_node node = {.kind = DECK_SCALAR, .text = text, .quoted = is_text};
  if (!params_is_set(parse->params, id) && !parse->broken[id]) put_node(parse->params, id, &node, PARAM_DEFAULT, NULL);
  mem_free(text);
}

/* "inputs/llama.yml" -> "llama" */
static char *make_name(const char *deck_name) {
  const char *slash = deck_name ? strrchr(deck_name, '/') : NULL, *base = slash ? slash + 1 : deck_name;
  char *name = mem_strdup(base && base[0] ? base : "run"), *point = strrchr(name, '.');
  if (point && point > name && (!strcmp(point, ".yml") || !strcmp(point, ".yaml"))) *point = '\0';
  param_value_make_printable(name);
  return name;
}

/* Chooses cost.source when the deck leaves it out: a table or uniform times that are given are used. With a table,
 * cost.uniform may still say what messages take. */
static const char *choose_cost_source(const struct params *params) {
  if (params_is_given(params, PARAM_cost_table)) return "table";
  if (params_is_given(params, PARAM_cost_profile)) return "profile";
  return params_is_given(params, PARAM_cost_uniform) ? "uniform" : "preset";
}

static void put_rules(struct parse *parse) {
  struct params *params = parse->params;
  put_rule(parse, PARAM_run_name, make_name(params->deck_name));
  if (params->run.name) put_rule(parse, PARAM_run_folder, mem_format("runs/%s", params->run.name));
  put_rule(parse, PARAM_cost_source, mem_strdup(choose_cost_source(params)));
  if (params->run.folder) put_rule(parse, PARAM_cost_profile, mem_format("%s/profile.h5", params->run.folder));
  bool wsd = params->optimizer.schedule == PARAMS_SCHEDULE_WSD;
  int64_t steps = params->run.steps, decay = wsd ? steps / 10 + (steps % 10 > 0) : steps;
  put_rule(parse, PARAM_optimizer_decay_steps, mem_format("%lld", (long long)(decay > 0 ? decay : 1)));
}

int params_parse(const char *deck_text, const char *const *overrides, int n_overrides, struct params *params) {
  struct parse parse = {.params = params};
  struct deck deck;
  *params = (struct params){0};
  put_defaults(params);
  deck_parse(deck_text, &deck, &parse.mistakes);
  params->deck_name = deck.name ? mem_strdup(deck.name) : NULL;
  for (int64_t i = 0; i < deck.n_entries; i++) apply_entry(&parse, &deck.entries[i]);
  for (int i = 0; i < n_overrides; i++) apply_override(&parse, overrides[i]);
  put_rules(&parse);
  params_check(params, parse.broken, &parse.mistakes);
  deck_fini(&deck);
  int status = mistakes_end(&parse.mistakes);
  if (status) params_fini(params);
  return status;
}

void params_fini(struct params *params) {
  for (int id = 0; id < PARAM_COUNT; id++) {
    param_value_clear(&param_rows[id], param_at(params, &param_rows[id]));
    set_source(params, (enum param_id)id, PARAM_UNSET, NULL);
  }
  mem_free(params->deck_name);
  *params = (struct params){0};
}

/* ---- questions ---- */

bool params_is_set(const struct params *params, enum param_id id) { return params->sources[id].origin != PARAM_UNSET; }

bool params_is_given(const struct params *params, enum param_id id) {
  return params->sources[id].origin == PARAM_DECK || params->sources[id].origin == PARAM_OVERRIDE;
}

static void miss(const struct params *params, const char *what, const char *who, struct mistakes *mistakes) {
  mistakes_add(mistakes, "%s: %s is missing; %s needs it", params->deck_name ? params->deck_name : "no deck", what,
               who);
}

static void miss_keys(const struct params *params, const char *who, const enum param_id *ids, int n,
                      struct mistakes *mistakes) {
  for (int i = 0; i < n; i++) {
    if (params_is_set(params, ids[i])) continue;
    char *allowed = param_describe(&param_rows[ids[i]]);
    char *what = mem_format("'%s.%s' (%s)", param_rows[ids[i]].section, param_rows[ids[i]].key, allowed);
    miss(params, what, who, mistakes);
    mem_free(what);
    mem_free(allowed);
  }
}

int params_require(const struct params *params, const char *who, const enum param_id *ids, int n) {
  struct mistakes mistakes = {0};
  miss_keys(params, who, ids, n, &mistakes);
  return mistakes_end(&mistakes);
}

int params_require_training(const struct params *params) {
  static const enum param_id ids[] = {PARAM_data_train, PARAM_data_sequence_length, PARAM_data_global_batch};
  struct mistakes mistakes = {0};
  if (!params_is_set(params, PARAM_model_config) && !params_is_set(params, PARAM_model_model_type))
    miss(params, "the model ('model.config', or 'model.model_type' and its keys)", "training", &mistakes);
  miss_keys(params, "training", ids, sizeof ids / sizeof *ids, &mistakes);
  return mistakes_end(&mistakes);
}

const char *params_name_choice(enum param_id id, int value) {
  const struct param_row *row = &param_rows[id];
  const struct param_choice *choice = param_choices;
  while (choice->set && (strcmp(choice->set, row->range) || choice->value != value)) choice++;
  CHECK(choice->set, "%s.%s has no choice %d", row->section, row->key, value);
  return choice->text;
}

const char *params_get_choice(const struct params *params, enum param_id id) {
  const struct param_row *row = &param_rows[id];
  CHECK(row->type == PARAM_CHOICE, "%s.%s is not a choice", row->section, row->key);
  return params_is_set(params, id) ? params_name_choice(id, *(const int *)param_read(params, row)) : NULL;
}

static json_t *make_json(const struct param_row *row, const void *value) {
  switch (row->type) {
  case PARAM_BOOL: return json_boolean(*(const bool *)value);
  case PARAM_INT: return json_integer(*(const int64_t *)value);
  case PARAM_FLOAT: return json_real(*(const double *)value);
  case PARAM_STRING: return json_string(*(char *const *)value);
  default: error_die(__FILE__, __LINE__, "%s.%s has no form in JSON", row->section, row->key);
  }
}

char *params_format_model_json(const struct params *params) {
  const char *model_type = params_get_choice(params, PARAM_model_model_type);
  if (!model_type) return NULL;
  json_t *root = json_object();
  json_object_set_new(root, "model_type", json_string(model_type));
  for (int id = 0; id < PARAM_COUNT; id++)
    if (param_rows[id].of_model && params_is_set(params, (enum param_id)id))
      json_object_set_new(root, param_rows[id].key, make_json(&param_rows[id], param_read(params, &param_rows[id])));
  char *dumped = json_dumps(root, JSON_INDENT(2)), *text = mem_strdup(dumped);
  free(dumped);
  json_decref(root);
  return text;
}

void params_set_used(struct params *params, enum param_id id, const char *value, const char *reason) {
  put(params, id, value, PARAM_PROGRAM, reason);
}
