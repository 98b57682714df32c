/* Writes a report as tables of a page. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "dag/dag.h"
#include "model/model.h"
#include "report/picture.h"

static const double MIB = 1024.0 * 1024.0;

static void open_table(FILE *out, const char *title, const char *note) {
  fprintf(out, "<h2>%s</h2>\n%s%s%s<div class=\"wide\"><table>\n<tr>", title, *note ? "<p class=\"note\">" : "", note,
          *note ? "</p>\n" : "");
}

static void close_table(FILE *out) { fputs("</table></div>\n", out); }

static void write_ms(FILE *out, double seconds) {
  if (isfinite(seconds))
    fprintf(out, "<td>%.3f</td>", seconds * 1e3);
  else
    fputs("<td>-</td>", out);
}

static void write_part(FILE *out, double seconds, double step) {
  fprintf(out, "<td>%.3f</td><td class=\"share\">%.1f %%</td>", seconds * 1e3, step > 0 ? 100 * seconds / step : 0);
}

/* unknown: what bytes below 0 or without end are. */
static void write_mib(FILE *out, int64_t bytes, const char *unknown) {
  if (bytes < 0 || bytes == INT64_MAX)
    fprintf(out, "<td>%s</td>", unknown);
  else
    fprintf(out, "<td>%.2f</td>", (double)bytes / MIB);
}

static void write_ratio(FILE *out, double predicted, double measured) {
  if (predicted > 0 && isfinite(measured))
    fprintf(out, "<td>%.3f</td>", measured / predicted);
  else
    fputs("<td>-</td>", out);
}

/* ---- ranks ---- */

static void write_ranks(FILE *out, const struct report_rank *ranks, int32_t n, double step) {
  fputs("<th>rank</th>", out);
#define X(name, title, meaning) fprintf(out, "<th title=\"%s\" colspan=\"2\">%s</th>", meaning, title);
  REPORT_PARTS(X)
#undef X
  fputs("<th>peak, MiB</th><th>limit, MiB</th></tr>\n", out);
  for (int32_t r = 0; r < n; r++) {
    fprintf(out, "<tr><td>%d</td>", (int)r);
#define X(name, ...) write_part(out, ranks[r].name, step);
    REPORT_PARTS(X)
#undef X
    write_mib(out, ranks[r].peak_bytes, "?");
    write_mib(out, ranks[r].limit_bytes, "none");
    fputs("</tr>\n", out);
  }
  close_table(out);
}

/* Writes idle time in the words of a prediction. */
static void write_idle(FILE *out, const struct report_rank *ranks, int32_t n, double step) {
  fputs("<th>rank</th>", out);
#define X(name, meaning) fprintf(out, "<th title=\"%s\" colspan=\"2\">%s</th>", meaning, #name);
  STEP_IDLE_WORDS(X)
#undef X
  fputs("</tr>\n", out);
  for (int32_t r = 0; r < n; r++) {
    fprintf(out, "<tr><td>%d</td>", (int)r);
#define X(name, ...) write_part(out, ranks[r].idle.name, step);
    STEP_IDLE_WORDS(X)
#undef X
    fputs("</tr>\n", out);
  }
  close_table(out);
}

static void write_all_idle(FILE *out, const struct page *page) {
  const struct report *r = page->report;
  if (r) {
    open_table(out, "Idle time of each rank, ms a step", "measured, in the words of <code>penstock simulate</code>");
    write_idle(out, r->ranks, r->n_ranks, r->step_seconds);
  }
  for (int i = 0; i < page->picture->n_timelines; i++) {
    const struct timeline *t = &page->picture->timelines[i];
    if (r && t->step > 0) continue;
    open_table(out, r ? "The same, predicted" : "Idle time of each rank, ms a step", "");
    write_idle(out, t->ranks, t->n_ranks, t->end_s - t->begin_s);
  }
  fputs("<dl class=\"meaning\">", out);
#define X(name, meaning) fprintf(out, "<dt>%s</dt><dd>%s</dd>\n", #name, meaning);
  STEP_IDLE_WORDS(X)
#undef X
  fputs("</dl>\n", out);
}

static void write_meaning(FILE *out) {
  fputs("<dl class=\"meaning\">", out);
#define X(name, title, meaning) fprintf(out, "<dt>%s</dt><dd>%s</dd>\n", title, meaning);
  REPORT_PARTS(X)
#undef X
  fputs("<dt>peak</dt><dd>most device memory in use at once; the limit is memory.device_limit</dd></dl>\n", out);
}

