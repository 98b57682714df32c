/* Starting and ending the MPI job of a command. */
#ifndef PENSTOCK_CMD_JOB_H
#define PENSTOCK_CMD_JOB_H

#include <stdbool.h>

struct comm;
struct option_spec;

/* The row of --single, for commands that run under mpiexec. */
#define OPTION_SINGLE(value)                                                                                           \
  { "--single", OPTION_FLAG, NULL, "one rank on purpose, whatever the launcher says", value }

/* Blocks the signals that ask to stop, starts MPI, warns of handlers that may damage memory, and lets the ranks agree
 * on `status`, that of the command line, and on what they were started as: program, command (argv[0]) and the values of
 * its options `specs`, but for lists (-D), whose meaning is compared where it is known. When they do not, or `status`
 * is not OK, or MPI does not start, *comm is NULL and the status is returned with its message recorded. */
int job_open_all(int *argc, char ***argv, const struct option_spec *specs, bool single, int status, struct comm **comm);

/* Ends MPI after a command that returned `status`, which is returned. The message, if one is recorded, is rank 0's to
 * print (cmd_main does). */
int job_close_all(struct comm **comm, int status);

#endif
