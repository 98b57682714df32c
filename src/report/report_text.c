/* The report for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/words.h"
#include "dag/dag.h"
#include "report/report.h"

static const double MIB = 1024.0 * 1024.0;

static void print_head(FILE *out, const struct report *r) {
  fprintf(out, "run %s: %s\n", r->folder, r->status);
  fprintf(out, "planner %s, %d rank%s, %d stage%s, %d micro-batch%s a step\n", r->planner ? r->planner : "unknown",
          r->n_ranks, words_get_ending(r->n_ranks), r->n_stages, words_get_ending(r->n_stages), r->n_micro,
          r->n_micro == 1 ? "" : "es");
  fprintf(out,
          "steps %" PRId64 " to %" PRId64 " (%" PRId64 " in the trace): mean %.2f ms, median %.2f ms, %.0f tokens/s\n",
          r->first_step, r->last_step, r->n_steps, r->step_seconds * 1e3, r->median_seconds * 1e3, r->tokens_per_s);
  if (isfinite(r->predicted_seconds))
    fprintf(out, "predicted step: %.2f ms (of the largest micro-batches)\n", r->predicted_seconds * 1e3);
  if (isfinite(r->loss_first))
    fprintf(out, "loss %.6f in step %" PRId64 ", %.6f in step %" PRId64 "\n", r->loss_first, r->first_step,
            r->loss_last, r->last_step);
  fputc('\n', out);
}

static void print_part(FILE *out, double seconds, double step) {
  fprintf(out, "  %9.2f %5.1f", seconds * 1e3, step > 0 ? 100 * seconds / step : 0);
}

static void print_bytes(FILE *out, int64_t bytes, const char *unknown) {
  if (bytes < 0 || bytes == INT64_MAX)
    fprintf(out, "  %10s", unknown);
  else
    fprintf(out, "  %10.2f", (double)bytes / MIB);
}

bool report_has_later_parts(const struct report_rank *ranks, int32_t n_ranks) {
  double sum = 0;
  for (int32_t i = 0; i < n_ranks; i++) {
#define X(name, ...) sum += ranks[i].name;
    REPORT_LATER_PARTS(X)
#undef X
  }
  return sum > 0;
}

static void print_ranks(FILE *out, const struct report *r) {
  bool later = report_has_later_parts(r->ranks, r->n_ranks);
  fprintf(out, "rank");
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
  for (int32_t i = 0; i < r->n_ranks; i++) {
    const struct report_rank *rank = &r->ranks[i];
    fprintf(out, "%4d", rank->rank);
#define X(name, ...) print_part(out, rank->name, r->step_seconds);
    REPORT_FIRST_PARTS(X)
    print_bytes(out, rank->peak_bytes, "?");
    print_bytes(out, rank->limit_bytes, "none");
    if (later) {
      REPORT_LATER_PARTS(X)
    }
#undef X
    fputc('\n', out);
  }
}

/* Idle time in the words of a prediction. */
static void print_idle(FILE *out, const struct report *r) {
  fprintf(out, "\nrank");
#define X(name, ...) fprintf(out, "  %9s     %%", #name);
  STEP_IDLE_WORDS(X)
#undef X
  fprintf(out, "  (idle, ms)\n");
  for (int32_t i = 0; i < r->n_ranks; i++) {
    fprintf(out, "%4d", r->ranks[i].rank);
#define X(name, ...) print_part(out, r->ranks[i].idle.name, r->step_seconds);
    STEP_IDLE_WORDS(X)
#undef X
    fputc('\n', out);
  }
#define X(name, meaning) fprintf(out, "  %-7s %s\n", #name, meaning);
  STEP_IDLE_WORDS(X)
#undef X
}

/* Busy time by kind of pass. */
static void print_kinds(FILE *out, const struct report *r) {
  bool any[NODE_KIND_COUNT] = {false};
  for (int32_t i = 0; i < r->n_ranks; i++)
    for (int k = 0; k < NODE_KIND_COUNT; k++) any[k] |= r->ranks[i].kinds[k] > 0;
  fprintf(out, "\nrank");
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    if (any[k]) fprintf(out, "  %9s     %%", node_kind_get_name((enum node_kind)k));
  fprintf(out, "  (busy, ms)\n");
  for (int32_t i = 0; i < r->n_ranks; i++) {
    fprintf(out, "%4d", r->ranks[i].rank);
    for (int k = 0; k < NODE_KIND_COUNT; k++)
      if (any[k]) print_part(out, r->ranks[i].kinds[k], r->step_seconds);
    fputc('\n', out);
  }
  fprintf(out, "F forward, R recompute, B backward, or I and W its input and weight passes, U update\n");
}

static void print_moved(FILE *out, int32_t number, double blocks, double bytes, double seconds, double exposed) {
  fprintf(out, "%5d  %10.6g  %10.2f  %10.2f  %10.2f", number, blocks, bytes / MIB, seconds * 1e3, exposed * 1e3);
  if (seconds > 0)
    fprintf(out, "  %7.1f %%\n", 100 * (1 - exposed / seconds));
  else
    fprintf(out, "        -\n");
}

