/* Requests to stop early: SIGTERM, SIGUSR1 (and SIGINT), the file `stop` in the run folder, run.wall_time. Any rank may
 * notice; the ranks agree at the end of a step. */
#ifndef PENSTOCK_EXEC_INTERRUPT_H
#define PENSTOCK_EXEC_INTERRUPT_H

/* Installs the handlers; called before MPI starts. SIGXFSZ and SIGPIPE are ignored (writes report the error instead),
 * SIGCONT too. */
void interrupt_init(void);
/* Name of the signal received so far ("SIGTERM"), or NULL. */
const char *interrupt_get_signal(void);

#endif
