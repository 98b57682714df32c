/* penstock report RUN: where time and memory of a run went. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "report/report.h"

static int parse_steps(const char *text, int64_t *steps) {
  char *end = NULL;
  *steps = text ? strtoll(text, &end, 10) : 0;
  if (text && (end == text || *end || *steps < 1 || *steps > 1000000000))
    return error_raise(STATUS_MISTAKE, "--steps %s: a number of steps, 1 or more", text);
  return STATUS_OK;
}

static int print_report(const char *folder, int64_t steps, bool json) {
  struct report report;
  int status = report_read(folder, steps, &report);
  if (status) return status;
  char *text = json ? report_format_json(&report) : report_format(&report);
  fputs(text, stdout);
  mem_free(text);
  report_fini(&report);
  return STATUS_OK;
}

int cmd_report(int argc, char **argv) {
  const char *text = NULL;
  bool json = false, done = false;
  int64_t steps;
  const struct option_spec specs[] = {
      {"--steps", OPTION_TEXT, "N", "the last N steps of the trace (default: the last 100 without the run's first)",
       &text},
      {"--json", OPTION_FLAG, NULL, "prints one JSON object on standard output", &json},
      {0},
  };
  int status = options_parse(&argc, argv, specs, &done);
  if (status || done) return status;
  if (argc != 2) return error_raise(STATUS_MISTAKE, "report takes one run folder: penstock report RUN");
  status = parse_steps(text, &steps);
  return status ? status : print_report(argv[1], steps, json);
}
