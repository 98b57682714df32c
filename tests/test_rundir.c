/* The run folder: of jobs that start at once exactly one gets it, whatever a killed one has left; STATUS; a folder that
 * is renamed, removed or replaced; what a start that is refused leaves.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "rundir_case.h"
#include "scratch.h"
#include "store/disk.h"
#include "t.h"

static bool no_locks; /* as on a file system without them */

int flock(int descriptor, int operation) {
  if (!no_locks) return (int)syscall(SYS_flock, descriptor, operation);
  errno = ENOLCK;
  return -1;
}

/* ---- one job at a time ---- */

enum { JOBS = 6 };

/* In a child: takes the rundir_case_folder, tells how that went, holds it until the parent closes the pipe. */
static void run_job(int go, int told, int end) {
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  char byte;
  if (read(go, &byte, 1) < 0) _exit(3);
  int status = rundir_case_open(&dir, &state, &last_step);
  byte = (char)(status == STATUS_OK                                               ? 'y'
                : status == STATUS_STOPPED && strstr(error_text(), "another job") ? 'n'
                                                                                  : '?');
  if (write(told, &byte, 1) != 1 || read(end, &byte, 1) < 0) _exit(3);
  if (status == STATUS_OK) _exit(9); /* killed: the lock stays */
  _exit(0);
}

static void start_together(const char *what) {
  int go[2], told[2], end[2], won = 0, refused = 0;
  if (pipe(go) || pipe(told) || pipe(end)) exit(1);
  for (int i = 0; i < JOBS; i++)
    if (fork() == 0) {
      close(go[1]), close(end[1]);
      run_job(go[0], told[1], end[0]);
    }
  close(go[1]); /* all at once */
  for (int i = 0; i < JOBS; i++) {
    char byte = 0;
    if (read(told[0], &byte, 1) != 1) break;
    won += byte == 'y', refused += byte == 'n';
  }
  T_CHECK(won == 1 && refused == JOBS - 1, "%s: %d of %d jobs have the rundir_case_folder, %d were refused", what, won,
          JOBS, refused);
  close(end[1]);
  for (int i = 0; i < JOBS; i++) wait(NULL);
  close(go[0]), close(told[0]), close(told[1]), close(end[0]);
}

static void test_race(void) {
  for (int i = 0; i < 20; i++) {
    char name[32];
    snprintf(name, sizeof name, "race%d", i);
    rundir_case_begin(name);
    no_locks = i % 2;
    start_together("a new folder");
    start_together("what a killed job left");
    int64_t last_step;
    T_CHECK(rundir_case_start(&last_step) >= 0, "after both: %s", error_text());
  }
  no_locks = false;
}

static void write_lock(const char *host, long pid, const char *boot, const char *job, int age) {
  char *text = mem_format("host %s pid %ld started 12345 boot %s job %s restart 0\n", host, pid, boot, job);
  rundir_case_write(".lock.7", text);
  char *path = mem_format("%s/.lock.7", rundir_case_folder);
  struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
  T_CHECK(!utimensat(AT_FDCWD, path, times, 0), "touch %s", path);
  mem_free(path);
  mem_free(text);
}

static void test_foreign_locks(void) {
  int64_t last_step;
  char host[256];
  gethostname(host, sizeof host);
  rundir_case_begin("foreign");
  rundir_case_start(&last_step);
  write_lock("elsewhere", 17, "x", "99", 60);
  T_CHECK(rundir_case_start(&last_step) == -1 && strstr(error_text(), "17 on host elsewhere (job 99)") &&
              strstr(error_text(), ".lock.7"),
          "%s", error_text());
  setenv("SLURM_JOB_ID", "99", 1);
  setenv("SLURM_RESTART_COUNT", "1", 1);
  T_CHECK(rundir_case_start(&last_step) >= 0, "a job started again by Slurm: %s", error_text());
  unsetenv("SLURM_RESTART_COUNT");
  unsetenv("SLURM_JOB_ID");
  T_CHECK(!rundir_case_has(".lock.7"), "a dead lock stays");
  write_lock("elsewhere", 17, "x", "-", RUNDIR_STALE_SECONDS + 10);
  T_CHECK(rundir_case_start(&last_step) >= 0, "no sign of life: %s", error_text());
  write_lock(host, (long)getpid(), "another-boot", "-", 0);
  T_CHECK(rundir_case_start(&last_step) >= 0, "before the last boot: %s", error_text());
  struct rundir *dir, *second;
  enum run_state state;
  T_CHECK(!rundir_case_open(&dir, &state, &last_step), "%s", error_text());
  T_CHECK(rundir_case_open(&second, &state, &last_step) == STATUS_STOPPED && !second, "the same process twice");
  rundir_close(&dir);
  rundir_case_write(".lock.7", "");
  T_CHECK(rundir_case_start(&last_step) >= 0 && !rundir_case_has(".lock.7"), "an empty lock: %s", error_text());
}

