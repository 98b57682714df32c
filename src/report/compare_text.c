#include "report/compare_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "plan/plan.h"
#include "record/comparison.h"

enum { MOST_TEXT = 32 };

/* Milliseconds, or "-" for what is not known. */
static const char *format_ms(double seconds, char text[MOST_TEXT]) {
  if (isfinite(seconds))
    snprintf(text, MOST_TEXT, "%.4f", seconds * 1e3);
  else
    snprintf(text, MOST_TEXT, "-");
  return text;
}

/* Measured over predicted. */
static const char *format_ratio(double predicted, double measured, char text[MOST_TEXT]) {
  if (predicted > 0 && isfinite(measured))
    snprintf(text, MOST_TEXT, "%.3f", measured / predicted);
  else
    snprintf(text, MOST_TEXT, "-");
  return text;
}

/* Formats the seconds of a whole step with four digits. */
static const char *format_step(double seconds, char text[MOST_TEXT]) {
  if (isfinite(seconds))
    snprintf(text, MOST_TEXT, "%.*f", seconds < 0.01 ? 3 : seconds < 0.1 ? 2 : 1, seconds * 1e3);
  else
    snprintf(text, MOST_TEXT, "-");
  return text;
}

static void print_head(FILE *out, const struct comparison *c) {
  char predicted[MOST_TEXT], measured[MOST_TEXT], ratio[MOST_TEXT];
  fprintf(out, "predicted beside measured (median of the last %" PRId64 " step%s); predictions use %s\n", c->n_steps,
          c->n_steps == 1 ? "" : "s", c->cost_source);
  fprintf(out, "  step: predicted %s ms, measured %s ms, measured/predicted %s\n",
          format_step(c->predicted_step_s, predicted), format_step(c->measured_step_s, measured),
          format_ratio(c->predicted_step_s, c->measured_step_s, ratio));
  fprintf(out, "  idle: predicted %.1f %%, measured %.1f %% of the time of all ranks\n", 100 * c->predicted_bubble,
          100 * c->measured_bubble);
}

const char *compare_get_note(const struct comparison *c) {
  if (c->cost_is_measured || c->n_ops == 0) return NULL;
  return "NOTE: these predictions use preset times, not measurements of this device. To measure it, run `penstock "
         "profile "
         "DECK`, started like the run; then set cost.source: profile";
}

/* has_ratio: the measured time can be compared with the predicted one. */
static void print_row(FILE *out, const char *name, int64_t count, double predicted, double measured, bool has_ratio) {
  char p[MOST_TEXT], m[MOST_TEXT], ratio[MOST_TEXT];
  fprintf(out, "  %-24s %7" PRId64 " %12s %12s %7s", name, count, format_ms(predicted / (double)count, p),
          format_ms(measured / (double)count, m), has_ratio ? format_ratio(predicted, measured, ratio) : "-");
}

static void print_kinds(FILE *out, const struct comparison *c) {
  bool waits = false;
  char ms[MOST_TEXT];
  fprintf(out, "  %-24s %7s %12s %12s %7s\n", "node", "a step", "predicted ms", "measured ms", "ratio");
  for (int64_t i = 0; i < c->n_kinds; i++) {
    const struct kind_row *row = &c->kinds[i];
    if (row->count == 0) continue;
    bool waits_too = node_kind_get_stream((enum node_kind)row->kind) == STREAM_SEND;
    print_row(out, node_kind_get_name((enum node_kind)row->kind), row->count, row->predicted_s, row->measured_s,
              !waits_too);
    fputc('\n', out);
    waits |= waits_too;
  }
  if (c->copy_cpu_s > 0)
    fprintf(out, "  copies of blocks and their files kept cores busy for %s ms a step, all ranks together\n",
            format_ms(c->copy_cpu_s, ms));
  if (waits) fprintf(out, "  (sends and N also wait for other ranks while they are measured: they have no ratio)\n");
}

