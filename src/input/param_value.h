/* Values of the parameter types: from deck nodes to C and back. */
#ifndef PENSTOCK_INPUT_PARAM_VALUE_H
#define PENSTOCK_INPUT_PARAM_VALUE_H

#include "input/deck.h"
#include "input/param_table.h"

/* Parses a node as the value of a row and puts it in `value` (of the row's C type, which is freed first), or leaves it
 * alone, adds to `mistakes` and returns false. `where` names the place of values from -D. */
bool param_value_parse(const struct param_row *row, const struct deck_node *node, const char *where, void *value,
                       struct mistakes *mistakes);
/* Formats a value in deck syntax, on one line; it parses back to the same value. Owned by the caller. */
char *param_value_format(const struct param_row *row, const void *value);
/* Frees what the value owns and zeroes it. */
void param_value_clear(const struct param_row *row, void *value);

/* A text as a YAML scalar, quoted where it must be; owned by the caller. */
char *param_value_quote(const char *text);

/* Replaces, by '_', what a YAML text may not hold: control characters and bytes that are not UTF-8. For names of files,
 * which may be anything. */
void param_value_make_printable(char *text);

#endif
