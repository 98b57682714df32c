#include "cmd/options.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cmd/cmd.h"

static void print_row(const char *name, const char *argument, const char *help) {
  char left[80];
  snprintf(left, sizeof left, "%s %s", name, argument ? argument : "");
  printf("  %-24s %s\n", left, help);
}

/* Options of all words first, --help being one, then those of each word. */
static void print_help(const char *name, const struct option_spec *specs) {
  const struct command *command = cmd_find(name);
  printf("usage: penstock %s [OPTIONS] %s\n\n%s\n\n", name, command ? command->arguments : "",
         command ? command->summary : "");
  const struct option_spec *spec = specs;
  for (; spec->name && spec->kind != OPTION_WORD; spec++) print_row(spec->name, spec->argument, spec->help);
  print_row("--help", NULL, "prints this");
  for (; spec->name; spec++)
    if (spec->kind == OPTION_WORD)
      printf("\nwith penstock %s %s:\n", name, spec->name);
    else
      print_row(spec->name, spec->argument, spec->help);
}

/* The row of an argument: "--name", "--name=value", or "-Xvalue" for a one-letter option; *value is what is attached.
 */
static const struct option_spec *find_spec(const struct option_spec *specs, const char *text, const char **value) {
  for (const struct option_spec *spec = specs; spec->name; spec++) {
    size_t n = strlen(spec->name);
    if (spec->kind == OPTION_WORD) continue;
    if (strncmp(text, spec->name, n)) continue;
    bool is_letter = n == 2 && spec->kind != OPTION_FLAG;
    if (text[n] == 0)
      *value = NULL;
    else if (is_letter)
      *value = text + n;
    else if (text[n] == '=')
      *value = text + n + 1;
    else
      continue;
    return spec;
  }
  return NULL;
}

static bool is_override(const char *text) {
  const char *dot = strchr(text, '.'), *equals = strchr(text, '=');
  return dot && equals && dot > text && equals > dot + 1;
}

static int store(const struct option_spec *spec, const char *value) {
  if (spec->kind == OPTION_FLAG) {
    if (value) return error_raise(STATUS_MISTAKE, "option %s takes no value, but '%s' was given", spec->name, value);
    *(bool *)spec->value = true;
    return STATUS_OK;
  }
  if (!value)
    return error_raise(STATUS_MISTAKE, "option %s needs a value: %s %s", spec->name, spec->name, spec->argument);
  if (!*value) /* as of a variable that is not set: nobody names a file so */
    return error_raise(STATUS_MISTAKE, "option %s has an empty value: %s %s", spec->name, spec->name, spec->argument);
  if (spec->kind == OPTION_TEXT) {
    *(const char **)spec->value = value;
    return STATUS_OK;
  }
  if (!strcmp(spec->name, "-D") && !is_override(value))
    return error_raise(STATUS_MISTAKE, "-D %s: write -D section.key=value, for example -D run.steps=100", value);
  struct option_list *list = spec->value;
  list->items = mem_resize(list->items, sizeof *list->items * (size_t)(list->n + 1));
  list->items[list->n++] = value;
  return STATUS_OK;
}

/* given: a bit for each row of `specs` that was used. `word` is the first argument that is no option, or NULL. */
static int check_words(const char *name, const struct option_spec *specs, uint64_t given, const char *word) {
  const char *needed = NULL;
  for (int i = 0; specs[i].name && word; i++) {
    if (specs[i].kind == OPTION_WORD)
      needed = specs[i].name;
    else if ((given >> i & 1) && needed && strcmp(needed, word))
      return error_raise(STATUS_MISTAKE, "option %s goes with penstock %s %s, not with %s", specs[i].name, name, needed,
                         word);
  }
  return STATUS_OK;
}

int options_parse(int *argc, char **argv, const struct option_spec *specs, bool *done) {
  int n_left = 1, i = 1;
  uint64_t given = 0;
  *done = false;
  for (int k = 1; k < *argc; k++)
    if (!argv[k][0])
      return error_raise(STATUS_MISTAKE, "argument %d of penstock %s is empty (a variable that is not set?)", k,
                         argv[0]);
  for (; i < *argc && strcmp(argv[i], "--"); i++) {
    if (argv[i][0] != '-' || !argv[i][1]) {
      argv[n_left++] = argv[i];
      continue;
    }
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      print_help(argv[0], specs);
      *done = true;
      return STATUS_OK;
    }
    const char *value, *text = argv[i];
    const struct option_spec *spec = find_spec(specs, text, &value);
    if (!spec)
      return error_raise(STATUS_MISTAKE, "unknown option '%s' of penstock %s (penstock %s --help lists those it has)",
                         text, argv[0], argv[0]);
    given |= UINT64_C(1) << (spec - specs);
    if (spec->kind != OPTION_FLAG && !value && i + 1 < *argc) value = argv[++i];
    int status = store(spec, value);
    if (status) return status;
  }
  for (i++; i < *argc; i++) argv[n_left++] = argv[i];
  argv[n_left] = NULL;
  *argc = n_left;
  return check_words(argv[0], specs, given, argv[1]);
}

void options_fini(struct option_list *list) {
  mem_free(list->items);
  list->items = NULL;
  list->n = 0;
}
