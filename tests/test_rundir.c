/* The run folder: of jobs that start at once exactly one gets it, whatever a killed one has left; STATUS; metrics.csv
 * is cut to the resumed step and keeps every bit of its numbers; failed writes are reported and leave whole rows.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "record/rundir.h"
#include "store/disk.h"
#include "t.h"

static bool no_locks; /* as on a file system without them */

int flock(int descriptor, int operation) {
  if (!no_locks) return (int)syscall(SYS_flock, descriptor, operation);
  errno = ENOLCK;
  return -1;
}

static char *folder; /* of the current test, new for each */
static char base[] = "/tmp/penstock-run-XXXXXX";

static void begin_folder(const char *name) {
  mem_free(folder);
  folder = mem_format("%s/%s", base, name);
}

static int open_folder(struct rundir **dir, enum run_state *state, int64_t *last_step) {
  return rundir_open(folder, NULL, dir, state, last_step);
}

/* Opens and closes; how the run before ended, -1 when refused. */
static int open_state(int64_t *last_step) {
  struct rundir *dir;
  enum run_state state;
  if (open_folder(&dir, &state, last_step)) return -1;
  bool begun = !rundir_begin(dir);
  rundir_close(&dir);
  return begun ? (int)state : -2;
}

static void write_file(const char *name, const char *text) {
  char *path = mem_format("%s/%s", folder, name);
  T_CHECK(!disk_write_text(path, text), "%s", error_text());
  mem_free(path);
}

static bool has_file(const char *name) {
  char *path = mem_format("%s/%s", folder, name);
  bool there = access(path, F_OK) == 0;
  mem_free(path);
  return there;
}

/* ---- one job at a time ---- */

enum { JOBS = 6 };

/* In a child: takes the folder, tells how that went, holds it until the parent closes the pipe. */
static void run_job(int go, int told, int end) {
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  char byte;
  if (read(go, &byte, 1) < 0) _exit(3);
  int status = open_folder(&dir, &state, &last_step);
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
  T_CHECK(won == 1 && refused == JOBS - 1, "%s: %d of %d jobs have the folder, %d were refused", what, won, JOBS,
          refused);
  close(end[1]);
  for (int i = 0; i < JOBS; i++) wait(NULL);
  close(go[0]), close(told[0]), close(told[1]), close(end[0]);
}

static void test_race(void) {
  for (int i = 0; i < 20; i++) {
    char name[32];
    snprintf(name, sizeof name, "race%d", i);
    begin_folder(name);
    no_locks = i % 2;
    start_together("a new folder");
    start_together("what a killed job left");
    int64_t last_step;
    T_CHECK(open_state(&last_step) >= 0, "after both: %s", error_text());
  }
  no_locks = false;
}

static void write_lock(const char *host, long pid, const char *boot, const char *job, int age) {
  char *text = mem_format("host %s pid %ld started 12345 boot %s job %s restart 0\n", host, pid, boot, job);
  write_file(".lock.7", text);
  char *path = mem_format("%s/.lock.7", folder);
  struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
  T_CHECK(!utimensat(AT_FDCWD, path, times, 0), "touch %s", path);
  mem_free(path);
  mem_free(text);
}

