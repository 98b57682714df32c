/* Compares predicted with measured steps of a run: each step's prediction for the trace, and sums by kind of node and
 * by op at the end. Every rank keeps its own last steps; rank 0 predicts, and again when the shapes change.
 */
#include "run/run.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "profile/profile_measure.h"
#include "record/trace.h"
#include "report/compare_text.h"
#include "run/forecast.h"
#include "run/tally.h"
#include "setup/costs.h"

enum { N_VALUES = sizeof(struct forecast) / sizeof(double) };

struct run_compare {
  struct cost *own;        /* of rank 0 when the device computes; else the run's */
  const struct cost *cost; /* rank 0 */
  int64_t builds;          /* of the graph that was predicted last */
  struct forecast forecast;
  struct forecast_counts counts;
  struct tally *predicted; /* rank 0 */
  struct tally *measured;
  int64_t peak; /* bytes of this rank's device, of the step that used most */
};

/* Logs the notes of the costs. That a preset is not measured is told at the end, beside what was measured. */
static void log_notes(const struct run *run, const struct cost *cost, const char *notes) {
  if (run->params->cost.source != PARAMS_COST_SOURCE_PROFILE) return;
  for (const char *line = notes; *line;) {
    int n = (int)strcspn(line, "\n");
    if (cost_is_measured(cost))
      log_line("costs: %.*s", n, line);
    else
      log_warn("%.*s", n, line);
    line += n + (line[n] == '\n');
  }
}

int run_compare_open_all(struct run *run) {
  struct run_compare *c = MEM_NEW(struct run_compare, 1);
  int status = STATUS_OK;
  run->compare = c;
  c->measured = tally_create(N_VALUES);
  struct device_config device = setup_make_device(run->params, &run->topo, INT64_MAX);
  char *here = profile_describe_device_all(run->comm, params_get_choice(run->params, PARAM_device_backend), &device,
                                           params_get_choice(run->params, PARAM_device_precision));
  if (run->rank == 0) {
    char *notes = NULL;
    c->predicted = tally_create(N_VALUES);
    if (!run->cost) status = costs_open(run->params, run->model, run->size, here, &c->own, &notes);
    c->cost = run->cost ? run->cost : c->own;
    if (!status && notes) log_notes(run, c->cost, notes);
    mem_free(notes);
  }
  mem_free(here);
  return comm_agree_all(run->comm, status);
}

void run_compare_close(struct run *run) {
  struct run_compare *c = run->compare;
  if (!c) return;
  tally_destroy(&c->measured);
  tally_destroy(&c->predicted);
  cost_destroy(&c->own);
  mem_free(c);
  run->compare = NULL;
}

const struct cost *run_compare_get_cost(const struct run *run) { return run->compare->cost; }

double run_compare_get_scale(const struct run *run) {
  return trainer_computes(run->trainer) ? 1 : run->params->device.time_scale;
}

/* ---- a step ---- */

static void predict(const struct run *run) {
  struct run_compare *c = run->compare;
  const struct step_graph *graph = &run->trainer->train;
  if (c->builds == graph->n_builds) return;
  forecast_make(graph->plan, graph->dag, run->model, c->cost, run_compare_get_scale(run), &c->forecast, &c->counts);
  c->builds = graph->n_builds;
}

double run_compare_step(const struct run *run, const struct trainer_result *result) {
  struct run_compare *c = run->compare;
  const struct trainer *t = run->trainer;
  struct forecast measured;
  forecast_measure(t->train.dag, run->rank, t->spans, t->op_seconds, result->seconds, &measured);
  measured.copy_cpu = result->copy_cpu;
  tally_add(c->measured, (const double *)&measured);
  if (result->peak > c->peak) c->peak = result->peak;
  if (run->rank != 0) return NAN;
  predict(run);
  tally_add(c->predicted, (const double *)&c->forecast);
  return c->forecast.step;
}

/* ---- the end ---- */

/* Medians of every rank's sums, added up over the ranks; the step is that of rank 0. Rank 0 has it. */
static void gather_measured_all(const struct run *run, struct forecast *sum) {
  struct forecast own, *all = run->rank == 0 ? MEM_NEW(struct forecast, run->size) : NULL;
  int64_t *offsets = MEM_NEW(int64_t, run->size + 1);
  tally_get_medians(run->compare->measured, (double *)&own);
  comm_gather_root_all(run->comm, 0, &own, sizeof own, all, offsets);
  mem_free(offsets);
  if (run->rank != 0) return;
  *sum = all[0];
  for (int r = 1; r < run->size; r++) {
    sum->copy_cpu += all[r].copy_cpu;
    for (int k = 0; k < NODE_KIND_COUNT; k++) sum->kinds[k] += all[r].kinds[k];
    for (int slot = 0; slot < OP_TIMES; slot++) sum->ops[slot] += all[r].ops[slot];
  }
  mem_free(all);
}

