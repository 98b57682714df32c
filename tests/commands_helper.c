/* Commands of the program, one after the other in one job: starting the ranks anew takes longer than what many tests
 * want of them.
 *
 *   commands_helper FILE
 *
 * Each line of FILE is a command, its arguments separated by tabs. What the k-th prints goes to the files out.K and
 * err.K of the current folder, its exit code to code.K (k from 1). Exit code 0 when all were run, however they ended.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/job.h"
#include "comm/comm.h"
#include "store/disk.h"

enum { MOST_ARGUMENTS = 64 };

static struct comm *job;

/* In place of those of cmd/job.h: a command borrows the job and leaves it as it was. */
int job_open_all(int *argc, char ***argv, const struct option_spec *specs, bool single, int status,
                 struct comm **comm) {
  (void)argc, (void)argv, (void)specs, (void)single;
  status = comm_agree_all(job, status);
  *comm = status ? NULL : job;
  return status;
}

int job_close_all(struct comm **comm, int status) {
  *comm = NULL;
  return status;
}

/* All ranks append to one file, as they do under a launcher. */
static void redirect(int descriptor, const char *name, int k) {
  char *path = mem_format("%s.%d", name, k);
  fflush(NULL);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0 || dup2(file, descriptor) < 0) exit(4);
  close(file);
  mem_free(path);
}

static void write_code(int k, int code) {
  char path[32];
  snprintf(path, sizeof path, "code.%d", k);
  FILE *out = fopen(path, "w");
  if (!out || fprintf(out, "%d\n", code) < 0 || fclose(out)) exit(4);
}

static void run_line(char *line, int k) {
  char *argv[MOST_ARGUMENTS + 1] = {NULL}, *rest = line;
  int argc = 0;
  while (argc < MOST_ARGUMENTS && (argv[argc] = strsep(&rest, "\t"))) argc++;
  const struct command *command = cmd_find(argv[0]);
  if (!command || command->kind != CMD_JOB) exit(4);
  redirect(STDOUT_FILENO, "out", k);
  redirect(STDERR_FILENO, "err", k);
  error_clear();
  int code = command->run(argc, argv);
  if (comm_get_rank(job) == 0) {
    if (code && *error_text()) log_error("%s", error_text());
    write_code(k, code);
  }
  fflush(NULL);
  comm_barrier_all(job);
}

int main(int argc, char **argv) {
  char *text = NULL, *rest, *line;
  interrupt_init();
  if (comm_open_all(&argc, &argv, true, &job) || argc != 2 || disk_read_text(argv[1], &text) || !text) return 4;
  rest = text;
  for (int k = 1; (line = strsep(&rest, "\n")) && *line; k++) run_line(line, k);
  mem_free(text);
  comm_close_all(&job);
  return 0;
}
