#include <unistd.h>

#include "t.h"

/* Nothing that a test writes has to outlive the machine, and waiting for the disk was most of what some tests took.
 * Weak: a test may have its own. */
__attribute__((weak)) int fsync(int descriptor) { return descriptor < 0 ? -1 : 0; }
__attribute__((weak)) int fdatasync(int descriptor) { return descriptor < 0 ? -1 : 0; }

int t_checks, t_failures;

int t_end(void) {
  if (t_failures || !t_checks) printf("%d of %d checks failed\n", t_failures, t_checks);
  return t_failures || !t_checks ? 1 : 0;
}