static void list_kinds(const struct run_compare *c, const struct forecast *predicted, const struct forecast *measured,
                       struct comparison *out) {
  out->kinds = MEM_NEW(struct kind_row, NODE_KIND_COUNT);
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    if (c->counts.kinds[k])
      out->kinds[out->n_kinds++] =
          (struct kind_row){(int8_t)k, c->counts.kinds[k], predicted->kinds[k], measured->kinds[k]};
}

static void list_ops(const struct run *run, const struct forecast *predicted, const struct forecast *measured,
                     struct comparison *out) {
  out->ops = MEM_NEW(struct op_row, OP_TIMES);
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    int32_t l = 0;
    while (l < run->model->n_layers && (int)run->model->layers[l].kind != kind) l++;
    for (int o = 0; l < run->model->n_layers && o < run->model->layers[l].n_ops; o++)
      for (int pass = 0; pass < PASS_REPORT_COUNT; pass++) {
        int slot = op_times_slot((enum layer_kind)kind, o, (enum pass)pass);
        if (run->compare->counts.ops[slot] == 0) continue;
        out->ops[out->n_ops++] = (struct op_row){.layer = (int8_t)kind,
                                                 .op = o,
                                                 .kind = (int8_t)run->model->layers[l].ops[o].kind,
                                                 .pass = (int8_t)pass,
                                                 .count = run->compare->counts.ops[slot],
                                                 .predicted_s = predicted->ops[slot],
                                                 .measured_s = measured->ops[slot]};
      }
  }
}

static void make_comparison(const struct run *run, const struct forecast *measured, struct comparison *out) {
  const struct run_compare *c = run->compare;
  struct forecast predicted;
  tally_get_medians(c->predicted, (double *)&predicted);
  *out = (struct comparison){.cost_source = mem_strdup(cost_get_source(c->cost)),
                             .cost_is_measured = cost_is_measured(c->cost),
                             .predicted_step_s = predicted.step,
                             .measured_step_s = measured->step,
                             .predicted_bubble = forecast_get_bubble(&predicted, run->size),
                             .measured_bubble = forecast_get_bubble(measured, run->size),
                             .copy_cpu_s = measured->copy_cpu,
                             .op_names = model_format_names(run->model, MODEL_OPS),
                             .n_steps = tally_count(c->measured)};
  list_kinds(c, &predicted, measured, out);
  if (trainer_computes(run->trainer)) list_ops(run, &predicted, measured, out);
}

static void log_text(char *text) {
  for (const char *line = text; *line;) {
    int n = (int)strcspn(line, "\n");
    log_line("%.*s", n, line);
    line += n + (line[n] == '\n');
  }
  mem_free(text);
}

/* The device memory of the rank that used most of it. Predicted is what the plan needs for the largest micro-batches.
 */
static void log_memory(const struct run *run, const int64_t *peaks) {
  struct dag *dag = NULL;
  char predicted[32], measured[32], limit[32] = "";
  int32_t most = 0;
  for (int32_t r = 1; r < run->size; r++)
    if (peaks[r] > peaks[most]) most = r;
  if (dag_build(run->plan, run->model, &dag)) return;
  bytes_format(dag_get_peak(dag, most, NULL), predicted, sizeof predicted);
  bytes_format(peaks[most], measured, sizeof measured);
  if (run->plan->device_limit[most] < INT64_MAX) bytes_format(run->plan->device_limit[most], limit, sizeof limit);
  log_line("  memory: predicted at most %s, measured %s%s%s, on rank %d, which used most", predicted, measured,
           *limit ? ", limit " : "", limit, most);
  dag_destroy(&dag);
}

/* The tables are the report's, which reads them from the trace. */
static void log_comparison(const struct run *run, const struct comparison *comparison, const int64_t *peaks) {
  const char *note = compare_get_note(comparison);
  log_text(compare_format_head(comparison));
  log_memory(run, peaks);
  if (run->trace)
    log_line("  by kind of pass and by op: penstock report %s", run->folder);
  else
    log_text(compare_format_tables(comparison, run->model));
  if (note) log_line("  %s", note);
}

/* Gathers the peaks of all ranks on rank 0, [size], owned by the caller; NULL on other ranks. */
static int64_t *gather_peaks_all(const struct run *run) {
  int64_t *peaks = run->rank == 0 ? MEM_NEW(int64_t, run->size) : NULL;
  comm_gather_root_all(run->comm, 0, &run->compare->peak, sizeof *peaks, peaks, NULL);
  return peaks;
}

int run_compare_end_all(const struct run *run) {
  struct forecast measured;
  struct comparison comparison;
  if (!run->compare || tally_count(run->compare->measured) == 0) return STATUS_OK;
  gather_measured_all(run, &measured);
  int64_t *peaks = gather_peaks_all(run);
  if (run->rank != 0) return STATUS_OK;
  make_comparison(run, &measured, &comparison);
  log_comparison(run, &comparison, peaks);
  mem_free(peaks);
  int status = run->trace ? trace_put_comparison(run->trace, &comparison) : STATUS_OK;
  comparison_fini(&comparison);
  return status;
}
