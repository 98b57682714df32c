/* Hardware counters of this process, all its threads together, through PAPI where it was there when the program was
 * built and the machine lets it. What cannot be counted is NaN, never 0.
 */
#ifndef PENSTOCK_PROFILE_COUNTERS_H
#define PENSTOCK_PROFILE_COUNTERS_H

#include <stdbool.h>

enum { COUNTERS_CYCLES, COUNTERS_INSTRUCTIONS, COUNTERS_COUNT };

struct counters;

/* Starts what can be counted, each by itself. Threads that are made later are counted too. Never NULL: with nothing to
 * count all values are NaN. One at a time in a process. */
struct counters *counters_open(void);
void counters_close(struct counters **counters);
/* True when at least one counts. */
bool counters_any(const struct counters *counters);
/* Why some or all are missing, in a line; NULL when all count. Belongs to the counters. */
const char *counters_get_reason(const struct counters *counters);
/* Values since counters_open. */
void counters_read(struct counters *counters, double values[COUNTERS_COUNT]);

#endif