static void test_foreign_locks(void) {
  int64_t last_step;
  char host[256];
  gethostname(host, sizeof host);
  begin_folder("foreign");
  open_state(&last_step);
  write_lock("elsewhere", 17, "x", "99", 60);
  T_CHECK(open_state(&last_step) == -1 && strstr(error_text(), "17 on host elsewhere (job 99)") &&
              strstr(error_text(), ".lock.7"),
          "%s", error_text());
  setenv("SLURM_JOB_ID", "99", 1);
  setenv("SLURM_RESTART_COUNT", "1", 1);
  T_CHECK(open_state(&last_step) >= 0, "a job started again by Slurm: %s", error_text());
  unsetenv("SLURM_RESTART_COUNT");
  unsetenv("SLURM_JOB_ID");
  T_CHECK(!has_file(".lock.7"), "a dead lock stays");
  write_lock("elsewhere", 17, "x", "-", RUNDIR_STALE_SECONDS + 10);
  T_CHECK(open_state(&last_step) >= 0, "no sign of life: %s", error_text());
  write_lock(host, (long)getpid(), "another-boot", "-", 0);
  T_CHECK(open_state(&last_step) >= 0, "before the last boot: %s", error_text());
  struct rundir *dir, *second;
  enum run_state state;
  T_CHECK(!open_folder(&dir, &state, &last_step), "%s", error_text());
  T_CHECK(open_folder(&second, &state, &last_step) == STATUS_STOPPED && !second, "the same process twice");
  rundir_close(&dir);
  write_file(".lock.7", "");
  T_CHECK(open_state(&last_step) >= 0 && !has_file(".lock.7"), "an empty lock: %s", error_text());
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
  begin_folder("again");
  open_state(&last_step);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *id = mem_strdup(cases[i].job);
    id[strcspn(id, ":")] = '\0';
    setenv(cases[i].id, id, 1);
    if (cases[i].task) setenv(cases[i].task, cases[i].value, 1);
    write_lock("node17", 17, "x", cases[i].job, 300);
    int state = open_state(&last_step);
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
  begin_folder("beside");
  open_state(&last_step);
  setenv("PBS_JOBID", "4711", 1);
  write_lock("node17", 17, "x", "4711", RUNDIR_SILENT_SECONDS - 3);
  struct rundir_poll poll = {count_poll, NULL};
  T_CHECK(!rundir_open(folder, &poll, &dir, &state, &last_step) && n_polls > 5, "silent: %s", error_text());
  rundir_close(&dir);
  write_lock("node17", 17, "x", "4711", RUNDIR_SILENT_SECONDS - 20);
  char *path = mem_format("%s/.lock.7", folder);
  n_polls = 0;
  poll = (struct rundir_poll){touch_lock, path};
  T_CHECK(rundir_open(folder, &poll, &dir, &state, &last_step) == STATUS_STOPPED && has_file(".lock.7"), "it beats: %s",
          error_text());
  unsetenv("PBS_JOBID");
  mem_free(path);
}

/* ---- the folder that a run has opened ---- */

static char *move_folder(const char *to) {
  char *path = mem_format("%s/%s", base, to);
  T_CHECK(!rename(folder, path), "rename: %s", strerror(errno));
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
  begin_folder("renamed");
  T_CHECK(!open_folder(&dir, &state, &last_step) && !rundir_check(dir), "%s", error_text());
  struct rundir_token token = rundir_get_token(dir);
  char *moved = move_folder("renamed-away");
  T_CHECK(rundir_check(dir) == STATUS_FAILED && strstr(error_text(), "renamed"), "renamed: %s", error_text());
  T_CHECK(!open_folder(&other, &state, &last_step) && !rundir_check(other), "another run there: %s", error_text());
  T_CHECK(rundir_check(dir) == STATUS_FAILED, "replaced");
  T_CHECK(!rundir_write_status(dir, "FAILED it was renamed") && is_there(moved, "STATUS") && !has_file("STATUS"),
          "STATUS goes into the own folder: %s", error_text());
  rundir_close(&dir);
  T_CHECK(has_file(".lock.1") && !is_there(moved, token.name), "each lock is removed by its own run");
  rundir_close(&other);

  begin_folder("taken");
  T_CHECK(!open_folder(&dir, &state, &last_step), "%s", error_text());
  char *lock = mem_format("%s/%s", folder, rundir_get_token(dir).name);
  unlink(lock);
  T_CHECK(rundir_check(dir) == STATUS_FAILED && strstr(error_text(), "lock"), "no lock: %s", error_text());
  T_CHECK(!open_folder(&other, &state, &last_step) && rundir_check(dir) == STATUS_FAILED, "another's lock");
  T_CHECK(rundir_write_status(dir, "FAILED") == STATUS_FAILED && !has_file("STATUS"), "no STATUS in another's folder");
  rundir_close(&dir);
  T_CHECK(access(lock, F_OK) == 0 && !rundir_check(other), "another's lock stays: %s", error_text());
  rundir_close(&other);

  begin_folder("removed");
  T_CHECK(!open_folder(&dir, &state, &last_step), "%s", error_text());
  mem_free(lock);
  lock = mem_format("%s/%s", folder, rundir_get_token(dir).name);
  unlink(lock);
  rmdir(folder);
  T_CHECK(rundir_check(dir) == STATUS_FAILED && rundir_write_status(dir, "FAILED") == STATUS_FAILED, "removed");
  rundir_close(&dir);
  T_CHECK(access(folder, F_OK), "the folder is there again");
  mem_free(lock);
  mem_free(moved);
}

