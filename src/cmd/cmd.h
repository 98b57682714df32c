/* The commands of the program: one row of CMD_LIST and one file cmd_<name>.c each. */
#ifndef PENSTOCK_CMD_CMD_H
#define PENSTOCK_CMD_CMD_H

/* X(name, whether it is a job of all ranks (JOB) or one process (ALONE), arguments, what it does in a line) */
#define CMD_LIST(X)                                                                                                    \
  X(train, JOB, "DECK", "train the model of a deck; under mpiexec, one rank a device")                                 \
  X(plan, ALONE, "DECK", "plan a deck without running it: stages, memory, predicted step; writes plan.h5")             \
  X(profile, JOB, "DECK", "measure the ranks' devices and what lies between them; writes profile.h5")                  \
  X(simulate, ALONE, "PLAN.h5", "predict what a plan does, step after step, and where its time goes")                  \
  X(report, ALONE, "RUN", "where time and memory of a run went, rank by rank")                                         \
  X(evaluate, JOB, "DECK", "the loss of a checkpoint on given token files, each by itself")                            \
  X(verify, JOB, "DECK | --reference FILE.h5", "hold a deck's plan against one rank, or against known results")        \
  X(data, ALONE, "build --output PREFIX FILE... | check PREFIX...", "make token files from text, or check them")       \
  X(deck, ALONE, "DECK | --reference", "check a deck, or print every key with its default")

enum cmd_kind { CMD_JOB, CMD_ALONE };

struct command {
  const char *name;
  enum cmd_kind
      kind; /* under a launcher, a command that is one process runs on rank 0 and the other ranks end at once */
  const char *arguments, *summary;
  /* argv[0] is the command's name. Returns the exit code, the same on every rank. A command that starts MPI also ends
   * it. A message still recorded in the error module on return is printed by cmd_main, on rank 0. */
  int (*run)(int argc, char **argv);
};

#define CMD_DECLARE(name, kind, arguments, summary) int cmd_##name(int argc, char **argv);
CMD_LIST(CMD_DECLARE)
#undef CMD_DECLARE

/* Row by name, or NULL. */
const struct command *cmd_find(const char *name);

/* STATUS_FAILED when something that was printed on standard output has not arrived there (a full disk, a closed pipe).
 * What a run says is in its log file too, and not lost then. A command on several ranks lets them agree on it; else
 * cmd_main asks. */
int cmd_check_output(void);

/* The whole program: finds the command of a command line and runs it, or prints help or version. Returns the exit code.
 */
int cmd_main(int argc, char **argv);

#endif
