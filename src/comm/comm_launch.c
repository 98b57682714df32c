/* Facts about the launcher that are known without MPI. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/comm.h"

/* Variables that launchers set for each process that they start. */
static const char *const variables[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_PROCID"};

/* Returns true when the process that started this one has the variable too: then that process is a script, or a shell
 * of a batch system, and not the launcher. One whose variables cannot be read is another user's, as a daemon is. */
static bool is_inherited(const char *variable) {
  char *path = mem_format("/proc/%d/environ", (int)getppid()), *line = NULL;
  size_t room = 0, length = strlen(variable);
  FILE *file = fopen(path, "re");
  bool found = false;
  while (file && !found && getdelim(&line, &room, '\0', file) > 0)
    found = !strncmp(line, variable, length) && line[length] == '=';
  if (file) fclose(file);
  free(line);
  mem_free(path);
  return found;
}

int comm_find_launched_rank(void) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *text = getenv(variables[i]);
    if (text) return is_inherited(variables[i]) ? 0 : (int)strtol(text, NULL, 10);
  }
  return 0;
}

int comm_guess_rank(void) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    if (getenv(variables[i])) return (int)strtol(getenv(variables[i]), NULL, 10);
  return 0;
}