/* All passes of one op of a kind of layer; the ratio of each behind it. */
static void print_op(FILE *out, const struct comparison *c, const struct layer *layer, int op) {
  static const char letters[PASS_REPORT_COUNT] = {'F', 'I', 'W', 'R'};
  const struct op_row *passes[PASS_REPORT_COUNT] = {NULL};
  double predicted = 0, measured = 0;
  char name[64], ratio[MOST_TEXT];
  for (int64_t i = 0; i < c->n_ops; i++) {
    const struct op_row *row = &c->ops[i];
    if (row->layer != (int)layer->kind || row->op != op) continue;
    passes[row->pass] = row;
    predicted += row->predicted_s;
    measured += row->measured_s;
  }
  if (!passes[PASS_FORWARD] || passes[PASS_FORWARD]->count == 0) return;
  snprintf(name, sizeof name, "%s.%s", layer_kind_get_name(layer->kind), layer->ops[op].name);
  print_row(out, name, passes[PASS_FORWARD]->count, predicted, measured, true);
  for (int pass = 0; pass < PASS_REPORT_COUNT; pass++)
    if (passes[pass] && passes[pass]->predicted_s > 0)
      fprintf(out, "  %c %s", letters[pass], format_ratio(passes[pass]->predicted_s, passes[pass]->measured_s, ratio));
  fputc('\n', out);
}

/* Prints the time of passes beyond their ops: messages that are moved on between ops, buffers. */
static void print_rest(FILE *out, const struct comparison *c) {
  double passes = 0, ops = 0;
  for (int64_t i = 0; i < c->n_kinds; i++) {
    int kind = c->kinds[i].kind;
    if (kind == NODE_F || kind == NODE_R || kind == NODE_B || kind == NODE_I || kind == NODE_W)
      passes += c->kinds[i].measured_s;
  }
  for (int64_t i = 0; i < c->n_ops; i++) ops += c->ops[i].measured_s;
  fprintf(out, "  of all passes together %.1f %% of the time was between ops\n",
          passes > 0 ? 100 * (passes - ops) / passes : 0);
}

static void print_ops(FILE *out, const struct comparison *c, const struct model *model) {
  fprintf(out, "  %-24s %7s %12s %12s %7s  by pass\n", "op, all passes", "a step", "predicted ms", "measured ms",
          "ratio");
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
    for (int32_t l = 0; l < model->n_layers; l++) {
      if ((int)model->layers[l].kind != kind) continue;
      for (int o = 0; o < model->layers[l].n_ops; o++) print_op(out, c, &model->layers[l], o);
      break; /* the first of its kind stands for all */
    }
  print_rest(out, c);
}

static void print_tables(FILE *out, const struct comparison *c, const struct model *model) {
  print_kinds(out, c);
  if (model && c->n_ops > 0) print_ops(out, c, model);
}

/* A stream into memory, and its text; owned by the caller. */
struct sheet {
  char *buffer;
  size_t size;
  FILE *out;
};

static void open_sheet(struct sheet *sheet) {
  sheet->out = open_memstream(&sheet->buffer, &sheet->size);
  CHECK(sheet->out, "out of memory");
}

static char *close_sheet(struct sheet *sheet) {
  CHECK(!fclose(sheet->out), "out of memory");
  char *text = mem_strdup(sheet->buffer);
  free(sheet->buffer);
  return text;
}

char *compare_format_head(const struct comparison *c) {
  struct sheet sheet;
  open_sheet(&sheet);
  print_head(sheet.out, c);
  return close_sheet(&sheet);
}

char *compare_format_tables(const struct comparison *c, const struct model *model) {
  struct sheet sheet;
  open_sheet(&sheet);
  print_tables(sheet.out, c, model);
  return close_sheet(&sheet);
}

char *compare_format(const struct comparison *c, const struct model *model) {
  struct sheet sheet;
  const char *note = compare_get_note(c);
  open_sheet(&sheet);
  print_head(sheet.out, c);
  if (note) fprintf(sheet.out, "  %s\n", note);
  print_tables(sheet.out, c, model);
  return close_sheet(&sheet);
}
