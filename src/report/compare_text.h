/* Formats prediction beside measurement for people: in the log of a run and in its report. Texts end with a newline and
 * are owned by the caller.
 */
#ifndef PENSTOCK_REPORT_COMPARE_TEXT_H
#define PENSTOCK_REPORT_COMPARE_TEXT_H

struct comparison;
struct model;

/* Formats what is compared, the step and the bubble, a line each. */
char *compare_format_head(const struct comparison *comparison);
/* Returns what the reader must know about the predictions, static, without a newline; NULL when there is nothing. */
const char *compare_get_note(const struct comparison *comparison);
/* A line a kind of node, a line an op of each kind of layer of the model (NULL: none of these). */
char *compare_format_tables(const struct comparison *comparison, const struct model *model);
/* Formats all parts. */
char *compare_format(const struct comparison *comparison, const struct model *model);

#endif
