#include "input/units.h"

#include "base/mem.h"
#include "input/suggest.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
  const char *name;
  double seconds;
  int64_t bytes;
};

static const struct unit size_units[] = {
    {"B", 0, 1},      {"KB", 0, 1000},     {"MB", 0, 1000000},     {"GB", 0, 1000000000},     {"TB", 0, 1000000000000},
    {"KiB", 0, 1024}, {"MiB", 0, 1048576}, {"GiB", 0, 1073741824}, {"TiB", 0, 1099511627776},
};
static const struct unit time_units[] = {{"ms", 1e-3, 0}, {"s", 1, 0}, {"min", 60, 0}, {"h", 3600, 0}, {"d", 86400, 0}};
enum { N_SIZE_UNITS = sizeof size_units / sizeof size_units[0] };
enum { N_TIME_UNITS = sizeof time_units / sizeof time_units[0] };

#define SIZE_NAMES "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
#define TIME_NAMES "ms, s, min, h, d"

/* Length of a decimal number without sign or exponent at the start of text, 0 when there is none. */
static size_t span_number(const char *text) {
  size_t whole = strspn(text, "0123456789"), n = whole;
  if (text[n] == '.') n += 1 + strspn(text + n + 1, "0123456789");
  return n == whole || n > 1 ? n : 0;
}

/* Splits into number and unit; the unit is found in the table. *n: bytes of the number. */
static enum units_fault split(const char *text, const struct unit *units, int n_units, size_t *n,
                              const struct unit **unit) {
  *n = span_number(text);
  if (!*n) return UNITS_NUMBER;
  const char *name = text + *n;
  while (*name == ' ') name++;
  if (!*name) return UNITS_BARE;
  for (int i = 0; i < n_units; i++)
    if (!strcmp(name, units[i].name)) return *unit = &units[i], UNITS_OK;
  return UNITS_UNKNOWN;
}

static bool is_zero(const char *text) { return !strcmp(text, "0"); }

/* Decimal arithmetic, because 0.1 GB is a whole number of bytes and a double's 0.1 is not. */
enum units_fault units_parse_size(const char *text, int64_t *bytes) {
  size_t n;
  const struct unit *unit;
  if (is_zero(text)) return *bytes = 0, UNITS_OK;
  enum units_fault fault = split(text, size_units, N_SIZE_UNITS, &n, &unit);
  if (fault) return fault;
  __int128 number = 0, scale = 1;
  bool decimals = false, rest = false;
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '.') {
      decimals = true;
      continue;
    }
    if (number > INT64_MAX && !decimals) return UNITS_OVERFLOW;
    /* Decimals beyond these are less than a byte of the largest unit. */
    if (number > INT64_MAX || scale > (__int128)1000000000000000000) {
      rest = rest || text[i] != '0';
      continue;
    }
    number = number * 10 + (text[i] - '0');
    if (decimals) scale *= 10;
  }
  if (number > INT64_MAX * (__int128)10) return UNITS_OVERFLOW;
  __int128 product = number * unit->bytes;
  if (product / scale > INT64_MAX) return UNITS_OVERFLOW;
  if (product < scale && (product > 0 || rest)) return UNITS_FRACTION;
  *bytes = (int64_t)(product / scale);
  return UNITS_OK;
}

/* hours:minutes:seconds, with days and a dash before it if need be. */
static enum units_fault parse_clock(const char *text, double *seconds) {
  int64_t days = 0, part[3];
  const char *dash = strchr(text, '-');
  if (dash) {
    if (dash == text || dash - text > 6 || strspn(text, "0123456789") != (size_t)(dash - text)) return UNITS_CLOCK;
    days = strtoll(text, NULL, 10);
    text = dash + 1;
  }
  for (int i = 0; i < 3; i++) {
    size_t n = strspn(text, "0123456789");
    if (n < 1 || n > (i ? 2 : 6) || text[n] != (i < 2 ? ':' : '\0')) return UNITS_CLOCK;
    part[i] = strtoll(text, NULL, 10);
    if (part[i] >= 60 && i) return UNITS_CLOCK;
    text += n + 1;
  }
  *seconds = (double)(((days * 24 + part[0]) * 60 + part[1]) * 60 + part[2]);
  return UNITS_OK;
}