static void write_all_ranks(FILE *out, const struct page *page) {
  const struct report *r = page->report;
  if (r) {
    char note[160];
    snprintf(note, sizeof note, "measured; means of the steps %" PRId64 " to %" PRId64 ", whose parts sum to %.3f ms",
             r->first_step, r->last_step, r->step_seconds * 1e3);
    open_table(out, "Where the time of each rank goes, ms a step", note);
    write_ranks(out, r->ranks, r->n_ranks, r->step_seconds);
    write_meaning(out);
  }
  for (int i = 0; i < page->picture->n_timelines; i++) {
    const struct timeline *t = &page->picture->timelines[i];
    if (r && t->step > 0) continue; /* the means are there */
    open_table(out, r ? "The same, predicted" : "Where the time of each rank will go, ms a step",
               r ? "the largest micro-batches" : "");
    write_ranks(out, t->ranks, t->n_ranks, t->end_s - t->begin_s);
    if (!r) write_meaning(out);
  }
}

static void write_kinds(FILE *out, const struct report *r) {
  bool any[NODE_KIND_COUNT] = {false};
  for (int32_t i = 0; i < r->n_ranks; i++)
    for (int k = 0; k < NODE_KIND_COUNT; k++) any[k] |= r->ranks[i].kinds[k] > 0;
  open_table(out, "Busy time by kind of pass, ms a step",
             "F forward, R recompute, B backward, or I and W its input and weight passes, U update");
  fputs("<th>rank</th>", out);
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    if (any[k]) fprintf(out, "<th colspan=\"2\">%s</th>", node_kind_get_name((enum node_kind)k));
  fputs("</tr>\n", out);
  for (int32_t i = 0; i < r->n_ranks; i++) {
    fprintf(out, "<tr><td>%d</td>", (int)i);
    for (int k = 0; k < NODE_KIND_COUNT; k++)
      if (any[k]) write_part(out, r->ranks[i].kinds[k], r->step_seconds);
    fputs("</tr>\n", out);
  }
  close_table(out);
}

/* ---- blocks that move ---- */

static void write_moved(FILE *out, const char *of, int32_t number, double blocks, double bytes, double seconds,
                        double exposed) {
  fprintf(out, "<tr><td class=\"left\">%s %d</td><td>%.6g</td><td>%.2f</td>", of, (int)number, blocks, bytes / MIB);
  write_ms(out, seconds);
  write_ms(out, exposed);
  if (seconds > 0)
    fprintf(out, "<td>%.1f %%</td></tr>\n", 100 * (1 - exposed / seconds));
  else
    fputs("<td>-</td></tr>\n", out);
}

static void write_pools(FILE *out, const struct report *r) {
  bool any = false;
  for (int32_t i = 0; i < r->n_ranks; i++) any |= r->ranks[i].host_bytes > 0 || r->ranks[i].disk_bytes > 0;
  if (!any) return;
  open_table(out, "What blocks wait in, MiB", "");
  fputs("<th>rank</th><th>host peak</th><th>limit</th><th>disk peak</th><th>limit</th></tr>\n", out);
  for (int32_t i = 0; i < r->n_ranks; i++) {
    fprintf(out, "<tr><td>%d</td>", (int)i);
    write_mib(out, r->ranks[i].host_bytes, "?");
    write_mib(out, r->ranks[i].host_limit, "none");
    write_mib(out, r->ranks[i].disk_bytes, "?");
    write_mib(out, r->ranks[i].disk_limit, "none");
    fputs("</tr>\n", out);
  }
  close_table(out);
}

static void write_blocks(FILE *out, const struct report *r) {
  double all = 0;
  for (int32_t i = 0; i < r->n_ranks; i++) all += r->ranks[i].block_seconds + r->ranks[i].blocks;
  if (all == 0) return;
  open_table(out, "Blocks of activations that leave for a later backward, a step",
             "ms: of sending, copying, writing and reading them, both ways, a rank's own and others'; exposed: compute "
             "waited until one was back or gone; else hidden");
  fputs("<th></th><th>blocks out</th><th>MiB</th><th>ms</th><th>exposed, ms</th><th>hidden</th></tr>\n", out);
  for (int32_t i = 0; i < r->n_ranks; i++)
    write_moved(out, "rank", i, r->ranks[i].blocks, r->ranks[i].block_bytes, r->ranks[i].block_seconds,
                r->ranks[i].block_exposed);
  for (int32_t s = 0; s < r->n_stages; s++)
    if (r->stages[s].rank >= 0)
      write_moved(out, "stage", s, r->stages[s].blocks, r->stages[s].bytes, r->stages[s].seconds, r->stages[s].exposed);
  close_table(out);
  write_pools(out, r);
}

/* ---- predicted beside measured ---- */

static void write_times(FILE *out, const char *layer, const char *name, int64_t count, double predicted,
                        double measured) {
  fprintf(out, "<tr><td class=\"left\">%s%s%s</td><td>%" PRId64 "</td>", layer, *layer ? "." : "", name, count);
  write_ms(out, predicted / (double)count);
  write_ms(out, measured / (double)count);
  write_ratio(out, predicted, measured);
}

