/* The commands of the program: one row of CMD_LIST and one file cmd_<name>.c each. */
#ifndef PENSTOCK_CMD_CMD_H
#define PENSTOCK_CMD_CMD_H

/* X(name, arguments, what it does in a line) */
#define CMD_LIST(X)                                                                                                    \
  X(train, "DECK", "train the model of a deck; under mpiexec, one rank a device")                                      \
  X(plan, "DECK", "plan a deck without running it: stages, memory, predicted step; writes plan.h5")                    \
  X(profile, "DECK", "measure the ranks' devices and what lies between them; writes profile.h5")                       \
  X(simulate, "PLAN.h5", "predict what a plan does, step after step, and where its time goes")                         \
  X(report, "RUN", "where time and memory of a run went, rank by rank")                                                \
  X(evaluate, "DECK", "the loss of a checkpoint on given token files, each by itself")                                 \
  X(verify, "DECK | --reference FILE.h5", "hold a deck's plan against one rank, or against known results")             \
  X(data, "build --output PREFIX FILE... | check PREFIX...", "make token files from text, or check them")              \
  X(deck, "DECK | --reference", "check a deck, or print every key with its default")

struct command {
  const char *name, *arguments, *summary;
  /* argv[0] is the command's name. Returns the exit code, the same on every rank. A command that starts MPI also ends it.
   * A message still recorded in the error module on return is printed by cmd_main, on rank 0. */
  int (*run)(int argc, char **argv);
};

#define CMD_DECLARE(name, arguments, summary) int cmd_##name(int argc, char **argv);
CMD_LIST(CMD_DECLARE)
#undef CMD_DECLARE

/* Row by name, or NULL. */
const struct command *cmd_find(const char *name);

/* STATUS_FAILED when something that was printed on standard output has not arrived there (a full disk, a closed pipe). What a
 * run says is in its log file too, and not lost then. A command on several ranks lets them agree on it; else cmd_main asks. */
int cmd_check_output(void);

/* The whole program: finds the command of a command line and runs it, or prints help or version. Returns the exit code. */
int cmd_main(int argc, char **argv);

#endif
