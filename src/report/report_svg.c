/* The picture as SVG. Every plot is an inner <svg> with 1000 units for the longest step, so that a change of their view
 * boxes alone zooms all of them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "plan/plan.h"
#include "report/columns.h"
#include "report/picture.h"
#include "report/style.h"
#include "report/ticks.h"

static const double MIB = 1024.0 * 1024.0;

enum { MOST_HEIGHT = 24, PLOT_PIXELS = 1600, DIGIT_WIDTH = 6, LANE_UNITS = 100, MOST_TICKS = 11 };

static double get_row_height(const struct timeline *t) {
  double height = (double)PLOT_PIXELS / (t->n_drawn > 0 ? t->n_drawn : 1);
  return height > MOST_HEIGHT ? MOST_HEIGHT : height;
}

/* Where the next thing goes, downwards. */
struct svg {
  FILE *out;
  const struct picture *picture;
  double seconds, y;
  bool standalone;
};

static double get_x(const struct svg *svg, const struct timeline *t, double seconds) {
  return (seconds - t->begin_s) / svg->seconds * SVG_PLOT;
}

static void write_head(struct svg *svg, double height, bool standalone) {
  FILE *out = svg->out;
  int width = SVG_LEFT + SVG_PLOT + SVG_RIGHT;
  fprintf(out, "<svg class=\"picture\" data-seconds=\"%.9g\"", svg->seconds);
  if (standalone) fprintf(out, " xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\"", width, height);
  fprintf(out, " viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n", width, height);
  if (!standalone) return; /* the page has the rules */
  fputs("<style>", out);
  style_write_rules(out, true);
  fprintf(out, "</style>\n<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n", width, height);
}

static void write_heading(struct svg *svg, const char *title, const struct timeline *t) {
  svg->y += 26;
  fprintf(svg->out, "<text class=\"head\" x=\"%d\" y=\"%.1f\">%s, %s", SVG_LEFT, svg->y - 7, title, t->title);
  if (t->step > 0) fprintf(svg->out, " in step %" PRId64, t->step);
  fprintf(svg->out, ": %.6g ms</text>\n", (t->end_s - t->begin_s) * 1e3);
}

/* dense: the timeline whose columns the page's script draws anew at every zoom; NULL: none. */
static void start_plot(struct svg *svg, double height, const char *dense) {
  fputs("<svg class=\"plot\"", svg->out);
  if (dense) fprintf(svg->out, " data-dense=\"%s\"", dense);
  fprintf(svg->out,
          " x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" viewBox=\"0 0 %d %.1f\" "
          "preserveAspectRatio=\"none\">\n",
          SVG_LEFT, svg->y, SVG_PLOT, height, SVG_PLOT, height);
}

/* Names of ranks left of a plot; of every so many where rows are low. */
static void write_ranks(struct svg *svg, const struct timeline *t, double height) {
  int every = height >= 11 ? 1 : (int)(11 / height) + 1;
  for (int32_t r = 0; r < t->n_drawn; r += every)
    fprintf(svg->out, "<text class=\"label\" x=\"%d\" y=\"%.1f\">rank %d</text>\n", SVG_LEFT - 6,
            svg->y + r * height + (height > 12 ? height / 2 + 3 : 8), (int)r);
}

/* Times below plots, at round ones. The script of a page makes them anew at another zoom. */
static void write_axis(struct svg *svg, double top) {
  char text[TICK_TEXT];
  double per_second;
  const char *unit = ticks_choose_unit(svg->seconds, &per_second);
  struct ticks ticks = ticks_make(0, svg->seconds * per_second, MOST_TICKS);
  fprintf(svg->out, "<g class=\"axis\" data-top=\"%.1f\" data-y=\"%.1f\">\n<path class=\"grid\" d=\"", top, svg->y);
  for (int i = 0; i < ticks.n; i++)
    fprintf(svg->out, "M%.2f %.1fV%.1f", SVG_LEFT + ticks.at[i] / per_second / svg->seconds * SVG_PLOT, top,
            svg->y + 4);
  fputs("\"/>\n", svg->out);
  svg->y += 16;
  for (int i = 0; i < ticks.n; i++)
    fprintf(svg->out, "<text class=\"tick\" x=\"%.2f\" y=\"%.1f\">%s%s%s</text>\n",
            SVG_LEFT + ticks.at[i] / per_second / svg->seconds * SVG_PLOT, svg->y,
            ticks_format(&ticks, ticks.at[i], text), i == ticks.n - 1 ? " " : "", i == ticks.n - 1 ? unit : "");
  fputs("</g>\n", svg->out);
}

