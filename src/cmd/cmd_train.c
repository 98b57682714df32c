/* penstock train DECK: trains the model of a deck on the ranks of an MPI job. */
#include "cmd/cmd.h"
#include "cmd/job.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/options.h"
#include "report/report.h"
#include "run/run.h"

#include <string.h>

/* The command line as one text, for the manifest; owned by the caller. */
static char *join_arguments(int argc, char **argv) {
  char *text = mem_strdup("penstock");
  for (int i = 0; i < argc; i++) {
    char *longer = mem_format("%s %s", text, argv[i]);
    mem_free(text);
    text = longer;
  }
  return text;
}

/* report.txt is a help, not the run: what goes wrong with it is a warning. */
static void save_report(const char *folder, const char *run_status) {
  if (report_save(folder, run_status)) log_warn("%s", error_text());
  error_clear();
}

static int train_all(struct comm *comm, const char *deck, const struct option_list *overrides, const char *command) {
  struct params params;
  int status = setup_params_all(comm, deck, overrides->items, overrides->n, &params, NULL);
  if (status) return status;
  status = run_train_all(comm, &params, command, save_report);
  params_fini(&params);
  return status;
}

int cmd_train(int argc, char **argv) {
  struct option_list overrides = {0};
  bool single = false, done = false;
  const struct option_spec specs[] = {
      OPTION_OVERRIDES(&overrides),
      OPTION_SINGLE(&single),
      {0},
  };
  char *command = join_arguments(argc, argv);
  struct comm *comm = NULL;
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done && argc != 2) status = error_raise(STATUS_MISTAKE, "train takes one deck: penstock train DECK");
  if (!done) status = job_open_all(&argc, &argv, specs, single, status, &comm);
  if (comm) {
    status = job_close_all(&comm, train_all(comm, argv[1], &overrides, command));
  }
  options_fini(&overrides);
  mem_free(command);
  return status;
}