/* Another rank sees the very folder, or is told what it sees instead. */
static void test_join(void) {
  int64_t last_step;
  enum run_state state;
  struct rundir *dir, *joined = NULL;
  begin_folder("joined");
  T_CHECK(!open_folder(&dir, &state, &last_step), "%s", error_text());
  struct rundir_token token = rundir_get_token(dir);
  T_CHECK(!rundir_join(folder, &token, 0, NULL, &joined), "%s", error_text());
  T_CHECK(!rundir_write_status(joined, "FAILED on another rank") && has_file("STATUS"), "%s", error_text());
  rundir_close(&joined);
  T_CHECK(has_file(token.name), "the lock stays");
  char *elsewhere = mem_format("%s/elsewhere", base);
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
  T_CHECK(!open_folder(&dir, &state, &last_step) && !rundir_write_status(dir, text), "%s", error_text());
  rundir_close(&dir);
}

/* A start that is refused leaves everything as it was; what it would have removed is removed when it is not. */
static void test_refused_start(void) {
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  begin_folder("refused");
  T_CHECK(!open_folder(&dir, &state, &last_step), "%s", error_text());
  rundir_close(&dir);
  T_CHECK(access(folder, F_OK), "a folder that the refused start has made is left");
  open_state(&last_step);
  write_status("DONE");
  write_file("plan.h5.tmp", "half");
  write_file("stop", "");
  T_CHECK(!open_folder(&dir, &state, &last_step) && state == RUN_DONE, "%s", error_text());
  rundir_close(&dir);
  T_CHECK(has_file("STATUS") && has_file("plan.h5.tmp") && has_file("stop"), "a refused start has removed files");
  clock_sleep(0.05);
  T_CHECK(!open_folder(&dir, &state, &last_step) && !rundir_begin(dir), "%s", error_text());
  T_CHECK(!has_file("STATUS") && !has_file("plan.h5.tmp") && !has_file("stop"), "what a start removes");
  write_file("stop", "");
  T_CHECK(rundir_take_stop(dir), "a stop file of now");
  rundir_close(&dir);
  write_file("STATUS", "all quiet\n");
  T_CHECK(open_folder(&dir, &state, &last_step) == STATUS_MISTAKE && strstr(error_text(), "none of this program"), "%s",
          error_text());
  T_CHECK(has_file("STATUS"), "a file of others is removed");
}

static void test_states(void) {
  int64_t last_step = -1;
  begin_folder("states");
  T_CHECK(open_state(&last_step) == RUN_NEW && last_step == 0, "new");
  struct rundir *dir;
  enum run_state state;
  open_folder(&dir, &state, &last_step);
  T_CHECK(!rundir_write_manifest(dir, "version 1\n"), "%s", error_text());
  T_CHECK(!rundir_take_stop(dir), "no stop");
  write_file("stop", "");
  T_CHECK(rundir_take_stop(dir) && !rundir_take_stop(dir), "stop is taken once");
  rundir_close(&dir);
  T_CHECK(open_state(&last_step) == RUN_BROKEN, "no STATUS");
  const struct {
    const char *text;
    enum run_state state;
  } cases[] = {
      {"DONE", RUN_DONE}, {"CHECKPOINTED step 12", RUN_CHECKPOINTED}, {"FAILED loss\nis not finite", RUN_FAILED}};
  for (int i = 0; i < 3; i++) {
    write_status(cases[i].text);
    char *path = mem_format("%s/STATUS", folder), *text;
    disk_read_text(path, &text);
    T_CHECK(text && strchr(text, '\n') == text + strlen(text) - 1, "one line: %s", text);
    mem_free(text);
    mem_free(path);
    write_file("plan.h5.tmp", "half");
    T_CHECK(open_state(&last_step) == (int)cases[i].state, "%s", cases[i].text);
    T_CHECK(!has_file("STATUS") && !has_file("plan.h5.tmp"), "what a start removes");
  }
  struct rundir *none;
  write_file("file", "");
  begin_folder("states/file/run");
  T_CHECK(open_folder(&none, &state, &last_step) == STATUS_FAILED && strstr(error_text(), folder), "%s", error_text());
}

