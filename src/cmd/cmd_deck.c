/* `penstock deck`: checks a deck without running it, and prints what the table of parameters says. */
#include "cmd/cmd.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "cmd/options.h"
#include "input/deck.h"
#include "input/params.h"
#include "input/params_print.h"

static int check_deck(const char *path, const struct option_list *overrides) {
  struct params params;
  char *text;
  int status = deck_read_text(path, &text);
  if (!status) status = params_parse(text, overrides->items, overrides->n, &params);
  mem_free(text);
  if (status) return status;
  int n_given = 0;
  for (int id = 0; id < PARAM_COUNT; id++) n_given += params_is_given(&params, (enum param_id)id);
  printf("%s: OK, %d of %d keys given\n", path, n_given, PARAM_COUNT);
  /* A deck may serve other commands; what training lacks is told all the same. */
  if (params_require_training(&params)) printf("%s\n", error_text());
  error_clear();
  params_fini(&params);
  return STATUS_OK;
}

static int finish_output(void) {
  if (fflush(stdout) || ferror(stdout)) return error_raise(STATUS_FAILED, "standard output cannot be written");
  return STATUS_OK;
}

int cmd_deck(int argc, char **argv) {
  bool reference = false, manual = false, man = false, done;
  struct option_list overrides = {0};
  const struct option_spec specs[] = {
      OPTION_OVERRIDES(&overrides),
      {"--reference", OPTION_FLAG, NULL, "prints a deck of every key with its default (inputs/reference.yml)",
       &reference},
      {"--manual", OPTION_FLAG, NULL, "prints the manual's page of all keys (doc/user/parameters.md)", &manual},
      {"--man", OPTION_FLAG, NULL, "prints the keys as a section of a man page", &man},
      {NULL, OPTION_FLAG, NULL, NULL, NULL},
  };
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done) {
    if (reference + manual + man + (argc - 1) != 1)
      status = error_raise(STATUS_MISTAKE, "deck takes one deck, or one of --reference, --manual, --man");
    else if (reference)
      params_print_reference(stdout);
    else if (manual)
      params_print_manual(stdout);
    else if (man)
      params_print_man(stdout);
    else
      status = check_deck(argv[1], &overrides);
    if (!status) status = finish_output();
  }
  options_fini(&overrides);
  return status;
}