static void write_op(FILE *out, const struct comparison *c, const struct layer *layer, int op) {
  const struct op_row *passes[PASS_REPORT_COUNT] = {NULL};
  double predicted = 0, measured = 0;
  for (int64_t i = 0; i < c->n_ops; i++) {
    const struct op_row *row = &c->ops[i];
    if (row->layer != (int)layer->kind || row->op != op || row->pass < 0 || row->pass >= PASS_REPORT_COUNT) continue;
    passes[row->pass] = row;
    predicted += row->predicted_s;
    measured += row->measured_s;
  }
  if (!passes[PASS_FORWARD] || passes[PASS_FORWARD]->count == 0) return;
  write_times(out, layer_kind_get_name(layer->kind), layer->ops[op].name, passes[PASS_FORWARD]->count, predicted,
              measured);
  for (int pass = 0; pass < PASS_REPORT_COUNT; pass++)
    write_ratio(out, passes[pass] ? passes[pass]->predicted_s : 0, passes[pass] ? passes[pass]->measured_s : NAN);
  fputs("</tr>\n", out);
}

static void write_ops(FILE *out, const struct comparison *c, const struct model *model) {
  static const char head[] = "<th>op, all passes</th><th>a step</th><th>predicted, ms</th><th>measured, ms</th>"
                             "<th>ratio</th><th>F</th><th>I</th><th>W</th><th>R</th></tr>\n";
  open_table(out, "Predicted beside measured, by op", "measured over predicted of all passes together, and of each");
  fputs(head, out);
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
    for (int32_t l = 0; l < model->n_layers; l++) {
      if ((int)model->layers[l].kind != kind) continue;
      for (int o = 0; o < model->layers[l].n_ops; o++) write_op(out, c, &model->layers[l], o);
      break; /* the first of its kind stands for all */
    }
  close_table(out);
}

static void write_comparison(FILE *out, const struct report *r) {
  const struct comparison *c = &r->comparison;
  if (c->n_steps == 0) {
    fputs("<p>Predicted beside measured, by kind of node and op, is written when a run ends.</p>\n", out);
    return;
  }
  open_table(out, "Predicted beside measured", "");
  fputs("<th></th><th>predicted</th><th>measured</th><th>ratio</th></tr>\n<tr><td class=\"left\">step, ms</td>", out);
  write_ms(out, c->predicted_step_s);
  write_ms(out, c->measured_step_s);
  write_ratio(out, c->predicted_step_s, c->measured_step_s);
  fprintf(out,
          "</tr>\n<tr><td class=\"left\">idle, share of the time of all ranks</td><td>%.1f %%</td><td>%.1f %%</td>",
          100 * c->predicted_bubble, 100 * c->measured_bubble);
  write_ratio(out, c->predicted_bubble, c->measured_bubble);
  fputs("</tr>\n", out);
  close_table(out);
  fprintf(out, "<p class=\"note\">measured: the median of the last %" PRId64 " step%s; predictions use ", c->n_steps,
          c->n_steps == 1 ? "" : "s");
  picture_write_escaped(out, c->cost_source ? c->cost_source : "unknown costs");
  fputs(c->cost_is_measured || c->n_ops == 0
            ? "</p>\n"
            : ". They are preset times, not measurements of this device. To measure it, "
              "run <code>penstock profile DECK</code>, started like the run; then set "
              "<code>cost.source: profile</code></p>\n",
        out);
  open_table(out, "Predicted beside measured, by kind of node", "sends and N also wait for the other rank");
  fputs("<th>node</th><th>a step</th><th>predicted, ms</th><th>measured, ms</th><th>ratio</th></tr>\n", out);
  for (int64_t i = 0; i < c->n_kinds; i++) {
    const struct kind_row *row = &c->kinds[i];
    if (row->count == 0) continue;
    write_times(out, "", node_kind_get_name((enum node_kind)row->kind), row->count, row->predicted_s, row->measured_s);
    fputs("</tr>\n", out);
  }
  close_table(out);
  if (r->model && c->n_ops > 0) write_ops(out, c, r->model);
}

/* ---- late passes ---- */

static void write_late(FILE *out, const struct report *r) {
  if (r->n_late == 0) {
    fputs("<p>No pass waited for anything but its data by more than 1 % of a step.</p>\n", out);
    return;
  }
  char note[120];
  snprintf(note, sizeof note, "%" PRId64 " by more than 1 %% of a step; the worst", r->n_late);
  open_table(out, "Passes that waited for something other than their data", note);
  fputs("<th>step</th><th>rank</th><th>pass</th><th>late, ms</th><th>why</th></tr>\n", out);
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
    fprintf(out, "<tr><td>%" PRId64 "</td><td>%d</td><td class=\"left\">%s</td>", late->step, (int)late->rank, name);
    write_ms(out, late->seconds);
    fprintf(out, "<td class=\"left\">%s</td></tr>\n", report_cause_get_text(late->cause));
  }
  close_table(out);
}

void page_write_tables(FILE *out, const struct page *page) {
  write_all_ranks(out, page);
  write_all_idle(out, page);
  if (!page->report) return;
  write_kinds(out, page->report);
  write_blocks(out, page->report);
  write_comparison(out, page->report);
  write_late(out, page->report);
}
