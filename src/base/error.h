/* Errors that a good run can meet: a status to return and one message for the user.
 *
 * A function that can fail returns a status. On failure it has recorded one message with error_raise; callers pass the
 * status up unchanged, and only the command at the top prints error_text(), once. The message says what is wrong,
 * where, and how to repair it. CHECK is for what cannot happen unless the program or the machine is broken: it prints
 * rank and place and ends the whole job.
 */
#ifndef PENSTOCK_BASE_ERROR_H
#define PENSTOCK_BASE_ERROR_H

/* The exit codes of the program, the same on every rank. */
enum status {
  STATUS_OK = 0,
  STATUS_FAILED = 1,   /* something went wrong that the user did not ask for */
  STATUS_MISTAKE = 2,  /* mistake in deck, command line, or in a file that they name */
  STATUS_STOPPED = 75, /* stopped early, resumable */
};

/* Records the message of this thread (replacing an earlier one) and returns `status`. */
int error_raise(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts context before the recorded message ("while reading X: ..."); returns the recorded status. */
int error_wrap(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The recorded message ("" when there is none) and status. The text belongs to this module. */
const char *error_text(void);
int error_status(void);
void error_clear(void);

/* Sets the function that CHECK calls after printing, to take the other ranks down (comm sets it to MPI_Abort). Default:
 * abort(). */
void error_set_abort(void (*abort_job)(int status));

/* Prints "penstock: rank R: file:line: message" on standard error in one write and ends the job. */
_Noreturn void error_die(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define CHECK(condition, ...) ((condition) ? (void)0 : error_die(__FILE__, __LINE__, __VA_ARGS__))

#endif