/* ---- metrics.csv ---- */

static struct metrics_row make_row(int64_t step) {
  return (struct metrics_row){.step = step,
                              .tokens = step * 10000000000,
                              .loss = 1.0 / (double)(step + 2),
                              .lr = 3e-4,
                              .grad_norm = step == 3 ? INFINITY : exp((double)step),
                              .step_ms = 0.1 + 0.2,
                              .tokens_per_s = 12345.678901234567,
                              .tflops = 1e-300,
                              .validation_loss = step % 2 ? NAN : 2.5};
}

/* Rows of steps 1..n exactly; the number that are wrong, or -1. */
static int64_t check_metrics(int64_t n) {
  struct metrics_row *rows;
  int64_t got, wrong = 0;
  char *path = mem_format("%s/metrics.csv", folder);
  if (metrics_read(path, &rows, &got)) got = -1;
  for (int64_t i = 0; i < n && got == n; i++) {
    struct metrics_row should = make_row(i + 1);
    wrong += rows[i].step != should.step || rows[i].tokens != should.tokens || rows[i].loss != should.loss ||
             rows[i].lr != should.lr || rows[i].grad_norm != should.grad_norm || rows[i].step_ms != should.step_ms ||
             rows[i].tokens_per_s != should.tokens_per_s || rows[i].tflops != should.tflops ||
             (should.step % 2 ? !isnan(rows[i].validation_loss) : rows[i].validation_loss != 2.5);
  }
  mem_free(rows);
  mem_free(path);
  return got == n ? wrong : -1;
}

static void append_rows(int64_t from_step, int64_t first, int64_t last) {
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  T_CHECK(!open_folder(&dir, &state, &last_step) && !metrics_open(dir, from_step), "%s", error_text());
  for (int64_t step = first; step <= last; step++) {
    struct metrics_row row = make_row(step);
    T_CHECK(!metrics_append(dir, &row), "%s", error_text());
  }
  rundir_close(&dir);
}

#define OLD_HEADER "step,loss,tokens,lr,grad_norm,step_ms,tokens_per_s,tflops,validation_loss"
#define HEADER OLD_HEADER ",perplexity,tokens_per_s_device"
#define ROW(step) step ",5.5,640,0.1,1.5,20,3000,0.5,,,"

static void test_metrics(void) {
  int64_t last_step;
  begin_folder("metrics");
  char *path = mem_format("%s/metrics.csv", folder), *text;
  append_rows(0, 1, 10);
  T_CHECK(check_metrics(10) == 0, "ten rows");
  disk_read_text(path, &text);
  T_CHECK(!strncmp(text, HEADER "\n", strlen(HEADER) + 1), "%.120s", text);
  T_CHECK(strstr(text, "\n1,0.333333333333333") && strstr(text, ",0.0003,"), "%s", text);
  append_rows(7, 8, 9);
  T_CHECK(check_metrics(9) == 0, "resumed at step 7");
  int descriptor = open(path, O_WRONLY | O_APPEND);
  T_CHECK(write(descriptor, "10,0.5,12", 9) == 9, "half a row");
  close(descriptor);
  T_CHECK(open_state(&last_step) == RUN_BROKEN && last_step == 9, "last step %" PRId64, last_step);
  append_rows(9, 10, 11);
  T_CHECK(check_metrics(11) == 0, "the broken row is dropped");
  append_rows(0, 1, 1);
  T_CHECK(check_metrics(1) == 0, "from the start");
  mem_free(text);
  mem_free(path);
}

/* Opens metrics.csv with this content to go on after a step; afterwards it has the other content. */
static void check_cut(const char *what, const char *before, int64_t last_step, const char *after) {
  struct rundir *dir;
  enum run_state state;
  int64_t found;
  char *path = mem_format("%s/metrics.csv", folder), *text = NULL;
  write_file("metrics.csv", before);
  T_CHECK(!open_folder(&dir, &state, &found) && !metrics_open(dir, last_step), "%s: %s", what, error_text());
  rundir_close(&dir);
  T_CHECK(!disk_read_text(path, &text) && text && !strcmp(text, after), "%s: %s", what, text);
  mem_free(text);
  mem_free(path);
}

