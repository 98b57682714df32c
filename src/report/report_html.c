/* A run or a plan as one HTML file: curves, pictures and tables, and a small script (report_script.c). */
#include <inttypes.h>
#include <math.h>

#include "base/words.h"
#include "report/picture.h"
#include "report/style.h"

static const char style[] =
    "body{font:14px/1.45 system-ui,sans-serif;margin:16px auto;padding:0 16px;max-width:1500px;color:var(--text);"
    "background:var(--page)}h1{font-size:22px;margin:8px 0}h2{font-size:16px;margin:26px 0 4px}"
    "svg.picture{width:100%;min-width:800px;height:auto;cursor:grab}svg.plotted{width:100%;height:auto}"
    ".curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:10px 26px;margin:14px 0}"
    "figure{margin:0}figcaption{font-weight:bold;font-size:13px;padding-left:4px}"
    ".key{display:inline-block;width:10px;height:10px;margin-right:5px}.k1{background:var(--first)}"
    ".k2{background:var(--second)}.b2{fill:var(--second);fill-opacity:.25}.note{color:var(--quiet);font-weight:normal;"
    "font-size:12.5px;margin:2px 0}.wide{overflow-x:auto}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:6px 0}"
    "td,th{padding:2px 9px;text-align:right;white-space:nowrap}th{border-bottom:1px solid var(--line);font-weight:600}"
    "tr:nth-child(odd) td{background:var(--row)}.left{text-align:left}.share{color:var(--quiet);padding-left:0}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:1px 14px;margin:8px 0}dt{font-weight:600}dd{margin:0}"
    ".meaning{color:var(--quiet);font-size:12.5px}"
    "#tip{position:fixed;display:none;white-space:pre;background:var(--page);color:var(--text);"
    "border:1px solid var(--line);padding:4px 7px;pointer-events:none;font-size:12px}"
    "button{min-width:2.4em;margin-right:4px;padding:3px 8px;color:var(--text);background:var(--row);"
    "border:1px solid var(--line);border-radius:4px}";

/* ---- what it is ---- */

static void write_run(FILE *out, const struct report *r) {
  fputs("<dt>state</dt><dd>", out);
  picture_write_escaped(out, r->status);
  fprintf(out, "</dd>\n<dt>stages</dt><dd>%d on %d rank%s, %d micro-batch%s a step</dd>\n", (int)r->n_stages,
          (int)r->n_ranks, words_get_ending(r->n_ranks), (int)r->n_micro, r->n_micro == 1 ? "" : "es");
  fprintf(out,
          "<dt>steps</dt><dd>%" PRId64 " to %" PRId64 " of the trace (%" PRId64
          "): mean %.2f ms, median %.2f ms, %.0f tokens/s</dd>\n",
          r->first_step, r->last_step, r->n_steps, r->step_seconds * 1e3, r->median_seconds * 1e3, r->tokens_per_s);
  if (isfinite(r->predicted_seconds))
    fprintf(out, "<dt>predicted step</dt><dd>%.2f ms (of the largest micro-batches)</dd>\n",
            r->predicted_seconds * 1e3);
}

static void write_summary(FILE *out, const struct page *page) {
  const struct picture *p = page->picture;
  fputs("<dl>\n<dt>planner</dt><dd>", out);
  picture_write_escaped(out, p->planner ? p->planner : "unknown");
  fputs("</dd>\n", out);
  if (page->report)
    write_run(out, page->report);
  else
    fprintf(out, "<dt>plan</dt><dd>%d stage%s on %d rank%s; predicted step %.6g ms</dd>\n",
            (int)p->timelines[0].n_stages, words_get_ending(p->timelines[0].n_stages), (int)p->timelines[0].n_ranks,
            words_get_ending(p->timelines[0].n_ranks), (p->timelines[0].end_s - p->timelines[0].begin_s) * 1e3);
  fputs("</dl>\n", out);
}

/* ---- the step ---- */

