/* Sizes, times, numbers and suggestions: closed forms, round trips, and an edit distance written another way. */
#include "t.h"

#include <stdbool.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/rng.h"
#include "input/suggest.h"
#include "input/units.h"

static const struct rng_key key = {.seed = 11, .purpose = RNG_TEST};
static uint64_t drawn;

static uint64_t draw(void) { return rng_bits(&key, drawn++); }

static void check_sizes(void) {
  static const struct {
    const char *text;
    enum units_fault fault;
    int64_t bytes;
  } cases[] = {
      {"0", UNITS_OK, 0},
      {"1 B", UNITS_OK, 1},
      {"40 GiB", UNITS_OK, 40LL << 30},
      {"40GiB", UNITS_OK, 40LL << 30},
      {"1.5 KiB", UNITS_OK, 1536},
      {".5 KiB", UNITS_OK, 512},
      {"0.1 GB", UNITS_OK, 100000000},
      {"3 TB", UNITS_OK, 3000000000000},
      {"7 MB", UNITS_OK, 7000000},
      {"7 KB", UNITS_OK, 7000},
      {"2 MiB", UNITS_OK, 2097152},
      {"1.000 B", UNITS_OK, 1},
      {"9223372036854775807 B", UNITS_OK, INT64_MAX},
      {"9223372036854775808 B", UNITS_OVERFLOW, 0},
      {"8388608 TiB", UNITS_OVERFLOW, 0},
      {"99999999999999999999999999999999999999999 B", UNITS_OVERFLOW, 0},
      {"77.03GiB", UNITS_OK, 82710332702},
      {"0.1 GiB", UNITS_OK, 107374182},
      {"1.5 B", UNITS_OK, 1},
      {"1.00000000000000000000000000000009 KiB", UNITS_OK, 1024},
      {"0.33333333333333333333333333333333 KiB", UNITS_OK, 341},
      {"0.00 GiB", UNITS_OK, 0},
      {"0.9 B", UNITS_FRACTION, 0},
      {"0.0000001 KiB", UNITS_FRACTION, 0},
      {"0.0000000000000000000000000000001 B", UNITS_FRACTION, 0},
      {"40", UNITS_BARE, 0},
      {"40 ", UNITS_BARE, 0},
      {"40 G", UNITS_UNKNOWN, 0},
      {"40 gib", UNITS_UNKNOWN, 0},
      {"40 GiB/s", UNITS_UNKNOWN, 0},
      {"1e3 B", UNITS_UNKNOWN, 0},
      {"GiB", UNITS_NUMBER, 0},
      {"-1 B", UNITS_NUMBER, 0},
      {". B", UNITS_NUMBER, 0},
      {"", UNITS_NUMBER, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t bytes = -7;
    enum units_fault fault = units_parse_size(cases[i].text, &bytes);
    T_CHECK(fault == cases[i].fault, "'%s' gives fault %d", cases[i].text, (int)fault);
    int64_t wanted = cases[i].fault ? -7 : cases[i].bytes;
    T_CHECK(bytes == wanted, "'%s' is %lld", cases[i].text, (long long)bytes);
  }
}

/* What the program prints can be typed: it is enough for what was printed, by less than a hundredth of the unit, and is
 * printed as it was typed. */
static void check_printed(void) {
  static const char *const typed[] = {"77.03 GiB", "254.62 KiB", "1.50 GiB", "0 B", "1023 B", "3.01 TiB", "1.00 KiB"};
  char text[32], again[32];
  int64_t bytes, back;
  for (int i = 0; i < 2000; i++) {
    bytes = (int64_t)(draw() >> (1 + draw() % 63)) & INT64_MAX >> 1;
    bytes_format(bytes, text, sizeof text);
    enum units_fault fault = units_parse_size(text, &back);
    T_CHECK(!fault && back >= bytes, "%lld B is '%s', fault %d, read as %lld", (long long)bytes, text, (int)fault,
            (long long)back);
    T_CHECK(back - bytes <= bytes / 100, "%lld B is '%s'", (long long)bytes, text);
    bytes_format(back, again, sizeof again);
    T_CHECK(!strcmp(text, again) || strstr(text, "1024.00"), "'%s' is '%s' when read", text, again);
  }
  for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
    T_CHECK(!units_parse_size(typed[i], &back), "'%s'", typed[i]);
    bytes_format(back, text, sizeof text);
    T_CHECK(!strcmp(text, typed[i]), "'%s' is '%s' when read", typed[i], text);
  }
}

