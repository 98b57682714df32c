#include "report/picture.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/words.h"
#include "record/plan_file.h"
#include "record/trace_read.h"

static const double MIB = 1024.0 * 1024.0;

/* Bytes by rank of a plan; its arrays are owned by the caller. */
static struct timeline_memory make_memory(const struct plan_file *plan, int64_t **bytes_static, int64_t **limits) {
  int64_t n = plan->n_ranks > 0 ? plan->n_ranks : 0;
  *bytes_static = MEM_NEW(int64_t, n);
  *limits = MEM_NEW(int64_t, n);
  for (int64_t r = 0; r < n; r++) (*limits)[r] = INT64_MAX;
  for (int64_t i = 0; i < plan->n_limits; i++) {
    const struct plan_file_limit *limit = &plan->limits[i];
    if (limit->rank >= 0 && limit->rank < n && limit->device_bytes >= 0) (*limits)[limit->rank] = limit->device_bytes;
  }
  for (int64_t i = 0; i < plan->n_peaks; i++)
    if (plan->peaks[i].rank >= 0 && plan->peaks[i].rank < n)
      (*bytes_static)[plan->peaks[i].rank] = plan->peaks[i].device_static_bytes;
  return (struct timeline_memory){n, *bytes_static, *limits};
}

int picture_refuse_step(const char *trace, int64_t step) {
  return error_raise(
      STATUS_MISTAKE,
      "%s holds no step %lld: --step takes one that was traced (run.trace_every) and kept (run.trace_limit)", trace,
      (long long)step);
}

/* A step of an earlier start may have run with another plan than plan.h5: then its prediction says nothing of it. */
static void drop_other_plan(struct picture *p) {
  struct timeline *plan = &p->timelines[0], *step = &p->timelines[1];
  if (p->n_timelines < 2 || timeline_is_of_plan(step, plan)) return;
  p->note = mem_format("step %lld ran with another plan than that in plan.h5 (%d stages on %d ranks): it is drawn "
                       "without a prediction",
                       (long long)step->step, (int)step->n_stages, (int)step->n_ranks);
  timeline_fini(plan);
  *plan = *step;
  *step = (struct timeline){0};
  p->n_timelines = 1;
}

/* Adds the timeline of a file where it has times. */
static int add_timeline(struct picture *p, const char *title, const char *path, int64_t step, double seconds,
                        const struct timeline_memory *memory) {
  struct node_row *rows = NULL;
  int64_t n_rows;
  int status = trace_read_nodes(path, step, &rows, &n_rows);
  if (status) return status;
  if (step > 0 && n_rows == 0) {
    mem_free(rows);
    return picture_refuse_step(path, step);
  }
  struct timeline *t = &p->timelines[p->n_timelines];
  status = timeline_init(t, title, step, seconds, rows, n_rows, memory);
  if (status) return error_wrap("%s", path);
  if (t->n_rows > 0)
    p->n_timelines++;
  else
    timeline_fini(t);
  return STATUS_OK;
}

/* A measurement is drawn without its prediction when the plan cannot be read. */
static int forgive_plan(int status, const char *trace) {
  if (!status || !trace) return status;
  log_warn("%s; the picture lacks what was predicted", error_text());
  error_clear();
  return STATUS_OK;
}

int picture_read(const char *name, const char *trace, const char *plan, int64_t step, struct picture *picture) {
  struct plan_file file = {0};
  int64_t *bytes_static = NULL, *limits = NULL;
  *picture = (struct picture){.name = mem_strdup(name)};
  int status = plan ? plan_file_read(plan, &file) : STATUS_OK;
  if (status && trace) {
    plan_file_fini(&file);
    file = (struct plan_file){0};
    plan = NULL;
  }
  status = forgive_plan(status, trace);
  struct timeline_memory memory = make_memory(&file, &bytes_static, &limits);
  if (!status && file.planner) picture->planner = mem_strdup(file.planner);
  if (!status && plan) {
    double seconds = isfinite(file.predicted_step_s) ? file.predicted_step_s : 0;
    status = forgive_plan(add_timeline(picture, "predicted", plan, 0, seconds, &memory), trace);
  }
  if (!status && trace) status = add_timeline(picture, "measured", trace, step, 0, &memory);
  if (!status) drop_other_plan(picture);
  if (!status && picture->n_timelines == 0)
    status = error_raise(STATUS_MISTAKE, "%s holds no times: penstock plan writes plans with predicted times",
                         trace  ? trace
                         : plan ? plan
                                : name);
  mem_free(bytes_static);
  mem_free(limits);
  plan_file_fini(&file);
  if (status) picture_fini(picture);
  return status;
}

void picture_fini(struct picture *picture) {
  for (int i = 0; i < picture->n_timelines; i++) timeline_fini(&picture->timelines[i]);
  mem_free(picture->name);
  mem_free(picture->planner);
  mem_free(picture->note);
  *picture = (struct picture){0};
}

double picture_get_seconds(const struct picture *picture) {
  double most = 0;
  for (int i = 0; i < picture->n_timelines; i++)
    most = fmax(most, picture->timelines[i].end_s - picture->timelines[i].begin_s);
  return most > 0 ? most : 1;
}

static void print_timeline(FILE *out, const struct timeline *t) {
  double step = t->end_s - t->begin_s;
  bool later = report_has_later_parts(t->ranks, t->n_ranks);
  fprintf(out, "%s step: %.3f ms\n\nrank", t->title, step * 1e3);
#define X(name, title, ...) fprintf(out, "  %9s     %%", title);
  REPORT_FIRST_PARTS(X)
  fprintf(out, "        peak       limit");
  if (later) {
    REPORT_LATER_PARTS(X)
  }
#undef X
  fprintf(out, "\n    ");
#define X(name, ...) fprintf(out, "  %9s      ", "ms");
  REPORT_FIRST_PARTS(X)
  fprintf(out, "         MiB         MiB");
  if (later) {
    REPORT_LATER_PARTS(X)
  }
#undef X
  fputc('\n', out);
  for (int32_t r = 0; r < t->n_ranks; r++) {
    const struct report_rank *rank = &t->ranks[r];
    fprintf(out, "%4d", r);
#define X(name, ...) fprintf(out, "  %9.3f %5.1f", rank->name * 1e3, step > 0 ? 100 * rank->name / step : 0);
    REPORT_FIRST_PARTS(X)
    fprintf(out, "  %10.2f", (double)rank->peak_bytes / MIB);
    if (rank->limit_bytes == INT64_MAX)
      fprintf(out, "  %10s", "none");
    else
      fprintf(out, "  %10.2f", (double)rank->limit_bytes / MIB);
    if (later) {
      REPORT_LATER_PARTS(X)
    }
#undef X
    fputc('\n', out);
  }
}

char *picture_format(const struct picture *picture) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  CHECK(out, "no memory for a report");
  fprintf(out, "plan %s: planner %s, %d ranks\n", picture->name, picture->planner ? picture->planner : "unknown",
          (int)picture->timelines[0].n_ranks);
  for (int i = 0; i < picture->n_timelines; i++) print_timeline(out, &picture->timelines[i]);
  fclose(out);
  char *copy = mem_strdup(text);
  free(text);
  return copy;
}

void picture_write_escaped(FILE *out, const char *text) {
  for (const char *c = text; *c; c++) switch (*c) {
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '&': fputs("&amp;", out); break;
    case '"': fputs("&quot;", out); break;
    default:
      if (((unsigned char)*c >= ' ' && *c != 127) || *c == '\n') fputc(*c, out);
    }
}
