/* The options of one command: `-D section.key=value`, `--json`, `--output PREFIX`, `--output=PREFIX`, `--help`. */
#ifndef PENSTOCK_CMD_OPTIONS_H
#define PENSTOCK_CMD_OPTIONS_H

#include <stdbool.h>

enum option_kind {
  OPTION_FLAG, /* value is a bool, set to true */
  OPTION_TEXT, /* value is a const char *; given twice, the last counts */
  OPTION_LIST, /* value is a struct option_list; each use adds one */
  OPTION_WORD, /* no option: the rows after it, up to the next of its kind, go with this first argument alone */
};

struct option_spec {
  const char *name; /* as typed: "-D", "--json"; of a word: "build" */
  enum option_kind kind;
  const char *argument; /* its name in the help, NULL for a flag */
  const char *help;
  void *value; /* of the kind, initialised by the caller to what an absent option means */
};

/* Texts belong to argv; `items` is owned by the caller and freed with options_fini. */
struct option_list {
  const char **items;
  int n;
};

/* The row of -D, for all commands that read decks: `struct option_spec specs[] = {OPTION_OVERRIDES(&list), ...}`. */
#define OPTION_OVERRIDES(list)                                                                                         \
  { "-D", OPTION_LIST, "SECTION.KEY=VALUE", "sets a key of the deck; may be repeated", list }

/* Reads the options of a command, argv[0] being its name; they may stand anywhere before "--". `specs`, at most 64
 * rows, ends with a row whose name is NULL. On return argv[1..*argc-1] are the other arguments, in order. *done is true
 * when
 * --help was asked for and printed. STATUS_MISTAKE: an unknown option, a missing, empty or needless value, an empty
 * argument, an option that goes with another word, and a -D without section, key and value. */
int options_parse(int *argc, char **argv, const struct option_spec *specs, bool *done);
void options_fini(struct option_list *list);

#endif