static void check_durations(void) {
  static const struct {
    const char *text;
    enum units_fault fault;
    double seconds;
  } cases[] = {
      {"0", UNITS_OK, 0},
      {"90 s", UNITS_OK, 90},
      {"5 min", UNITS_OK, 300},
      {"2h", UNITS_OK, 7200},
      {"1.5 h", UNITS_OK, 5400},
      {"250 ms", UNITS_OK, 0.25},
      {"2 d", UNITS_OK, 172800},
      {"11:45:00", UNITS_OK, 42300},
      {"00:00:09", UNITS_OK, 9},
      {"100:00:00", UNITS_OK, 360000},
      {"2-01:00:00", UNITS_OK, 176400},
      {"11:60:00", UNITS_CLOCK, 0},
      {"11:00:60", UNITS_CLOCK, 0},
      {"11:45", UNITS_CLOCK, 0},
      {"11:45:00:00", UNITS_CLOCK, 0},
      {"-1:00:00", UNITS_CLOCK, 0},
      {"1:2:x", UNITS_CLOCK, 0},
      {"90", UNITS_BARE, 0},
      {"5 minutes", UNITS_UNKNOWN, 0},
      {"s", UNITS_NUMBER, 0},
      {"9999999999999999 d", UNITS_OVERFLOW, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double seconds = -7;
    enum units_fault fault = units_parse_duration(cases[i].text, &seconds);
    T_CHECK(fault == cases[i].fault, "'%s' gives fault %d", cases[i].text, (int)fault);
    T_CHECK(seconds == (cases[i].fault ? -7 : cases[i].seconds), "'%s' is %g", cases[i].text, seconds);
  }
}

/* Numbers of every magnitude come back as they went. */
static void check_round_trips(void) {
  for (int i = 0; i < 3000; i++) {
    int64_t bytes = (int64_t)(draw() >> (1 + draw() % 62)), back = -1;
    if (draw() % 2) bytes &= ~((INT64_C(1) << (draw() % 40)) - 1);
    char *text = units_format_size(bytes);
    T_CHECK(!units_parse_size(text, &back) && back == bytes, "%lld is '%s', then %lld", (long long)bytes, text,
            (long long)back);
    mem_free(text);

    double seconds = (double)(draw() % 100000000) / (double)(1 + draw() % 100000), again = -1;
    if (draw() % 2) seconds = floor(seconds) * (draw() % 2 ? 60 : 3600);
    text = units_format_duration(seconds);
    T_CHECK(!units_parse_duration(text, &again) && again == seconds, "%.17g is '%s', then %.17g", seconds, text, again);
    mem_free(text);

    union {
      uint64_t bits;
      double value;
    } any = {.bits = draw()};
    if (!isfinite(any.value)) continue;
    text = units_format_double(any.value);
    T_CHECK(strtod(text, NULL) == any.value, "%.17g is '%s'", any.value, text);
    mem_free(text);
  }
  static const struct {
    double value;
    const char *text;
  } cases[] = {{3e-4, "0.0003"}, {1e-8, "1.0e-08"}, {1e4, "10000"}, {0, "0"}, {2.5, "2.5"}, {1e300, "1.0e+300"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = units_format_double(cases[i].value);
    T_CHECK(!strcmp(text, cases[i].text), "%s is not %s", text, cases[i].text);
    mem_free(text);
  }
}

static void check_sentences(void) {
  char *text = units_explain_size(UNITS_UNKNOWN, "40 gib");
  T_CHECK(strstr(text, "'gib' (did you mean 'GiB'?)"), "%s", text);
  mem_free(text);
  text = units_explain_duration(UNITS_BARE, "90");
  T_CHECK(strstr(text, "no unit") && strstr(text, "90 s"), "%s", text);
  mem_free(text);
}

/* The distance by its recursive definition. */
static int measure(const char *a, const char *b) {
  if (!*a || !*b) return (int)(strlen(a) + strlen(b));
  int best = measure(a + 1, b + 1) + (*a != *b);
  int other = measure(a + 1, b) + 1;
  if (other < best) best = other;
  other = measure(a, b + 1) + 1;
  if (other < best) best = other;
  if (a[1] && b[1] && a[0] == b[1] && a[1] == b[0]) {
    other = measure(a + 2, b + 2) + 1;
    if (other < best) best = other;
  }
  return best;
}

static void check_distance(void) {
  for (int i = 0; i < 400; i++) {
    char words[2][8] = {{0}};
    for (int w = 0; w < 2; w++)
      for (int n = (int)(draw() % 7); n > 0; n--) words[w][n - 1] = (char)('a' + draw() % 3);
    int distance = suggest_distance(words[0], words[1]);
    T_CHECK(distance == measure(words[0], words[1]), "'%s' and '%s': %d", words[0], words[1], distance);
  }
  T_CHECK(suggest_distance("GiB", "gib") == 0, "case counts");
  T_CHECK(suggest_distance("steps", "setps") == 1, "a swap is one edit");
  char longest[200];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  T_CHECK(suggest_distance(longest, "steps") > 1000, "a long word is far");
}

static void check_nearest(void) {
  static const char *const commands[] = {"train", "report", "verify", "data", "deck", NULL};
  static const char *const cases[][2] = {{"trian", "train"}, {"reprot", "report"}, {"dekc", "deck"},
                                         {"dat", "data"},    {"quantum", NULL},    {"", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *found = suggest_find(cases[i][0], commands);
    bool right = cases[i][1] ? found && !strcmp(found, cases[i][1]) : !found;
    T_CHECK(right, "'%s' gives '%s'", cases[i][0], found ? found : "nothing");
  }
}

int main(void) {
  check_sizes();
  check_printed();
  check_durations();
  check_round_trips();
  check_sentences();
  check_distance();
  check_nearest();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
