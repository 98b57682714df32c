/* Started by test_kill.sh, again and again in one folder: checks what the life before has left, goes on from there, and
 * is killed at a byte, or an instant, of its writing.
 *
 *   kill_helper checkpoint|trace FOLDER RANK BYTES MICROSECONDS
 *
 * BYTES -1: rank RANK kills itself before it removes a checkpoint, -2: after it has given one its name and before it
 * lists it. Rank RANK kills itself after BYTES bytes, in the middle of a write, or MICROSECONDS after its first one (0:
 * neither, then all ranks end after the check). FOLDER/progress has a line for each step that was saved. Exit code 3:
 * the check failed.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "random_model.h"
#include "record/trace_read.h"
#include "store/disk.h"
#include "trace_case.h"

static struct comm *comm;
static int rank;
static int64_t room = -1; /* bytes until death; -1: none */
static int64_t microseconds;
static enum { ANYWHERE = 0, BEFORE_REMOVAL = -1, AFTER_RENAME = -2 } place;

static void start_timer(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec when = {.it_value = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000}};
  microseconds = 0;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL)) exit(4);
}

/* Uses up room; false when it is not enough. */
static bool spend(int64_t bytes) {
  if (microseconds > 0) start_timer();
  if (room < 0) return true;
  if (bytes > room) return false;
  room -= bytes;
  return true;
}

static ssize_t write_some(int descriptor, const void *data, size_t bytes, off_t offset) {
  int64_t part = room;
  if (spend((int64_t)bytes)) return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
  if (part > 0) syscall(SYS_pwrite64, descriptor, data, (size_t)part, offset);
  raise(SIGKILL);
  return -1;
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
  return write_some(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
  return write_some(descriptor, data, bytes, offset);
}

static bool is_checkpoint(const char *path) {
  size_t n = strlen(path);
  return n > 3 && !strcmp(path + n - 3, ".h5") && strstr(path, "/step-");
}

/* Between two files' changes, too. */
int unlink(const char *path) {
  if (place == BEFORE_REMOVAL && is_checkpoint(path)) raise(SIGKILL);
  if (!spend(5000)) raise(SIGKILL);
  return (int)syscall(SYS_unlink, path);
}

int rename(const char *from, const char *to) {
  if (!spend(5000)) raise(SIGKILL);
  int result = (int)syscall(SYS_rename, from, to);
  if (!spend(5000) || (place == AFTER_RENAME && is_checkpoint(to))) raise(SIGKILL);
  return result;
}

/* ---- progress ---- */

static void note_progress(const char *folder, int64_t step) {
  if (rank > 0) return;
  char *path = mem_format("%s/progress", folder), line[32];
  int descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  int n = snprintf(line, sizeof line, "%" PRId64 "\n", step);
  if (write(descriptor, line, (size_t)n) != n) exit(4);
  close(descriptor);
  mem_free(path);
}

static int64_t get_progress(const char *folder) {
  char *path = mem_format("%s/progress", folder), *text = NULL;
  int64_t step = 0;
  if (disk_read_text(path, &text)) exit(4);
  for (char *at = text; at && *at; at = strchr(at, '\n') + 1) step = strtoll(at, NULL, 10);
  mem_free(text);
  mem_free(path);
  return step;
}

/* The step that was found is right: nothing that was saved is missing, nothing is there that was not begun. */
static int64_t check_step(const char *folder, int64_t found, int64_t ahead, bool content) {
  int64_t done = get_progress(folder);
  T_CHECK(content && found >= done && found <= done + ahead, "step %" PRId64 " found, %" PRId64 " saved: %s", found,
          done, error_text());
  if (found > done) note_progress(folder, found); /* it was killed before it could */
  return found;
}

/* ---- checkpoints ---- */

static int64_t check_checkpoint(const char *folder, const struct model *model, struct arrays *arrays) {
  char *path;
  int64_t step = 0;
  struct checkpoint_info info = {0};
  struct checkpoint_part part = get_part(arrays);
  bool good = !checkpoint_find_all(comm, folder, &path, &step);
  if (good && path)
    good = !checkpoint_read_all(comm, path, model, false, &part, &info) && info.step == step &&
           visit_arrays(model, arrays, step, 3, false) == 0;
  mem_free(path);
  return check_step(folder, step, 1, good);
}

static void run_checkpoints(const char *folder, bool goes_on) {
  struct model *model = make_random_model(1, 9, 60, true);
  struct arrays arrays = make_arrays(model, SPREAD_EVEN, rank, comm_get_size(comm));
  struct checkpoint_part part = get_part(&arrays);
  int64_t step = check_checkpoint(folder, model, &arrays);
  while (goes_on && !t_failures) {
    struct checkpoint_info info = {.step = ++step};
    visit_arrays(model, &arrays, step, 3, true);
    T_CHECK(!checkpoint_write_all(comm, folder, model, "{}", "", &info, &part, (struct checkpoint_keep){.newest = 2}),
            "%s", error_text());
    note_progress(folder, step);
  }
  free_arrays(model, &arrays);
  free_random_model(model);
}

/* ---- traces ---- */

/* Steps 1..n are there, whole; -1 when not. */
static int64_t count_steps(const char *path, const struct trace_case *c) {
  struct trace_content content;
  int64_t n = -1, wrong = 0;
  if (access(path, F_OK)) return 0;
  if (trace_read(path, INT64_MAX, &content)) return -1;
  for (int64_t i = 0; i < content.n_nodes; i++)
    wrong += content.nodes[i].step != 1 + i / c->dag->n_nodes ||
             fabs(content.nodes[i].start_s - start_of(content.nodes[i].step, content.nodes[i].node)) > 1e-9;
  if (wrong == 0 && content.n_nodes == content.n_steps * c->dag->n_nodes) n = content.n_steps;
  trace_content_fini(&content);
  return n;
}

static void run_traces(const char *folder, bool goes_on) {
  char *path = mem_format("%s/trace.h5", folder);
  struct trace_case c = make_trace_case(comm_get_size(comm));
  struct trace *trace;
  int64_t step = rank == 0 ? count_steps(path, &c) : 0;
  comm_broadcast_all(comm, 0, &step, sizeof step);
  check_step(folder, step, 3, step >= 0);
  T_CHECK(!trace_open_all(comm, path, step, &trace), "%s", error_text());
  while (goes_on && !t_failures) {
    add_step(trace, comm, &c, ++step);
    if (step % 3) continue;
    T_CHECK(!trace_flush_all(trace), "%s", error_text());
    note_progress(folder, step);
  }
  T_CHECK(!trace_close_all(&trace), "%s", error_text());
  free_trace_case(&c);
  mem_free(path);
}

int main(int argc, char **argv) {
  if (argc != 6 || comm_open_all(&argc, &argv, false, &comm)) return 4;
  rank = comm_get_rank(comm);
  log_init(rank);
  int64_t bytes = strtoll(argv[4], NULL, 10), time = strtoll(argv[5], NULL, 10);
  if (strtol(argv[3], NULL, 10) == rank) {
    room = bytes > 0 ? bytes : -1;
    microseconds = time;
    place = bytes < 0 ? (int)bytes : ANYWHERE;
  }
  bool goes_on = bytes != 0 || time > 0;
  if (!strcmp(argv[1], "trace"))
    run_traces(argv[2], goes_on);
  else
    run_checkpoints(argv[2], goes_on);
  int failed = t_end() ? 3 : 0;
  if (failed) comm_abort(comm, failed);
  comm_close_all(&comm);
  return failed;
}
