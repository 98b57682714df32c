/* Shared by the parsers of single types: param_value.c, param_scalar.c and param_list.c. */
#ifndef PENSTOCK_INPUT_PARAM_PARSE_H
#define PENSTOCK_INPUT_PARAM_PARSE_H

#include "input/param_value.h"

/* The input of a parser. */
struct param_input {
  const struct param_row *row;
  const struct deck_node *node; /* the whole value, or the part of it that is looked at */
  const char *where;            /* names the place of values from -D */
  struct mistakes *mistakes;
};

/* Adds "PLACE: 'section.key' PROBLEM; allowed: WHAT". Returns false. */
bool param_refuse(const struct param_input *in, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text of a scalar, or NULL after a message. Quoted numbers are texts, and texts are no numbers. */
const char *param_get_scalar(const struct param_input *in, bool may_be_quoted);

/* One of each for every type. Parsers replace *value only when they return true; what a format returns is owned by the
 * caller; clearing leaves freed pointers behind. */
#define PARAM_PARSERS(X) PARAM_SCALAR_PARSERS(X) PARAM_LIST_PARSERS(X)
#define PARAM_SCALAR_PARSERS(X)                                                                                        \
  X(bool) X(int) X(float) X(auto_int) X(auto_float) X(string) X(deck_path) X(choice) X(size) X(duration)
#define PARAM_LIST_PARSERS(X)                                                                                          \
  X(pair) X(mix) X(rank_sizes) X(rank_factors) X(uniform) X(link) X(way) X(partition) X(recompute) X(stages)
#define X(type)                                                                                                        \
  bool param_parse_##type(const struct param_input *in, void *value);                                                  \
  char *param_format_##type(const struct param_row *row, const void *value);
PARAM_PARSERS(X)
#undef X
void param_clear_string(void *value);
void param_clear_mix(void *value);
void param_clear_rank_sizes(void *value);
void param_clear_partition(void *value);
void param_clear_rank_factors(void *value);
void param_clear_uniform(void *value);
void param_clear_recompute(void *value);
void param_clear_stages(void *value);

/* The node as a rank; -1 after a message. */
int64_t param_parse_rank(const struct param_input *in);

/* A text or path that can be written back on one line; *text is owned by the caller. */
bool param_parse_text(const struct param_input *in, char **text);

#endif