/* ---- bars ---- */

static void write_tip(FILE *out, const struct timeline *t, const struct timeline_bar *bar) {
  const struct node_row *node = &t->rows[bar->row];
  fprintf(out, "<title>%s", node_kind_get_name((enum node_kind)node->kind));
  if (node->stage >= 0) fprintf(out, ", stage %d", (int)node->stage);
  if (node->microbatch >= 0) fprintf(out, ", micro-batch %d", (int)node->microbatch);
  if (node->layer >= 0) fprintf(out, ", layer %d", (int)node->layer);
  fprintf(out, "\nrank %d", (int)node->rank);
  if (node->peer >= 0) fprintf(out, ", with rank %d", (int)node->peer);
  fprintf(out, "\n%.6g to %.6g ms: %.6g ms", (bar->start_s - t->begin_s) * 1e3, (bar->end_s - t->begin_s) * 1e3,
          (bar->end_s - bar->start_s) * 1e3);
  if (node->stream == STREAM_COMPUTE)
    fprintf(out, "\n%.2f MiB in use", (double)bar->bytes_in_use / MIB);
  else if (node->bytes > 0)
    fprintf(out, "\n%" PRId64 " bytes", node->bytes);
  if (bar->on_path) fputs("\non the critical path", out);
  fputs("</title>", out);
}

/* The micro-batch in a bar that has room for it; in a page the others wait for the zoom. */
static void write_number(struct svg *svg, int32_t micro, double x, double y, double width) {
  char number[16];
  bool narrow = width < 2 + DIGIT_WIDTH * snprintf(number, sizeof number, "%d", (int)micro);
  if (micro < 0 || (narrow && svg->standalone)) return;
  fprintf(
      svg->out,
      "<text class=\"number\" data-x=\"%.4f\" data-y=\"%.1f\" data-width=\"%.4f\" transform=\"translate(%.4f %.1f)\""
      "%s>%s</text>\n",
      x, y, width, x, y, narrow ? " style=\"display:none\"" : "", number);
}

/* Where in a rank's row the bars of a stream are: shares of its height. Blocks have lanes of their own below the
 * messages. */
static const struct {
  double top, tall;
} lanes[STREAM_COUNT] = {
    [STREAM_COMPUTE] = {0.04, 0.6},   [STREAM_SEND] = {0.66, 0.06},      [STREAM_RECEIVE] = {0.73, 0.06},
    [STREAM_COPY_OUT] = {0.8, 0.045}, [STREAM_COPY_IN] = {0.855, 0.045}, [STREAM_DISK] = {0.91, 0.04}};

static void write_bar(struct svg *svg, const struct timeline *t, const struct timeline_bar *bar, double height) {
  const struct node_row *node = &t->rows[bar->row];
  bool compute = node->stream == STREAM_COMPUTE;
  double x = get_x(svg, t, bar->start_s), width = get_x(svg, t, bar->end_s) - x;
  double y = (node->rank + lanes[node->stream].top) * height, tall = lanes[node->stream].tall * height;
  if (!compute && width <= 0) return;
  fputs("<rect class=\"bar ", svg->out);
  style_write_class(svg->out, node->kind, timeline_get_shade(t, node));
  fprintf(svg->out, "\" x=\"%.4f\" y=\"%.2f\" width=\"%.4f\" height=\"%.2f\"%s>", /* 0.1 millionth of a step */
          x, y, width, tall, bar->on_path ? " data-path=\"1\"" : "");
  write_tip(svg->out, t, bar);
  fputs("</rect>\n", svg->out);
  if (compute && height >= 14) write_number(svg, node->microbatch, x + width / 2, y + tall / 2 + 3, width);
}

