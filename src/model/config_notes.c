#include "model/config_notes.h"

#include "base/mem.h"
#include "input/suggest.h"
#include "model/config_table.h"

#include <string.h>

/* Returns true when a key only names the family again, so that it needs no note. */
static bool agrees(const json_t *root, const struct family *family, const char *name, const json_t *value) {
  if (!strcmp(name, "model_type")) return true;
  if (!strcmp(name, "architecture"))
    return json_is_string(value) &&
           (!json_object_get(root, "model_type") || !strcmp(json_string_value(value), family->model_type));
  if (strcmp(name, "architectures") || !json_is_array(value)) return false;
  for (size_t i = 0; i < json_array_size(value); i++) {
    const char *class_name = json_string_value(json_array_get(value, i));
    if (!class_name || strcmp(class_name, family->class_name)) return false;
  }
  return true;
}

static bool is_known(const json_t *root, const struct family *family, const char *name, const json_t *value) {
  if (agrees(root, family, name, value)) return true;
  if (family->rope && (!strcmp(name, "rope_parameters") || !strcmp(name, "rope_scaling"))) return true;
  for (const struct config_refusal *row = config_refusals; row->name; row++)
    if (config_has_word(row->families, family->model_type) && !strcmp(row->name, name)) return true;
  return config_find_key(family, name) != NULL;
}

/* The key that was meant by one without effect: what other families or programs call so, else one that is spelled
 * nearly so. Not one that is there too. NULL when nothing is near. */
static const char *guess(const json_t *root, const struct family *family, const char *name) {
  const struct config_key *meant = NULL;
  for (const struct config_key *key = config_keys; key->name && !meant; key++)
    if (!strcmp(key->name, name)) meant = config_find_offset(family, key->offset);
  for (const struct config_word *word = config_words; word->word && !meant; word++)
    if (!strcmp(word->word, name)) meant = config_find_offset(family, word->offset);
  struct suggestion best = {0};
  for (const struct config_key *key = config_keys; key->name && !meant; key++)
    if (config_find_key(family, key->name) == key) suggest_offer(&best, name, key->name, key->name);
  const char *found = meant ? meant->name : best.word;
  return found && !json_object_get(root, found) ? found : NULL;
}

/* Appends ", name" to a list owned by the caller. */
static void append_name(char **list, const char *name, const char *meant) {
  char *longer = mem_format("%s%s%s%s%s%s", *list ? *list : "", *list ? ", " : "", name,
                            meant ? " (did you mean '" : "", meant ? meant : "", meant ? "'?)" : "");
  mem_free(*list);
  *list = longer;
}

char *config_make_notes(json_t *root, const struct family *family, const char *source) {
  char *dropout = NULL, *ignored = NULL;
  const char *name;
  json_t *value;
  json_object_foreach(root, name, value) {
    bool drops = strstr(name, "pdrop") || strstr(name, "dropout");
    if (drops && json_number_value(value) != 0)
      append_name(&dropout, name, NULL);
    else if (!(drops && json_is_number(value)) && !is_known(root, family, name, value))
      append_name(&ignored, name, guess(root, family, name));
  }
  char *notes = mem_format("%s%s%s%s%s%s%s", dropout ? source : "", dropout ? ": dropout is taken as 0: " : "",
                           dropout ? dropout : "", dropout && ignored ? "\n" : "", ignored ? source : "",
                           ignored ? ": keys without effect here, ignored: " : "", ignored ? ignored : "");
  mem_free(dropout);
  mem_free(ignored);
  return notes;
}
