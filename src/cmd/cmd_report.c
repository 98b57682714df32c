/* penstock report RUN|PLAN: where time and memory of a run went, or of a plan will go, as text and as files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/simulate.h"
#include "record/rundir.h"
#include "report/picture.h"
#include "report/report.h"
#include "store/disk.h"

struct report_options {
  int64_t steps, step; /* 0: not given */
  const char *svg, *chrome, *csv;
  bool json;
};

static int parse_number(const char *option, const char *meaning, const char *text, int64_t *number) {
  char *end = NULL;
  *number = text ? strtoll(text, &end, 10) : 0;
  if (text && (end == text || *end || *number < 1 || *number > 1000000000))
    return error_raise(STATUS_MISTAKE, "%s %s: %s, 1 or more", option, text, meaning);
  return STATUS_OK;
}

static int print(const char *text) {
  fputs(text, stdout);
  return STATUS_OK;
}

/* ---- the files that options name ---- */

static void write_svg(FILE *out, const struct picture *picture) { picture_write_svg(out, picture, true); }
static void write_csv(FILE *out, const struct picture *picture) {
  picture_write_csv(out, &picture->timelines[picture->n_timelines - 1]);
}

static int write_file(const char *path, const struct picture *picture, void (*write)(FILE *, const struct picture *)) {
  if (!path) return STATUS_OK;
  FILE *out = fopen(path, "w");
  if (!out) return error_raise(STATUS_MISTAKE, "%s cannot be written: %s", path, limits_reason(errno));
  write(out, picture);
  bool failed = fflush(out) || ferror(out);
  int error = errno;
  int64_t bytes = ftell(out);
  if (fclose(out) && !failed) failed = true, error = errno;
  return failed ? disk_raise_write(path, error, bytes > 0 ? bytes : 0) : STATUS_OK;
}

/* Before anything is read: the files that are asked for must not be those that a run or a plan left. */
static int check_outputs(const struct report_options *options) {
  int status = options->svg ? rundir_check_output("--svg", options->svg) : STATUS_OK;
  if (!status && options->chrome) status = rundir_check_output("--chrome", options->chrome);
  if (!status && options->csv) status = rundir_check_output("--csv", options->csv);
  return status;
}

static int write_files(const struct report_options *options, const struct picture *picture) {
  int status = write_file(options->svg, picture, write_svg);
  if (!status) status = write_file(options->chrome, picture, picture_write_chrome);
  if (!status) status = write_file(options->csv, picture, write_csv);
  return status;
}

/* The folder may be another user's: then the page is not written, and all else is. */
static void save_page(const char *folder, const char *plan, const struct report *report,
                      const struct report_options *options) {
  if (report_save_html(folder, plan, report, options->step)) {
    log_warn("%s", error_text());
    error_clear();
  } else if (!options->json) {
    printf("\nwritten: %s/report.html\n", folder);
  }
}

/* ---- a run, a plan ---- */

static int report_run(const char *folder, const struct report_options *options) {
  struct report report;
  struct picture picture;
  int status = report_read(folder, options->steps, &report);
  if (status) return status;
  if (options->step) status = report_draw(&report, options->step);
  if (status) {
    report_fini(&report);
    return status;
  }
  char *trace = mem_format("%s/trace.h5", folder), *plan = mem_format("%s/plan.h5", folder);
  char *text = options->json ? report_format_json(&report) : report_format(&report);
  status = picture_read(folder, trace, access(plan, F_OK) ? NULL : plan,
                        options->step ? options->step : report.typical_step, &picture);
  if (!status) {
    status = print(text);
    if (picture.note && !options->json) printf("note: %s\n", picture.note);
    if (!status) status = write_files(options, &picture);
    picture_fini(&picture);
  }
  if (!status) save_page(folder, NULL, &report, options);
  report_fini(&report);
  mem_free(trace);
  mem_free(plan);
  mem_free(text);
  return status;
}

/* path: of plan.h5; folder: where it is. The page of a folder that has a trace too is that of the run. */
static int report_plan(const char *path, const char *folder, bool has_trace, const struct report_options *options) {
  struct picture picture;
  if (options->step || options->steps)
    return error_raise(STATUS_MISTAKE, "%s is a plan of one step: --step and --steps are for runs", path);
  int status = picture_read(path, NULL, path, 0, &picture);
  if (status) return status;
  char *text = options->json ? NULL : picture_format(&picture);
  if (options->json) status = simulate_format(path, &(struct option_list){0}, 1, true, &text);
  if (!status) status = print(text);
  if (!status) status = write_files(options, &picture);
  picture_fini(&picture);
  if (!status) save_page(folder, has_trace ? NULL : path, NULL, options);
  mem_free(text);
  return status;
}

static int report_path(const char *path, const struct report_options *options) {
  struct stat info;
  bool is_file = !stat(path, &info) && S_ISREG(info.st_mode);
  const char *slash = strrchr(path, '/');
  char *folder = !is_file ? mem_strdup(path) : slash ? mem_format("%.*s", (int)(slash - path), path) : mem_strdup(".");
  char *trace = mem_format("%s/trace.h5", folder),
       *plan = is_file ? mem_strdup(path) : mem_format("%s/plan.h5", folder);
  bool has_trace = !access(trace, F_OK), planned = is_file || (!has_trace && !access(plan, F_OK));
  int status = planned ? report_plan(plan, folder, has_trace, options) : report_run(folder, options);
  mem_free(folder);
  mem_free(trace);
  mem_free(plan);
  return status;
}

int cmd_report(int argc, char **argv) {
  const char *steps = NULL, *step = NULL;
  bool done = false;
  struct report_options options = {0};
  const struct option_spec specs[] = {
      {"--steps", OPTION_TEXT, "N",
       "the last N steps of the trace (default: the last 100, without the first after a start)", &steps},
      {"--step", OPTION_TEXT, "N", "draws step N (default: one of median time)", &step},
      {"--svg", OPTION_TEXT, "FILE", "writes the pictures of report.html as SVG", &options.svg},
      {"--chrome", OPTION_TEXT, "FILE", "writes the step as trace events (JSON), for Perfetto", &options.chrome},
      {"--csv", OPTION_TEXT, "FILE", "writes the step's rows of /nodes", &options.csv},
      {"--json", OPTION_FLAG, NULL, "prints one JSON object on standard output", &options.json},
      {0},
  };
  int status = options_parse(&argc, argv, specs, &done);
  if (status || done) return status;
  if (argc != 2)
    return error_raise(STATUS_MISTAKE, "report takes one run folder or plan: penstock report RUN, or RUN/plan.h5");
  status = check_outputs(&options);
  if (!status) status = parse_number("--steps", "a number of steps", steps, &options.steps);
  if (!status) status = parse_number("--step", "a step", step, &options.step);
  return status ? status : report_path(argv[1], &options);
}