/* ---- columns ---- */

/* A rank's and column's units: a column wide, a LANE_UNITS-th of the lane high, upwards from its bottom. */
static void open_lane(struct svg *svg, const struct timeline *t, double top, double tall) {
  fprintf(svg->out, "<g transform=\"translate(0 %.2f) scale(%.6g %.6g)\">", top, get_x(svg, t, t->end_s) / t->n_columns,
          tall / LANE_UNITS);
}

/* Steps with these heights: an area over the bottom of the lane. */
static void write_steps(struct svg *svg, const char *attributes, int kind, int shade, const int *heights, int n) {
  fputs("<path class=\"", svg->out);
  if (kind >= 0) style_write_class(svg->out, kind, shade);
  fprintf(svg->out, "%s\" d=\"M0 %d", attributes, LANE_UNITS);
  for (int c = 0, before = 0, end; c < n; c = end) {
    for (end = c + 1; end < n && heights[end] == heights[c];) end++;
    if (heights[c] != before) fprintf(svg->out, "v%d", before - heights[c]);
    fprintf(svg->out, "h%d", end - c);
    before = heights[c];
  }
  fprintf(svg->out, "V%dz\"/>", LANE_UNITS);
}

/* Each column a stack of what its time went into; what is left of it to the top is idle. The stack of all classes is
 * drawn first and what is below over it, so that no gap of rounding shows between two. */
static void write_stack(struct svg *svg, const struct timeline *t, struct columns *columns, int32_t rank) {
  int *heights = MEM_NEW(int, columns->n);
  timeline_fill_columns(t, rank, columns);
  for (int class = columns->n_classes - 1; class >= 0; class --) {
    bool any = false;
    for (int c = 0; c < columns->n; c++) any |= columns->shares[(int64_t)c * columns->n_classes + class] > 0;
    for (int c = 0; any && c < columns->n; c++) {
      double sum = 0;
      for (int k = 0; k <= class; k++) sum += columns->shares[(int64_t)c * columns->n_classes + k];
      heights[c] = (int)lround(LANE_UNITS * fmin(sum, 1));
    }
    if (any) write_steps(svg, "", class / TIMELINE_SHADES, class % TIMELINE_SHADES, heights, columns->n);
  }
  mem_free(heights);
}

static void write_stacks(struct svg *svg, const struct timeline *t, double height) {
  struct columns columns;
  columns_init(&columns, t->n_columns, NODE_KIND_COUNT * TIMELINE_SHADES, t->begin_s, t->end_s);
  fputs("<g class=\"stacks\">\n", svg->out);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    open_lane(svg, t, (r + 0.04) * height, 0.91 * height);
    write_stack(svg, t, &columns, r);
    fputs("</g>\n", svg->out);
  }
  fputs("</g>\n", svg->out);
  columns_fini(&columns);
}

static void write_timeline(struct svg *svg, const struct timeline *t) {
  double height = get_row_height(t);
  write_heading(svg, "timeline", t);
  write_ranks(svg, t, height);
  start_plot(svg, t->n_drawn * height, t->n_columns > 0 ? t->title : NULL);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    fprintf(svg->out, "<rect class=\"row\" x=\"0\" y=\"%.2f\" width=\"%.4f\" height=\"%.2f\"/>\n", (r + 0.04) * height,
            get_x(svg, t, t->end_s), 0.91 * height);
    for (int64_t i = t->n_columns ? 0 : t->bar_offset[r]; !t->n_columns && i < t->bar_offset[r + 1]; i++)
      write_bar(svg, t, &t->bars[i], height);
  }
  if (t->n_columns > 0) write_stacks(svg, t, height);
  fputs("</svg>\n", svg->out);
  svg->y += t->n_drawn * height;
}

