/* "did you mean": the nearest known word. */
#ifndef PENSTOCK_INPUT_SUGGEST_H
#define PENSTOCK_INPUT_SUGGEST_H

/* Edits (insert, delete, replace, swap two neighbours) that turn one word into the other, case ignored. Words longer
 * than 63 bytes are further from everything than any limit. */
int suggest_distance(const char *a, const char *b);

/* The best of several words, offered one after another; begin with {0}. */
struct suggestion {
  const char *word; /* NULL: nothing near enough so far. Borrowed from suggest_offer */
  int distance;
};
/* Offers `known` as what was meant by `word`, and `answer` as what to say then. Kept when it is nearer than what is
 * there and no further than a third of the longer word. */
void suggest_offer(struct suggestion *best, const char *word, const char *known, const char *answer);

/* The nearest of a NULL-terminated list, or NULL. */
const char *suggest_find(const char *word, const char *const *known);

#endif
