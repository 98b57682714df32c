/* Commands of the program in the test's own process. */
#ifndef PENSTOCK_TESTS_COMMAND_CASE_H
#define PENSTOCK_TESTS_COMMAND_CASE_H

/* Runs a command with these arguments, NULL at the end, its standard output in the file `out_path`. Returns the exit
 * code. */
int run_command(const char *out_path, const char *name, ...);

#endif
