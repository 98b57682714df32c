/* Writes what a run reports: the head of its log, the line of a step, metrics.csv. */
#include "run/run.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "base/words.h"
#include "comm/comm.h"
#include "plan/recompute.h"
#include "record/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* 3:05:09, 5:09 or 9 s in the caller's buffer. */
static void format_duration(double seconds, char text[32]) {
  long long s = (long long)(seconds + 0.5);
  if (s >= 3600)
    snprintf(text, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else if (s >= 60)
    snprintf(text, 32, "%lld:%02lld min", s / 60, s % 60);
  else
    snprintf(text, 32, "%lld s", s);
}

static double get_batch_flops(const struct run *run, const struct batch *batch) {
  double flops = 0;
  for (int32_t i = 0; i < batch->n_micro; i++)
    flops += model_get_flops(run->model, batch->micro[i].shape.rows, batch->micro[i].lengths);
  return flops;
}

/* How long the rest takes, with the evaluations and checkpoints in it. */
static double get_rest(const struct run *run, const struct metrics_row *row) {
  const struct params *p = run->params;
  double rest = (double)(p->run.steps - row->step) * row->step_ms / 1e3;
  if (run->validation && p->run.evaluate_every > 0)
    rest += (double)(p->run.steps / p->run.evaluate_every - row->step / p->run.evaluate_every) * run->clock.evaluation;
  if (p->run.checkpoint_every > 0)
    rest += (double)(p->run.steps / p->run.checkpoint_every - row->step / p->run.checkpoint_every) * run->clock.save;
  return rest;
}

static void log_step(const struct run *run, const struct metrics_row *row) {
  const struct params *p = run->params;
  bool last = row->step == p->run.steps;
  if (row->step % p->run.log_every && !last && isnan(row->validation_loss)) return;
  char left[32], end[32], validation[80] = "", loss[24] = "-", norm[24] = "-"; /* the timed device has neither */
  double rest = get_rest(run, row);
  format_duration(rest, left);
  clock_format_local(rest, end);
  if (!isnan(row->validation_loss))
    snprintf(validation, sizeof validation, "  validation %.6f  perplexity %.5g", row->validation_loss,
             row->perplexity);
  if (!isnan(row->loss)) snprintf(loss, sizeof loss, "%.6f", row->loss);
  if (!isnan(row->grad_norm)) snprintf(norm, sizeof norm, "%.4f", row->grad_norm);
  log_line("%8lld %10lld  %8s  %.3e  %9s %9.1f %9.0f  %8.4f  %9s %9s %10.0f%s", (long long)row->step,
           (long long)row->tokens, loss, row->lr, norm, row->step_ms, row->tokens_per_s, row->tflops, left, end,
           row->tokens_per_s_device, validation);
}

static void count_flops(struct run *run, double flops, double seconds) {
  bool first = run->flop_steps++ < 2; /* the second takes the place of the first, which is slower than all others */
  run->flops = first ? flops : run->flops + flops;
  run->flop_seconds = first ? seconds : run->flop_seconds + seconds;
}

void run_report_share(const struct run *run) {
  if (run->rank != 0 || run->flop_steps == 0) return;
  double reached = run->flops / run->flop_seconds / 1e12, peak = run->params->device.peak_tflops;
  if (!params_is_given(run->params, PARAM_device_peak_tflops)) {
    log_line("model FLOPs, mean of all steps but the first: %.4g TFLOP/s; give device.peak_tflops to see the share of "
             "the peak",
             reached);
    return;
  }
  double share = 100 * reached / (peak * run->size);
  log_line("model FLOPs, mean of all steps but the first: %.4g TFLOP/s, %.2f %% of the peak of %d x %g TFLOP/s",
           reached, share, run->size, peak);
  if (share > 100)
    log_warn(
        "the share of the peak is %.1f %%: device.peak_tflops %g is less than a rank did; give the dense peak of one "
        "rank's device at this precision",
        share, peak);
}

void run_report_note(struct run *run, const struct batch *batch, const struct trainer_result *result) {
  if (run->rank != 0) return;
  double flops = get_batch_flops(run, batch), seconds = result->seconds * run_compare_get_scale(run);
  count_flops(run, flops, seconds);
  run->row = (struct metrics_row){.step = run->step,
                                  .tokens = run->tokens,
                                  .loss = result->loss,
                                  .lr = result->lr,
                                  .grad_norm = result->grad_norm,
                                  .step_ms = result->seconds * 1e3,
                                  .tokens_per_s = (double)batch->tokens / seconds,
                                  .tflops = flops / seconds / 1e12,
                                  .validation_loss = NAN,
                                  .perplexity = NAN,
                                  .tokens_per_s_device = (double)batch->tokens / seconds / run->size};
}

int run_report_step(struct run *run, double validation) {
  if (run->rank != 0) return STATUS_OK;
  run->row.validation_loss = validation;
  run->row.perplexity = exp(validation);
  log_step(run, &run->row);
  return metrics_append(run->dir, &run->row);
}

static void log_data(const struct dataset *dataset, const char *name) {
  const char *line;
  for (int i = 0; (line = dataset_get_line(dataset, i)); i++) log_line("%s: %s", name, line);
}

static void log_stage(const struct run *run, int32_t s) {
  const struct plan_stage *stage = &run->plan->stages[s];
  int32_t blocks = 0;
  int64_t parameters = 0;
  for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
    parameters += run->model->layers[l].n_parameters;
    blocks += run->model->layers[l].block >= 0;
  }
  char *discards = recompute_describe(run->plan, run->model, s);
  log_line("  stage %d on rank %d: layers %d to %d (%g block%s), %lld parameters%s%s%s", s,
           plan_get_holder(run->plan, s), stage->first_layer, stage->first_layer + stage->n_layers - 1, blocks / 2.0,
           blocks == 2 ? "" : "s", (long long)parameters, *discards ? ", recomputes " : "", discards,
           plan_has_parts(run->plan, s) ? ", block by block" : "");
  mem_free(discards);
}