/* ---- memory ---- */

/* The most in each column; `top` bytes are 0.9 of the row. */
static void write_levels(struct svg *svg, const struct timeline *t, int32_t rank, double height, double top) {
  int *heights = MEM_NEW(int, t->n_columns);
  for (int c = 0; c < t->n_columns; c++)
    heights[c] = (int)lround(LANE_UNITS * (double)t->levels[(int64_t)rank * t->n_columns + c] / top);
  open_lane(svg, t, (rank + 0.07) * height, 0.9 * height);
  write_steps(svg, "level", -1, 0, heights, t->n_columns);
  fputs("</g>\n", svg->out);
  mem_free(heights);
}

/* The level of one rank as steps; `top` bytes fill the row. */
static void write_level(struct svg *svg, const struct timeline *t, int32_t rank, double height, double top) {
  double bottom = (rank + 0.97) * height, scale = 0.9 * height / top, x_end = get_x(svg, t, t->end_s);
  fprintf(svg->out, "<path class=\"level\" d=\"M0 %.2fV%.2f", bottom, bottom - (double)t->bytes_static[rank] * scale);
  for (int64_t i = t->bar_offset[rank]; i < t->bar_offset[rank + 1]; i++) {
    const struct timeline_bar *bar = &t->bars[i];
    if (t->rows[bar->row].stream != STREAM_COMPUTE) continue;
    fprintf(svg->out, "H%.3fV%.2fH%.3fV%.2f", get_x(svg, t, bar->start_s), bottom - (double)bar->bytes_in_use * scale,
            get_x(svg, t, bar->end_s), bottom - (double)bar->bytes_after * scale);
  }
  fprintf(svg->out, "H%.3fV%.2fZ\"><title>rank %d: device memory in use</title></path>\n", x_end, bottom, (int)rank);
}

/* Bytes that fill a rank's row: its limit, or a little more than any rank uses where the limit would be far above that.
 */
static double get_top(const struct timeline *t, int32_t rank) {
  double peak = (double)t->ranks[rank].peak_bytes, limit = (double)t->ranks[rank].limit_bytes, highest = 1;
  for (int32_t r = 0; r < t->n_drawn; r++)
    if ((double)t->ranks[r].peak_bytes > highest) highest = (double)t->ranks[r].peak_bytes;
  if (limit > 2 * highest) return 1.1 * highest;
  return limit > peak ? limit : peak;
}

static void write_memory(struct svg *svg, const struct timeline *t) {
  double height = get_row_height(t) * 1.5;
  write_heading(svg, "device memory against the limit", t);
  write_ranks(svg, t, height);
  for (int32_t r = 0; r < t->n_drawn && height >= 11; r++) {
    fprintf(svg->out, "<text x=\"%d\" y=\"%.1f\">%.2f", SVG_LEFT + SVG_PLOT + 6, svg->y + (r + 0.5) * height + 3,
            (double)t->ranks[r].peak_bytes / MIB);
    if (t->ranks[r].limit_bytes != INT64_MAX)
      fprintf(svg->out, " of %.2f MiB</text>\n", (double)t->ranks[r].limit_bytes / MIB);
    else
      fputs(" MiB, no limit</text>\n", svg->out);
  }
  start_plot(svg, t->n_drawn * height, NULL);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    double top = get_top(t, r), limit = (double)t->ranks[r].limit_bytes;
    if (t->n_columns > 0)
      write_levels(svg, t, r, height, top);
    else
      write_level(svg, t, r, height, top);
    if (limit <= top)
      fprintf(svg->out, "<path class=\"limit\" d=\"M0 %.2fH%d\"><title>rank %d: limit</title></path>\n",
              (r + 0.97) * height - 0.9 * height * limit / top, SVG_PLOT, (int)r);
  }
  fputs("</svg>\n", svg->out);
  svg->y += t->n_drawn * height;
}

/* ---- parts of the step ---- */