/* A lock that the same batch job has on another host is that of its life before, unless it beats. */
static void test_job_again(void) {
  static const struct {
    const char *id, *task, *value, *job;
    bool is_same;
  } cases[] = {
      {"SLURM_JOB_ID", NULL, NULL, "4711", true},
      {"PBS_JOBID", NULL, NULL, "4711.server", true},
      {"PBS_JOBID", NULL, NULL, "4711[3].server", true},
      {"LSB_JOBID", "LSB_JOBINDEX", "0", "4711", true},
      {"LSB_JOBID", "LSB_JOBINDEX", "2", "4711:2", true},
      {"LSB_JOBID", "LSB_JOBINDEX", "2", "4711:3", false},
      {"JOB_ID", "SGE_TASK_ID", "undefined", "4711", true},
      {"JOB_ID", "SGE_TASK_ID", "1", "4711:2", false},
      {"FLUX_JOB_ID", NULL, NULL, "f2Bq", true},
      {"COBALT_JOBID", NULL, NULL, "4711", true},
  };
  int64_t last_step;
  rundir_case_begin("again");
  rundir_case_start(&last_step);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *id = mem_strdup(cases[i].job);
    id[strcspn(id, ":")] = '\0';
    setenv(cases[i].id, id, 1);
    if (cases[i].task) setenv(cases[i].task, cases[i].value, 1);
    write_lock("node17", 17, "x", cases[i].job, 300);
    int state = rundir_case_start(&last_step);
    T_CHECK(cases[i].is_same == (state >= 0), "%s, lock of job %s: %s", cases[i].id, cases[i].job, error_text());
    if (state < 0) T_CHECK(error_status() == STATUS_STOPPED, "status %d", error_status());
    unsetenv(cases[i].id);
    if (cases[i].task) unsetenv(cases[i].task);
    mem_free(id);
  }
}

static int n_polls;
static void touch_lock(void *path) {
  if (++n_polls == 5) utimensat(AT_FDCWD, path, NULL, 0);
}
static void count_poll(void *unused) {
  (void)unused;
  n_polls++;
}

/* A lock of this job that was touched not long ago is watched: it beats, or it does not. */
static void test_job_beside(void) {
  int64_t last_step;
  enum run_state state;
  struct rundir *dir;
  rundir_case_begin("beside");
  rundir_case_start(&last_step);
  setenv("PBS_JOBID", "4711", 1);
  write_lock("node17", 17, "x", "4711", RUNDIR_SILENT_SECONDS - 3);
  struct rundir_poll poll = {count_poll, NULL};
  T_CHECK(!rundir_open(rundir_case_folder, &poll, &dir, &state, &last_step) && n_polls > 5, "silent: %s", error_text());
  rundir_close(&dir);
  write_lock("node17", 17, "x", "4711", RUNDIR_SILENT_SECONDS - 20);
  char *path = mem_format("%s/.lock.7", rundir_case_folder);
  n_polls = 0;
  poll = (struct rundir_poll){touch_lock, path};
  T_CHECK(rundir_open(rundir_case_folder, &poll, &dir, &state, &last_step) == STATUS_STOPPED &&
              rundir_case_has(".lock.7"),
          "it beats: %s", error_text());
  unsetenv("PBS_JOBID");
  mem_free(path);
}

/* ---- the folder that a run has opened ---- */

static char *move_folder(const char *to) {
  char *path = mem_format("%s/%s", scratch_make(), to);
  T_CHECK(!rename(rundir_case_folder, path), "rename: %s", strerror(errno));
  return path;
}

static bool is_there(const char *path, const char *name) {
  char *file = mem_format("%s/%s", path, name);
  bool there = access(file, F_OK) == 0;
  mem_free(file);
  return there;
}

