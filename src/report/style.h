/* Colours of pictures and pages. Serial.
 *
 * A page has them as variables, with other values where the reader's system asks for a dark theme; an SVG of its own,
 * which may end up on paper, has the light ones as they are.
 */
#ifndef PENSTOCK_REPORT_STYLE_H
#define PENSTOCK_REPORT_STYLE_H

#include <stdbool.h>
#include <stdio.h>

/* ":root{--text:#222;...}" and the same for a dark theme. */
void style_write_variables(FILE *out);
/* The rules of the classes that pictures use. literal: colours as they are, else by their variables. */
void style_write_rules(FILE *out, bool literal);
/* The class of a node: its kind, and its shade where that is not 0: "F", "F s3". */
void style_write_class(FILE *out, int kind, int shade);

#endif
