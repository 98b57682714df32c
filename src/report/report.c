#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/model.h"
#include "record/plan_file.h"
#include "record/trace_read.h"
#include "report/compare_text.h"
#include "report/picture.h"
#include "report/report_step.h"
#include "store/disk.h"

/* Read beyond those asked for, in place of steps that a broken job has left incomplete. */
enum { SPARE_STEPS = 100 };

/* The rows of the step that begins at row `first`. */
static int64_t count_rows(const struct trace_content *c, int64_t first) {
  int64_t n = first;
  while (n < c->n_nodes && c->nodes[n].step == c->nodes[first].step) n++;
  return n - first;
}

static const struct step_row *find_step(const struct trace_content *c, int64_t step) {
  for (int64_t i = 0; i < c->n_steps; i++)
    if (c->steps[i].step == step) return &c->steps[i];
  return NULL;
}

static int32_t count_ranks(const struct trace_content *c, int64_t first, int64_t n) {
  int32_t most = 0;
  for (int64_t i = first; i < first + n; i++)
    if (c->nodes[i].rank >= most) most = c->nodes[i].rank + 1;
  return most;
}

/* First row of the step that ends before row `end`. */
static int64_t find_step_begin(const struct trace_content *c, int64_t end) {
  int64_t first = end;
  while (first > 0 && c->nodes[first - 1].step == c->nodes[end - 1].step) first--;
  return first;
}

/* End of the last step that all ranks of the last job have left; of the last step when there is none. */
static int64_t find_complete_end(const struct trace_content *c) {
  for (int64_t end = c->n_nodes; end > 0; end = find_step_begin(c, end)) {
    int64_t first = find_step_begin(c, end);
    if (count_ranks(c, first, end - first) == c->n_ranks) return end;
  }
  return c->n_nodes;
}

/* The rows of the steps to report, *first to end-1: as many as asked for, from the end, all on as many ranks as the
 * last one. */
static void find_range(const struct trace_content *c, int64_t steps, int64_t *first, int64_t *end, int32_t *n_ranks) {
  int64_t n = 0;
  *n_ranks = 0;
  *first = *end = find_complete_end(c);
  while (*first > 0 && !(steps > 0 && n == steps)) {
    int64_t begin = find_step_begin(c, *first);
    int32_t ranks = count_ranks(c, begin, *first - begin);
    bool warms_up = steps == 0 && n > 0 && c->nodes[begin].step == 1;
    if ((n > 0 && ranks != *n_ranks) || warms_up) break;
    *n_ranks = ranks;
    *first = begin;
    n++;
  }
}

/* A step that was read: how long it took and where its rows are. */
struct step_read {
  double seconds;
  int64_t step, first, n;
};

static int compare_steps(const void *left, const void *right) {
  const struct step_read *a = left, *b = right;
  if (a->seconds != b->seconds) return a->seconds < b->seconds ? -1 : 1;
  return (a->step > b->step) - (a->step < b->step);
}

static void draw(struct report *r, int64_t step, const struct step_view *view) {
  mem_free(r->picture);
  r->picture = report_step_draw(view);
  r->drawn_step = step;
  r->drawn_ranks = view->n_ranks;
}

/* The median, and the step that took it (of an even number of steps the faster of the middle ones), drawn. */
static void choose_typical(const struct trace_content *c, struct step_read *read, struct report *r) {
  qsort(read, (size_t)r->n_steps, sizeof *read, compare_steps);
  const struct step_read *typical = &read[(r->n_steps - 1) / 2];
  r->median_seconds = (typical->seconds + read[r->n_steps / 2].seconds) / 2;
  r->typical_step = typical->step;
  struct step_view view;
  step_view_init_rows(&view, &c->nodes[typical->first], typical->n, find_step(c, typical->step)->seconds, false);
  draw(r, typical->step, &view);
  step_view_fini(&view);
}

