/* Requests to stop early that come as signals: SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGXCPU (a soft limit on CPU time)
 * and SIGHUP. Any rank may get one; the ranks agree at the end of a step.
 *
 * They are blocked in every thread and asked for: no handler runs. oneDNN's products for AVX-512 keep data in the stack
 * pointer, so the frame of a handler that runs on a computing thread's own stack is written into the heap.
 */
#ifndef PENSTOCK_BASE_INTERRUPT_H
#define PENSTOCK_BASE_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>

/* Blocks the signals in this thread and so in every thread that it makes: called before MPI starts, and before any
 * thread is made. SIGXFSZ and SIGPIPE are ignored (writes report the error instead), SIGCONT too. A SIGHUP that the
 * program was started to ignore (nohup) is no request. */
void interrupt_init(void);
/* Name of the first signal received so far ("SIGTERM"), or NULL. Asks the system: some hundred nanoseconds. Main
 * thread. */
const char *interrupt_get_signal(void);
/* Names of signals ("SIGPROF, signal 34") whose handlers, installed by a library or a tool, may run on the stack of a
 * computing thread, in the caller's buffer; false when there are none. Handlers of faults, of signals that are blocked
 * here and on an alternate stack do not count. */
bool interrupt_find_handlers(char *names, size_t size);

#endif
