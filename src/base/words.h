/* Counts and times for people. */
#ifndef PENSTOCK_BASE_WORDS_H
#define PENSTOCK_BASE_WORDS_H

#include <stdint.h>

/* Returns the ending of a regular noun behind a number: "" for 1, else "s". Static. */
static inline const char *words_get_ending(int64_t n) { return n == 1 ? "" : "s"; }

/* Formats seconds of a step with six digits: "33 ms", from ten seconds on "97.54 s", from ten minutes on "97.54 min".
 * Returns text. */
enum { WORDS_DURATION = 32 };
const char *words_format_duration(double seconds, char text[WORDS_DURATION]);

#endif
