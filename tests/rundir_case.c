#include "rundir_case.h"

#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "scratch.h"
#include "store/disk.h"
#include "t.h"

char *rundir_case_folder;

void rundir_case_begin(const char *name) {
  mem_free(rundir_case_folder);
  rundir_case_folder = mem_format("%s/%s", scratch_make(), name);
}

void rundir_case_end(void) {
  mem_free(rundir_case_folder);
  rundir_case_folder = NULL;
  scratch_remove();
}

int rundir_case_open(struct rundir **dir, enum run_state *state, int64_t *last_step) {
  return rundir_open(rundir_case_folder, NULL, dir, state, last_step);
}

int rundir_case_start(int64_t *last_step) {
  struct rundir *dir;
  enum run_state state;
  if (rundir_case_open(&dir, &state, last_step)) return -1;
  bool begun = !rundir_begin(dir);
  rundir_close(&dir);
  return begun ? (int)state : -2;
}

void rundir_case_write(const char *name, const char *text) {
  char *path = mem_format("%s/%s", rundir_case_folder, name);
  T_CHECK(!disk_write_text(path, text), "%s", error_text());
  mem_free(path);
}

bool rundir_case_has(const char *name) {
  char *path = mem_format("%s/%s", rundir_case_folder, name);
  bool there = access(path, F_OK) == 0;
  mem_free(path);
  return there;
}
