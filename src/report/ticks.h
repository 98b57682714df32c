/* Round numbers along an axis: 1, 2 or 5 times a power of ten apart. Serial. */
#ifndef PENSTOCK_REPORT_TICKS_H
#define PENSTOCK_REPORT_TICKS_H

#include <stddef.h>

enum { TICKS_MOST = 24, TICK_TEXT = 32 };

struct ticks {
  int n;
  double at[TICKS_MOST]; /* ascending, within low..high */
  double step;           /* between two; 0: logarithmic */
};

/* Makes at most `most` ticks (up to TICKS_MOST) within low..high; low < high. */
struct ticks ticks_make(double low, double high, int most);
/* Powers of ten, with their double and fivefold where few lie within low..high; 0 < low < high. */
struct ticks ticks_make_log(double low, double high, int most);

/* low and high moved outwards, so that both are among the ticks that ticks_make then makes of them. */
void ticks_widen(double *low, double *high, int most);

/* A tick as text, as short as it can be told from its neighbours: 0.05, 200, 20k, 5e-5. */
const char *ticks_format(const struct ticks *ticks, double at, char text[TICK_TEXT]);

/* Chooses the unit of times up to `seconds`: "s", "ms" or "us", and how many of it are a second. */
const char *ticks_choose_unit(double seconds, double *per_second);

#endif