enum units_fault units_parse_duration(const char *text, double *seconds) {
  size_t n;
  const struct unit *unit;
  if (is_zero(text)) return *seconds = 0, UNITS_OK;
  if (strchr(text, ':')) return parse_clock(text, seconds);
  enum units_fault fault = split(text, time_units, N_TIME_UNITS, &n, &unit);
  if (fault) return fault;
  double value = strtod(text, NULL) * unit->seconds;
  if (!(value <= 1e12)) return UNITS_OVERFLOW;
  *seconds = value;
  return UNITS_OK;
}

static char *explain(enum units_fault fault, const char *text, const struct unit *units, int n_units, const char *names,
                     const char *example) {
  switch (fault) {
  case UNITS_NUMBER: return mem_format("does not begin with a number");
  case UNITS_BARE: return mem_format("has no unit: write %s %s", text, example);
  case UNITS_FRACTION: return mem_format("is less than a byte");
  case UNITS_OVERFLOW: return mem_format("is too large");
  case UNITS_CLOCK: return mem_format("is not hours:minutes:seconds, with minutes and seconds below 60");
  default: break;
  }
  const char *name = text + span_number(text);
  while (*name == ' ') name++;
  struct suggestion best = {0};
  for (int i = 0; i < n_units; i++) suggest_offer(&best, name, units[i].name, units[i].name);
  if (best.word) return mem_format("has the unit '%s' (did you mean '%s'?), units are %s", name, best.word, names);
  return mem_format("has the unit '%s', units are %s", name, names);
}

char *units_explain_size(enum units_fault fault, const char *text) {
  return explain(fault, text, size_units, N_SIZE_UNITS, SIZE_NAMES, "GiB or another unit");
}

char *units_explain_duration(enum units_fault fault, const char *text) {
  return explain(fault, text, time_units, N_TIME_UNITS, TIME_NAMES, "s, min or h");
}

char *units_format_size(int64_t bytes) {
  const struct unit *best = &size_units[0];
  for (int i = 1; i < N_SIZE_UNITS; i++)
    if (bytes && bytes % size_units[i].bytes == 0 && size_units[i].bytes > best->bytes) best = &size_units[i];
  return mem_format("%lld %s", (long long)(bytes / best->bytes), best->name);
}

char *units_format_duration(double seconds) {
  /* Multiples of ms and fractions of hours need not come back to the same bits; whole minutes, hours and days do. */
  const struct unit *best = &time_units[1];
  for (int i = 2; i < N_TIME_UNITS; i++)
    if (seconds > 0 && fmod(seconds, time_units[i].seconds) == 0 && seconds / time_units[i].seconds < 1e9)
      best = &time_units[i];
  char text[64];
  snprintf(text, sizeof text, "%.0f", seconds / best->seconds);
  if (strtod(text, NULL) * best->seconds == seconds) return mem_format("%s %s", text, best->name);
  /* The parser takes no exponent: fixed notation with as many decimals as it needs. */
  for (int decimals = 1; decimals <= 40; decimals++) {
    snprintf(text, sizeof text, "%.*f", decimals, seconds);
    if (strtod(text, NULL) == seconds) break;
  }
  return mem_format("%s s", text);
}

char *units_format_double(double value) {
  char text[32];
  if (value == floor(value) && fabs(value) < 1e15) return mem_format("%.0f", value);
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  /* Some readers of YAML take 1e-08 for a word. */
  const char *exponent = strchr(text, 'e');
  if (!exponent || strchr(text, '.')) return mem_strdup(text);
  return mem_format("%.*s.0%s", (int)(exponent - text), text, exponent);
}
