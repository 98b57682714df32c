/* metrics.csv and metrics.jsonl are cut to the step that a run goes on from and keep every bit of their numbers and all
 * lines of others; failed writes are reported and leave whole rows.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "rundir_case.h"
#include "store/disk.h"
#include "t.h"

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
  char *path = mem_format("%s/metrics.csv", rundir_case_folder);
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
  T_CHECK(!rundir_case_open(&dir, &state, &last_step) && !metrics_open(dir, from_step), "%s", error_text());
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
  rundir_case_begin("metrics");
  char *path = mem_format("%s/metrics.csv", rundir_case_folder), *text;
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
  T_CHECK(rundir_case_start(&last_step) == RUN_BROKEN && last_step == 9, "last step %" PRId64, last_step);
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
  char *path = mem_format("%s/metrics.csv", rundir_case_folder), *text = NULL;
  rundir_case_write("metrics.csv", before);
  T_CHECK(!rundir_case_open(&dir, &state, &found) && !metrics_open(dir, last_step), "%s: %s", what, error_text());
  rundir_close(&dir);
  T_CHECK(!disk_read_text(path, &text) && text && !strcmp(text, after), "%s: %s", what, text);
  mem_free(text);
  mem_free(path);
}

/* Only rows beyond the step go: what others have written into the file stays. */
static void test_edited_metrics(void) {
  rundir_case_begin("edited");
  int64_t step;
  rundir_case_start(&step);
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
  rundir_case_write("metrics.csv", HEADER "\n" ROW("7") "\n" ROW("3") "\n# 9\n");
  T_CHECK(rundir_case_start(&step) == RUN_BROKEN && step == 7, "the last step is %" PRId64, step);
  rundir_case_write("metrics.csv", "time,loss\n1,2\n");
  T_CHECK(rundir_case_start(&step) == -1 && error_status() == STATUS_MISTAKE && strstr(error_text(), "move it away"),
          "%s", error_text());
}

/* The objects of metrics.jsonl, each with the numbers of its row; the number of lines, -1 when one is no such object.
 */
static int check_objects(void) {
  char *path = mem_format("%s/metrics.jsonl", rundir_case_folder), *text = NULL;
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
  rundir_case_begin("objects");
  append_rows(0, 1, 10);
  T_CHECK(check_objects() == 10, "ten objects");
  append_rows(7, 8, 9);
  T_CHECK(check_objects() == 9, "resumed at step 7");
  char *path = mem_format("%s/metrics.jsonl", rundir_case_folder);
  int descriptor = open(path, O_WRONLY | O_APPEND);
  T_CHECK(write(descriptor, "{\"step\": 10, \"lo", 17) == 17, "half an object");
  close(descriptor);
  append_rows(9, 10, 11);
  T_CHECK(check_objects() == 11, "the broken object is dropped");
  T_CHECK(!unlink(path), "unlink");
  append_rows(11, 12, 12);
  T_CHECK(check_objects() == 12, "rows of a run that had no such file");
  rundir_case_write("metrics.jsonl", "");
  append_rows(5, 6, 6);
  T_CHECK(check_objects() == 6, "rows of an empty file");
  append_rows(0, 1, 1);
  T_CHECK(check_objects() == 1, "from the start");
  mem_free(path);
}

/* Zero bytes, as a file system leaves them that lost power: nothing of the file is lost. */
static void test_zeros_in_metrics(void) {
  rundir_case_begin("zeros");
  int64_t step;
  rundir_case_start(&step);
  char *path = mem_format("%s/metrics.csv", rundir_case_folder);
  rundir_case_write("metrics.csv", HEADER "\n" ROW("1") "\n");
  T_CHECK(!truncate(path, 4096), "truncate");
  struct rundir *dir;
  enum run_state state;
  T_CHECK(!rundir_case_open(&dir, &state, &step) && !metrics_open(dir, 1), "%s", error_text());
  struct metrics_row row = make_row(2);
  T_CHECK(step == 1 && !metrics_append(dir, &row), "%s", error_text());
  rundir_close(&dir);
  T_CHECK(rundir_case_has("metrics.csv.old") && rundir_case_start(&step) >= 0 && step == 2, "the last step is %" PRId64,
          step);
  mem_free(path);
}

static void test_metrics_limit(void) {
  rundir_case_begin("limit");
  struct rundir *dir;
  enum run_state state;
  int64_t last_step;
  rundir_case_open(&dir, &state, &last_step);
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
  test_metrics();
  test_edited_metrics();
  test_objects();
  test_zeros_in_metrics();
  test_metrics_limit();
  rundir_case_end();
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations live", mem_balance());
  return t_end();
}