/* True when a step of first..end-1 is not the first after a start. */
static bool has_warm_step(const struct trace_content *c, int64_t first, int64_t end) {
  for (int64_t at = first; at < end; at += count_rows(c, at)) {
    const struct step_row *step = find_step(c, c->nodes[at].step);
    if (step && step->starts != 1) return true;
  }
  return false;
}

/* The first step after a start warms up: it counts only where it is asked for (steps), or there is no other. */
static void add_steps(const struct trace_content *c, int64_t first, int64_t end, int64_t steps,
                      const struct plan_file *plan, struct report *r) {
  bool skips = steps == 0 && has_warm_step(c, first, end);
  struct step_read *read = MEM_NEW(struct step_read, c->n_steps);
  double sum = 0, trained = 0;
  int64_t tokens = 0;
  for (int64_t at = first, n; at < end; at += n) {
    n = count_rows(c, at);
    const struct step_row *step = find_step(c, c->nodes[at].step);
    if (!step || r->n_steps == c->n_steps || (skips && step->starts == 1)) continue;
    struct step_view view;
    step_view_init_rows(&view, &c->nodes[at], n, step->seconds, plan->recompute_early);
    report_step_add(&view, r);
    if (r->n_steps == 0) r->loss_first = step->loss, r->first_step = step->step;
    read[r->n_steps++] = (struct step_read){view.until - view.begin, step->step, at, n};
    sum += view.until - view.begin;
    trained += step->seconds;
    tokens += step->tokens;
    r->loss_last = step->loss;
    r->last_step = step->step;
    r->n_micro = view.n_micro;
    step_view_fini(&view);
  }
  if (r->n_steps > 0) {
    choose_typical(c, read, r);
    r->step_seconds = sum / (double)r->n_steps;
    r->tokens_per_s = trained > 0 ? (double)tokens / trained / (plan->planner ? plan->time_scale : 1) : 0;
  }
  mem_free(read);
}

/* Sums become means; peaks and limits are added. */
static void finish_ranks(const struct trace_content *c, const struct plan_file *plan, struct report *r) {
  for (int32_t i = 0; i < r->n_ranks; i++) {
    struct report_rank *rank = &r->ranks[i];
    rank->rank = i;
#define X(name, ...) rank->name /= (double)r->n_steps;
    REPORT_PARTS(X)
#undef X
#define X(name, ...) rank->idle.name /= (double)r->n_steps;
    STEP_IDLE_WORDS(X)
#undef X
    for (int k = 0; k < NODE_KIND_COUNT; k++) rank->kinds[k] /= (double)r->n_steps;
    rank->blocks /= (double)r->n_steps;
    rank->block_bytes /= (double)r->n_steps;
    rank->block_seconds /= (double)r->n_steps;
    rank->block_exposed /= (double)r->n_steps;
    rank->peak_bytes = -1;
    rank->limit_bytes = rank->host_limit = rank->disk_limit = INT64_MAX;
  }
  for (int32_t s = 0; s < r->n_stages; s++) {
    struct step_stage *stage = &r->stages[s];
    stage->blocks /= (double)r->n_steps;
    stage->bytes /= (double)r->n_steps;
    stage->seconds /= (double)r->n_steps;
    stage->exposed /= (double)r->n_steps;
  }
  for (int64_t i = 0; i < plan->n_limits; i++) {
    const struct plan_file_limit *limit = &plan->limits[i];
    if (limit->rank < 0 || limit->rank >= r->n_ranks) continue;
    struct report_rank *rank = &r->ranks[limit->rank];
    if (limit->device_bytes >= 0) rank->limit_bytes = limit->device_bytes;
    if (limit->host_bytes >= 0) rank->host_limit = limit->host_bytes;
    if (limit->disk_bytes >= 0) rank->disk_limit = limit->disk_bytes;
  }
  for (int64_t i = 0; i < c->n_peaks; i++) {
    const struct peak_row *peak = &c->peaks[i];
    if (peak->rank < 0 || peak->rank >= r->n_ranks || peak->step < r->first_step) continue;
    struct report_rank *rank = &r->ranks[peak->rank];
    if (peak->device_bytes > rank->peak_bytes) rank->peak_bytes = peak->device_bytes;
    if (peak->host_bytes > rank->host_bytes) rank->host_bytes = peak->host_bytes;
    if (peak->disk_bytes > rank->disk_bytes) rank->disk_bytes = peak->disk_bytes;
  }
}

