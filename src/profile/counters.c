#include "profile/counters.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"

struct counters {
  bool counts[COUNTERS_COUNT];
  int sets[COUNTERS_COUNT]; /* PAPI's number of each */
  bool started;             /* the library */
  char reason[256];         /* "": nothing is missing */
};

bool counters_any(const struct counters *c) {
  for (int i = 0; i < COUNTERS_COUNT; i++)
    if (c->counts[i]) return true;
  return false;
}

const char *counters_get_reason(const struct counters *c) { return c->reason[0] ? c->reason : NULL; }

#ifdef HAVE_PAPI
#include <papi.h>
#include <pthread.h>

static const struct {
  int event;
  const char *name;
} events[COUNTERS_COUNT] = {
    [COUNTERS_CYCLES] = {PAPI_TOT_CYC, "cycles"}, [COUNTERS_INSTRUCTIONS] = {PAPI_TOT_INS, "instructions"}};

/* Returns the level of what the kernel allows a user to count: above 2 nothing. */
static int read_paranoid(void) {
  int value = -2;
  FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "r");
  if (file && fscanf(file, "%d", &value) != 1) value = -2;
  if (file) fclose(file);
  return value;
}

static void note_missing(struct counters *c, int i, const char *why) {
  int paranoid = read_paranoid();
  if (c->reason[0]) return;
  if (paranoid > 2)
    snprintf(c->reason, sizeof c->reason,
             "PAPI cannot count %s (%s): /proc/sys/kernel/perf_event_paranoid is %d, at most 2 is needed",
             events[i].name, why, paranoid);
  else
    snprintf(c->reason, sizeof c->reason, "PAPI cannot count %s on this machine (%s)", events[i].name, why);
}

/* Each has a set of its own, so that one that is missing takes no other with it. Inheriting is asked for before the
 * event is there, as PAPI wants. */
static int start_event(struct counters *c, int i) {
  int set = PAPI_NULL;
  PAPI_option_t option = {0};
  int code = PAPI_create_eventset(&set);
  if (code == PAPI_OK) code = PAPI_assign_eventset_component(set, 0);
  option.inherit.eventset = set;
  option.inherit.inherit = PAPI_INHERIT_ALL;
  if (code == PAPI_OK) code = PAPI_set_opt(PAPI_INHERIT, &option);
  if (code == PAPI_OK) code = PAPI_add_event(set, events[i].event);
  if (code == PAPI_OK) code = PAPI_start(set);
  if (code == PAPI_OK) {
    c->sets[i] = set;
    return code;
  }
  if (set != PAPI_NULL) {
    PAPI_cleanup_eventset(set);
    PAPI_destroy_eventset(&set);
  }
  return code;
}

struct counters *counters_open(void) {
  struct counters *c = MEM_NEW(struct counters, 1);
  int version = PAPI_library_init(PAPI_VER_CURRENT);
  c->started = version == PAPI_VER_CURRENT;
  if (!c->started) {
    snprintf(c->reason, sizeof c->reason, "PAPI does not start (%s)", PAPI_strerror(version));
    return c;
  }
  PAPI_thread_init(pthread_self);
  for (int i = 0; i < COUNTERS_COUNT; i++) {
    int code = start_event(c, i);
    c->counts[i] = code == PAPI_OK;
    if (!c->counts[i]) note_missing(c, i, PAPI_strerror(code));
  }
  return c;
}

void counters_close(struct counters **counters) {
  struct counters *c = *counters;
  if (!c) return;
  for (int i = 0; i < COUNTERS_COUNT; i++) {
    if (!c->counts[i]) continue;
    PAPI_stop(c->sets[i], NULL);
    PAPI_cleanup_eventset(c->sets[i]);
    PAPI_destroy_eventset(&c->sets[i]);
  }
  if (c->started) PAPI_shutdown();
  mem_free(c);
  *counters = NULL;
}

void counters_read(struct counters *c, double values[COUNTERS_COUNT]) {
  for (int i = 0; i < COUNTERS_COUNT; i++) {
    long long value = 0;
    values[i] = c->counts[i] && PAPI_read(c->sets[i], &value) == PAPI_OK ? (double)value : NAN;
  }
}

#else

struct counters *counters_open(void) {
  struct counters *c = MEM_NEW(struct counters, 1);
  snprintf(c->reason, sizeof c->reason, "this program was built without PAPI");
  return c;
}

void counters_close(struct counters **counters) {
  mem_free(*counters);
  *counters = NULL;
}

void counters_read(struct counters *c, double values[COUNTERS_COUNT]) {
  (void)c;
  for (int i = 0; i < COUNTERS_COUNT; i++) values[i] = NAN;
}

#endif
