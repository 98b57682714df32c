/* Draws metrics.csv as curves over the steps. Each is an SVG of its own, so that they flow with the width of the page.
 */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/picture.h"
#include "report/ticks.h"

enum { LEFT = 58, PLOT = 480, RIGHT = 14, TOP = 8, TALL = 170, BELOW = 34, COLUMNS = PLOT, Y_TICKS = 8, X_TICKS = 7 };

/* A column of metrics.csv. */
static double get_value(const struct metrics_row *row, size_t offset) {
  return *(const double *)(const void *)((const char *)row + offset);
}

struct curve {
  const char *title, *unit;
  size_t offset, second; /* of the columns; second 0: none */
  const char *second_title;
  bool from_zero;
};

struct axes {
  double first, last, low, high; /* steps; values */
  bool log;
  struct ticks steps, values;
};

/* ---- axes ---- */

static void span_values(const struct page *page, size_t offset, double *low, double *high) {
  for (int64_t i = 0; i < page->n_metrics; i++) {
    double value = get_value(&page->metrics[i], offset);
    if (!isfinite(value)) continue;
    *low = fmin(*low, value);
    *high = fmax(*high, value);
  }
}

/* False when there is nothing to draw. Values over more than a decade and a half are drawn by their logarithms. */
static bool make_axes(const struct page *page, const struct curve *curve, struct axes *a) {
  *a = (struct axes){.low = INFINITY, .high = -INFINITY};
  if (page->n_metrics == 0) return false;
  span_values(page, curve->offset, &a->low, &a->high);
  if (curve->second) span_values(page, curve->second, &a->low, &a->high);
  if (!isfinite(a->low)) return false;
  a->first = (double)page->metrics[0].step;
  a->last = (double)page->metrics[page->n_metrics - 1].step;
  if (a->last <= a->first) a->last = a->first + 1;
  a->steps = ticks_make(a->first, a->last, X_TICKS);
  if (a->steps.step < 1) a->steps = (struct ticks){.n = 2, .at = {a->first, a->last}, .step = 1};
  a->log = !curve->from_zero && a->low > 0 && a->high / a->low > 30;
  if (a->log) {
    a->low *= 0.9, a->high *= 1.1;
    a->values = ticks_make_log(a->low, a->high, Y_TICKS + 2);
    return true;
  }
  if (curve->from_zero && a->low > 0) a->low = 0;
  double least = 1e-9 * fmax(fabs(a->low), fabs(a->high)), span = a->high - a->low;
  if (span <= least) a->low -= fmax(0.5 * fabs(a->low), 1e-12), a->high += fmax(0.5 * fabs(a->high), 1e-12);
  ticks_widen(&a->low, &a->high, Y_TICKS);
  a->values = ticks_make(a->low, a->high, Y_TICKS);
  return true;
}

static double get_x(const struct axes *a, double step) {
  return LEFT + PLOT * (step - a->first) / (a->last - a->first);
}

static double get_y(const struct axes *a, double value) {
  double part = a->log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
  return TOP + TALL * (1 - fmin(fmax(part, 0), 1));
}

static void write_axes(FILE *out, const struct axes *a) {
  char text[TICK_TEXT];
  fputs("<path class=\"grid\" d=\"", out);
  for (int i = 0; i < a->values.n; i++) fprintf(out, "M%d %.1fh%d", LEFT, get_y(a, a->values.at[i]), PLOT);
  for (int i = 0; i < a->steps.n; i++) fprintf(out, "M%.1f %dv%d", get_x(a, a->steps.at[i]), TOP, TALL);
  fprintf(out, "\"/>\n<path class=\"frame\" d=\"M%d %dv%dh%d\"/>\n", LEFT, TOP, TALL, PLOT);
  for (int i = 0; i < a->values.n; i++)
    fprintf(out, "<text class=\"label\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT - 6, get_y(a, a->values.at[i]) + 4,
            ticks_format(&a->values, a->values.at[i], text));
  for (int i = 0; i < a->steps.n; i++)
    fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%s</text>\n", get_x(a, a->steps.at[i]), TOP + TALL + 15,
            ticks_format(&a->steps, a->steps.at[i], text));
  fprintf(out, "<text class=\"tick quiet\" x=\"%d\" y=\"%d\">step</text>\n", LEFT + PLOT / 2, TOP + TALL + 29);
}

/* ---- lines ---- */

/* The rows that share a column of the plot. */
struct bin {
  int64_t n;
  double sum, low, high;
};

static struct bin *make_bins(const struct page *page, const struct axes *a, size_t offset, int64_t *n_values) {
  struct bin *bins = MEM_NEW(struct bin, COLUMNS);
  *n_values = 0;
  for (int64_t i = 0; i < page->n_metrics; i++) {
    double value = get_value(&page->metrics[i], offset);
    int at = (int)((get_x(a, (double)page->metrics[i].step) - LEFT) / PLOT * COLUMNS);
    if (!isfinite(value)) continue;
    struct bin *bin = &bins[at < 0 ? 0 : at >= COLUMNS ? COLUMNS - 1 : at];
    bin->low = bin->n ? fmin(bin->low, value) : value;
    bin->high = bin->n ? fmax(bin->high, value) : value;
    bin->sum += value;
    bin->n++;
    ++*n_values;
  }
  return bins;
}