static void write_notes(FILE *out, const struct timeline *t, enum picture_detail detail) {
  if (t->n_drawn < t->n_ranks)
    fprintf(out, "<p class=\"note\">%s: the first %d of %d ranks are drawn.</p>\n", t->title, (int)t->n_drawn,
            (int)t->n_ranks);
  if (t->n_columns == 0) return;
  fprintf(out,
          "<p class=\"note\">%s: where passes are too many to be told apart, the step is cut into columns; the colours "
          "of a column "
          "are the shares of its time, the rest is idle. ",
          t->title);
  if (detail == PICTURE_COLUMNS)
    fputs("This step has too many passes for the page: zooming shows no more. ", out);
  else
    fputs("Zooming shows the passes one by one. ", out);
  if (detail == PICTURE_COMPUTE) fputs("Messages are not drawn, there are too many. ", out);
  fprintf(out, "Memory is the most in each of %d columns.</p>\n", t->n_columns);
}

/* What the letters of the pictures stand for. */
static void write_letters(FILE *out, const struct picture *p) {
  bool there[NODE_KIND_COUNT] = {false};
  const char *comma = "";
  for (int i = 0; i < p->n_timelines; i++)
    for (int64_t k = 0; k < p->timelines[i].n_rows; k++) there[p->timelines[i].rows[k].kind] = true;
  fputs("<p class=\"note\">", out);
  for (int k = 0; k < NODE_KIND_COUNT; k++) {
    if (!there[k]) continue;
    fprintf(out, "%s%s: %s", comma, node_kind_get_name((enum node_kind)k), node_kind_get_meaning((enum node_kind)k));
    comma = "; ";
  }
  fputs(".</p>\n", out);
}

static void write_step(FILE *out, const struct page *page) {
  const struct picture *p = page->picture;
  const struct timeline *last = &p->timelines[p->n_timelines - 1];
  if (last->step > 0 && page->report && last->step == page->report->typical_step && page->report->n_steps > 1)
    fprintf(out, "<h2>Step %" PRId64 ", whose time is the median of the steps %" PRId64 " to %" PRId64 "</h2>\n",
            last->step, page->report->first_step, page->report->last_step);
  else if (last->step > 0)
    fprintf(out, "<h2>Step %" PRId64 "</h2>\n", last->step);
  else
    fputs("<h2>The step, as predicted</h2>\n", out);
  fputs("<p><button id=\"in\">+</button><button id=\"out\">&minus;</button><button id=\"all\">all</button> "
        "<span class=\"note\">zoom; also double click, or Shift and the wheel; drag to move. The bars below a rank's "
        "passes are its sends and receives. Red edges: the critical path, the chain of passes and messages that "
        "decides how long the step is.</span></p>\n",
        out);
  if (p->note) {
    fputs("<p class=\"note\">Note: ", out);
    picture_write_escaped(out, p->note);
    fputs(".</p>\n", out);
  }
  fputs("<div class=\"wide\">", out);
  picture_write_svg(out, p, false);
  fputs("</div>\n", out);
  write_letters(out, p);
  for (int i = 0; i < p->n_timelines; i++) {
    const struct timeline *t = &p->timelines[i];
    enum picture_detail detail = PICTURE_ALL;
    if (t->n_columns > 0) detail = picture_write_data(out, t, picture_get_seconds(p));
    write_notes(out, t, detail);
  }
}

void page_write(FILE *out, const struct page *page) {
  const char *name = page->picture->name;
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
        out);
  picture_write_escaped(out, name);
  fputs("</title>\n<style>", out);
  style_write_variables(out);
  style_write_rules(out, false);
  fprintf(out, "%s</style>\n</head>\n<body>\n<h1>", style);
  picture_write_escaped(out, name);
  fputs("</h1>\n", out);
  write_summary(out, page);
  page_write_curves(out, page);
  write_step(out, page);
  page_write_tables(out, page);
  fprintf(out, "<div id=\"tip\"></div>\n<script>\n%s</script>\n</body>\n</html>\n", picture_script);
}
