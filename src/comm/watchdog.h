/* Names who is stuck when nothing moves.
 *
 * A rank that has waited half the hang timeout asks all ranks for their state (small messages on a communicator of
 * their own, answered from comm_poll and from every wait). Within the timeout it judges: ranks that gave no answer for
 * 0.4 of it are silent; without one the job is stuck when every rank has waited for long. Then it prints, once for the
 * whole job, which ranks are silent (in which step and node they were last), and of the others who waits for whom and
 * for what; calls every responding rank's hook; ends the job with STATUS_FAILED. While some rank works on, waits go on.
 * So work that calls neither comm_poll nor a wait for 0.4 of the timeout is taken for a hang when others wait for it.
 */
#ifndef PENSTOCK_COMM_WATCHDOG_H
#define PENSTOCK_COMM_WATCHDOG_H

#include <stdint.h>

struct comm;

/* Sets the longest time without progress, seconds (0 turns it off). */
void watchdog_set_timeout(struct comm *comm, double seconds);
/* Sets the function that runs on this rank before the job ends (flush the trace, write STATUS); may be NULL. `reason`
 * is one line. It must not communicate; after 2 s (10 s where it runs on the judging rank) the job ends without it. */
void watchdog_set_hook(struct comm *comm, void (*hook)(void *context, const char *reason), void *context);
/* Says where this rank is: the step and the node ("B stage 1 micro-batch 3") it has last begun. Cheap: the text is
 * copied into a fixed buffer. Also counts as progress. */
void watchdog_note(struct comm *comm, int64_t step, const char *node);
/* This rank alone cannot go on, while the others may wait for it: rank 0 prints `reason` as the error of the job (this
 * rank does where rank 0 is silent for 2 s), all ranks that answer run their hooks, the job ends with `status`. */
_Noreturn void watchdog_end_job(struct comm *comm, int status, const char *reason);

#endif
