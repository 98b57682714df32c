/* The limits that a shell or a batch system sets on a process (ulimit): those that a job needs are raised as far as
 * they may be, and what a limit forbids is said with its name.
 */
#ifndef PENSTOCK_BASE_LIMITS_H
#define PENSTOCK_BASE_LIMITS_H

/* Before MPI starts: raises the soft limits on open files and on the stack that are lower than what a job needs, up to
 * the hard ones. STATUS_MISTAKE when one stays too low: MPI or the run would end of it later, of a signal or in the
 * middle. */
int limits_prepare(void);

/* Before MPI starts: a warning of a limit on the size of files that is lower than what MPI shares between processes, ""
 * when there is none. Static. */
const char *limits_warn_of_files(void);

/* Returns strerror's text of an errno, with the limit that caused it: "Too many open files (ulimit -n is 32)".
 * Belongs to the thread, until its next call. */
const char *limits_reason(int number);

#endif