static void write_parts(struct svg *svg, const struct timeline *t) {
  double height = get_row_height(t);
  write_heading(svg, "time of each rank by cause", t);
  write_ranks(svg, t, height);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    double x = SVG_LEFT, width;
#define X(name, title, meaning)                                                                                        \
  width = t->ranks[r].name / svg->seconds * SVG_PLOT;                                                                  \
  fprintf(svg->out,                                                                                                    \
          "<rect class=\"part %s\" x=\"%.3f\" y=\"%.2f\" width=\"%.3f\" height=\"%.2f\"><title>rank %d, " title        \
          ": %.6g ms\n" meaning "</title></rect>\n",                                                                   \
          #name, x, svg->y + (r + 0.1) * height, width, 0.8 * height, (int)r, t->ranks[r].name * 1e3);                 \
  x += width;
    REPORT_PARTS(X)
#undef X
  }
  svg->y += t->n_drawn * height;
}

static void write_swatch(struct svg *svg, double *x, const char *name) {
  fprintf(
      svg->out,
      "<rect class=\"%s\" x=\"%.0f\" y=\"%.1f\" width=\"10\" height=\"10\"/><text x=\"%.0f\" y=\"%.1f\">%s</text>\n",
      name, *x, svg->y - 9, *x + 13, svg->y, name);
  *x += 28 + 7 * (double)strlen(name);
}

/* The shades of a rank's stages, where ranks have several. */
static void write_shades(struct svg *svg, double *x, int32_t n_chunks) {
  for (int shade = 0; shade < TIMELINE_SHADES; shade++) {
    if (n_chunks < TIMELINE_SHADES && shade % ((TIMELINE_SHADES - 1) / (n_chunks - 1))) continue;
    fputs("<rect class=\"", svg->out);
    style_write_class(svg->out, NODE_F, shade);
    fprintf(svg->out, "\" x=\"%.0f\" y=\"%.1f\" width=\"10\" height=\"10\"/>", *x, svg->y - 9);
    *x += 10;
  }
  fprintf(svg->out, "<text x=\"%.0f\" y=\"%.1f\">the rank's first to last stage, likewise the other passes</text>\n",
          *x + 4, svg->y);
}

/* Kinds that are there. */
static void write_legend(struct svg *svg) {
  bool there[NODE_KIND_COUNT] = {false};
  int32_t n_chunks = 1;
  for (int i = 0; i < svg->picture->n_timelines; i++) {
    const struct timeline *t = &svg->picture->timelines[i];
    for (int64_t k = 0; k < t->n_rows; k++) there[t->rows[k].kind] = true;
    if (t->n_chunks > n_chunks) n_chunks = t->n_chunks;
  }
  double x = SVG_LEFT;
  svg->y += 16;
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    if (there[k]) write_swatch(svg, &x, node_kind_get_name((enum node_kind)k));
  if (n_chunks > 1) write_shades(svg, &x, n_chunks);
}

static double get_height(const struct picture *picture) {
  double height = 16;
  for (int i = 0; i < picture->n_timelines; i++) {
    const struct timeline *t = &picture->timelines[i];
    height += 3 * 26 + t->n_drawn * get_row_height(t) * 3.5;
  }
  return height + 2 * 16 + 30;
}

void picture_write_svg(FILE *out, const struct picture *picture, bool standalone) {
  struct svg svg = {.out = out, .picture = picture, .seconds = picture_get_seconds(picture), .standalone = standalone};
  void (*const sections[])(struct svg *, const struct timeline *) = {write_timeline, write_memory, write_parts};
  write_head(&svg, get_height(picture), standalone);
  write_legend(&svg);
  for (int k = 0; k < 3; k++) {
    double top = svg.y + 26;
    for (int i = 0; i < picture->n_timelines; i++) sections[k](&svg, &picture->timelines[i]);
    if (k < 2) write_axis(&svg, top);
  }
  double x = SVG_LEFT;
  svg.y += 20;
#define X(name, ...) write_swatch(&svg, &x, #name);
  REPORT_PARTS(X)
#undef X
  fputs("</svg>\n", out);
}
