/* Sizes and times as users write them: a number and a unit. Of a size, a fraction of a byte is left out; else
 * nothing is rounded. */
#ifndef PENSTOCK_INPUT_UNITS_H
#define PENSTOCK_INPUT_UNITS_H

#include <stdint.h>

/* Faults of a text; units_explain puts them into words. */
enum units_fault {
  UNITS_OK,
  UNITS_NUMBER,   /* does not begin with a number */
  UNITS_BARE,     /* a number without a unit */
  UNITS_UNKNOWN,  /* a unit that is none */
  UNITS_FRACTION, /* less than a byte, but not zero */
  UNITS_OVERFLOW, /* too large */
  UNITS_CLOCK,    /* not hours:minutes:seconds */
};

/* "40 GiB", "1.5 KiB", "512MB"; units B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (of 1024). "0" needs no
 * unit. Rounded down to whole bytes, so "77.03 GiB", which has none, is a size. On a fault *bytes is left alone. */
enum units_fault units_parse_size(const char *text, int64_t *bytes);
/* "90 s", "1.5 h", "11:45:00", "2-00:00:00" (days before the dash); units ms, s, min, h, d. "0" needs no unit. */
enum units_fault units_parse_duration(const char *text, double *seconds);

/* " has the unit 'GB/s', which is none of B, KB, ...": the rest of a sentence about the text; owned by the caller. */
char *units_explain_size(enum units_fault fault, const char *text);
char *units_explain_duration(enum units_fault fault, const char *text);

/* The exact value in the largest unit that divides it; parses back to the same. Owned by the caller. */
char *units_format_size(int64_t bytes);
char *units_format_duration(double seconds);
/* The shortest decimal that parses back to the same double. Owned by the caller. */
char *units_format_double(double value);

#endif