static int fill_report(const struct trace_content *content, const struct plan_file *plan, int64_t steps,
                       struct report *r) {
  int64_t first, end;
  find_range(content, steps, &first, &end, &r->n_ranks);
  r->ranks = MEM_NEW(struct report_rank, r->n_ranks);
  add_steps(content, first, end, steps, plan, r);
  if (r->n_steps == 0)
    return error_raise(STATUS_MISTAKE,
                       "%s/trace.h5 holds no step yet: it is written every run.trace_every steps and at the end",
                       r->folder);
  finish_ranks(content, plan, r);
  r->predicted_seconds = plan->planner ? plan->predicted_step_s : NAN;
  r->planner = plan->planner ? mem_strdup(plan->planner) : NULL;
  return STATUS_OK;
}

/* Reads the comparison of predicted with measured that the end of the run has written. */
static int read_comparison(const char *trace, const struct plan_file *plan, struct report *r) {
  int status = comparison_read(trace, &r->comparison);
  if (status || r->comparison.n_steps == 0) return status;
  if (plan->model_json && *plan->model_json) status = model_create_again(plan->model_json, "plan.h5", &r->model);
  if (!status) r->comparison_text = compare_format(&r->comparison, r->model);
  return status;
}

int report_read(const char *folder, int64_t steps, struct report *report) {
  struct trace_content content = {0};
  struct plan_file plan = {0};
  char *trace = mem_format("%s/trace.h5", folder), *plan_path = mem_format("%s/plan.h5", folder);
  int status = STATUS_OK;
  *report = (struct report){.folder = mem_strdup(folder)};
  if (access(folder, F_OK))
    status = error_raise(STATUS_MISTAKE, "%s: there is no such folder; give the run folder (run.folder of the deck)",
                         folder);
  else if (access(trace, F_OK))
    status = error_raise(STATUS_MISTAKE,
                         "%s has no trace.h5: it is no run folder, no trace has been written yet (after "
                         "run.trace_every steps), or the run had run.trace_every: 0",
                         folder);
  if (!status) status = trace_read(trace, (steps > 0 ? steps : REPORT_DEFAULT_STEPS) + SPARE_STEPS, &content);
  if (!status && !access(plan_path, F_OK) && plan_file_read(plan_path, &plan)) {
    log_warn("%s; the report lacks what it says of the plan", error_text());
    error_clear();
    plan_file_fini(&plan);
    plan = (struct plan_file){0};
  }
  if (!status) status = read_comparison(trace, &plan, report);
  if (!status) report->status = rundir_describe_state(folder);
  if (!status) status = fill_report(&content, &plan, steps, report);
  trace_content_fini(&content);
  plan_file_fini(&plan);
  mem_free(trace);
  mem_free(plan_path);
  if (status) report_fini(report);
  return status;
}

int report_draw(struct report *r, int64_t step) {
  struct node_row *rows;
  int64_t n;
  double end = 0;
  char *trace = mem_format("%s/trace.h5", r->folder);
  int status = trace_read_nodes(trace, step, &rows, &n);
  if (!status && n == 0) status = picture_refuse_step(trace, step);
  mem_free(trace);
  if (status) return status;
  for (int64_t i = 0; i < n; i++) end = fmax(end, rows[i].end_s);
  struct step_view view;
  step_view_init_rows(&view, rows, n, end, false);
  draw(r, step, &view);
  step_view_fini(&view);
  mem_free(rows);
  return STATUS_OK;
}

