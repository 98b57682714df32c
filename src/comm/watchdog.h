/* Names who is stuck when nothing moves.
 *
 * A rank that has waited the hang timeout asks all ranks for their state (small messages on a communicator of their own,
 * answered from comm_poll and from every wait). After a short collection time it prints, once for the whole job: which
 * ranks gave no answer (silent since which step, their last known node), and of the others who waits for whom and for
 * what; calls the flush hook; ends the job with STATUS_FAILED. Trigger and collection together stay within the timeout.
 */
#ifndef PENSTOCK_COMM_WATCHDOG_H
#define PENSTOCK_COMM_WATCHDOG_H

#include <stdint.h>

struct comm;

/* Sets the longest time without progress, seconds (0 turns it off). */
void watchdog_set_timeout(struct comm *comm, double seconds);
/* What to do on this rank before the job ends (flush the trace, write STATUS); may be NULL. */
void watchdog_set_hook(struct comm *comm, void (*hook)(void *context, const char *reason), void *context);
/* Says where this rank is: the step and the node ("B stage 1 micro-batch 3") it has last begun. Cheap: the text is copied
 * into a fixed buffer. Also counts as progress. */
void watchdog_note(struct comm *comm, int64_t step, const char *node);

#endif
