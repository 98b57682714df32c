#include "base/binding.h"

#include <sched.h>

/* Enough for any machine; where it is not, nothing is known and nothing is changed. */
enum { MOST_CORES = 65536 };
static unsigned long given[MOST_CORES / (8 * sizeof(unsigned long))];
static int found = -1;

/* Belongs to the executable (see the array below), so that it runs before what libraries do when they are loaded, a
 * sanitizer's included. */
__attribute__((no_sanitize("address", "undefined"))) static void take(int argc, char **argv, char **environment) {
  (void)argc, (void)argv, (void)environment;
  found = sched_getaffinity(0, sizeof given, (cpu_set_t *)given);
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(int, char **, char **) = take;

void binding_restore(void) {
  if (found == 0) sched_setaffinity(0, sizeof given, (const cpu_set_t *)given);
}
