/* Lines for people. Rank 0 speaks on standard output and in the run's log file; warnings go to standard error as well
 * as the log; other ranks are silent except through log_rank. Every line is formatted into a buffer and written with
 * one write(2), so that lines of several ranks never mix.
 */
#ifndef PENSTOCK_BASE_LOG_H
#define PENSTOCK_BASE_LOG_H

#include <stdbool.h>

/* Sets the rank that this process speaks as. Before it, rank is 0. */
void log_init(int rank);
int log_get_rank(void);

/* Keeps rank 0's lines from now on for the file that log_open_file opens later: before it is known whether a file may
 * be written at all. */
void log_hold_file(void);
/* Also appends rank 0's lines to this file from now on, first those that were kept; NULL closes it and drops what is
 * kept. Returns a status. */
int log_open_file(const char *path);

/* One line from rank 0 on standard output and in the log file; a newline is added. No effect on other ranks. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line from rank 0 in the log file alone: what standard output or error has in other words already. */
void log_file_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* True when a line of log_line reached nobody: standard output did not take it, and there was no log file, or it did
 * not either. Never false again. */
bool log_has_lost(void);

/* One line from rank 0, "penstock: warning: ...", on standard error and in the log file. */
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line from rank 0, "penstock: note: ...", on standard error, so that it does not mix with results on standard
 * output, and in the log file. */
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line from any rank, "penstock: rank R: ...", on standard error (and in the log file on rank 0). */
void log_rank(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The error line: "penstock: error: ..." on standard error and in the log file, whatever the rank. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Waits until whoever reads standard output and error has taken all that was written, seconds at most. Only pipes and
 * sockets can tell; other files are not waited for. A launcher that is told of an abort ends without reading on, so the
 * last line would be lost. */
void log_wait_read(double seconds);

#endif