/* Only rows beyond the step go: what others have written into the file stays. */
static void test_edited_metrics(void) {
  begin_folder("edited");
  int64_t step;
  open_state(&step);
  check_cut("nothing to cut", HEADER "\n" ROW("1") "\n", 1, HEADER "\n" ROW("1") "\n");
  check_cut("a comment and an empty line", HEADER "\n" ROW("1") "\n# another node\n\n" ROW("2") "\n" ROW("3") "\n", 2,
            HEADER "\n" ROW("1") "\n# another node\n\n" ROW("2") "\n");
  check_cut("a comment behind what goes", HEADER "\n" ROW("1") "\n" ROW("2") "\n# the end\n", 1,
            HEADER "\n" ROW("1") "\n# the end\n");
  check_cut("lines of other systems", HEADER "\r\n" ROW("1") "\r\n" ROW("2") "\r\n", 1, HEADER "\r\n" ROW("1") "\r\n");
  check_cut("no last end of line", HEADER "\n" ROW("1") "\n" ROW("2"), 2, HEADER "\n" ROW("1") "\n" ROW("2") "\n");
  check_cut("half a row", HEADER "\n" ROW("1") "\n2,5.5,6", 1, HEADER "\n" ROW("1") "\n");
  check_cut("columns of a newer program", HEADER ",more\n" ROW("1") ",7\n" ROW("2") ",8\n", 1,
            HEADER ",more\n" ROW("1") ",7\n");
  check_cut("columns of an older program", "step,loss,tokens,lr\n1,5.5,640,0.1\n2,5.4,1280,0.1\n", 1,
            HEADER "\n1,5.5,640,0.1,,,,,,,\n");
  check_cut("columns of the program before", OLD_HEADER "\n1,5.5,640,0.1,1.5,20,3000,0.5,5.25\n", 1,
            HEADER "\n1,5.5,640,0.1,1.5,20,3000,0.5,5.25,,\n");
  check_cut("comments before the names", "# mine\n" HEADER "\n" ROW("1") "\n", 1, "# mine\n" HEADER "\n" ROW("1") "\n");
  check_cut("a mark of UTF-8", "\xef\xbb\xbf" HEADER "\n" ROW("1") "\n" ROW("2") "\n", 1,
            "\xef\xbb\xbf" HEADER "\n" ROW("1") "\n");
  check_cut("what is no row", HEADER "\n" ROW("1") "\n2;5,5;6\nwords\n" ROW("3") "\n" ROW("4") "\n", 3,
            HEADER "\n" ROW("1") "\n2;5,5;6\nwords\n" ROW("3") "\n");
  check_cut("rows in another order", HEADER "\n" ROW("3") "\n" ROW("1") "\n" ROW("2") "\n", 2,
            HEADER "\n" ROW("1") "\n" ROW("2") "\n");
  check_cut("an empty file", "", 3, HEADER "\n");
  write_file("metrics.csv", HEADER "\n" ROW("7") "\n" ROW("3") "\n# 9\n");
  T_CHECK(open_state(&step) == RUN_BROKEN && step == 7, "the last step is %" PRId64, step);
  write_file("metrics.csv", "time,loss\n1,2\n");
  T_CHECK(open_state(&step) == -1 && error_status() == STATUS_MISTAKE && strstr(error_text(), "move it away"), "%s",
          error_text());
}

/* The objects of metrics.jsonl, each with the numbers of its row; the number of lines, -1 when one is no such object.
 */
