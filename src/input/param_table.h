/* params.def as rows to walk over: for the modules of the input layer, the deck command and the tests. */
#ifndef PENSTOCK_INPUT_PARAM_TABLE_H
#define PENSTOCK_INPUT_PARAM_TABLE_H

#include "input/params.h"
#include <stddef.h>

/* How a key may differ between the lives of a run and between the ranks of a job. Keys of token files (MIX) are
 * compared by the content of the files and by their weights, wherever the files lie. */
enum param_bond {
  PARAM_FIXED,      /* may not change in a run that goes on; the same on all ranks */
  PARAM_MAY_CHANGE, /* may change, and is the same on all ranks */
  PARAM_BY_RANK,    /* may change, and differ from rank to rank */
};

struct param_row {
  const char *section, *key;
  enum param_type type;
  size_t offset;        /* of the value in struct params */
  const char *standard; /* default in deck syntax, or "<what happens without a value>" */
  const char *range;    /* "[1, inf)", a set of choices, or "" */
  const char *unit;
  enum param_bond bond;
  bool of_model;      /* handed to the model */
  const char *family; /* of_model: model types that have it, "" for all */
  const char *help;
};

struct param_section {
  const char *name, *help;
};

struct param_choice {
  const char *set, *text, *help;
  int value; /* -1: not in this version */
};

/* Keys and sections known but not built. key "" stands for the whole section. */
struct param_later {
  const char *section, *key;
  const char *accepted; /* a value without effect that is let through, or "" */
};

struct param_alias {
  const char *section, *word, *key;
};

extern const struct param_row param_rows[PARAM_COUNT];
/* The others end with an entry whose first member is NULL. */
extern const struct param_section param_sections[];
extern const struct param_choice param_choices[];
extern const struct param_later param_laters[];
extern const struct param_alias param_aliases[];

/* An interval of the table. */
struct param_range {
  double low, high; /* may be infinite */
  bool low_open, high_open;
};
/* The range of a row whose type has one; everything for "". */
struct param_range param_get_range(const struct param_row *row);
bool param_range_contains(const struct param_range *range, double value);

/* Row by name, or NULL. */
const struct param_row *param_find(const char *section, const char *key);
/* True when the range names a set of choices. */
bool param_has_choices(const struct param_row *row);
/* True when the table has a value for the key rather than a description. */
bool param_has_standard(const struct param_row *row);
/* Describes the values that a key allows: "a whole number, 1 or more (steps)"; owned by the caller. */
char *param_describe(const struct param_row *row);
/* The value of a row in params. */
void *param_at(struct params *params, const struct param_row *row);
const void *param_read(const struct params *params, const struct param_row *row);

#endif
