/* YAML text as a tree of nodes: libyaml's events, minus what decks do not have. Used by deck.c alone. */
#ifndef PENSTOCK_INPUT_DECK_NODE_H
#define PENSTOCK_INPUT_DECK_NODE_H

#include "input/deck.h"
#include <stddef.h>

/* Parses one document. `file` names it in places (NULL: `where` does); it must outlive the node. An empty text gives a
 * broken node without a mistake. *end, when not NULL: characters (not bytes) of the text up to the end of the root
 * node, before spaces and comments. */
void deck_node_parse(const char *text, size_t bytes, const char *file, const char *where, struct deck_node *node,
                     size_t *end, struct mistakes *mistakes);

/* The value of a key of a map, or NULL. */
const struct deck_node *deck_node_find(const struct deck_node *map, const char *key);

#endif
