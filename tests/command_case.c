#include "command_case.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "cmd/cmd.h"

int run_command(const char *out_path, const char *name, ...) {
  char *argv[16] = {(char *)(uintptr_t)name};
  int argc = 1, shown = dup(STDOUT_FILENO), out = open(out_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  va_list list;
  va_start(list, name);
  while (argc < 15 && (argv[argc] = va_arg(list, char *))) argc++;
  va_end(list);
  fflush(stdout);
  dup2(out, STDOUT_FILENO);
  error_clear();
  int status = cmd_find(name)->run(argc, argv);
  fflush(stdout);
  dup2(shown, STDOUT_FILENO);
  close(shown);
  close(out);
  return status;
}
