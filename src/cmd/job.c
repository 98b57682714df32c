#include "cmd/job.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "exec/interrupt.h"
#include "kernels.h"

#include <stddef.h>

/* MPI, its network library and tools that were loaded with the program have installed their handlers by now. */
static void warn_handlers(void) {
  char names[256];
  if (!matmul_moves_stack() || !interrupt_find_handlers(names, sizeof names)) return;
  log_warn("a library or a tool has a handler for %s, which damages memory when it runs beside matrix products of %s "
           "with AVX-512: leave the tool out, or set DNNL_MAX_CPU_ISA=AVX2",
           names, matmul_get_library());
}

int job_open_all(int *argc, char ***argv, bool single, int status, struct comm **comm) {
  interrupt_init();
  int opened = comm_open_all(argc, argv, single, comm);
  if (opened) return opened;
  warn_handlers();
  status = comm_agree_all(*comm, status);
  if (status) comm_close_all(comm);
  return status;
}

int job_close_all(struct comm **comm, int status) {
  comm_close_all(comm);
  return status;
}
