/* The table of parameters for people: reference deck and manual. */
#ifndef PENSTOCK_INPUT_PARAMS_PRINT_H
#define PENSTOCK_INPUT_PARAMS_PRINT_H

#include "input/param_table.h"
#include <stdio.h>

/* inputs/reference.yml: a deck of every key at its default. */
void params_print_reference(FILE *out);
/* doc/user/parameters.md. */
void params_print_manual(FILE *out);
/* The section PARAMETERS of the man page. */
void params_print_man(FILE *out);
/* Help, range and unit of a key as comment lines of a deck, indented by two. */
void params_print_help(FILE *out, const struct param_row *row);

#endif