/* Few values as they are. */
static void write_points(FILE *out, const struct page *page, const struct axes *a, size_t offset, int number,
                         int64_t n_values) {
  bool starts = true;
  fprintf(out, "<path class=\"curve c%d\" d=\"", number);
  for (int64_t i = 0; i < page->n_metrics; i++) {
    double value = get_value(&page->metrics[i], offset);
    if (!isfinite(value)) continue;
    fprintf(out, "%c%.1f %.1f", starts ? 'M' : 'L', get_x(a, (double)page->metrics[i].step), get_y(a, value));
    starts = false;
  }
  fputs("\"/>\n", out);
  for (int64_t i = 0; i < page->n_metrics && n_values <= COLUMNS / 8; i++)
    if (isfinite(get_value(&page->metrics[i], offset)))
      fprintf(out, "<circle class=\"d%d\" r=\"2.2\" cx=\"%.1f\" cy=\"%.1f\"/>\n", number,
              get_x(a, (double)page->metrics[i].step), get_y(a, get_value(&page->metrics[i], offset)));
}

/* Many values: the least and the most of each column as a band, its mean as a line. */
static void write_bins(FILE *out, const struct axes *a, const struct bin *bins, int number) {
  double width = (double)PLOT / COLUMNS;
  bool starts = true;
  fprintf(out, "<path class=\"band%s\" d=\"", number > 1 ? " b2" : "");
  for (int c = 0; c < COLUMNS; c++)
    if (bins[c].n)
      fprintf(out, "M%.1f %.1fH%.1fV%.1fH%.1fz", LEFT + c * width, get_y(a, bins[c].high), LEFT + (c + 1) * width,
              get_y(a, bins[c].low) + 0.5, LEFT + c * width);
  fprintf(out, "\"/>\n<path class=\"curve c%d\" d=\"", number);
  for (int c = 0; c < COLUMNS; c++) {
    if (!bins[c].n) continue;
    fprintf(out, "%c%.1f %.1f", starts ? 'M' : 'L', LEFT + (c + 0.5) * width,
            get_y(a, bins[c].sum / (double)bins[c].n));
    starts = false;
  }
  fputs("\"/>\n", out);
}

static bool write_line(FILE *out, const struct page *page, const struct axes *a, size_t offset, int number) {
  int64_t n;
  struct bin *bins = make_bins(page, a, offset, &n);
  if (n > 0 && n <= COLUMNS)
    write_points(out, page, a, offset, number, n);
  else if (n > 0)
    write_bins(out, a, bins, number);
  mem_free(bins);
  return n > COLUMNS;
}

static void write_last(FILE *out, const struct page *page, size_t offset, const char *title, const char *unit) {
  for (int64_t i = page->n_metrics - 1; i >= 0; i--) {
    double value = get_value(&page->metrics[i], offset);
    if (!isfinite(value)) continue;
    fprintf(out, fabs(value) >= 1000 ? "%s %.0f" : "%s %.4g", title, value);
    fprintf(out, "%s%s in step %" PRId64, *unit ? " " : "", unit, page->metrics[i].step);
    return;
  }
}

static void write_curve(FILE *out, const struct page *page, const struct curve *curve) {
  struct axes axes;
  bool banded = false, has_second = false;
  if (!make_axes(page, curve, &axes)) return;
  for (int64_t i = 0; curve->second && i < page->n_metrics; i++)
    has_second |= isfinite(get_value(&page->metrics[i], curve->second));
  fputs("<figure>\n<figcaption><span class=\"key k1\"></span>", out);
  write_last(out, page, curve->offset, curve->title, curve->unit);
  if (has_second) {
    fputs("; <span class=\"key k2\"></span>", out);
    write_last(out, page, curve->second, curve->second_title, curve->unit);
  }
  if (axes.log) fputs(" <span class=\"note\">(logarithmic)</span>", out);
  fprintf(out,
          "</figcaption>\n<svg class=\"plotted\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\">\n",
          LEFT + PLOT + RIGHT, TOP + TALL + BELOW);
  write_axes(out, &axes);
  banded = write_line(out, page, &axes, curve->offset, 1);
  if (has_second) banded |= write_line(out, page, &axes, curve->second, 2);
  fprintf(
      out, "</svg>\n%s</figure>\n",
      banded
          ? "<p class=\"note\">line: the mean of the steps that share a place; band: from the least to the most</p>\n"
          : "");
}

void page_write_curves(FILE *out, const struct page *page) {
#define AT(name) offsetof(struct metrics_row, name)
  static const struct curve curves[] = {
      {"loss", "", AT(loss), AT(validation_loss), "validation loss", false},
      {"speed", "tokens/s", AT(tokens_per_s), 0, NULL, true},
      {"gradient norm", "", AT(grad_norm), 0, NULL, false},
      {"learning rate", "", AT(lr), 0, NULL, true},
  };
#undef AT
  if (page->n_metrics == 0) return;
  fprintf(out, "<section class=\"curves\" aria-label=\"over the steps\">\n");
  for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) write_curve(out, page, &curves[i]);
  fputs("</section>\n", out);
}
