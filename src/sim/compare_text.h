/* What was predicted beside what was measured, for people: the same in the log of a run and in its report. */
#ifndef PENSTOCK_SIM_COMPARE_TEXT_H
#define PENSTOCK_SIM_COMPARE_TEXT_H

struct comparison;
struct model;

/* Step and bubble, a line a kind of node, a line an op of each kind of layer of the model (NULL: none of these). Lines end
 * with a newline; owned by the caller. */
char *compare_format(const struct comparison *comparison, const struct model *model);

#endif
