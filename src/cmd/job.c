#include "cmd/job.h"

#include "base/binding.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "cmd/options.h"
#include "comm/comm.h"
#include "kernels.h"
#include "setup/setup.h"

#include <stddef.h>
#include <string.h>

/* MPI, its network library and tools that were loaded with the program have installed their handlers by now. */
static void warn_handlers(void) {
  char names[256];
  if (!matmul_moves_stack() || !interrupt_find_handlers(names, sizeof names)) return;
  log_warn("a library or a tool has a handler for %s, which damages memory when it runs beside matrix products of %s "
           "with AVX-512: leave the tool out, or set DNNL_MAX_CPU_ISA=AVX2",
           names, matmul_get_library());
}

/* Describes for people how this rank was started; owned by the caller. */
static char *describe_start(int n_arguments, const char *command, const struct option_spec *specs) {
  char *text = mem_format("penstock %s %s", version_get(), command);
  for (const struct option_spec *spec = specs; spec->name; spec++) {
    const char *value = spec->kind == OPTION_TEXT ? *(const char *const *)spec->value : NULL;
    bool given = value || (spec->kind == OPTION_FLAG && *(const bool *)spec->value);
    if (!given) continue;
    char *longer = mem_format("%s %s%s%s", text, spec->name, value ? " " : "", value ? value : "");
    mem_free(text);
    text = longer;
  }
  if (n_arguments < 2) return text; /* one is the deck, which may have another name */
  char *longer = mem_format("%s with %d arguments", text, n_arguments);
  mem_free(text);
  return longer;
}

static int compare_start_all(struct comm *comm, int n_arguments, const char *command, const struct option_spec *specs) {
  char *mine = describe_start(n_arguments, command, specs), *theirs = setup_share_text_all(comm, mine);
  int status = STATUS_OK;
  if (strcmp(mine, theirs))
    status = error_raise(STATUS_MISTAKE, "this rank was started as `%s`, rank 0 (%s) as `%s`: start all the same way",
                         mine, comm_get_host(comm, 0), theirs);
  mem_free(mine);
  mem_free(theirs);
  return comm_agree_all(comm, status);
}

/* Before MPI starts: afterwards it would be too late. One rank speaks. */
static int check_limits(void) {
  log_init(comm_guess_rank());
  int status = limits_prepare();
  if (!status && *limits_warn_of_files()) log_warn("%s", limits_warn_of_files());
  return status;
}

int job_open_all(int *argc, char ***argv, const struct option_spec *specs, bool single, int status,
                 struct comm **comm) {
  binding_restore();
  interrupt_init();
  int opened = check_limits();
  if (!opened) opened = comm_open_all(argc, argv, single, comm);
  if (opened) return opened;
  warn_handlers();
  status = comm_agree_all(*comm, status);
  if (!status) status = compare_start_all(*comm, *argc - 1, (*argv)[0], specs);
  if (status) comm_close_all(comm);
  return status;
}

int job_close_all(struct comm **comm, int status) {
  comm_close_all(comm);
  return status;
}