/* Says what the planner says beside its plan, in the words of `penstock plan`. */
static void log_notes(const char *notes) {
  for (const char *line = notes; line && *line;) {
    int n = (int)strcspn(line, "\n");
    log_line("  note: %.*s", n, line);
    line += n + (line[n] == '\n');
  }
}

static void log_plan(const struct run *run) {
  const struct plan *plan = run->plan;
  struct dag *dag = NULL;
  log_line("plan: %s, %d stage%s, %d micro-batch%s a step, hash %016llx", plan->planner, plan->n_stages,
           plan->n_stages == 1 ? "" : "s", plan->n_micro, plan->n_micro == 1 ? "" : "es",
           (unsigned long long)plan->hash);
  log_notes(run->plan_notes);
  if (dag_build(plan, run->model, &dag)) return;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    char peak[32], limit[32];
    bytes_format(dag_get_peak(dag, r, NULL), peak, sizeof peak);
    bytes_format(plan->device_limit[r], limit, sizeof limit);
    bool limited = plan->device_limit[r] < INT64_MAX;
    for (int32_t s = 0; s < plan->n_stages; s++)
      if (plan_holds(plan, s, r)) log_stage(run, s);
    log_line("  rank %d needs at most %s%s%s", r, peak, limited ? " of " : "", limited ? limit : "");
  }
  dag_destroy(&dag);
}

/* Describes cores as "core 3" or "cores 0-15 32-47", cut off with "..." where it would not fit. */
static void describe_cores(const struct topo *topo, char *text, size_t size) {
  int n = snprintf(text, size, "core%s", topo->n_cores == 1 ? "" : "s");
  for (int i = 0, last; i < topo->n_cores; i = last + 1) {
    for (last = i; last + 1 < topo->n_cores && topo->cores[last + 1] == topo->cores[last] + 1;) last++;
    if ((size_t)n + 32 > size) {
      snprintf(text + n, size - (size_t)n, " ...");
      return;
    }
    n += snprintf(text + n, size - (size_t)n, " %d", topo->cores[i]);
    if (last > i) n += snprintf(text + n, size - (size_t)n, "-%d", topo->cores[last]);
  }
}

