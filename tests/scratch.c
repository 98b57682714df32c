#include "scratch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/comm.h"

static char folder[PATH_MAX];

const char *scratch_make(void) {
  if (*folder) return folder;
  if (!getcwd(folder, sizeof folder - sizeof "/test-XXXXXX")) exit(1);
  size_t n = strlen(folder);
  memcpy(folder + n, "/test-XXXXXX", sizeof "/test-XXXXXX");
  if (mkdtemp(folder)) return folder;
  perror(folder);
  exit(1);
}

const char *scratch_make_all(struct comm *comm) {
  if (comm_get_rank(comm) == 0) scratch_make();
  comm_broadcast_all(comm, 0, folder, sizeof folder);
  return folder;
}

void scratch_remove(void) {
  char *command = mem_format("rm -rf '%s'", folder);
  if (*folder && system(command)) {
    perror(command);
    exit(1);
  }
  mem_free(command);
  *folder = 0;
}

void scratch_remove_all(struct comm *comm) {
  comm_barrier_all(comm);
  if (comm_get_rank(comm) == 0) scratch_remove();
}