/* Prints the host memory and disk in which blocks of activations waited. */
static void print_pools(FILE *out, const struct report *r) {
  bool any = false;
  for (int32_t i = 0; i < r->n_ranks; i++) any |= r->ranks[i].host_bytes > 0 || r->ranks[i].disk_bytes > 0;
  if (!any) return;
  fprintf(out, " rank   host peak       limit   disk peak       limit  (MiB)\n");
  for (int32_t i = 0; i < r->n_ranks; i++) {
    const struct report_rank *rank = &r->ranks[i];
    fprintf(out, "%5d", rank->rank);
    print_bytes(out, rank->host_bytes, "?");
    print_bytes(out, rank->host_limit, "none");
    print_bytes(out, rank->disk_bytes, "?");
    print_bytes(out, rank->disk_limit, "none");
    fputc('\n', out);
  }
}

/* Prints what leaves its device; prints nothing when nothing does. */
static void print_blocks(FILE *out, const struct report *r) {
  static const char head[] = "  blocks out         MiB          ms  exposed ms    hidden";
  double all = 0;
  for (int32_t i = 0; i < r->n_ranks; i++) all += r->ranks[i].block_seconds + r->ranks[i].blocks;
  if (all == 0) return;
  fprintf(
      out,
      "\nblocks of activations that leave for a later backward, a step; ms: of sending, copying, writing and reading\n"
      "them, both ways, a rank's own and others'; exposed: compute waited until one was back or gone; else hidden\n");
  fprintf(out, " rank%s\n", head);
  for (int32_t i = 0; i < r->n_ranks; i++) {
    const struct report_rank *rank = &r->ranks[i];
    print_moved(out, rank->rank, rank->blocks, rank->block_bytes, rank->block_seconds, rank->block_exposed);
  }
  fprintf(out, "stage%s\n", head);
  for (int32_t s = 0; s < r->n_stages; s++) {
    const struct step_stage *stage = &r->stages[s];
    if (stage->rank >= 0) print_moved(out, s, stage->blocks, stage->bytes, stage->seconds, stage->exposed);
  }
  print_pools(out, r);
}

static void print_meaning(FILE *out, const struct report *r) {
  fprintf(out, "\nmeans over the steps; the parts of a rank sum to the step\n");
#define X(name, title, meaning) fprintf(out, "  %-7s %s\n", title, meaning);
  REPORT_PARTS(X)
#undef X
  fprintf(out, "  peak    most device memory that was in use at once; limit is memory.device_limit\n");
  if (r->n_stages > 1 && r->n_stages == r->n_ranks)
    fprintf(out, "with equal stages 1f1b and gpipe leave a bubble of (p-1)/(m+p-1) = %.1f %% of the step\n",
            100.0 * (r->n_stages - 1) / (r->n_micro + r->n_stages - 1));
}

static void print_late(FILE *out, const struct report *r) {
  if (r->n_late == 0) {
    fprintf(out, "\nno pass waited for anything but its data by more than 1 %% of a step\n");
    return;
  }
  fprintf(out, "\n%" PRId64 " pass%s waited for something other than %s data by more than 1 %% of a step; the worst:\n",
          r->n_late, r->n_late == 1 ? "" : "es", r->n_late == 1 ? "its" : "their");
  for (int i = 0; i < REPORT_WORST && i < r->n_late; i++) {
    const struct report_late *late = &r->worst[i];
    struct dag_node node = {.rank = late->rank,
                            .stage = late->stage,
                            .micro = late->micro,
                            .layer = late->layer,
                            .peer = -1,
                            .kind = late->kind};
    char name[80];
    dag_describe_node(&node, name, sizeof name);
    fprintf(out, "  step %" PRId64 " rank %d %s: %.2f ms; %s\n", late->step, late->rank, name, late->seconds * 1e3,
            report_cause_get_text(late->cause));
  }
}

static void print_picture(FILE *out, const struct report *r) {
  fprintf(out,
          "\nstep %" PRId64
          "%s (one column is 1/%d of it; F forward, R recompute, B I W backward, U update, . idle)\n%s",
          r->drawn_step, r->drawn_step == r->typical_step ? ", the step with the median time" : "",
          REPORT_PICTURE_COLUMNS, REPORT_PICTURE_NOTE);
  for (int32_t i = 0; i < r->drawn_ranks; i++)
    fprintf(out, "%4d |%s|\n", i, r->picture + (size_t)i * (REPORT_PICTURE_COLUMNS + 1));
}

char *report_format(const struct report *r) {
  char *buffer = NULL;
  size_t size;
  FILE *out = open_memstream(&buffer, &size);
  CHECK(out, "out of memory");
  print_head(out, r);
  print_ranks(out, r);
  print_meaning(out, r);
  print_idle(out, r);
  print_kinds(out, r);
  print_blocks(out, r);
  if (r->comparison_text)
    fprintf(out, "\n%s", r->comparison_text);
  else
    fprintf(out, "\npredicted beside measured, by kind of node and op, is written when a run ends\n");
  print_late(out, r);
  print_picture(out, r);
  CHECK(!fclose(out), "out of memory");
  char *text = mem_strdup(buffer);
  free(buffer);
  return text;
}
