/* The last steps' values of a fixed set of quantities, for their medians. Constant memory. */
#ifndef PENSTOCK_RUN_TALLY_H
#define PENSTOCK_RUN_TALLY_H

#include <stdint.h>

enum { TALLY_STEPS = 64 }; /* that are kept at most */

struct tally;
/* Owned by the caller. */
struct tally *tally_create(int n_values);
void tally_destroy(struct tally **tally);

/* values[n_values] of one step. The first step warms up: it counts only until there is a second one. */
void tally_add(struct tally *tally, const double *values);
/* Steps that count. */
int64_t tally_count(const struct tally *tally);
/* Medians over them, of each value by itself; all 0 without steps. */
void tally_get_medians(const struct tally *tally, double *medians);

#endif
