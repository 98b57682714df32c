/* Ends the process when work that may hang does: a thread sleeps until then. No timer's signal, whose handler would run
 * on the stack of whatever thread it meets (base/interrupt.h says what that costs). One deadline at a time.
 */
#ifndef PENSTOCK_BASE_DEADLINE_H
#define PENSTOCK_BASE_DEADLINE_H

/* Makes the process end in `seconds` with _exit(status), unless deadline_clear or another deadline_set comes first.
 * Where the system has no more threads, SIGALRM ends it. */
void deadline_set(double seconds, int status);
void deadline_clear(void);

#endif
