#include "report/ticks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static double find_step(double span, int most) {
  static const double rounds[] = {1, 2, 5, 10};
  double power = pow(10, floor(log10(span / most)));
  for (int i = 0; i < 3; i++)
    if (floor(span / (power * rounds[i]) * (1 + 1e-12)) + 1 <= most) return power * rounds[i];
  return power * 10;
}

struct ticks ticks_make(double low, double high, int most) {
  struct ticks ticks = {.n = 0};
  if (most > TICKS_MOST) most = TICKS_MOST;
  if (most < 2) most = 2;
  ticks.step = find_step(high - low, most);
  double slack = 1e-9 * ticks.step;
  for (double i = ceil((low - slack) / ticks.step); ticks.n < TICKS_MOST && i * ticks.step <= high + slack; i++)
    ticks.at[ticks.n++] = i * ticks.step;
  return ticks;
}

struct ticks ticks_make_log(double low, double high, int most) {
  static const double parts[] = {1, 2, 5};
  struct ticks ticks = {.n = 0};
  int first = (int)floor(log10(low) + 1e-9), last = (int)floor(log10(high) + 1e-9), every = 1;
  bool fine = 3 * (last - first + 1) <= most;
  if (most > TICKS_MOST) most = TICKS_MOST;
  while ((last - first) / every + 1 > most) every++;
  for (int k = first; k <= last; k += every)
    for (int i = 0; i < (fine ? 3 : 1); i++) {
      double at = pow(10, k) * parts[i];
      if (at >= low * (1 - 1e-9) && at <= high * (1 + 1e-9) && ticks.n < TICKS_MOST) ticks.at[ticks.n++] = at;
    }
  return ticks;
}

void ticks_widen(double *low, double *high, int most) {
  /* A wider range may need larger steps, which make it wider again. */
  for (double step = 0, next; (next = find_step(*high - *low, most)) > step * (1 + 1e-9);) {
    step = next;
    *low = floor(*low / step + 1e-9) * step;
    *high = ceil(*high / step - 1e-9) * step;
  }
}

static int count_decimals(double step) { return step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9); }

const char *ticks_format(const struct ticks *ticks, double at, char text[TICK_TEXT]) {
  static const struct {
    double size;
    const char *name;
  } scales[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}, {1, ""}};
  double highest = ticks->n ? fmax(fabs(ticks->at[0]), fabs(ticks->at[ticks->n - 1])) : fabs(at);
  double step = ticks->step > 0 ? ticks->step : fabs(at);
  if (ticks->step == 0) highest = fabs(at);
  if (fabs(at) < 1e-9 * step) return strcpy(text, "0");
  if (highest < 1e-4 || highest >= 1e15) {
    snprintf(text, TICK_TEXT, "%.6g", at);
    return text;
  }
  size_t k = 0;
  while (k + 1 < sizeof scales / sizeof *scales && highest < scales[k].size) k++;
  double size = scales[k].size == 1e4 ? 1e3 : scales[k].size;
  snprintf(text, TICK_TEXT, "%.*f%s", count_decimals(step / size), at / size, scales[k].name);
  return text;
}

const char *ticks_choose_unit(double seconds, double *per_second) {
  *per_second = seconds >= 10 ? 1 : seconds >= 1e-3 ? 1e3 : 1e6;
  return seconds >= 10 ? "s" : seconds >= 1e-3 ? "ms" : "us";
}