/* One line a rank: host, cores, threads. Collective; owned by the caller. */
static char *gather_layout_all(const struct run *run) {
  char mine[512], cores[192];
  int threads = run->trainer ? run->trainer->config.device.threads : 0;
  describe_cores(&run->topo, cores, sizeof cores);
  int n = snprintf(mine, sizeof mine, "  rank %d on %.250s: %d thread%s, %s\n", run->rank,
                   comm_get_host(run->comm, run->rank), threads, threads == 1 ? "" : "s", cores);
  int64_t *offsets = MEM_NEW(int64_t, run->size + 1);
  char *all = mem_alloc(sizeof mine * (size_t)run->size + 1);
  comm_gather_all(run->comm, mine, n, all, offsets);
  all[offsets[run->size]] = '\0';
  mem_free(offsets);
  return all;
}

static void log_layout(const char *layout) {
  for (const char *line = layout; *line;) {
    size_t n = strcspn(line, "\n");
    log_line("%.*s", (int)n, line);
    line += n + (line[n] == '\n');
  }
}

static const char *describe_device(const struct run *run) { return run->trainer->device->ops->describe(); }

static void write_manifest(const struct run *run, const char *layout) {
  char now[32];
  clock_format(now);
  char *text =
      mem_format("version: %s\nbuild: %s\nstarted: %s\ncommand: %s\nMPI: %s\ndevice: %s\nranks: %d\n%s", version_get(),
                 version_get_build(), now, run->command, comm_get_library(), describe_device(run), run->size, layout);
  if (rundir_write_manifest(run->dir, text)) log_warn("%s", error_text());
  mem_free(text);
}

void run_report_start_all(struct run *run) {
  char now[32];
  clock_format(now);
  char *layout = gather_layout_all(run);
  if (run->rank == 0) {
    const struct model_config *c = &run->model->config;
    log_line("penstock %s, %s, %s; %s", version_get(), comm_get_library(), describe_device(run), now);
    log_line("run %s in %s", run->params->run.name, run->folder);
    log_layout(layout);
    if (run->topo.oversubscribed)
      log_line("note: more ranks than cores on a node: waiting ranks sleep, steps take longer");
    log_line("model: %s, %lld blocks, hidden %lld, vocabulary %lld, %lld parameters", c->model_type,
             (long long)c->n_blocks, (long long)c->hidden, (long long)c->vocab_size,
             (long long)run->model->n_parameters);
    log_data(run->train, "train");
    if (run->validation) log_data(run->validation, "validation");
    log_plan(run);
  }
  mem_free(layout);
}

void run_report_trace(const struct run *run) {
  char step[32], all[32], limit[32];
  int64_t steps = run->params->run.steps - run->step, bytes = run->n_nodes * TRACE_ROW_BYTES;
  if (run->rank != 0) return;
  bool fits = bytes == 0 || steps <= run->params->run.trace_limit / bytes;
  bytes_format(bytes, step, sizeof step);
  bytes_format(fits ? bytes * steps : 0, all, sizeof all);
  bytes_format(run->params->run.trace_limit, limit, sizeof limit);
  if (fits)
    log_line("trace.h5: about %s a step, %s in the steps to come; run.trace_limit is %s", step, all, limit);
  else
    log_line(
        "trace.h5: about %s a step; run.trace_limit (%s) will be reached in %lld steps: from then on the first and "
        "the last steps are kept, and one in 2, 4, 8, ... between",
        step, limit, (long long)(run->params->run.trace_limit / bytes));
}

void run_report_manifest_all(struct run *run) {
  char *layout = gather_layout_all(run);
  if (run->rank == 0) write_manifest(run, layout);
  mem_free(layout);
}

void run_report_head(void) {
  log_line("#   step     tokens      loss         lr grad norm   ms/step  tokens/s   TFLOP/s  time left   ends at "
           " tok/s/dev");
}
