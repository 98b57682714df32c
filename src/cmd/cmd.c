#include "cmd/cmd.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "input/suggest.h"

#define CMD_ROW(name, arguments, summary) {#name, arguments, summary, cmd_##name},
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
          "\npenstock COMMAND --help says more of each; penstock --version says what was built.\n"
          "Exit codes: 0 finished, 1 failure, 2 mistake in deck or command line, 75 stopped early and resumable.\n");
}

static int refuse_command(const char *name) {
  const char *names[N_COMMANDS + 1] = {NULL};
  for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
  const char *nearest = suggest_find(name, names);
  if (nearest) return error_raise(STATUS_MISTAKE, "unknown command '%s' (did you mean '%s'?)", name, nearest);
  return error_raise(STATUS_MISTAKE, "unknown command '%s' (penstock --help lists them)", name);
}

static int run_command(int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr);
    return STATUS_MISTAKE;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    print_help(stdout);
    return STATUS_OK;
  }
  if (!strcmp(argv[1], "--version")) {
    printf("penstock %s\n%s\n", PACKAGE_VERSION, PENSTOCK_BUILD);
    return STATUS_OK;
  }
  const struct command *command = cmd_find(argv[1]);
  return command ? command->run(argc - 1, argv + 1) : refuse_command(argv[1]);
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
