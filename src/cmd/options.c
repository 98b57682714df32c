#include "cmd/options.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cmd/cmd.h"

static void print_help(const char *name, const struct option_spec *specs) {
  const struct command *command = cmd_find(name);
  printf("usage: penstock %s [OPTIONS] %s\n\n%s\n\n", name, command ? command->arguments : "",
         command ? command->summary : "");
  for (const struct option_spec *spec = specs; spec->name; spec++) {
    char left[80];
    snprintf(left, sizeof left, "%s %s", spec->name, spec->argument ? spec->argument : "");
    printf("  %-24s %s\n", left, spec->help);
  }
  printf("  %-24s %s\n", "--help", "prints this");
}

/* The row of an argument: "--name", "--name=value", or "-Xvalue" for a one-letter option; *value is what is attached.
 */
static const struct option_spec *find_spec(const struct option_spec *specs, const char *text, const char **value) {
  for (const struct option_spec *spec = specs; spec->name; spec++) {
    size_t n = strlen(spec->name);
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

int options_parse(int *argc, char **argv, const struct option_spec *specs, bool *done) {
  int n_left = 1, i = 1;
  *done = false;
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
    if (spec->kind != OPTION_FLAG && !value && i + 1 < *argc) value = argv[++i];
    int status = store(spec, value);
    if (status) return status;
  }
  for (i++; i < *argc; i++) argv[n_left++] = argv[i];
  argv[n_left] = NULL;
  *argc = n_left;
  return STATUS_OK;
}

void options_fini(struct option_list *list) {
  mem_free(list->items);
  list->items = NULL;
  list->n = 0;
}