static int check_objects(void) {
  char *path = mem_format("%s/metrics.jsonl", folder), *text = NULL;
  int n = 0;
  T_CHECK(!disk_read_text(path, &text) && text, "%s", error_text());
  for (char *line = text; n >= 0 && line && *line; line = strchr(line, '\n') + 1) {
    json_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    struct metrics_row row = make_row(++n);
    const json_t *loss = json_object_get(object, "validation_loss");
    bool good = json_integer_value(json_object_get(object, "step")) == row.step &&
                json_integer_value(json_object_get(object, "tokens")) == row.tokens &&
                json_number_value(json_object_get(object, "loss")) == row.loss &&
                json_number_value(json_object_get(object, "lr")) == row.lr &&
                (isnan(row.validation_loss) ? !loss : json_number_value(loss) == row.validation_loss);
    json_decref(object);
    if (!good || !strchr(line, '\n')) n = -1;
  }
  mem_free(text);
  mem_free(path);
  return n;
}

static void test_objects(void) {
  begin_folder("objects");
  append_rows(0, 1, 10);
  T_CHECK(check_objects() == 10, "ten objects");
  append_rows(7, 8, 9);
  T_CHECK(check_objects() == 9, "resumed at step 7");
  char *path = mem_format("%s/metrics.jsonl", folder);
  int descriptor = open(path, O_WRONLY | O_APPEND);
  T_CHECK(write(descriptor, "{\"step\": 10, \"lo", 17) == 17, "half an object");
  close(descriptor);
  append_rows(9, 10, 11);
  T_CHECK(check_objects() == 11, "the broken object is dropped");
  T_CHECK(!unlink(path), "unlink");
  append_rows(11, 12, 12);
  T_CHECK(check_objects() == 12, "rows of a run that had no such file");
  write_file("metrics.jsonl", "");
  append_rows(5, 6, 6);
  T_CHECK(check_objects() == 6, "rows of an empty file");
  append_rows(0, 1, 1);
  T_CHECK(check_objects() == 1, "from the start");
  mem_free(path);
}

/* Zero bytes, as a file system leaves them that lost power: nothing of the file is lost. */
static void test_zeros_in_metrics(void) {
  begin_folder("zeros");
  int64_t step;
  open_state(&step);
  char *path = mem_format("%s/metrics.csv", folder);
  write_file("metrics.csv", HEADER "\n" ROW("1") "\n");
  T_CHECK(!truncate(path, 4096), "truncate");
  struct rundir *dir;
  enum run_state state;
  T_CHECK(!open_folder(&dir, &state, &step) && !metrics_open(dir, 1), "%s", error_text());
  struct metrics_row row = make_row(2);
  T_CHECK(step == 1 && !metrics_append(dir, &row), "%s", error_text());
  rundir_close(&dir);
  T_CHECK(has_file("metrics.csv.old") && open_state(&step) >= 0 && step == 2, "the last step is %" PRId64, step);
  mem_free(path);
}

static void test_metrics_limit(void) {
  begin_folder("limit");
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  open_folder(&dir, &state, &last_step);
  T_CHECK(!metrics_open(dir, 0), "%s", error_text());
  struct rlimit old, limit;
  getrlimit(RLIMIT_FSIZE, &old);
  struct metrics_row row = make_row(1);
  metrics_append(dir, &row);
  limit = (struct rlimit){.rlim_cur = 220, .rlim_max = old.rlim_max}; /* in the middle of the second row */
  setrlimit(RLIMIT_FSIZE, &limit);
  row = make_row(2);
  int status = metrics_append(dir, &row);
  setrlimit(RLIMIT_FSIZE, &old);
  T_CHECK(status == STATUS_FAILED && strstr(error_text(), "metrics.csv") && strstr(error_text(), "too large"), "%s",
          error_text());
  T_CHECK(check_metrics(1) == 0, "no half row");
  T_CHECK(!metrics_append(dir, &row) && check_metrics(2) == 0, "with room again: %s", error_text());
  rundir_close(&dir);
}

int main(void) {
  signal(SIGXFSZ, SIG_IGN);
  if (!mkdtemp(base)) return 1;
  test_race();
  test_foreign_locks();
  test_job_again();
  test_job_beside();
  test_lost_folder();
  test_join();
  test_states();
  test_refused_start();
  test_metrics();
  test_edited_metrics();
  test_objects();
  test_zeros_in_metrics();
  test_metrics_limit();
  char *command = mem_format("rm -rf %s", base);
  T_CHECK(system(command) == 0, "%s", command);
  mem_free(command);
  mem_free(folder);
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations live", mem_balance());
  return t_end();
}
