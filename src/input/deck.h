/* A deck's text as sections, keys and values with their places. What the keys mean is the business of params.
 *
 * A deck is YAML of a small kind: one document, sections one level deep, below them scalars and flat lists and maps; no
 * anchors, aliases, tags, nor keys given twice. `include: other.yml` at the top level puts another deck beneath this
 * one (path relative to the deck that includes). Serial; only deck_read_text touches files.
 */
#ifndef PENSTOCK_INPUT_DECK_H
#define PENSTOCK_INPUT_DECK_H

#include "input/mistakes.h"
#include <stdbool.h>

/* Where something is written: "deck.yml:12:5", or "-D run.steps". */
struct deck_place {
  const char *file; /* as named by the user; NULL: given with -D */
  int line, column; /* from 1 */
};

enum deck_kind { DECK_SCALAR, DECK_LIST, DECK_MAP };

/* A value. Owned by the deck it was read into. */
struct deck_node {
  enum deck_kind kind;
  struct deck_place place;
  char *text;              /* SCALAR */
  bool quoted;             /* SCALAR in quotes or as a block: text, whatever it looks like */
  bool broken;             /* a mistake inside it has been told; it has no meaning */
  int64_t n;               /* LIST, MAP */
  struct deck_node *keys;  /* [n] scalars; MAP */
  struct deck_node *items; /* [n] */
};

/* One key of a deck, in the order written, those of included decks first. A section that was not written as one (`run:
 * 5`) and the key `include` come as an entry whose key is NULL; each section also comes as an entry of its own, before
 * its keys, with key and value NULL. */
struct deck_entry {
  const char *section, *key;
  struct deck_place place; /* of the key, or of the section's name */
  const struct deck_node *value;
};

struct deck {
  char *name;              /* of the deck's file, as given; NULL without a deck */
  int64_t n_files;         /* the deck and what it includes */
  char **files;            /* [n_files] names, the innermost included one first */
  struct deck_node *roots; /* [n_files] */
  int64_t n_entries;
  struct deck_entry *entries; /* [n_entries], pointing into roots */
};

/* Reads a deck and the decks that it includes into one text that carries their names, for broadcasting to ranks that
 * cannot or should not read files. Rank 0 only. *text is owned by the caller. STATUS_MISTAKE: a file that cannot be
 * read or is not text, an include that goes in a circle or deeper than DECK_DEPTH. */
enum { DECK_DEPTH = 8 };
int deck_read_text(const char *path, char **text);
/* Makes the text that deck_read_text makes from YAML that is in no file; messages call it `name`. Owned by the caller.
 */
char *deck_wrap_text(const char *name, const char *yaml);

/* True when both texts have the same decks, whatever their names. */
bool deck_is_same_text(const char *a, const char *b);

/* Takes such a text apart. What is not a deck of the kind above goes to `mistakes`; what could be read is in the deck
 * all the same. NULL is the empty deck. */
void deck_parse(const char *text, struct deck *deck, struct mistakes *mistakes);
void deck_fini(struct deck *deck);

/* Parses the value of "-D section.key=value", a YAML scalar or flow list or map. Mistakes name `where` ("-D
 * run.steps"). The node is the caller's, to be freed with deck_node_fini. */
void deck_parse_value(const char *text, const char *where, struct deck_node *node, struct mistakes *mistakes);
void deck_node_fini(struct deck_node *node);

/* "deck.yml:12:5" or, of a value from -D, `where`. Owned by the caller. */
char *deck_place_format(const struct deck_place *place, const char *where);

#endif
