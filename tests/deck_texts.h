/* Decks made by tests: parse a text and look at what comes of it. */
#ifndef PENSTOCK_TESTS_DECK_TEXTS_H
#define PENSTOCK_TESTS_DECK_TEXTS_H

#include "t.h"

#include "base/error.h"
#include "base/mem.h"
#include "input/deck.h"
#include "input/param_table.h"
#include "input/params.h"

/* Parses `yaml` as deck t.yml with at most one override. */
int parse_text(const char *yaml, const char *override, struct params *params);

/* A deck or override that must be refused with a message that holds `wanted`. */
void check_refused(const char *yaml, const char *override, const char *wanted);

/* A deck that must be taken; the caller frees with params_fini. */
struct params parse_good(const char *yaml, const char *override);
void write_file(const char *path, const char *text);

#endif