void report_fini(struct report *report) {
  mem_free(report->folder);
  mem_free(report->planner);
  mem_free(report->status);
  mem_free(report->comparison_text);
  model_destroy(&report->model);
  comparison_fini(&report->comparison);
  mem_free(report->ranks);
  mem_free(report->stages);
  mem_free(report->picture);
  *report = (struct report){0};
}

const char *report_cause_get_text(enum report_cause cause) {
#define X(id, text) text,
  static const char *const texts[] = {REPORT_CAUSES(X)};
#undef X
  return texts[cause];
}

static bool exists(const char *path) { return !access(path, F_OK); }

static int write_page(const char *path, const struct page *content) {
  char *page = NULL;
  size_t size;
  FILE *out = open_memstream(&page, &size);
  if (out) page_write(out, content);
  bool failed = !out || ferror(out);
  if ((out && fclose(out)) || failed) {
    free(page);
    return error_raise(STATUS_FAILED, "no memory for %s", path);
  }
  int status = disk_write_text(path, page);
  free(page);
  return status;
}

/* The curves of a run; a file that cannot be read takes nothing away from the rest of the page. */
static void read_metrics(const char *folder, struct metrics_row **rows, int64_t *n) {
  char *path = mem_format("%s/metrics.csv", folder);
  *rows = NULL;
  *n = 0;
  if (exists(path) && metrics_read(path, rows, n)) {
    log_warn("%s; report.html has no curves", error_text());
    error_clear();
  }
  mem_free(path);
}

static int save_measured(const char *path, const char *trace, const char *plan, const struct report *report,
                         int64_t step) {
  struct picture picture;
  struct metrics_row *rows;
  int64_t n;
  int status = picture_read(report->folder, trace, plan, step ? step : report->typical_step, &picture);
  if (status) return status;
  read_metrics(report->folder, &rows, &n);
  status = write_page(path, &(struct page){&picture, report, rows, n});
  mem_free(rows);
  picture_fini(&picture);
  return status;
}

static int save_planned(const char *path, const char *name, const char *plan) {
  struct picture picture;
  int status = picture_read(name, NULL, plan, 0, &picture);
  if (status) return status;
  status = write_page(path, &(struct page){.picture = &picture});
  picture_fini(&picture);
  return status;
}

int report_save_html(const char *folder, const char *plan, const struct report *report, int64_t step) {
  char *trace = mem_format("%s/trace.h5", folder), *usual = mem_format("%s/plan.h5", folder),
       *path = mem_format("%s/report.html", folder);
  struct report own = {0};
  int status = STATUS_OK;
  if (!plan && exists(usual)) plan = usual;
  if (!exists(trace)) {
    status = save_planned(path, folder, plan);
  } else if (report) {
    status = save_measured(path, trace, plan, report, step);
  } else {
    status = report_read(folder, 0, &own);
    if (!status) status = save_measured(path, trace, plan, &own, step);
    if (!status) report_fini(&own);
  }
  mem_free(trace);
  mem_free(usual);
  mem_free(path);
  return status;
}

int report_save(const char *folder, const char *run_status) {
  char *trace = mem_format("%s/trace.h5", folder), *path = mem_format("%s/report.txt", folder);
  struct report report;
  int status = STATUS_OK;
  if (!access(trace, F_OK)) {
    status = report_read(folder, 0, &report);
    if (!status) {
      if (run_status) {
        mem_free(report.status);
        report.status = mem_strdup(run_status);
      }
      char *text = report_format(&report);
      status = disk_write_text(path, text);
      mem_free(text);
      if (!status) status = report_save_html(folder, NULL, &report, 0);
      report_fini(&report);
    }
  }
  mem_free(trace);
  mem_free(path);
  return status;
}
