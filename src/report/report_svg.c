/* The picture as SVG. Every plot is an inner <svg> with 1000 units for the longest step, so that a change of their view
 * boxes alone zooms all of them. */
#include <inttypes.h>
#include <string.h>

#include "plan/plan.h"
#include "report/picture.h"

static const double MIB = 1024.0 * 1024.0;

/* Colours told apart by hue and by lightness, for readers who do not see all hues. */
static const char *const kind_colours[NODE_KIND_COUNT] = {
    [NODE_F] = "#4c86c6",  [NODE_R] = "#9b6fc0",  [NODE_B] = "#e0a030",  [NODE_I] = "#e8c060",  [NODE_W] = "#b06a28",
    [NODE_U] = "#5a9a5a",  [NODE_SF] = "#2a5a96", [NODE_RF] = "#7ab0e0", [NODE_SB] = "#a06a10", [NODE_RB] = "#e0b868",
    [NODE_ST] = "#777777", [NODE_RT] = "#aaaaaa", [NODE_N] = "#c05a7a",  [NODE_ES] = "#2f7f7a", [NODE_ER] = "#8fc9c4",
    [NODE_LS] = "#4d8f3a", [NODE_LR] = "#a9d69a", [NODE_EV] = "#5b4fa0", [NODE_LD] = "#b3a9e0", [NODE_SW] = "#8a4a4a",
    [NODE_SR] = "#d0a0a0",
};
enum { MOST_NUMBERS = 4000, MOST_HEIGHT = 24, PLOT_PIXELS = 1600, DIGIT_WIDTH = 6 };

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
  fprintf(out, " viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n<style>", width, height);
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    fprintf(out, ".%s{fill:%s}", node_kind_get_name((enum node_kind)k), kind_colours[k]);
  fputs("text{fill:#222}.head{font-weight:bold;font-size:13px}.number{fill:#000;font-size:9px;text-anchor:middle;"
        "pointer-events:none}.label{text-anchor:end}.tick{text-anchor:middle}.row{fill:#f1f1f1}"
        ".level{fill:#9db8d2;stroke:#47698c}.limit{stroke:#c00000;stroke-dasharray:5 3;fill:none}"
        ".bar{stroke:#000;stroke-opacity:.3;stroke-width:.5}.bar[data-path]{stroke:#c00000;stroke-opacity:1;stroke-"
        "width:1.5}."
        "level,.limit,.grid,.bar{vector-effect:non-scaling-stroke}."
        "grid{stroke:#bbb;stroke-width:.5;fill:none}"
        ".busy{fill:#4c86c6}.bubble{fill:#d8d8d8}.wait{fill:#e07050}.other{fill:#777}.offload{fill:#b07cc6}</style>\n",
        out);
  if (standalone) fprintf(out, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
}

static void write_heading(struct svg *svg, const char *title, const struct timeline *t) {
  svg->y += 26;
  fprintf(svg->out, "<text class=\"head\" x=\"%d\" y=\"%.1f\">%s, %s", SVG_LEFT, svg->y - 7, title, t->title);
  if (t->step > 0) fprintf(svg->out, " in step %" PRId64, t->step);
  fprintf(svg->out, ": %.6g ms</text>\n", (t->end_s - t->begin_s) * 1e3);
}

static void start_plot(struct svg *svg, double height) {
  fprintf(svg->out,
          "<svg class=\"plot\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" viewBox=\"0 0 %d %.1f\" "
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

/* Times below plots: at fixed places, so that only the texts change with the zoom. */
static void write_axis(struct svg *svg, double top) {
  fputs("<path class=\"grid\" d=\"", svg->out);
  for (int i = 0; i <= 10; i++) fprintf(svg->out, "M%d %.1fV%.1f", SVG_LEFT + i * SVG_PLOT / 10, top, svg->y + 4);
  fputs("\"/>\n", svg->out);
  svg->y += 16;
  for (int i = 0; i <= 10; i++)
    fprintf(svg->out, "<text class=\"tick\" data-part=\"%g\" x=\"%d\" y=\"%.1f\">%.4g%s</text>\n", i / 10.0,
            SVG_LEFT + i * SVG_PLOT / 10, svg->y, svg->seconds * 1e3 * i / 10, i == 10 ? " ms" : "");
}

/* ---- bars ---- */

static void write_tip(FILE *out, const struct timeline *t, const struct timeline_bar *bar) {
  const struct node_row *node = &t->rows[bar->row];
  fprintf(out, "<title>%s", node_kind_get_name((enum node_kind)node->kind));
  if (bar->count > 1) fprintf(out, " and %" PRId64 " other passes", bar->count - 1);
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

/* Where in a rank's row the bars of a stream are: shares of its height. Blocks have lanes of their own below the messages. */
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
  fprintf(
      svg->out,
      "<rect class=\"bar %s\" x=\"%.4f\" y=\"%.2f\" width=\"%.4f\" height=\"%.2f\"%s>", /* 0.1 millionth of a step */
      node_kind_get_name((enum node_kind)node->kind), x, y, width, tall, bar->on_path ? " data-path=\"1\"" : "");
  write_tip(svg->out, t, bar);
  fputs("</rect>\n", svg->out);
  if (compute && bar->count == 1 && height >= 14 && t->n_bars <= MOST_NUMBERS)
    write_number(svg, node->microbatch, x + width / 2, y + tall / 2 + 3, width);
}

static void write_timeline(struct svg *svg, const struct timeline *t) {
  double height = get_row_height(t);
  write_heading(svg, "timeline", t);
  write_ranks(svg, t, height);
  start_plot(svg, t->n_drawn * height);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    fprintf(svg->out, "<rect class=\"row\" x=\"0\" y=\"%.2f\" width=\"%.4f\" height=\"%.2f\"/>\n", (r + 0.04) * height,
            get_x(svg, t, t->end_s), 0.91 * height);
    for (int64_t i = t->bar_offset[r]; i < t->bar_offset[r + 1]; i++) write_bar(svg, t, &t->bars[i], height);
  }
  fputs("</svg>\n", svg->out);
  svg->y += t->n_drawn * height;
}

/* ---- memory ---- */

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

/* Bytes that fill a rank's row: its limit, or a little more than any rank uses where the limit would be far above that. */
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
  start_plot(svg, t->n_drawn * height);
  for (int32_t r = 0; r < t->n_drawn; r++) {
    double top = get_top(t, r), limit = (double)t->ranks[r].limit_bytes;
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

/* Kinds that are there. */
static void write_legend(struct svg *svg) {
  bool there[NODE_KIND_COUNT] = {false};
  for (int i = 0; i < svg->picture->n_timelines; i++)
    for (int64_t k = 0; k < svg->picture->timelines[i].n_rows; k++)
      there[svg->picture->timelines[i].rows[k].kind] = true;
  double x = SVG_LEFT;
  svg->y += 16;
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    if (there[k]) write_swatch(svg, &x, node_kind_get_name((enum node_kind)k));
}

static double get_height(const struct picture *picture) {
  double height = 40;
  for (int i = 0; i < picture->n_timelines; i++) {
    const struct timeline *t = &picture->timelines[i];
    height += 3 * 26 + t->n_drawn * get_row_height(t) * 3.5;
  }
  return height + 3 * 24;
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
