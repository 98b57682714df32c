/* The mistakes of a deck, collected so that all are told in one go. */
#ifndef PENSTOCK_INPUT_MISTAKES_H
#define PENSTOCK_INPUT_MISTAKES_H

#include <stdbool.h>
#include <stdint.h>

enum { MISTAKES_SHOWN = 20 }; /* longer lists end with "and N more" */

struct mistakes {
  char *text; /* lines so far, owned; NULL when there are none */
  int64_t n, n_shown;
  bool full; /* the text is as long as a message may be */
};

/* Adds one line, without newline. */
void mistakes_add(struct mistakes *mistakes, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Empties the list. Returns STATUS_OK when it was empty, else raises all of it as one STATUS_MISTAKE. */
int mistakes_end(struct mistakes *mistakes);

#endif
