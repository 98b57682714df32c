#include "cmd/job.h"

#include "base/error.h"
#include "comm/comm.h"
#include "exec/interrupt.h"

#include <stddef.h>

int job_open_all(int *argc, char ***argv, bool single, int status, struct comm **comm) {
  interrupt_init();
  int opened = comm_open_all(argc, argv, single, comm);
  if (opened) return opened;
  status = comm_agree_all(*comm, status);
  if (status) comm_close_all(comm);
  return status;
}

int job_close_all(struct comm **comm, int status) {
  comm_close_all(comm);
  return status;
}