/* Renamed, replaced, removed, or its lock taken: the run finds out, and what it still writes goes into its own folder.
 */
static void test_lost_folder(void) {
  int64_t last_step;
  enum run_state state;
  struct rundir *dir, *other;
  rundir_case_begin("renamed");
  T_CHECK(!rundir_case_open(&dir, &state, &last_step) && !rundir_check(dir), "%s", error_text());
  struct rundir_token token = rundir_get_token(dir);
  char *moved = move_folder("renamed-away");
  T_CHECK(rundir_check(dir) == STATUS_FAILED && strstr(error_text(), "renamed"), "renamed: %s", error_text());
  T_CHECK(!rundir_case_open(&other, &state, &last_step) && !rundir_check(other), "another run there: %s", error_text());
  T_CHECK(rundir_check(dir) == STATUS_FAILED, "replaced");
  T_CHECK(!rundir_write_status(dir, "FAILED it was renamed") && is_there(moved, "STATUS") && !rundir_case_has("STATUS"),
          "STATUS goes into the own folder: %s", error_text());
  rundir_close(&dir);
  T_CHECK(rundir_case_has(".lock.1") && !is_there(moved, token.name), "each lock is removed by its own run");
  rundir_close(&other);

  rundir_case_begin("taken");
  T_CHECK(!rundir_case_open(&dir, &state, &last_step), "%s", error_text());
  char *lock = mem_format("%s/%s", rundir_case_folder, rundir_get_token(dir).name);
  unlink(lock);
  T_CHECK(rundir_check(dir) == STATUS_FAILED && strstr(error_text(), "lock"), "no lock: %s", error_text());
  T_CHECK(!rundir_case_open(&other, &state, &last_step) && rundir_check(dir) == STATUS_FAILED, "another's lock");
  T_CHECK(rundir_write_status(dir, "FAILED") == STATUS_FAILED && !rundir_case_has("STATUS"),
          "no STATUS in another's folder");
  rundir_close(&dir);
  T_CHECK(access(lock, F_OK) == 0 && !rundir_check(other), "another's lock stays: %s", error_text());
  rundir_close(&other);

  rundir_case_begin("removed");
  T_CHECK(!rundir_case_open(&dir, &state, &last_step), "%s", error_text());
  mem_free(lock);
  lock = mem_format("%s/%s", rundir_case_folder, rundir_get_token(dir).name);
  unlink(lock);
  rmdir(rundir_case_folder);
  T_CHECK(rundir_check(dir) == STATUS_FAILED && rundir_write_status(dir, "FAILED") == STATUS_FAILED, "removed");
  rundir_close(&dir);
  T_CHECK(access(rundir_case_folder, F_OK), "the folder is there again");
  mem_free(lock);
  mem_free(moved);
}

/* Another rank sees the very rundir_case_folder, or is told what it sees instead. */
static void test_join(void) {
  int64_t last_step;
  enum run_state state;
  struct rundir *dir, *joined = NULL;
  rundir_case_begin("joined");
  T_CHECK(!rundir_case_open(&dir, &state, &last_step), "%s", error_text());
  struct rundir_token token = rundir_get_token(dir);
  T_CHECK(!rundir_join(rundir_case_folder, &token, 0, NULL, &joined), "%s", error_text());
  T_CHECK(!rundir_write_status(joined, "FAILED on another rank") && rundir_case_has("STATUS"), "%s", error_text());
  rundir_close(&joined);
  T_CHECK(rundir_case_has(token.name), "the lock stays");
  char *elsewhere = mem_format("%s/elsewhere", scratch_make());
  T_CHECK(rundir_join(elsewhere, &token, 0.3, NULL, &joined) == STATUS_MISTAKE && !joined &&
              strstr(error_text(), "No such file"),
          "%s", error_text());
  mkdir(elsewhere, 0777);
  T_CHECK(rundir_join(elsewhere, &token, 0.3, NULL, &joined) == STATUS_MISTAKE && strstr(error_text(), "another one"),
          "%s", error_text());
  /* A folder of that name with a lock of that name is still another. */
  char *lock = mem_format("%s/%s", elsewhere, token.name);
  T_CHECK(!disk_write_text(lock, "host a pid 1 started 1 boot - job - restart 0\n"), "%s", error_text());
  T_CHECK(rundir_join(elsewhere, &token, 0, NULL, &joined) == STATUS_MISTAKE, "another lock");
  rundir_close(&dir);
  mem_free(lock);
  mem_free(elsewhere);
}

