#include "cmd/cmd.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "input/suggest.h"

#define CMD_ROW(name, kind, arguments, summary) {#name, CMD_##kind, arguments, summary, cmd_##name},
static const struct command commands[] = {CMD_LIST(CMD_ROW)};
#undef CMD_ROW

enum { N_COMMANDS = sizeof commands / sizeof *commands };

const struct command *cmd_find(const char *name) {
  for (int i = 0; i < N_COMMANDS; i++)
    if (!strcmp(commands[i].name, name)) return &commands[i];
  return NULL;
}

static void print_help(FILE *out) {
  fprintf(
      out,
      "usage: penstock COMMAND [OPTIONS] ARGUMENTS\n\n"
      "Trains transformer language models with pipeline parallelism on MPI ranks, under a memory limit a device.\n\n");
  for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
  fprintf(out,
          "\npenstock help COMMAND, or penstock COMMAND --help, says more of each; penstock --version says what was "
          "built.\n"
          "Exit codes: 0 finished, 1 failure, 2 mistake in deck or command line, 75 stopped early and resumable.\n");
}

static int refuse_command(const char *name) {
  const char *names[N_COMMANDS + 1] = {NULL};
  for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
  const char *nearest = suggest_find(name, names);
  if (nearest) return error_raise(STATUS_MISTAKE, "unknown command '%s' (did you mean '%s'?)", name, nearest);
  return error_raise(STATUS_MISTAKE, "unknown command '%s' (penstock --help lists them)", name);
}

/* penstock help COMMAND is penstock COMMAND --help. */
static int run_help(int argc, char **argv) {
  char *asked[] = {argc > 2 ? argv[2] : NULL, (char *)(uintptr_t) "--help", NULL};
  const struct command *command = argc > 2 ? cmd_find(argv[2]) : NULL;
  if (command) return command->run(2, asked);
  if (argc > 2 && strcmp(argv[2], "help")) return refuse_command(argv[2]);
  print_help(stdout);
  return STATUS_OK;
}

/* Returns true when a launcher started this rank for a command that one process does alone. Rank 1 warns. */
static bool is_needless(const struct command *command) {
  if (command->kind == CMD_JOB) return false;
  int rank = comm_find_launched_rank();
  if (rank == 1) log_warn("%s is one process: rank 0 runs it, the other ranks end at once", command->name);
  return rank > 0;
}

/* A command line that names no command: of a job, rank 0 says so for all. */
static int refuse_line(int argc, char **argv) {
  if (comm_find_launched_rank() > 0) return STATUS_MISTAKE;
  if (argc > 1) return refuse_command(argv[1]);
  print_help(stderr);
  return STATUS_MISTAKE;
}

static int run_command(int argc, char **argv) {
  if (argc < 2) return refuse_line(argc, argv);
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) return run_help(argc, argv);
  if (!strcmp(argv[1], "--version")) {
    printf("penstock %s\n%s\n", PACKAGE_VERSION, PENSTOCK_BUILD);
    return STATUS_OK;
  }
  const struct command *command = cmd_find(argv[1]);
  if (!command) return refuse_line(argc, argv);
  return is_needless(command) ? STATUS_OK : command->run(argc - 1, argv + 1);
}

int cmd_check_output(void) {
  if (!fflush(stdout) && !ferror(stdout) && !log_has_lost()) return STATUS_OK;
  return error_raise(STATUS_FAILED, "standard output cannot be written");
}

int cmd_main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); /* a limit on file size is an error like a full disk, which says what it met */
  int status = run_command(argc, argv);
  if (!status) status = cmd_check_output();
  if (status && error_text()[0] && log_get_rank() == 0) log_error("%s", error_text());
  return status;
}