/* ---- STATUS and the rest ---- */

static void write_status(const char *text) {
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  T_CHECK(!rundir_case_open(&dir, &state, &last_step) && !rundir_write_status(dir, text), "%s", error_text());
  rundir_close(&dir);
}

/* A start that is refused leaves everything as it was; what it would have removed is removed when it is not. */
static void test_refused_start(void) {
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  rundir_case_begin("refused");
  T_CHECK(!rundir_case_open(&dir, &state, &last_step), "%s", error_text());
  rundir_close(&dir);
  T_CHECK(access(rundir_case_folder, F_OK), "a folder that the refused start has made is left");
  rundir_case_start(&last_step);
  write_status("DONE");
  rundir_case_write("plan.h5.tmp", "half");
  rundir_case_write("stop", "");
  T_CHECK(!rundir_case_open(&dir, &state, &last_step) && state == RUN_DONE, "%s", error_text());
  rundir_close(&dir);
  T_CHECK(rundir_case_has("STATUS") && rundir_case_has("plan.h5.tmp") && rundir_case_has("stop"),
          "a refused start has removed files");
  clock_sleep(0.05);
  T_CHECK(!rundir_case_open(&dir, &state, &last_step) && !rundir_begin(dir), "%s", error_text());
  T_CHECK(!rundir_case_has("STATUS") && !rundir_case_has("plan.h5.tmp") && !rundir_case_has("stop"),
          "what a start removes");
  rundir_case_write("stop", "");
  T_CHECK(rundir_take_stop(dir), "a stop file of now");
  rundir_close(&dir);
  rundir_case_write("STATUS", "all quiet\n");
  T_CHECK(rundir_case_open(&dir, &state, &last_step) == STATUS_MISTAKE && strstr(error_text(), "none of this program"),
          "%s", error_text());
  T_CHECK(rundir_case_has("STATUS"), "a file of others is removed");
}

static void test_states(void) {
  int64_t last_step = -1;
  rundir_case_begin("states");
  T_CHECK(rundir_case_start(&last_step) == RUN_NEW && last_step == 0, "new");
  struct rundir *dir;
  enum run_state state;
  rundir_case_open(&dir, &state, &last_step);
  T_CHECK(!rundir_write_manifest(dir, "version 1\n"), "%s", error_text());
  T_CHECK(!rundir_take_stop(dir), "no stop");
  rundir_case_write("stop", "");
  T_CHECK(rundir_take_stop(dir) && !rundir_take_stop(dir), "stop is taken once");
  rundir_close(&dir);
  T_CHECK(rundir_case_start(&last_step) == RUN_BROKEN, "no STATUS");
  const struct {
    const char *text;
    enum run_state state;
  } cases[] = {
      {"DONE", RUN_DONE}, {"CHECKPOINTED step 12", RUN_CHECKPOINTED}, {"FAILED loss\nis not finite", RUN_FAILED}};
  for (int i = 0; i < 3; i++) {
    write_status(cases[i].text);
    char *path = mem_format("%s/STATUS", rundir_case_folder), *text;
    disk_read_text(path, &text);
    T_CHECK(text && strchr(text, '\n') == text + strlen(text) - 1, "one line: %s", text);
    mem_free(text);
    mem_free(path);
    rundir_case_write("plan.h5.tmp", "half");
    T_CHECK(rundir_case_start(&last_step) == (int)cases[i].state, "%s", cases[i].text);
    T_CHECK(!rundir_case_has("STATUS") && !rundir_case_has("plan.h5.tmp"), "what a start removes");
  }
  struct rundir *none;
  rundir_case_write("file", "");
  rundir_case_begin("states/file/run");
  T_CHECK(rundir_case_open(&none, &state, &last_step) == STATUS_MISTAKE && strstr(error_text(), rundir_case_folder),
          "%s", error_text());
}

int main(void) {
  test_race();
  test_foreign_locks();
  test_job_again();
  test_job_beside();
  test_lost_folder();
  test_join();
  test_states();
  test_refused_start();
  rundir_case_end();
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations live", mem_balance());
  return t_end();
}
